"""What compute-sanitizer finds in a sample of calls."""

from kernels.timing import absent_note, figure, need_gpu


def measure():
    """compute-sanitizer on a sample of calls: what memcheck and racecheck report. Absent where it does not run.

    `racecheck_hopper_…`: Hopper's kernels, see `kernels.proof.sanitize`; `…_kernels`: those that are reported.
    """
    from kernels.proof.sanitize import check_all

    need_gpu()
    figures, absent = {}, {}
    for run, told in check_all().items():
        if isinstance(told, OSError):
            absent[run] = told
        else:
            figures |= {f"{run}_errors": figure(told["errors"]), f"{run}_calls": figure(told["calls"])}
            figures |= {f"{run}_kernels": figure("、".join(told["kernels"]))} if told["kernels"] else {}
    return figures | absent_note(absent)
