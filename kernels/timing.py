"""How the recorded figures are timed: medians of many runs by device events, cold L2, warm-up and compilation kept out.

Times are in ms unless a name says otherwise; MB and GB are powers of ten. Peers are timed by `interleaved_ms`: in turns,
and with work queued before each call, so that the device need not wait for the host, unless a launch takes longer than
that work; what a launch costs the host is a figure of its own, `launch_us`. `median_ms` is Triton's `do_bench`. A CUDA graph replays launches without the host; nothing
flushes L2 there, so callers rotate among several sets of tensors.
torch and triton are imported where they are used: the formulas here are plain Python.
"""

import contextlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FLUSH_BYTES = 4 * 10**9  # reading them takes 0.8 ms or more: all of L2 is replaced, and the host gets ahead of the device
ORDERS = random.Random(0)  # in which functions take turns
FEWEST = 2  # readings of a function in a round
CHUNK = 16  # calls between two synchronisations of `sustained`: milliseconds of work, so that the gap does not count
PATH = re.compile(r"(?<![\w])/[^\s'\":]+")  # a file path: it says nothing away from the machine it was met on
SMI_FIELDS = {  # field of nvidia-smi -> (figure, unit)
    "clocks.sm": ("sm_clock_mhz", "MHz"),
    "clocks.max.sm": ("sm_clock_max_mhz", "MHz"),
    "power.draw": ("power_w", "W"),
    "power.limit": ("power_limit_w", "W"),
    "temperature.gpu": ("temperature_c", "°C"),
}


def figure(value, unit=""):
    """One recorded figure: {"value", "unit"}, a float kept to four significant digits, an int or a text as it is."""
    return {"value": float(f"{value:.4g}") if isinstance(value, float) else value, "unit": unit}


def gbps(moved_bytes, ms):
    """GB/s of `moved_bytes` in `ms`."""
    return moved_bytes / ms / 1e6


def spread(key, times):
    """ms figures of what `interleaved_ms` tells of a function: KEY, KEY_low and KEY_high."""
    return {f"{key}{end}": figure(ms, "ms") for end, ms in zip(("_low", "", "_high"), times)}


def moved(key, moved_bytes, times):
    """ms, its spread, and GB/s of the median; `key` holds {} in the measure's place."""
    return {**spread(key.format("ms"), times), key.format("gbps"): figure(gbps(moved_bytes, times[1]), "GB/s")}


def tflops(operations, ms):
    """TFLOP/s of `operations` floating-point operations in `ms`."""
    return operations / ms / 1e9


def attention_flops(B, H, S_q, S_kv, d, causal=False):
    """FLOPs of the two products of attention forward, 4 B H S_q S_kv d, half of it when causal.

    Convention of FlashAttention's own benchmarks (arXiv 2307.08691, section 4.1); softmax is not counted.
    """
    return 4 * B * H * S_q * S_kv * d // (2 if causal else 1)


