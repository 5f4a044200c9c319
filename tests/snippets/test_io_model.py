"""snippets.io_model against the paper's formulas, its GPT-2 table, and the tile schedule."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets import io_model as io
from snippets.tiling import tile_sizes, traffic

few = settings(deadline=None, max_examples=80)
n = st.integers(1, 300)


@few
@given(n, n, n)
def test_formulas(S, d, B):
    T = -(-S // B)
    assert io.elements(*io.naive_forward(S, d)) == 4 * S**2 + 4 * S * d
    assert io.elements(*io.naive_backward(S, d)) == 7 * S**2 + 8 * S * d
    assert io.elements(io.fused_forward(S, d, B)) == (2 + 3 * T) * S * d
    assert io.elements(io.fused_forward(S, d, B, "fa2")) == (2 + 2 * T) * S * d
    assert io.elements(io.fused_backward(S, d, B)) == (4 + 5 * T) * S * d
    assert io.compulsory(S, d) == 4 * S * d and io.compulsory(S, d, backward=True) == 8 * S * d
    assert io.flops(S, d) == io.flops(S, d, "naive") == 4 * S**2 * d
    assert io.flops(S, d, backward=True) == 2.5 * io.flops(S, d)
    assert io.flops(S, d, "naive", backward=True) == 2 * io.flops(S, d)
    assert io.statistics_bytes(S, B) == 16 * S * T and io.statistics_bytes(S, B, backward=True) == 8 * S * T


@few
@given(n, n, st.integers(1, 40), st.integers(1, 40))
def test_fused_is_the_schedule(S, d, B_r, B_c):
    for order, tile in (("fa1", B_c), ("fa2", B_r)):
        one, moves = io.fused_forward(S, d, tile, order), traffic(S, S, d, B_r, B_c, 1, order)
        assert {name: one.reads.get(name, 0) for name in "QKVO"} == {k: m.read_bytes for k, m in moves.items()}
        assert {name: one.writes.get(name, 0) for name in "QKVO"} == {k: m.write_bytes for k, m in moves.items()}


@few
@given(n, n)
def test_naive_passes_read_what_was_written(S, d):
    """Each intermediate is written before it is read, whole, and the operands are the formula's own."""
    inputs = {"Q": S * d, "K": S * d, "V": S * d, "dO": S * d}
    for passes, known in ((io.naive_forward(S, d), inputs), (io.naive_backward(S, d), inputs | {"P": S * S})):
        known = dict(known)
        for one in passes:
            assert all(known[name] == size for name, size in one.reads.items())
            known |= one.writes
        assert {"O"} <= set(known) or {"dQ", "dK", "dV"} <= set(known)


def test_who_reads_what():
    """PV reads P, not S; softmax reads S and writes P."""
    first, second, third = io.naive_forward(2, 1)
    assert (first.reads, first.writes) == ({"Q": 2, "K": 2}, {"S": 4})
    assert (second.reads, second.writes) == ({"S": 4}, {"P": 4})
    assert (third.reads, third.writes) == ({"P": 4, "V": 2}, {"O": 2})
    assert [set(one.reads) for one in io.naive_backward(2, 1)] == [
        {"P", "dO"}, {"dO", "V"}, {"P", "dP"}, {"dS", "K"}, {"dS", "Q"}
    ]
    assert set(io.fused_backward(2, 1, 1).reads) == {"Q", "K", "V", "O", "dO", "dQ"}


@pytest.mark.parametrize("sram_kib, T_c, gb", [(192, 3, 4.10), (163, 4, 5.20), (100, 6, 7.40)])
def test_gpt2_table_fused(sram_kib, T_c, gb):
    """S = 1024, d = 64, batch * heads = 1024, fp16; forward and backward, statistics included, in GB = 10^9."""
    B_c = tile_sizes(sram_kib * 1024, 64, 2)[1]
    assert -(-1024 // B_c) == T_c
    tensors = 2 * io.elements(io.fused_forward(1024, 64, B_c), io.fused_backward(1024, 64, B_c))
    statistics = io.statistics_bytes(1024, B_c) + io.statistics_bytes(1024, B_c, backward=True)
    assert round(1024 * (tensors + statistics) / 1e9, 2) == gb


def test_gpt2_table_naive_and_minimum():
    naive = io.elements(*io.naive_forward(1024, 64), *io.naive_backward(1024, 64))
    assert round(1024 * 2 * naive / 1e9, 1) == 25.2
    assert round(100 * (1 - 1024 * 2 * naive / 40.3e9)) == 37
    least = io.compulsory(1024, 64) + io.compulsory(1024, 64, backward=True)
    assert least == 12 * 1024 * 64 and round(1024 * 2 * least / 1e9, 2) == 1.61
    assert round(1024 * (io.flops(1024, 64, "naive") + io.flops(1024, 64, "naive", True)) / 1e9) == 825


def test_section_19_2():
    """Four passes over S x S in fp16: 8 S^2 bytes, per head."""
    passes = io.naive_forward(4096, 64)
    square = sum(size for one in passes for side in (one.reads, one.writes) for k, size in side.items() if k in "SP")
    assert 2 * square == 8 * 4096**2


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: io.naive_forward(0, 1), "S=0 不是正整数；请给一个不小于 1 的整数"),
        (lambda: io.naive_backward(1, 0), "d=0 不是正整数"),
        (lambda: io.fused_forward(1, 1, 0), "tile=0 不是正整数"),
        (lambda: io.fused_forward(1, 1, 1, "fa4"), "order='fa4' 不认识；可选：fa1、fa2"),
        (lambda: io.fused_backward(1, 1, 0), "B_c=0 不是正整数"),
        (lambda: io.statistics_bytes(0, 1), "S=0 不是正整数"),
        (lambda: io.compulsory(1, 0), "d=0 不是正整数"),
        (lambda: io.flops(0, 1), "S=0 不是正整数"),
        (lambda: io.flops(1, 1, "flash"), "form='flash' 不认识；可选：naive、fused"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
