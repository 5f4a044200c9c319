"""snippets.benchmark on a pretend clock: what is counted, what is not, and every refusal."""

import re
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.benchmark import BESIDE, Measurement, interleaved, measure, sample
from snippets.fake_gpu import FakeGPU

few = settings(deadline=None, max_examples=60)
seconds = st.floats(1e-6, 1.0)
BESIDES = {key: "有" for key in BESIDE}


def on(gpu, **more):
    return {"clock": gpu.clock, "synchronize": gpu.synchronize, **more}


def test_first_call_is_not_counted():
    gpu = FakeGPU(launch=1.0)
    warm = sample(gpu.kernel(2.0, compile=100.0), warmup=1, repeat=3, **on(gpu))
    gpu = FakeGPU(launch=1.0)
    cold = sample(gpu.kernel(2.0, compile=100.0), warmup=0, repeat=3, **on(gpu))
    assert warm == [3.0, 3.0, 3.0] and cold == [103.0, 3.0, 3.0]


def test_earlier_work_is_not_counted():
    gpu = FakeGPU(launch=1.0)
    gpu.kernel(1000.0)()
    assert sample(gpu.kernel(2.0), warmup=0, repeat=1, **on(gpu)) == [3.0]


def test_without_synchronize_only_the_launch_is_seen():
    gpu = FakeGPU(launch=1.0)
    assert sample(gpu.kernel(500.0), repeat=4, clock=gpu.clock) == [1.0] * 4


@few
@given(st.integers(0, 5), st.integers(1, 9))
def test_number_of_calls(warmup, repeat):
    calls = []
    assert len(sample(lambda: calls.append(1), warmup=warmup, repeat=repeat)) == repeat
    assert len(calls) == warmup + repeat


@few
@given(st.lists(seconds, min_size=1, max_size=30), st.floats(0, 1))
def test_statistics(times, q):
    one = Measurement(times, BESIDES)
    assert one.quantile(q) == pytest.approx(np.quantile(times, q), rel=1e-9)
    assert one.median == pytest.approx(one.quantile(0.5)) and one.best == one.quantile(0) == min(times)
    assert one.quantile(1) == max(times) and one.mean == pytest.approx(np.mean(times))
    assert one.best <= one.median


def test_order_of_times_does_not_matter():
    assert Measurement([3.0, 1.0, 2.0], BESIDES).quantile(0.25) == 1.5


def test_wrong_result_is_never_timed():
    gpu = FakeGPU()
    calls = []

    def check(result):
        calls.append(gpu.now)
        raise AssertionError("索引 3：得 1.0，应为 2.0")

    with pytest.raises(AssertionError, match="索引 3"):
        measure(gpu.kernel(1.0), beside=BESIDES, check=check, **on(gpu))
    assert calls == [gpu.launch] == [gpu.now]  # the one call that was checked, none after it


def test_check_gets_the_result():
    seen = []
    assert len(measure(lambda: 42, beside=BESIDES, check=seen.append, repeat=5).times) == 5
    assert seen == [42]


@pytest.mark.parametrize("key", BESIDE)
@pytest.mark.parametrize("leave", [lambda b, k: {x: v for x, v in b.items() if x != k}, lambda b, k: b | {k: ""}])
def test_missing_condition(key, leave):
    with pytest.raises(ValueError, match=re.escape(f"beside 缺少 {key}；没有这些条件，时间不能与别人的比")):
        measure(lambda: None, beside=leave(BESIDES, key), check=lambda result: None)


def test_report_holds_every_condition():
    text = Measurement([1e-6, 2e-6, 3e-6], {key: f"<{key}>" for key in BESIDE}).report()
    assert "中位数 2.0 µs" in text and "3 次" in text and "1.4 至 2.6 µs" in text
    assert all(f"{key}: <{key}>" in text for key in BESIDE)


@few
@given(st.floats(0.1, 10), st.floats(1.0, 3.0))
def test_interleaved_survives_a_steady_drift(ratio, drift):
    """The device slows down all the while; one after the other the two would not compare."""
    def build():
        return FakeGPU(launch=0.0, slowdown=lambda t: 1 + drift * t / 1000)

    gpu = build()
    a, b, middle = interleaved(gpu.kernel(ratio), gpu.kernel(1.0), rounds=20, **on(gpu))
    assert len(a) == len(b) == 20
    assert middle == pytest.approx(ratio, rel=0.02)

    gpu = build()
    first = statistics.median(sample(gpu.kernel(1.0), repeat=200, **on(gpu)))
    second = statistics.median(sample(gpu.kernel(1.0), repeat=200, **on(gpu)))
    assert second / first > 1.15  # the same kernel, said to be slower


def test_interleaved_takes_turns():
    order = []
    interleaved(lambda: order.append("a"), lambda: order.append("b"), rounds=4, warmup=0)
    assert "".join(order[2:]) == "abbaabba"  # the first two come from warming up


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: sample(lambda: None, repeat=0), "repeat=0 不是正整数"),
        (lambda: interleaved(lambda: None, lambda: None, rounds=0), "rounds=0 不是正整数"),
        (lambda: Measurement([1.0], {}).quantile(1.5), "q=1.5 不在 0 到 1 之间；例如 0.2 和 0.8"),
        (lambda: Measurement([1.0], {}).quantile(float("nan")), "q=nan 不在 0 到 1 之间"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_a_real_clock():
    assert all(time >= 0 for time in sample(lambda: sum(range(100)), repeat=5))
