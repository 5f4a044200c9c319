"""What compute-sanitizer finds in a sample of calls."""

from kernels.timing import absent_note, figure, need_gpu


def measure():
    """compute-sanitizer on a sample of calls: errors that memcheck and racecheck report. Absent where it does not run."""
    from kernels.proof.sanitize import check_all

    need_gpu()
    figures, absent = {}, {}
    for tool, told in check_all().items():
        if isinstance(told, OSError):
            absent[tool] = told
        else:
            figures |= {f"{tool}_{name}": figure(count) for name, count in told.items()}
    return figures | absent_note(absent)
