"""snippets.attention against torch in fp64, and against a triple loop in extended precision."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets import attention
from snippets.attention import standard_attention, tiled_attention

few = settings(deadline=None, max_examples=60)
size = st.integers(1, 13)
keys = st.integers(0, 13)  # no key at all is allowed: every row gives 0


def inputs(S_q, S_kv, d, d_v, seed, scale=1.0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    shapes = (S_q, d), (S_kv, d), (S_kv, d_v)
    return [(rng.normal(size=shape) * scale).astype(dtype) for shape in shapes]


def by_torch(Q, K, V, causal):
    """Scores, mask and softmax from torch in fp64; rows without a key set to 0 afterwards."""
    q, k, v = (torch.from_numpy(X).double() for X in (Q, K, V))
    S = torch.einsum("id,jd->ij", q, k) / q.shape[1] ** 0.5
    if causal:  # tril keeps j <= i + diagonal
        S = S.masked_fill(~torch.ones_like(S).tril(diagonal=len(K) - len(Q)).bool(), -torch.inf)
    return torch.einsum("ij,jd->id", torch.softmax(S, dim=1).nan_to_num(), v).numpy()


def by_loops(Q, K, V, causal):
    """The formula entry by entry in np.longdouble, no maximum subtracted."""
    out = np.zeros((len(Q), V.shape[1]), dtype=np.longdouble)
    for r in range(len(Q)):
        seen = [c for c in range(len(K)) if not causal or c - len(K) <= r - len(Q)]
        e = [np.exp(sum(map(np.longdouble.__mul__, *(map(np.longdouble, X) for X in (Q[r], K[c]))))
                    / np.sqrt(np.longdouble(Q.shape[1]))) for c in seen]
        for w, c in zip(e, seen):
            out[r] += w * V[c].astype(np.longdouble) / sum(e)
    return out


@few
@given(size, keys, size, size, st.integers(1, 15), st.integers(1, 15), st.booleans(), st.integers(0, 2**32))
def test_both_agree_with_torch(S_q, S_kv, d, d_v, q_tile, k_tile, causal, seed):
    Q, K, V = inputs(S_q, S_kv, d, d_v, seed, scale=3)
    want = by_torch(Q, K, V, causal)
    got = standard_attention(Q, K, V, causal=causal), tiled_attention(Q, K, V, q_tile, k_tile, causal=causal)
    for one in got:
        # fp64 rounding over at most 13 terms; |v| stays below 20
        np.testing.assert_allclose(one, want, rtol=0, atol=1e-12)
        assert one.shape == (S_q, d_v) and one.dtype == np.float64


@pytest.mark.parametrize("S_q, S_kv", [(5, 5), (3, 6), (6, 3), (1, 7)])
@pytest.mark.parametrize("causal", [False, True])
def test_both_agree_with_loops(S_q, S_kv, causal):
    Q, K, V = inputs(S_q, S_kv, 3, 2, seed=S_q)
    want = by_loops(Q, K, V, causal)
    for one in (standard_attention(Q, K, V, causal=causal), tiled_attention(Q, K, V, 2, 4, causal=causal)):
        np.testing.assert_allclose(one, want.astype(float), rtol=0, atol=1e-14)


def test_lab_16_by_8():
    Q, K, V = inputs(16, 16, 8, 8, seed=0)
    assert np.abs(standard_attention(Q, K, V) - tiled_attention(Q, K, V)).max() < 1e-14


def test_scores_in_the_thousands_do_not_overflow():
    Q, K, V = inputs(6, 9, 4, 4, seed=1, scale=100)
    want = by_torch(Q, K, V, False)
    for one in (standard_attention(Q, K, V), tiled_attention(Q, K, V, 2, 2)):
        np.testing.assert_allclose(one, want, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype, out", [(np.float16, np.float32), (np.float32, np.float32), (np.int64, np.float64)])
def test_dtypes(dtype, out):
    Q, K, V = inputs(5, 5, 4, 4, seed=2, scale=2, dtype=dtype)
    want = by_torch(Q, K, V, True)
    for one in (standard_attention(Q, K, V, causal=True), tiled_attention(Q, K, V, 2, 3, causal=True)):
        assert one.dtype == out
        np.testing.assert_allclose(one, want, rtol=0, atol=2e-6)


def test_rows_without_keys_are_zero():
    Q, K, V = inputs(5, 2, 3, 3, seed=3)
    for one in (standard_attention(Q, K, V, causal=True), tiled_attention(Q, K, V, 2, 2, causal=True)):
        assert (one[:3] == 0).all() and (one[3] == V[0]).all()  # row 3 is the first to see a key, and one only


@few
@given(size, size, st.integers(1, 6), st.integers(1, 6), st.booleans(), st.integers(0, 99))
def test_trace(S_q, S_kv, q_tile, k_tile, causal, seed):
    Q, K, V = inputs(S_q, S_kv, 4, 2, seed)
    trace = []
    tiled_attention(Q, K, V, q_tile, k_tile, causal=causal, trace=trace)
    S = np.einsum("id,jd->ij", Q, K) / 2
    S[np.triu_indices(S_q, S_kv - S_q + 1, S_kv) if causal else ([], [])] = -np.inf
    visible = [
        (i, j)
        for i in range(-(-S_q // q_tile))
        for j in range(-(-S_kv // k_tile))
        if (S[i * q_tile : (i + 1) * q_tile, j * k_tile : (j + 1) * k_tile] > -np.inf).any()
    ]
    assert [(step.i, step.j) for step in trace] == visible
    for i, j, m, l, o in trace:
        seen = S[i * q_tile : (i + 1) * q_tile, : (j + 1) * k_tile]
        top = seen.max(axis=1)
        e = np.exp(seen - np.where(np.isfinite(top), top, 0)[:, None])
        np.testing.assert_allclose(m, top, rtol=1e-13)
        np.testing.assert_allclose(l, e.sum(axis=1), rtol=1e-13)
        np.testing.assert_allclose(o, e @ V[: (j + 1) * k_tile], rtol=0, atol=1e-12)


def test_tiled_never_holds_more_than_a_tile(monkeypatch):
    seen, plain = [], attention.scores
    monkeypatch.setattr(attention, "scores", lambda *args: seen.append(plain(*args)) or seen[-1])
    Q, K, V = inputs(16, 16, 8, 8, seed=4)
    tiled_attention(Q, K, V, 3, 5)
    assert max(S.shape[0] for S in seen) == 3 and max(S.shape[1] for S in seen) == 5
    assert sum(S.size for S in seen) == 16 * 16


ok = np.zeros((4, 3))
BAD = [
    ((np.zeros(3), ok, ok), "Q 的形状是 (3,)；应为二维，[长度, 维度]"),
    ((ok, ok[None], ok), "K 的形状是 (1, 4, 3)；应为二维，[长度, 维度]"),
    ((ok, ok, np.float64(1)), "V 的形状是 ()；应为二维，[长度, 维度]"),
    ((np.zeros((4, 0)), np.zeros((4, 0)), ok), "Q 的形状是 (4, 0)；维度至少为 1"),
    ((ok, ok[:, :2], ok), "K 的维度 2 与 Q 的维度 3 不同；QKᵀ 要求两者相等"),
    ((ok, ok, ok[:3]), "V 有 3 行，K 有 4 行；每个键配一个值，两者应相等"),
]


@pytest.mark.parametrize("args, message", BAD)
@pytest.mark.parametrize("function", [standard_attention, tiled_attention])
def test_shape_errors(function, args, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        function(*args)


@pytest.mark.parametrize("tiles", [{"q_tile": 0}, {"k_tile": -1}, {"k_tile": 2.0}])
def test_tile_errors(tiles):
    (name, value), = tiles.items()
    with pytest.raises(ValueError, match=re.escape(f"{name}={value!r} 不是正整数")):
        tiled_attention(ok, ok, ok, **tiles)
