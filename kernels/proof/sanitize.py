"""compute-sanitizer on a sample of calls: does a kernel read or write where it must not, race, or misuse a barrier?

racecheck watches shared memory alone, and follows Hopper's kernels from 2026.1 on: older ones report what their mbarriers
order. NVIDIA's package nvidia-cuda-sanitizer-api has it; its folder `bin` goes to the front of PATH.
Each tool has to report a kernel of `kernels.proof.faults` first: one that sees nothing there proves nothing elsewhere.
By hand, on a machine with a GPU: `python -m kernels.proof.sanitize`.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kernels.proof import faults

TOOLS = ("memcheck", "racecheck", "synccheck")
OLDEST = (2026, 1)  # of racecheck
HOPPER_SHAPES = (  # attention's D, S_q, S_kv, causal, which on Hopper go to its own kernels
    (64, 130, 77, False), (128, 129, 200, True), (64, 300, 300, True), (256, 65, 66, True), (128, 130, 420, False),
)  # fmt: skip
OTHER_SHAPES = ((40, 130, 77, False), (80, 129, 200, True), (200, 65, 66, True), (80, 1, 3000, False))
ROWS = ((781, "float32"), (20_000, "float16"), (20_000, "float32"), (100_000, "bfloat16"), (600_000, "float32"))  # softmax's
SUMMARY = re.compile(r"(?:ERROR SUMMARY: (?P<errors>\d+) error|RACECHECK SUMMARY: (?P<hazards>\d+) hazard)")
REPORTED = re.compile(r"Race reported between \w+ access at (\w+)\+")
VERSION = re.compile(r"Version (\d+)\.(\d+)[.\d]*")
SECONDS = 150


def program():
    """(path, version) of compute-sanitizer, version a tuple as (2026, 4). OSError: it is missing or does not start."""
    path = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(path).exists():
        raise FileNotFoundError("没有 compute-sanitizer；请装 nvidia-cuda-sanitizer-api，并把它的 bin 放到 PATH 最前面")
    told = _output([path, "--version"])
    found = VERSION.search(told.stdout)
    if not found:
        raise OSError(f"compute-sanitizer --version 没有给出版本：{told.stdout.strip()[-300:]}")
    return path, (int(found[1]), int(found[2]))


def check(tool):
    """{"errors", "calls", "kernels": those that racecheck names, "fault": errors in the kernel with a fault} of one tool.

    racecheck's "matrix_fault", "tma_fault" and "wgmma_fault": the same of races by stmatrix and ldmatrix, between TMA and
    loads, and between TMA and wgmma, which may be 0: the tool need not follow those.

    OSError: compute-sanitizer is missing, too old for this tool, blind to the fault or does not work on this machine.
    """
    path, version = program()
    if tool == "racecheck" and version < OLDEST:
        raise OSError(
            f"compute-sanitizer {version[0]}.{version[1]} 的 racecheck 看不懂 mbarrier；请用 {OLDEST[0]}.{OLDEST[1]} 或更新的"
            "（nvidia-cuda-sanitizer-api）"
        )
    under = [path, "--tool", tool, "--error-exitcode", "0"]
    fault, _ = _errors(tool, _part("fault", tool, under=under))
    if not fault:
        raise OSError(f"{tool} 没有报告 kernels/proof/faults.py 里故意写错的 kernel；它的“没有发现”不能当真")
    found = {"fault": fault}
    for name in faults.FAULTS:
        if name.startswith(f"{tool}_"):
            told = _part("fault", name, under=under)
            found[f"{name.removeprefix(tool)[1:]}_fault"], printed = _errors(tool, told)
            if told.returncode:  # else a kernel that did not run would count as one that is not seen
                raise OSError(f"{tool} 没有跑完 kernels/proof/faults.py 的 {name}：{printed.strip()[-300:]}")
    told = _part("sample", under=under)
    errors, printed = _errors(tool, told)
    calls = re.search(r"sample: (\d+) calls", told.stdout)
    if told.returncode or not calls:
        raise OSError(f"{tool} 没有跑完那批调用：{printed.strip()[-300:]}")
    return {"errors": errors, "calls": int(calls[1]), "kernels": sorted(set(REPORTED.findall(printed))), **found}


def check_all():
    """{tool: what `check` gives, or its OSError}: all at once, after a run that fills Triton's cache for them."""
    with contextlib.suppress(OSError):
        _part("sample")
    with ThreadPoolExecutor() as pool:
        return dict(zip(TOOLS, pool.map(_checked, TOOLS)))


def report():
    """Print what each tool found; True, the exit status by hand, where one found an error or could not look."""
    told = check_all()
    print(*(f"{tool}: {found}" for tool, found in told.items()), sep="\n")
    return any(isinstance(found, OSError) or found["errors"] > 0 for found in told.values())


def _checked(tool):
    try:
        return check(tool)
    except OSError as error:
        return error


def _errors(tool, told):
    """(how many errors or hazards a tool summed up, all that was printed)."""
    printed = told.stdout + told.stderr
    found = SUMMARY.search(printed)
    if not found:
        raise OSError(f"{tool} 没有给出结果：{printed.strip()[-300:]}")
    return int(found["errors"] or found["hazards"]), printed


def _part(*names, under=()):
    """Run a part of this module in a process of its own, under another program where one is given."""
    return _output([*under, sys.executable, "-m", "kernels.proof.sanitize", *names])


def _output(command):
    try:
        return subprocess.run(
            command, cwd=Path(__file__).resolve().parents[2], capture_output=True, text=True, timeout=SECONDS,
            env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},  # each tensor an allocation: its ends are watched
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"{SECONDS} 秒里没有跑完：{' '.join(command[1:])}") from None


def sample():
    """How many calls: attention forward and backward, softmax from narrow to wide, vector add."""
    import torch

    from kernels import flash_attention_hopper, flash_attention_hopper_backward
    from kernels.flash_attention import flash_attention
    from kernels.softmax import softmax
    from kernels.vector_add import add

    torch.manual_seed(0)

    def draw(*size, dtype=torch.float16):
        return torch.randn(size, device="cuda", dtype=dtype, requires_grad=True)

    def attend(D, S_q, S_kv, causal):
        q, k, v = draw(1, 4, S_q, D), draw(1, 2, S_kv, D), draw(1, 2, S_kv, D)
        o = flash_attention(q, k, v, causal=causal)
        torch.autograd.grad(o, (q, k, v), torch.randn_like(o))

    for shape in HOPPER_SHAPES + OTHER_SHAPES:
        attend(*shape)
    for module in (flash_attention_hopper, flash_attention_hopper_backward):  # one program takes all tiles in turn
        module.multiprocessors = lambda x: 1
    for shape in HOPPER_SHAPES:
        attend(*shape)
    for columns, dtype in ROWS:
        x = draw(3, columns, dtype=getattr(torch, dtype))
        y = softmax(x)
        torch.autograd.grad(y, x, torch.randn_like(y))
    with torch.no_grad():
        add(draw(1025), draw(1025))
    torch.cuda.synchronize()
    return 2 * (2 * len(HOPPER_SHAPES) + len(OTHER_SHAPES) + len(ROWS)) + 1


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fault", name]:
            faults.run(name)
        case ["sample"]:
            print(f"sample: {sample()} calls")
        case _:
            sys.exit(report())
