"""What compute-sanitizer finds in a sample of calls."""

from kernels.timing import absent_note, figure, need_gpu


def measure():
    """compute-sanitizer on a sample of calls: errors that memcheck and racecheck report. Absent where it does not run."""
    from kernels.proof.sanitize import TOOLS, check

    need_gpu()
    figures, absent = {}, {}
    for tool in TOOLS:
        try:
            figures |= {f"{tool}_{name}": figure(count) for name, count in check(tool).items()}
        except OSError as error:
            absent[tool] = error
    return figures | absent_note(absent)
