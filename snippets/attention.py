"""Attention two ways, same mathematics: with the whole S matrix, and by tiles that never hold more than one tile of it.

Source: FlashAttention, arXiv 2205.14135, algorithm 1, in the loop order of FlashAttention-2, arXiv 2307.08691.
"""

import math
from typing import NamedTuple

import numpy as np

from snippets.checks import positive
from snippets.online_softmax import EMPTY, finish, softmax, update


class TileStep(NamedTuple):
    """State of row tile i after column tile j: m [rows], l [rows], o [rows, d_v] (not divided by l yet)."""

    i: int
    j: int
    m: np.ndarray
    l: np.ndarray
    o: np.ndarray


# --8<-- [start:standard]
def standard_attention(Q, K, V, *, causal=False):
    """softmax(Q K^T / sqrt(d)) V, the whole [S_q, S_kv] matrix at once.

    Q [S_q, d], K [S_kv, d], V [S_kv, d_v] -> [S_q, d_v]; computed in the inputs' float dtype, at least fp32.
    causal: query r sees keys up to r + S_kv - S_q (aligned bottom-right, as FlashAttention since 2.1).
    A row that sees no key gives 0, as FlashAttention does; a hand-written softmax would give -inf - -inf = NaN.
    ValueError: shapes that do not fit, naming the argument.
    """
    Q, K, V = _checked(Q, K, V)
    S = scores(Q, K, 0, 0, len(K) - len(Q) if causal else None)
    P = softmax(S)  # [S_q, S_kv]: the second matrix of that size
    return P @ V
# --8<-- [end:standard]


# --8<-- [start:tiled]
def tiled_attention(Q, K, V, q_tile=4, k_tile=4, *, causal=False, trace=None):
    """As `standard_attention`, same arguments, dtypes and errors, one [q_tile, k_tile] tile of scores at a time.

    The last tiles may be smaller; causal tiles that no row of theirs can see are skipped.
    trace: a list that receives one TileStep per tile computed.
    """
    Q, K, V = _checked(Q, K, V)
    positive(q_tile=q_tile, k_tile=k_tile)
    offset = len(K) - len(Q) if causal else None
    O = np.zeros((len(Q), V.shape[1]), dtype=Q.dtype)
    for i, row in enumerate(range(0, len(Q), q_tile)):
        Q_i, state = Q[row : row + q_tile], EMPTY
        seen = min(row + len(Q_i) + offset, len(K)) if causal else len(K)  # keys before this one are visible
        for j, col in enumerate(range(0, seen, k_tile)):
            S_ij = scores(Q_i, K[col : col + k_tile], row, col, offset)
            state = update(state, S_ij, V[col : col + k_tile])
            if trace is not None:  # every update makes new arrays, so no copy is needed
                trace.append(TileStep(i, j, *state))
        O[row : row + q_tile] = finish(state)  # written once; EMPTY, the state of a tile without keys, gives 0
    return O
# --8<-- [end:tiled]


def scores(Q, K, row, col, offset):
    """Q K^T / sqrt(d) of one tile [rows, cols]; with an offset, -inf where a key lies after query + offset.

    row, col: where the tile starts in the whole matrix. offset: S_kv - S_q, or None without a causal mask.
    """
    S = Q @ K.T * (1 / math.sqrt(Q.shape[1]))
    if offset is None:
        return S
    query, key = row + np.arange(len(Q))[:, None], col + np.arange(len(K))
    return np.where(key > query + offset, -np.inf, S)


def _checked(Q, K, V):
    """The three as arrays of one float dtype, at least fp32; ValueError names the argument that does not fit."""
    Q, K, V = np.asarray(Q), np.asarray(K), np.asarray(V)
    for name, X in (("Q", Q), ("K", K), ("V", V)):
        if X.ndim != 2:
            raise ValueError(f"{name} 的形状是 {X.shape}；应为二维，[长度, 维度]")
        if X.shape[1] == 0:
            raise ValueError(f"{name} 的形状是 {X.shape}；维度至少为 1")
    if K.shape[1] != Q.shape[1]:
        raise ValueError(f"K 的维度 {K.shape[1]} 与 Q 的维度 {Q.shape[1]} 不同；QKᵀ 要求两者相等")
    if len(V) != len(K):
        raise ValueError(f"V 有 {len(V)} 行，K 有 {len(K)} 行；每个键配一个值，两者应相等")
    dtype = np.result_type(Q, K, V, np.float32)
    return Q.astype(dtype), K.astype(dtype), V.astype(dtype)
