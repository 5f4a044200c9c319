"""One kernel, our vector add, timed wrongly and rightly."""

import statistics

from kernels.benchmarks import DEVICE, SEED
from kernels.timing import at, cache_bytes, cold_calls_ms, figure, gbps, graph_ms, host_ms, median_ms, need_gpu, rotation

LARGE, SMALL = 1 << 28, 1 << 21  # elements: 3.2 GB a call; 25 MB, which stays in the L2 of a recent card


def measure():
    """Vector add timed wrongly and rightly: no synchronisation, first call, no warm-up, mean or median, warm or cold L2.

    `large_…`: 2^28 elements. `small_…`: 2^21, all of it fits L2. `first_…`: small, in a new process, nothing compiled.
    """
    import torch

    from kernels.vector_add import add

    need_gpu()
    torch.manual_seed(SEED)
    with at("discipline"):
        figures = {}
        for n, timings in ((LARGE, _unsynchronised), (SMALL, _cold_and_warm)):
            x, y = (torch.randn(n, device=DEVICE) for _ in range(2))
            if not torch.equal(add(x, y), x + y):
                raise AssertionError(f"n={n} 的结果与 torch 不逐位相等；先改对再测速")
            figures |= timings(add, x, y)
        return figures | _first_calls(SMALL)


def _unsynchronised(add, x, y):
    """The large call: device events against a host clock with and without synchronisation."""
    calls = {
        "large_events": median_ms(lambda: add(x, y)),
        "large_host_synchronised": statistics.median(host_ms(lambda: add(x, y), 100)),
        "large_host_unsynchronised": statistics.median(host_ms(lambda: add(x, y), 100, synchronise=False)),
    }
    figures = {}
    for key, ms in calls.items():
        figures |= {f"{key}_ms": figure(ms, "ms"), f"{key}_gbps": figure(gbps(3 * x.nbytes, ms), "GB/s")}
    return figures


def _cold_and_warm(add, x, y):
    """The small call: L2 warm or cold, launch counted or not, and the spread of single host-clock readings."""
    import torch

    sets = rotation(3 * x.nbytes, cache_bytes())
    pairs = [(torch.randn_like(x), torch.randn_like(x)) for _ in range(sets)]
    calls = {
        "small_events": median_ms(lambda: add(x, y)),  # do_bench: L2 flushed before each call
        "small_cold_l2": graph_ms([lambda pair=pair: add(*pair) for pair in pairs]),  # other tensors each time
        "small_warm_l2": graph_ms([lambda: add(x, y)]),  # the same tensors again and again
    }
    readings = host_ms(lambda: add(x, y), 1000)
    calls |= {f"small_host_{name}": function(readings) for name, function in SUMMARIES.items()}
    figures = {}
    for key, ms in calls.items():
        figures |= {f"{key}_us": figure(1e3 * ms, "µs"), f"{key}_gbps": figure(gbps(3 * x.nbytes, ms), "GB/s")}
    return figures


SUMMARIES = {"min": min, "median": statistics.median, "mean": statistics.mean, "max": max}


def _first_calls(n, times=10):
    """The first calls of a process: what compiling costs, and what it does to a mean without warm-up."""
    setup = f"import torch\nfrom kernels.vector_add import add\nx, y = (torch.randn({n}, device={DEVICE!r}) for _ in range(2))"
    return first_figures(cold_calls_ms(setup, "add(x, y)", times))


def first_figures(readings):
    """Figures of the first calls of a process: the first (compiles), the second, mean and median of all of them."""
    return {
        "first_call_ms": figure(readings[0], "ms"),
        "first_second_call_ms": figure(readings[1], "ms"),
        f"first_{len(readings)}_mean_ms": figure(statistics.mean(readings), "ms"),
        f"first_{len(readings)}_median_ms": figure(statistics.median(readings), "ms"),
    }
