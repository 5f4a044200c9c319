"""Online softmax: one pass over blocks, keeping only a maximum m, a denominator l and a partial output o.

Source: Milakov & Gimelshein 2018, arXiv 1805.02867 (m and l); FlashAttention, arXiv 2205.14135, section 3.1 (o).
"""

from typing import NamedTuple

import numpy as np

from snippets.checks import positive


class State(NamedTuple):
    """What is kept of the scores seen so far; fp32 or fp64, one entry per row where there are rows.
    m: [...] largest score. l: [...] sum of e^(x - m). o: [...] or [..., d_v] sum of e^(x - m) * v, not divided yet.
    """

    m: np.ndarray
    l: np.ndarray
    o: np.ndarray


class Step(NamedTuple):
    """One block's turn: its scores x, the factor e^(m_old - m) for the old l and o, and the state after it."""

    x: np.ndarray
    m: np.ndarray
    correction: np.ndarray
    l: np.ndarray
    o: np.ndarray


EMPTY = State(-np.inf, 0.0, 0.0)  # of no scores at all; broadcasts to any number of rows


def weight(x, m):
    """e^(x - m) for x <= m; 0 where x is -inf, even if m is too (unguarded, -inf - -inf is NaN)."""
    return np.exp(x - np.where(m == -np.inf, 0.0, m))


def softmax(x):
    """Weights of all scores x [..., n] at once, along the last axis; a wholly masked (-inf) row gets zeros, not NaN."""
    x = np.asarray(x) * 1.0  # integers become float64, other dtypes stay
    e = weight(x, x.max(axis=-1, keepdims=True, initial=-np.inf))
    l = e.sum(axis=-1, keepdims=True)
    return e / np.where(l == 0, 1.0, l)


# --8<-- [start:update]
def update(state, x, v):
    """Absorb one block: scores x [..., n], values v [n] or [n, d_v]; returns the new State."""
    m = np.maximum(state.m, np.max(x, axis=-1, initial=-np.inf))
    correction = weight(state.m, m)  # [...]: the old sums, measured with the new maximum
    p = weight(x, m[..., None])  # [..., n]
    l = state.l * correction + p.sum(axis=-1)
    o = state.o * (correction[..., None] if np.ndim(v) == 2 else correction) + p @ v
    return State(m, l, o)
# --8<-- [end:update]


def merge(a, b):
    """The State of a's scores and b's together; associative and commutative up to rounding, EMPTY is neutral.

    This is how split-KV decoding and ring attention join partial results.
    """
    m = np.maximum(a.m, b.m)
    tail = (1,) * max(np.ndim(a.o) - np.ndim(a.m), np.ndim(b.o) - np.ndim(b.m))  # o has d_v behind the rows
    to_a, to_b = weight(a.m, m), weight(b.m, m)
    o = a.o * to_a.reshape(to_a.shape + tail) + b.o * to_b.reshape(to_b.shape + tail)
    return State(m, a.l * to_a + b.l * to_b, o)


def finish(state):
    """The output o / l, divided once at the end; 0 where l is 0, that is where nothing could be attended to."""
    l = np.where(state.l == 0, 1.0, state.l)
    return state.o / (l[..., None] if np.ndim(state.o) > np.ndim(l) else l)


def blocks(x, v, block_size):
    """Pairs (x, v) of consecutive blocks as float64; x [n] may hold -inf, v is [n] or [n, d_v].

    ValueError: nothing given, lengths that differ, NaN or +inf among the scores, a block size below 1.
    """
    x, v = np.asarray(x, dtype=float), np.asarray(v, dtype=float)
    positive(block_size=block_size)
    if x.ndim != 1 or x.size == 0:
        raise ValueError(f"x 的形状是 {x.shape}；请给至少一个分数组成的一维数组")
    if v.ndim not in (1, 2) or len(v) != len(x):
        raise ValueError(f"v 的形状是 {v.shape}，x 有 {len(x)} 个分数；v 应为 [{len(x)}] 或 [{len(x)}, d_v]")
    if np.isnan(x).any() or np.isposinf(x).any():
        raise ValueError("x 含 NaN 或 +inf；分数只能是有限数，或表示掩码的 -inf")
    return [(x[at : at + block_size], v[at : at + block_size]) for at in range(0, len(x), block_size)]


def blockwise(x, v, block_size):
    """The whole computation, one Step per block; the last one's o / l is softmax(x) @ v. Errors as in `blocks`."""
    state, steps = EMPTY, []
    for x_block, v_block in blocks(x, v, block_size):
        old, state = state, update(state, x_block, v_block)
        steps.append(Step(x_block, state.m, weight(old.m, state.m), state.l, state.o))
    return steps
