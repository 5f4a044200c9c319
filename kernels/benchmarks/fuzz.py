"""Soundness beyond the proofs' tables: how many random calls of attention were right."""

from kernels.timing import figure, need_gpu


def measure():
    """Random calls of attention, forward and backward, against fp64; an AssertionError names those that fail."""
    from kernels.proof.fuzz import fuzz as run

    need_gpu()
    told = run()
    if told["failed"]:
        raise AssertionError(f"{len(told['failed'])}/{told['cases']} 例不对：" + "\n".join(told["failed"][:5]))
    figures = {"cases": figure(told["cases"]), "failed": figure(0), "seed": figure(told["seed"])}
    for name in ("causal", "grouped", "split"):
        figures[name] = figure(told[name])
    for part in ("dtypes", "head_dims"):
        figures |= {f"{part}_{name}": figure(count) for name, count in told[part].items()}
    return figures
