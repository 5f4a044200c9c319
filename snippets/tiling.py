"""Tiles of attention in both loop orders: what moves between HBM and the chip, and what lies on the chip.
"fa1" (FlashAttention, arXiv 2205.14135, algorithm 1): outer loop over K/V tiles, O is read and rewritten at every tile.
"fa2" (FlashAttention-2, arXiv 2307.08691, algorithm 1): outer loop over Q tiles, O is written once.
One head, Q, K, V, O of width d; m and l are not counted in HBM traffic. Causal means aligned bottom-right.
"""

from typing import NamedTuple

import numpy as np

from snippets.checks import one_of, positive

ORDERS = ("fa1", "fa2")


class Visit(NamedTuple):
    """One tile pair (i, j): rows of each operand read from HBM and written to it, and the operands kept on chip."""

    i: int
    j: int
    read: dict
    kept: tuple
    written: dict


class Moves(NamedTuple):
    """HBM traffic of one operand: tiles moved and bytes, in and out."""

    reads: int
    read_bytes: int
    writes: int
    write_bytes: int


def tile_sizes(sram_bytes, d, dtype_bytes):
    """(B_r, B_c) of FlashAttention: B_c = ceil(M / 4d), B_r = min(B_c, d), M = elements that fit; ValueError: sizes."""
    positive(sram_bytes=sram_bytes, d=d, dtype_bytes=dtype_bytes)
    if sram_bytes < dtype_bytes:
        raise ValueError(f"sram_bytes={sram_bytes} 装不下一个 {dtype_bytes} 字节的元素；请加大 sram_bytes")
    B_c = -(-(sram_bytes // dtype_bytes) // (4 * d))
    return min(B_c, d), B_c


def visible(S_q, S_kv, B_r, B_c, causal=False):
    """Which tiles are computed: (last, first), int64 arrays.
    last [T_r]: number of column tiles that row tile i visits, from 0 on. first [T_c]: first row tile that visits j.
    ValueError: sizes below 1; causal with S_q > S_kv (the first rows would see nothing).
    """
    positive(S_q=S_q, S_kv=S_kv, B_r=B_r, B_c=B_c)
    row, col = np.arange(0, S_q, B_r), np.arange(0, S_kv, B_c)
    if not causal:
        return np.full(len(row), len(col)), np.zeros(len(col), dtype=np.int64)
    if S_q > S_kv:
        raise ValueError(f"causal 时 S_q={S_q} 大于 S_kv={S_kv}，前 {S_q - S_kv} 行无键可看；请先去掉这些行")
    offset = S_kv - S_q
    return (np.minimum(row + B_r, S_q) - 1 + offset) // B_c + 1, np.maximum(col - offset, 0) // B_r


def schedule(S_q, S_kv, B_r, B_c, order="fa2", causal=False):
    """Yield one Visit per computed tile pair, in order; the last tiles may be smaller. ValueError: as in `traffic`."""
    one_of(ORDERS, order=order)
    last, first = visible(S_q, S_kv, B_r, B_c, causal)
    if order == "fa2":
        for i, n in enumerate(last.tolist()):
            rows = min(B_r, S_q - i * B_r)
            for j in range(n):
                cols = min(B_c, S_kv - j * B_c)
                read = {"K": cols, "V": cols} if j else {"Q": rows, "K": cols, "V": cols}
                yield Visit(i, j, read, ("Q", "O") if j else (), {"O": rows} if j == n - 1 else {})
    else:
        for j, start in enumerate(first.tolist()):
            cols = min(B_c, S_kv - j * B_c)
            for i in range(start, len(last)):
                rows = min(B_r, S_q - i * B_r)
                read = {"Q": rows, "O": rows} if i > start else {"K": cols, "V": cols, "Q": rows, "O": rows}
                yield Visit(i, j, read, ("K", "V") if i > start else (), {"O": rows})


def traffic(S_q, S_kv, d, B_r, B_c, dtype_bytes=2, order="fa2", causal=False):
    """{"Q", "K", "V", "O"} -> Moves of one head, no schedule walked. ValueError: sizes, order, causal S_q > S_kv."""
    positive(d=d, dtype_bytes=dtype_bytes)
    one_of(ORDERS, order=order)
    last, first = visible(S_q, S_kv, B_r, B_c, causal)
    T_r, T_c, pairs, unit = len(last), len(first), int(last.sum()), d * dtype_bytes
    if order == "fa2":
        kv = Moves(pairs, int(np.minimum(last * B_c, S_kv).sum()) * unit, 0, 0)
        return {"Q": Moves(T_r, S_q * unit, 0, 0), "K": kv, "V": kv, "O": Moves(0, 0, T_r, S_q * unit)}
    moved, kv = int((S_q - first * B_r).sum()) * unit, Moves(T_c, S_kv * unit, 0, 0)
    return {"Q": Moves(pairs, moved, 0, 0), "K": kv, "V": kv, "O": Moves(pairs, moved, pairs, moved)}


def sram_bytes_used(B_r, B_c, d, dtype_bytes=2):
    """Bytes of each slot on chip at the peak; Q, K, V in the input dtype, S (P overwrites it), O, m, l in fp32."""
    positive(B_r=B_r, B_c=B_c, d=d, dtype_bytes=dtype_bytes)
    inputs = {"Q": B_r * d * dtype_bytes, "K": B_c * d * dtype_bytes, "V": B_c * d * dtype_bytes}
    return inputs | {"S": B_r * B_c * 4, "O": B_r * d * 4, "m": B_r * 4, "l": B_r * 4}
