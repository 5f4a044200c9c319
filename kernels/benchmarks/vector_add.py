"""Vector add, ours beside torch."""

from functools import partial

from kernels.benchmarks import DEVICE, SEED
from kernels.timing import at, interleaved_ms, moved, need_gpu

SIZES = (10_000_000, 1 << 28)


def measure():
    """x + y, fp32: ms (20 % to 80 % of the readings: `_low`, `_high`), GB/s (two reads and one write) of torch and ours."""
    import torch

    from kernels.vector_add import add

    need_gpu()
    torch.manual_seed(SEED)
    figures = {}
    for n in SIZES:
        x, y = torch.randn(n, device=DEVICE), torch.randn(n, device=DEVICE)
        ref = x.cpu().add(y.cpu()).to(DEVICE)  # one rounding: equal to the last bit on any device
        calls = {"torch": partial(torch.add, x, y), "ours": partial(add, x, y)}
        for peer, call in calls.items():
            with at(f"vector_add，n={n}，{peer}"):
                if not torch.equal(call(), ref):
                    raise AssertionError("结果与 CPU 上的不逐位相等；先改对再测速")
        for peer, times in interleaved_ms(calls).items():
            figures |= moved(f"{peer}_{{}}_{n}", 3 * x.nbytes, times)
    return figures
