"""snippets.tiling: the closed forms against walking the schedule, the schedule against a mask drawn cell by cell."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.tiling import ORDERS, Moves, schedule, sram_bytes_used, tile_sizes, traffic, visible

few = settings(deadline=None, max_examples=80)
KIB = 1024


@st.composite
def problems(draw):
    """S_q, S_kv, B_r, B_c, order, causal; S_q <= S_kv when causal."""
    causal, S_q = draw(st.booleans()), draw(st.integers(1, 24))
    S_kv = draw(st.integers(S_q if causal else 1, 30))
    return S_q, S_kv, draw(st.integers(1, 32)), draw(st.integers(1, 32)), draw(st.sampled_from(ORDERS)), causal


def tiles_seen(S_q, S_kv, B_r, B_c, causal):
    """Set of the tile pairs with a cell that is not masked, from the mask itself."""
    return {
        (r // B_r, c // B_c)
        for r in range(S_q)
        for c in range(S_kv)
        if not causal or c <= r + S_kv - S_q
    }


@pytest.mark.parametrize(
    "sram_kib, d, dtype_bytes, want",
    [(192, 64, 2, (64, 384)), (192, 128, 2, (128, 192)), (192, 256, 2, (96, 96)), (163, 64, 2, (64, 326)),
     (100, 64, 2, (64, 200)), (192, 64, 4, (64, 192)), (1, 3, 2, (3, 43))],
)
def test_tile_sizes(sram_kib, d, dtype_bytes, want):
    assert tile_sizes(sram_kib * KIB, d, dtype_bytes) == want


def test_peak_of_the_papers_tile():
    """216.5 KiB: the fp32 S tile alone takes 96, so ceil(M / 4d) gives the order of magnitude, not a tile that fits."""
    used = sram_bytes_used(64, 384, 64)
    assert used == {"Q": 8192, "K": 49152, "V": 49152, "S": 98304, "O": 16384, "m": 256, "l": 256}
    assert sum(used.values()) == 216.5 * KIB
    assert sum(sram_bytes_used(128, 64, 64).values()) == 97 * KIB
    assert sram_bytes_used(2, 3, 5, 4) == {"Q": 40, "K": 60, "V": 60, "S": 24, "O": 40, "m": 8, "l": 8}


@few
@given(problems())
def test_schedule_visits_what_is_visible(problem):
    S_q, S_kv, B_r, B_c, order, causal = problem
    visits = [(one.i, one.j) for one in schedule(*problem)]
    assert len(visits) == len(set(visits)) and set(visits) == tiles_seen(S_q, S_kv, B_r, B_c, causal)
    assert visits == sorted(visits, key=lambda at: at if order == "fa2" else at[::-1])


@few
@given(problems())
def test_schedule_has_operands_on_chip(problem):
    """Simulated: after its reads every visit finds its four tiles there, what is kept was there, O ends complete."""
    S_q, S_kv, B_r, B_c, order, _ = problem
    chip, hbm = {}, {}
    for one in schedule(*problem):
        place = {"Q": one.i, "O": one.i, "K": one.j, "V": one.j}
        assert not set(one.read) & set(one.kept)
        assert all(chip.get(name) == place[name] for name in one.kept)
        chip = {name: place[name] for name in (*one.read, *one.kept)}
        if order == "fa2" and "O" not in chip:
            chip["O"] = one.i  # starts on chip as zeros
        assert chip == place
        for name, rows in {**one.read, **one.written}.items():
            size, total = (B_r, S_q) if name in "QO" else (B_c, S_kv)
            assert rows == min(size, total - place[name] * size)
        if order == "fa2":
            assert not one.written or one.i not in hbm  # written once
        hbm |= {one.i: rows for rows in one.written.values()}
    assert sum(hbm.values()) == S_q


@few
@given(problems(), st.integers(1, 5), st.sampled_from([1, 2, 4]))
def test_traffic_is_the_sum_of_the_schedule(problem, d, dtype_bytes):
    S_q, S_kv, B_r, B_c, order, causal = problem
    want = {name: [0, 0, 0, 0] for name in "QKVO"}
    for one in schedule(*problem):
        for side, moved in ((0, one.read), (2, one.written)):
            for name, rows in moved.items():
                want[name][side] += 1
                want[name][side + 1] += rows * d * dtype_bytes
    got = traffic(S_q, S_kv, d, B_r, B_c, dtype_bytes, order, causal)
    assert got == {name: Moves(*counts) for name, counts in want.items()}
    assert all(type(n) is int for moves in got.values() for n in moves)


@few
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 9), st.integers(1, 40))
def test_formulas_of_the_paper(S, d, B_r, B_c):
    def total(order):
        return sum(one.read_bytes + one.write_bytes for one in traffic(S, S, d, B_r, B_c, 2, order).values())

    assert total("fa1") == 2 * (2 + 3 * -(-S // B_c)) * S * d
    assert total("fa2") == 2 * (2 + 2 * -(-S // B_r)) * S * d


def test_under_fa2_the_column_tile_moves_nothing():
    sums = {sum(sum(one[1::2]) for one in traffic(1024, 1024, 64, 128, B_c).values()) for B_c in (1, 64, 100, 128)}
    assert sums == {2_359_296}


def test_long_sequences_need_no_walk():
    got = traffic(131072, 131072, 256, 1, 1, 2, "fa1", True)
    pairs = 131072 * 131073 // 2
    assert got["O"] == Moves(pairs, pairs * 512, pairs, pairs * 512)
    assert got["K"] == Moves(131072, 131072 * 512, 0, 0)


def test_visible():
    last, first = visible(4, 6, 2, 2, causal=True)
    assert last.tolist() == [2, 3] and first.tolist() == [0, 0, 1]
    assert last.dtype == first.dtype == np.int64
    last, first = visible(5, 3, 2, 2)
    assert last.tolist() == [2, 2, 2] and first.tolist() == [0, 0]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: tile_sizes(0, 64, 2), "sram_bytes=0 不是正整数；请给一个不小于 1 的整数"),
        (lambda: tile_sizes(9, 0, 2), "d=0 不是正整数"),
        (lambda: tile_sizes(9, 1, -2), "dtype_bytes=-2 不是正整数"),
        (lambda: tile_sizes(1, 64, 2), "sram_bytes=1 装不下一个 2 字节的元素；请加大 sram_bytes"),
        (lambda: sram_bytes_used(1, 0, 1, 1), "B_c=0 不是正整数"),
        (lambda: sram_bytes_used(0, 1, 1, 1), "B_r=0 不是正整数"),
        (lambda: traffic(0, 1, 1, 1, 1), "S_q=0 不是正整数"),
        (lambda: traffic(1, 0, 1, 1, 1), "S_kv=0 不是正整数"),
        (lambda: traffic(1, 1, 0, 1, 1), "d=0 不是正整数"),
        (lambda: traffic(1, 1, 1, 1, 1, 0), "dtype_bytes=0 不是正整数"),
        (lambda: traffic(1, 1, 1, 1, 1, order="fa3"), "order='fa3' 不认识；可选：fa1、fa2"),
        (lambda: list(schedule(1, 1, 1, 1, "x")), "order='x' 不认识；可选：fa1、fa2"),
        (lambda: list(schedule(1, 1, 0, 1)), "B_r=0 不是正整数"),
        (lambda: traffic(5, 3, 1, 1, 1, causal=True), "causal 时 S_q=5 大于 S_kv=3，前 2 行无键可看；请先去掉这些行"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
