"""snippets.fake_gpu: a queue, a clock, and nothing by chance."""

import pytest

from snippets.fake_gpu import FakeGPU


def test_launch_returns_before_the_work_is_done():
    gpu = FakeGPU(launch=1.0)
    run = gpu.kernel(10.0)
    run()
    assert gpu.clock() == 1.0 and gpu.idle_at == 11.0
    run()  # queued behind the first
    assert gpu.clock() == 2.0 and gpu.idle_at == 21.0
    gpu.synchronize()
    gpu.synchronize()
    assert gpu.clock() == 21.0


def test_events_see_the_gap_of_a_launch_only_when_the_queue_is_empty():
    gpu = FakeGPU(launch=5.0)
    start = gpu.event()
    gpu.kernel(3.0)()
    assert gpu.event() - start == 8.0
    gpu.synchronize()
    gpu.flush(50.0)
    start = gpu.event()
    gpu.kernel(3.0)()
    assert gpu.event() - start == 3.0


def test_compilation_once_and_noise_in_turn():
    gpu = FakeGPU(launch=0.0)
    run, ends = gpu.kernel(1.0, compile=100.0, noise=(1.0, 4.0)), []
    for _ in range(4):
        run()
        gpu.synchronize()
        ends.append(gpu.now)
    assert ends == [101.0, 105.0, 106.0, 110.0]


def test_cache_holds_the_last_kernel_until_flushed():
    gpu = FakeGPU(launch=0.0)
    run, other, durations = gpu.kernel(8.0, cached=0.25), gpu.kernel(1.0), []

    def timed():
        start = gpu.event()
        run()
        durations.append(gpu.event() - start)

    for between in (None, None, other, None, gpu.flush, None):
        if between:
            between()
        timed()
    assert durations == pytest.approx([8.0, 2.0, 8.0, 2.0, 8.0, 2.0])


def test_slowdown_depends_on_the_time_on_the_device():
    gpu = FakeGPU(launch=0.0, slowdown=lambda t: 2.0 if t >= 10 else 1.0)
    run = gpu.kernel(10.0)
    run()
    run()
    assert gpu.idle_at == 30.0
