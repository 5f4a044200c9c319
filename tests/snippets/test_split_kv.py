"""snippets.split_kv against attention in one go, and its counts against plain enumeration."""

import re
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.attention import standard_attention
from snippets.online_softmax import finish, merge, softmax
from snippets.split_kv import (
    busy_share, lse, partial_states, parts_to_fill, pieces, scratch_bytes, segments, split_attention
)

few = settings(deadline=None, max_examples=60)
small = st.integers(1, 40)


def inputs(S_q, S_kv, d=8, d_v=5, seed=0):
    """Q, K, V in fp64, the largest scores late, so that a lost correction shows."""
    rng = np.random.default_rng(seed)
    Q, K, V = rng.normal(size=(S_q, d)), rng.normal(size=(S_kv, d)), rng.normal(size=(S_kv, d_v))
    return Q, K * np.linspace(0.1, 6, S_kv)[:, None], V


@few
@given(st.integers(1, 500), st.integers(1, 500))
def test_segments_cover_every_key_once(S_kv, parts):
    if parts > S_kv:
        return
    cuts = segments(S_kv, parts)
    sizes = [b - a for a, b in cuts]
    assert len(cuts) == parts and [k for a, b in cuts for k in range(a, b)] == list(range(S_kv))
    assert min(sizes) >= 1 and max(sizes) - min(sizes) <= 1


@few
@given(st.integers(1, 6), small, st.integers(1, 40), st.booleans())
def test_split_is_attention(S_q, S_kv, parts, causal):
    """Rows without any visible key (causal, S_q > S_kv) give 0 on both sides."""
    Q, K, V = inputs(S_q, S_kv)
    got = split_attention(Q, K, V, min(parts, S_kv), causal=causal)
    np.testing.assert_allclose(got, standard_attention(Q, K, V, causal=causal), rtol=0, atol=1e-12)


def test_any_order_and_lse_merge():
    """States merged backwards, and outputs weighted by e^(lse_k - lse), give the same."""
    Q, K, V = inputs(3, 37)
    states, whole = partial_states(Q, K, V, 5), standard_attention(Q, K, V)
    np.testing.assert_allclose(finish(reduce(merge, states[::-1])), whole, rtol=0, atol=1e-12)
    weights = softmax(np.stack([lse(state) for state in states], axis=-1))  # [rows, parts]
    joined = sum(weights[:, k, None] * finish(state) for k, state in enumerate(states))
    np.testing.assert_allclose(joined, whole, rtol=0, atol=1e-12)


def test_averaging_outputs_is_wrong():
    Q, K, V = inputs(1, 16)
    average = np.mean([finish(state) for state in partial_states(Q, K, V, 4)], axis=0)
    assert np.abs(average - standard_attention(Q, K, V)).max() > 0.1


def test_lse_of_nothing_is_minus_infinity():
    Q, K, V = inputs(4, 2)
    (state,) = partial_states(Q, K, V, 1, causal=True)
    with np.errstate(all="raise"):
        values = lse(state)
    assert np.isneginf(values[:2]).all() and np.isfinite(values[2:]).all()


@few
@given(small, small, small, small, st.integers(1, 200))
def test_counts(heads, S_q, B_r, parts, sms):
    work = len([0 for _ in range(heads) for _ in range(0, S_q, B_r) for _ in range(parts)])
    assert pieces(heads, S_q, B_r, parts) == work
    share = busy_share(work, sms)
    assert 0 < share <= 1 and (share == 1) == (work % sms == 0)
    fill, alone = parts_to_fill(heads, S_q, B_r, sms, 0.9), pieces(heads, S_q, B_r)
    enough = [busy_share(alone * k, sms) >= 0.9 for k in range(1, fill + 1)]
    assert enough == [False] * (fill - 1) + [True]
    assert busy_share(alone * parts_to_fill(heads, S_q, B_r, sms, 1), sms) == 1


def test_decode_examples():
    """One row, 16 heads on 108 multiprocessors: seven segments make 112 pieces, a second turn; 13 make 208 of 216."""
    assert pieces(16, 1, 128) == 16 and parts_to_fill(16, 1, 128, 108) == 13 and parts_to_fill(8, 1, 64, 132) == 16
    assert busy_share(16, 108) == 16 / 108 and busy_share(112, 108) == 112 / 216
    assert scratch_bytes(16, 1, 128, 7) == 2 * 16 * 7 * 129 * 4 and scratch_bytes(16, 1, 128, 1) == 0


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: segments(8, 0), "parts=0 不是正整数；请给一个不小于 1 的整数"),
        (lambda: segments(8, 9), "parts=9 多于键的个数 S_kv=8；每段至少要有一个键，请减小 parts"),
        (lambda: split_attention(*inputs(1, 4)[:2], np.ones((3, 2)), 2), "V 有 3 行，K 有 4 行；每个键配一个值，两者应相等"),
        (lambda: pieces(0, 1, 1), "heads=0 不是正整数"),
        (lambda: busy_share(1, 0), "sms=0 不是正整数"),
        (lambda: parts_to_fill(1, 1, 1, 0), "sms=0 不是正整数"),
        (lambda: parts_to_fill(1, 1, 1, 8, 1.5), "target=1.5 不在 0 与 1 之间；请给一个份额，例如 0.95"),
        (lambda: scratch_bytes(1, 1, 0, 1), "d=0 不是正整数"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
