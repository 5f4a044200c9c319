"""compute-sanitizer on a sample of calls: does a kernel read or write where it must not (memcheck), or race (racecheck)?

racecheck follows barriers of a whole block, not mbarriers: in a kernel whose warps wait for each other by those it reports
what they order. Hopper's kernels are therefore a run of their own, whose reports name the kernels.
By hand, on a machine with a GPU: `python -m kernels.proof.sanitize`.
"""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SAMPLES = {  # attention's D, S_q, S_kv, causal
    "portable": ((40, 130, 77, False), (80, 129, 200, True), (200, 65, 66, True), (80, 1, 3000, False)),
    "hopper": ((64, 130, 77, False), (128, 129, 200, True), (64, 300, 300, True), (256, 65, 66, True)),
}
RUNS = {  # name of a run -> tool, samples
    "memcheck": ("memcheck", ("portable", "hopper")),
    "racecheck": ("racecheck", ("portable",)),
    "racecheck_hopper": ("racecheck", ("hopper",)),
}
SUMMARY = re.compile(r"(?:ERROR SUMMARY: (?P<errors>\d+) error|RACECHECK SUMMARY: (?P<hazards>\d+) hazard)")
REPORTED = re.compile(r"Race reported between \w+ access at (\w+)\+")
SECONDS = 150


def check(run):
    """{"errors", "calls", "kernels": those that racecheck names} of one run.

    OSError: compute-sanitizer is missing or does not work on this machine.
    """
    tool, samples = RUNS[run]
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(program).exists():
        raise FileNotFoundError("没有 compute-sanitizer")
    try:
        told = _sample(samples, program, "--tool", tool, "--error-exitcode", "0")
    except subprocess.TimeoutExpired:
        raise OSError(f"{run} 在 {SECONDS} 秒里没有跑完") from None
    printed = told.stdout + told.stderr
    found, calls = SUMMARY.search(printed), re.search(r"sample: (\d+) calls", told.stdout)
    if told.returncode or not found or not calls:
        raise OSError(f"{run} 没有给出结果：{printed.strip()[-300:]}")
    errors = int(found["errors"] or found["hazards"] or 0)
    return {"errors": errors, "calls": int(calls[1]), "kernels": sorted(set(REPORTED.findall(printed)))}


def check_all():
    """{run: what `check` gives, or its OSError}: all at once, after a run that fills Triton's cache for them."""
    _sample(SAMPLES)
    with ThreadPoolExecutor() as pool:
        return dict(zip(RUNS, pool.map(_checked, RUNS)))


def _checked(run):
    try:
        return check(run)
    except OSError as error:
        return error


def _sample(samples, *under):
    """Run `sample` in a process of its own, under another program where one is given."""
    return subprocess.run(
        [*under, sys.executable, "-m", "kernels.proof.sanitize", *samples],
        cwd=Path(__file__).resolve().parents[2], capture_output=True, text=True, timeout=SECONDS,
        env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},  # each tensor an allocation: its ends are watched
    )


def sample(names):
    """How many calls: attention forward and backward; with the portable ones softmax, narrow to wide, and vector add."""
    import torch

    from kernels.flash_attention import flash_attention
    from kernels.softmax import softmax
    from kernels.vector_add import add

    torch.manual_seed(0)

    def draw(*size, dtype=torch.float16):
        return torch.randn(size, device="cuda", dtype=dtype, requires_grad=True)

    calls = 0
    for D, S_q, S_kv, causal in [shape for name in names for shape in SAMPLES[name]]:
        q, k, v = draw(1, 4, S_q, D), draw(1, 2, S_kv, D), draw(1, 2, S_kv, D)
        o = flash_attention(q, k, v, causal=causal)
        torch.autograd.grad(o, (q, k, v), torch.randn_like(o))
        calls += 2
    if "portable" in names:
        for columns, dtype in ((781, torch.float32), (20_000, torch.float16), (20_000, torch.float32), (140_000, torch.float32)):
            x = draw(3, columns, dtype=dtype)
            y = softmax(x)
            torch.autograd.grad(y, x, torch.randn_like(y))
            calls += 2
        with torch.no_grad():
            add(draw(1025), draw(1025))
        calls += 1
    torch.cuda.synchronize()
    return calls


if __name__ == "__main__":
    if sys.argv[1:]:
        print(f"sample: {sample(sys.argv[1:])} calls")
    else:
        print(check_all())
