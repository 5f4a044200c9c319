"""compute-sanitizer on a sample of calls: does a kernel read or write where it must not (memcheck), or race (racecheck)?

By hand, on a machine with a GPU: `python -m kernels.proof.sanitize`.
"""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TOOLS = ("memcheck", "racecheck")
SUMMARY = re.compile(r"(?:ERROR SUMMARY: (?P<errors>\d+) error|RACECHECK SUMMARY: (?P<hazards>\d+) hazard)")
SECONDS = 150
SHAPES = (  # D, S_q, S_kv, causal: each head dimension of Hopper's kernel, one of the plain one, one that is split
    (64, 130, 77, False), (128, 129, 200, True), (256, 65, 66, True), (40, 33, 70, False), (128, 1, 3000, False),
)  # fmt: skip


def check(tool):
    """{"errors", "calls"} of one tool. OSError: compute-sanitizer is missing or does not work on this machine."""
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(program).exists():
        raise FileNotFoundError("没有 compute-sanitizer")
    try:
        run = _sample(program, "--tool", tool, "--error-exitcode", "0")
    except subprocess.TimeoutExpired:
        raise OSError(f"{tool} 在 {SECONDS} 秒里没有跑完") from None
    found = SUMMARY.search(run.stdout + run.stderr)
    calls = re.search(r"sample: (\d+) calls", run.stdout)
    if run.returncode or not found or not calls:
        raise OSError(f"{tool} 没有给出结果：{(run.stdout + run.stderr).strip()[-300:]}")
    return {"errors": int(found["errors"] or found["hazards"] or 0), "calls": int(calls[1])}


def check_all():
    """{tool: what `check` gives, or its OSError}: all at once, after a run that fills Triton's cache for them."""
    _sample()
    with ThreadPoolExecutor() as pool:
        return dict(zip(TOOLS, pool.map(_checked, TOOLS)))


def _checked(tool):
    try:
        return check(tool)
    except OSError as error:
        return error


def _sample(*under):
    """Run `sample` in a process of its own, under another program where one is given."""
    return subprocess.run(
        [*under, sys.executable, "-m", "kernels.proof.sanitize", "sample"],
        cwd=Path(__file__).resolve().parents[2], capture_output=True, text=True, timeout=SECONDS,
        env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},  # each tensor an allocation: its ends are watched
    )


def sample():
    """Odd sizes of every kernel once: attention forward, backward and split, softmax narrow and wide, vector add."""
    import torch

    from kernels.flash_attention import flash_attention
    from kernels.softmax import softmax
    from kernels.vector_add import add

    torch.manual_seed(0)

    def draw(*size, dtype=torch.float16):
        return torch.randn(size, device="cuda", dtype=dtype, requires_grad=True)

    calls = 0
    for D, S_q, S_kv, causal in SHAPES:
        q, k, v = draw(1, 4, S_q, D), draw(1, 2, S_kv, D), draw(1, 2, S_kv, D)
        o = flash_attention(q, k, v, causal=causal)
        torch.autograd.grad(o, (q, k, v), torch.randn_like(o))
        calls += 2
    for columns in (781, 20000, 140000):
        x = draw(3, columns, dtype=torch.float32)
        y = softmax(x)
        torch.autograd.grad(y, x, torch.randn_like(y))
        calls += 2
    with torch.no_grad():
        add(draw(1025), draw(1025))
    torch.cuda.synchronize()
    return calls + 1


if __name__ == "__main__":
    if sys.argv[1:] == ["sample"]:
        print(f"sample: {sample()} calls")
    else:
        print(check_all())
