"""Timing with discipline: right first, then warm up, wait for the device, repeat, and keep the conditions beside the figure.

Seconds throughout. Nothing here knows a GPU: whoever times one hands in `synchronize` (torch.cuda.synchronize).
"""

import math
import statistics
import time
from typing import NamedTuple

from snippets.checks import positive

BESIDE = ("device", "driver", "versions", "shape", "dtype", "command", "date")  # what a figure is worth nothing without


# --8<-- [start:sample]
def sample(function, *, warmup=3, repeat=20, synchronize=None, clock=time.perf_counter):
    """Seconds of each of `repeat` calls, in order, after `warmup` calls that do not count."""
    positive(repeat=repeat)
    wait = synchronize or (lambda: None)  # on a CPU a call returns when it is done
    for _ in range(warmup):
        function()
    times = []
    for _ in range(repeat):
        wait()  # nothing of an earlier call is still running
        start = clock()
        function()
        wait()  # the work is done, not merely queued
        times.append(clock() - start)
    return times
# --8<-- [end:sample]


class Measurement(NamedTuple):
    """Times of equal calls in seconds, and the conditions under which they were taken (the keys of BESIDE)."""

    times: list
    beside: dict

    @property
    def median(self):
        """Half of the calls took longer: what a call usually takes."""
        return statistics.median(self.times)

    @property
    def best(self):
        """The shortest: what a call takes when nothing disturbs it."""
        return min(self.times)

    @property
    def mean(self):
        """One disturbed call moves it."""
        return statistics.mean(self.times)

    def quantile(self, q):
        """Time that the fraction q of the calls did not pass, interpolated linearly. ValueError: q outside [0, 1]."""
        if not 0 <= q <= 1:
            raise ValueError(f"q={q!r} 不在 0 到 1 之间；例如 0.2 和 0.8")
        ordered, place = sorted(self.times), q * (len(self.times) - 1)
        low = math.floor(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (place - low) * (ordered[high] - ordered[low])

    def report(self):
        """The figure as it may be printed: median, spread, number of calls, and every condition."""
        spread = f"{self.quantile(0.2) * 1e6:.1f} 至 {self.quantile(0.8) * 1e6:.1f}"
        figure = f"中位数 {self.median * 1e6:.1f} µs（20% 至 80%：{spread} µs，{len(self.times)} 次）"
        return "\n".join([figure, *(f"{key}: {self.beside[key]}" for key in BESIDE)])


def measure(function, *, beside, check, **how):
    """A Measurement of function(); `check` gets its result and raises where it is wrong, before any timing.

    beside: the conditions, one for each key of BESIDE (ValueError names those missing). how: as `sample` takes it.
    """
    missing = [key for key in BESIDE if not beside.get(key)]
    if missing:
        raise ValueError(f"beside 缺少 {'、'.join(missing)}；没有这些条件，时间不能与别人的比")
    check(function())
    return Measurement(sample(function, **how), dict(beside))


def interleaved(first, second, *, rounds=20, warmup=3, **how):
    """(times of first, times of second, median of the ratios first / second), the two taking turns.

    A slow drift of the clocks meets both alike; who begins changes from round to round. how: synchronize, clock.
    """
    positive(rounds=rounds)
    for function in (first, second):
        sample(function, warmup=warmup, repeat=1, **how)
    times = ([], [])
    for turn in range(rounds):
        for who in (0, 1) if turn % 2 == 0 else (1, 0):
            times[who].extend(sample((first, second)[who], warmup=0, repeat=1, **how))
    return *times, statistics.median(a / b for a, b in zip(*times))
