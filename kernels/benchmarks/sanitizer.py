"""What compute-sanitizer finds in a sample of calls."""

from kernels.timing import absent_note, figure, need_gpu


def measure():
    """What each tool of compute-sanitizer reports on the sample of `kernels.proof.sanitize`; absent where it does not run.

    `racecheck_kernels`: those that are reported, if any. `…_fault`: what it reports of a kernel with a deliberate fault,
    `racecheck_matrix_fault`, `…_tma_fault`, `…_wgmma_fault` of what it need not follow. `version`: of compute-sanitizer.
    """
    from kernels.proof.sanitize import check_all, program

    need_gpu()
    figures, absent = {}, {}
    for tool, told in check_all().items():
        if isinstance(told, OSError):
            absent[tool] = told
            continue
        figures |= {f"{tool}_errors": figure(told["errors"]), f"{tool}_calls": figure(told["calls"])}
        figures |= {f"{tool}_{key}": figure(told[key]) for key in told if key.endswith("fault")}
        figures |= {f"{tool}_kernels": figure("、".join(told["kernels"]))} if told["kernels"] else {}
    if figures:
        figures["version"] = figure(".".join(map(str, program()[1])))
    return figures | absent_note(absent)
