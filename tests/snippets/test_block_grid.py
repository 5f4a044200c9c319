"""snippets.block_grid against counting lane by lane."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.block_grid import MAX_BLOCK, frame, grid, program, wasted

few = settings(deadline=None, max_examples=80)


def test_ten_million():
    assert grid(10_000_000, 1024) == 9766 and wasted(10_000_000, 1024) == 384
    assert program(10_000_000, 1024, 9765) == (9765, 9_999_360, 10_000_384, 640, 384)
    assert program(10_000_000, 1024, 0) == (0, 0, 1024, 1024, 0)


@pytest.mark.parametrize(
    "n, block_size, programs, waste, percent",
    [
        (1_000_000, 1024, 977, 448, None),
        (1000, 256, 4, 24, None), (1000, 512, 2, 24, None), (1000, 1024, 1, 24, None),
        (1025, 1024, 2, 1023, 49.95), (10_000_000, 1024, 9766, 384, 0.0038), (10_000_000, 1 << 20, 10, 485_760, 4.63),
        (1024, 1024, 1, 0, 0), (1, 1, 1, 0, 0), (10**9, 1, 10**9, 0, 0),
    ],
)
def test_figures(n, block_size, programs, waste, percent):
    assert (grid(n, block_size), wasted(n, block_size)) == (programs, waste)
    if percent is not None:
        digits = 4 if percent == 0.0038 else 2
        assert round(100 * frame(n, block_size)["wasted_share"], digits) == percent


@few
@given(st.integers(0, 300), st.integers(0, 6).map(lambda k: 2**k))
def test_every_lane_once(n, block_size):
    lanes = []
    for pid in range(grid(n, block_size)):
        one = program(n, block_size, pid)
        assert one.stop - one.start == block_size == one.live + one.masked and one.pid == pid
        assert [at < n for at in range(one.start, one.stop)] == [True] * one.live + [False] * one.masked
        lanes += range(one.start, one.stop)
    assert lanes == list(range(n + wasted(n, block_size)))
    assert 0 <= wasted(n, block_size) < block_size


@few
@given(st.integers(1, 5000), st.integers(0, 12).map(lambda k: 2**k), st.data())
def test_frame(n, block_size, data):
    pid = data.draw(st.none() | st.integers(0, grid(n, block_size) - 1))
    got = frame(n, block_size, pid)
    assert json.loads(json.dumps(got)) == got
    one = program(n, block_size, got["pid"])
    assert got["program"] == one._asdict() and got["pid"] == (grid(n, block_size) - 1 if pid is None else pid)
    shown = [lane["offset"] for lane in got["offsets"]]
    assert shown == sorted(set(shown)) and 1 <= len(shown) <= 9
    assert shown[0] == one.start and shown[-1] == one.stop - 1
    assert len(shown) >= min(6, block_size)
    assert all(lane["live"] == (lane["offset"] < n) for lane in got["offsets"])
    if one.masked and one.live:
        assert {n - 1, n} <= set(shown)


def test_no_elements():
    got = frame(0, 1024)
    assert (got["programs"], got["wasted"], got["wasted_share"]) == (0, 0, 0.0)
    assert got["pid"] is None and got["program"] is None and got["offsets"] == []


@pytest.mark.parametrize(
    "n, block_size, message",
    [
        (-1, 4, "n=-1 不是元素个数；请给一个不小于 0 的整数"),
        (1.5, 4, "n=1.5 不是元素个数；请给一个不小于 0 的整数"),
        (True, 4, "n=True 不是元素个数"),
        (4, 0, "block_size=0 不是正整数；请给一个不小于 1 的整数"),
        (4, -8, "block_size=-8 不是正整数"),
        (4, 1000, "block_size=1000 不是 2 的幂，tl.arange 不接受；可用 512 或 1024"),
        (4, 3, "block_size=3 不是 2 的幂，tl.arange 不接受；可用 2 或 4"),
        (4, 2 * MAX_BLOCK, "block_size=2097152 超过 Triton 的上限；最大 1048576"),
    ],
)
def test_errors(n, block_size, message):
    for function in (grid, wasted, frame, lambda *args: program(*args, 0)):
        with pytest.raises(ValueError, match=re.escape(message)):
            function(n, block_size)


@pytest.mark.parametrize(
    "n, pid, message",
    [(10, 3, "pid=3 不存在；应在 0 到 2 之间"), (10, -1, "pid=-1 不存在"), (10, 1.0, "pid=1.0 不存在"),
     (10, True, "pid=True 不存在"), (0, 0, "pid=0 不存在；n=0 时没有 program")],
)
def test_pid_errors(n, pid, message):
    for function in (program, frame):
        with pytest.raises(ValueError, match=re.escape(message)):
            function(n, 4, pid)