def rotation(moved_bytes, cache_bytes):
    """Sets of tensors to rotate among, so that four times the cache is moved before a set is met again."""
    return max(1, -(-4 * cache_bytes // moved_bytes))


def absent_note(absent):
    """{"absent": figure} of {peer: reason}, reasons cut to 200 characters, file paths left out; empty where none is absent."""
    told = "；".join(f"{peer}: {PATH.sub('…', ' '.join(str(reason).split()))[:200]}" for peer, reason in absent.items())
    return {"absent": figure(told)} if absent else {}


def cache_bytes():
    """Bytes of the current device's L2 cache."""
    import torch

    return torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size


def need_gpu():
    """RuntimeError unless kernels can run, compiled, on an NVIDIA device: an interpreted time would mean nothing."""
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("没有可用的 NVIDIA GPU，不能测速；请在有 GPU 的机器上运行 make record")
    if os.environ.get("TRITON_INTERPRET") == "1":
        raise RuntimeError("TRITON_INTERPRET=1 时 kernel 由解释器执行，测得的时间没有意义；请去掉它再录制")


@contextlib.contextmanager
def at(where):
    """Any error inside becomes a RuntimeError that begins with `where`."""
    try:
        yield
    except Exception as error:
        raise RuntimeError(f"{where}：{type(error).__name__}：{error}") from error


def check_close(out, ref, tolerance, what):
    """AssertionError unless ||out - ref|| / ||ref|| <= tolerance; NaN never passes. `ref` is of higher precision."""
    error = ((out.to(ref.dtype) - ref).norm() / ref.norm()).item()
    if not error <= tolerance:
        raise AssertionError(f"{what} 的相对误差是 {error:.3g}，应不超过 {tolerance:g}；先改对再测速")


def interleaved_ms(calls, rounds=10, ms=3, most=6):
    """{name: (20th percentile, median, 80th percentile)} of {name: function}, device time of one call with cold L2.

    In each round every function in turn runs for about `ms`, FEWEST times or more and at most `most`, in an order drawn
    anew, then in its reverse: so clocks and temperature are the same for all, whose neighbours differ. Turns are short
    and many, since at the power limit the clocks follow the last tens of milliseconds. Before each call
    FLUSH_BYTES are read: L2 then holds nothing of use and nothing still to be written, and the host has launched the call
    before the device gets to it.
    """
    import torch

    buffer = torch.zeros(FLUSH_BYTES // 4, dtype=torch.float32, device="cuda")
    readings = {name: [] for name in calls}
    for number in range(rounds):
        order = order[::-1] if number % 2 else ORDERS.sample(list(calls), len(calls))
        for name in order:
            (once,) = _device_ms(calls[name], 1, buffer)  # also brings the clocks to where this function takes them
            readings[name] += _device_ms(calls[name], max(FEWEST, min(most, round(ms / once))), buffer)
    return {name: quantiles(found) for name, found in readings.items()}


def _device_ms(fn, times, buffer):
    """`times` readings of device events round `fn`, each after the buffer was read."""
    import torch

    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(times)]
    for start, stop in events:
        buffer.sum()
        start.record()
        fn()
        stop.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(stop) for start, stop in events]


def quantiles(readings):
    """(20th percentile, median, 80th percentile), linear between neighbours; one reading is all three."""
    if len(readings) == 1:
        return (readings[0],) * 3
    low, _, _, high = statistics.quantiles(readings, n=5, method="inclusive")
    return low, statistics.median(readings), high


def launch_us(fn, times=200):
    """Median µs that the host spends in `fn` when the device has nothing else to do: Python, checks and launches."""
    for _ in range(10):
        fn()
    return 1e3 * statistics.median(host_ms(fn, times, synchronise=False))


def median_ms(fn, rep=100):
    """Median time of `fn` by `do_bench`: L2 flushed, but a launch longer than the flush is part of the time."""
    from triton.testing import do_bench

    return do_bench(fn, warmup=25, rep=rep, return_mode="median")


def graph_ms(calls):
    """Median time of one of `calls` when all are replayed, in turn, from a CUDA graph: no launch gaps, no L2 flush."""
    from triton.testing import do_bench_cudagraph

    return do_bench_cudagraph(lambda: [call() for call in calls], rep=20, return_mode="median") / len(calls)


def host_ms(fn, times, synchronise=True):
    """`times` readings of a host clock round `fn`. Without `synchronise` only the launch is timed: wrong on purpose."""
    import torch

    readings = []
    for _ in range(times):
        torch.cuda.synchronize()
        start = time.perf_counter()
        fn()
        if synchronise:
            torch.cuda.synchronize()
        readings.append(1e3 * (time.perf_counter() - start))
    torch.cuda.synchronize()
    return readings


def cold_calls_ms(setup, call, times):
    """Host-clock readings of the first `times` calls in a new process with an empty kernel cache: the first compiles.

    `setup` and `call` are source text; `setup` should do one device operation, so that starting CUDA is not counted.
    """
    source = (
        f"import json\nfrom kernels.timing import host_ms\n{setup}\n"
        f"print(json.dumps(host_ms(lambda: {call}, {times})))"
    )
    root = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory() as cache:
        run = subprocess.run(
            [sys.executable, "-c", source], cwd=root, env={**os.environ, "TRITON_CACHE_DIR": cache},
            capture_output=True, text=True, timeout=120,
        )
    if run.returncode:
        raise RuntimeError(f"首次调用的子进程失败：{run.stderr.strip()[-2000:]}")
    return json.loads(run.stdout.splitlines()[-1])


def peak_extra_mb(fn):
    """MB that `fn` allocates at its peak beyond what is allocated before it, its result included.

    Call it after a first run: workspaces that libraries keep for good are then in place and not counted.
    """
    import torch

    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    fn()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 1e6


def sustained(fn, seconds=3.5):
    """[(elapsed ms since the start, ms of one call)] after each CHUNK of calls, for `seconds` of load without a pause."""
    import torch

    chunks, elapsed = [], 0.0
    while elapsed < 1e3 * seconds:
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(CHUNK):
            fn()
        stop.record()
        stop.synchronize()
        chunk = start.elapsed_time(stop)
        elapsed += chunk
        chunks.append((elapsed, chunk / CHUNK))
    return chunks


def early_and_late(chunks, early_ms=100, late_ms=3000):
    """(median ms of a call in the first `early_ms`, the same after `late_ms`) of what `sustained` returned.

    The chunk that holds the whole of the early window counts where none ends within it. ValueError: too short a run.
    """
    early = [ms for elapsed, ms in chunks if elapsed <= early_ms] or [ms for _, ms in chunks[:1]]
    late = [ms for elapsed, ms in chunks if elapsed > late_ms]
    if not late:
        raise ValueError(f"负载没有持续到 {late_ms} ms；请加长 seconds")
    return statistics.median(early), statistics.median(late)


def read_smi(text):
    """{figure: figure} from one line of `nvidia-smi --query-gpu`, fields in the order of SMI_FIELDS.

    A field that the driver does not tell (`[N/A]`) is left out. ValueError: not as many fields as were asked for.
    """
    cells = [cell.strip() for cell in text.strip().split(",")]
    if len(cells) != len(SMI_FIELDS):
        raise ValueError(f"nvidia-smi 给出 {len(cells)} 个字段，应为 {len(SMI_FIELDS)} 个：{text.strip()!r}")
    found = {}
    for cell, (name, unit) in zip(cells, SMI_FIELDS.values(), strict=True):
        with contextlib.suppress(ValueError):
            found[name] = figure(float(cell), unit)
    return found


def smi_under_load(fn, calls):
    """Figures of nvidia-smi while `calls` runs of `fn` keep the device busy. OSError or CalledProcessError: no nvidia-smi."""
    import torch

    command = ["nvidia-smi", f"--query-gpu={','.join(SMI_FIELDS)}", "--format=csv,noheader,nounits"]
    uuid = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
    for _ in range(calls):
        fn()
    try:  # the launches above are still running
        told = subprocess.run([*command, f"--id=GPU-{uuid}"], check=True, capture_output=True, text=True, timeout=30).stdout
    finally:
        torch.cuda.synchronize()
    return read_smi(told)
