"""Vector add, ours beside torch."""

from kernels.benchmarks import DEVICE, SEED
from kernels.timing import at, cache_bytes, graph_ms, median_ms, moved, need_gpu, rotation

SIZES = (10_000_000, 1 << 28)


def measure():
    """x + y, fp32: ms and GB/s (two reads and one write) of torch and ours; `graph`: from a CUDA graph, L2 exceeded."""
    import torch

    from kernels.vector_add import add

    need_gpu()
    torch.manual_seed(SEED)
    figures = {}
    for n in SIZES:
        sets = rotation(3 * 4 * n, cache_bytes())
        pairs = [(torch.randn(n, device=DEVICE), torch.randn(n, device=DEVICE)) for _ in range(sets)]
        x, y = pairs[0]
        ref = x.cpu().add(y.cpu()).to(DEVICE)  # one rounding: equal to the last bit on any device
        for peer, run in {"torch": torch.add, "ours": add}.items():
            with at(f"vector_add，n={n}，{peer}"):
                if not torch.equal(run(x, y), ref):
                    raise AssertionError("结果与 CPU 上的不逐位相等；先改对再测速")
                figures |= moved(f"{peer}_{{}}_{n}", 3 * x.nbytes, median_ms(lambda: run(x, y)))
                ms = graph_ms([lambda run=run, pair=pair: run(*pair) for pair in pairs])
                figures |= moved(f"{peer}_graph_{{}}_{n}", 3 * x.nbytes, ms)
    return figures
