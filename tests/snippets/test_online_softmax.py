"""snippets.online_softmax against the plain formula in torch and in extended precision."""

import re
from functools import reduce

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.online_softmax import EMPTY, State, blocks, blockwise, finish, merge, softmax, update, weight

few = settings(deadline=None, max_examples=80)
score = st.one_of(st.just(-np.inf), st.floats(-2000, 2000))
scores = st.lists(score, min_size=1, max_size=24)


def values(n, d_v=None, seed=0):
    return np.random.default_rng(seed + n).normal(size=n if d_v is None else (n, d_v))


def oracle(x, v):
    """softmax(x) @ v by torch in fp64; 0 where every score is -inf."""
    if np.isneginf(x).all():
        return np.zeros(np.shape(v)[1:])
    return (torch.softmax(torch.tensor(x, dtype=torch.float64), 0) @ torch.from_numpy(v)).numpy()


def same(a, b, scale=1.0):
    np.testing.assert_allclose(a.m, b.m, rtol=0)
    np.testing.assert_allclose(a.l, b.l, rtol=1e-12)
    np.testing.assert_allclose(a.o, b.o, rtol=0, atol=1e-12 * scale)


def test_hand_calculation():
    first, last = blockwise([1, 2, 3, 4], [10, 20, 30, 40], 2)
    assert (first.m, last.m) == (2, 4) and first.correction == 0
    assert round(float(first.l), 4) == 1.3679 and round(float(last.l), 4) == 1.5530
    assert last.correction == np.exp(-2) and round(float(first.l * last.correction), 4) == 0.1851
    assert round(float(last.o / last.l), 3) == 34.927
    assert softmax([1, 2, 3, 4]).round(4).tolist() == [0.0321, 0.0871, 0.2369, 0.6439]
    assert np.exp([1, 2, 3, 4]).sum().round(2) == 84.79
    assert last.x.tolist() == [3, 4]


@few
@given(scores, st.integers(1, 26), st.sampled_from([None, 1, 3]))
def test_blockwise_is_softmax(x, block_size, d_v):
    v = values(len(x), d_v)
    last = blockwise(x, v, block_size)[-1]
    got = finish(State(last.m, last.l, last.o))
    np.testing.assert_allclose(got, oracle(x, v), rtol=0, atol=1e-12)
    np.testing.assert_allclose(softmax(x) @ v, oracle(x, v), rtol=0, atol=1e-12)


@few
@given(scores, st.integers(1, 26))
def test_invariant_after_every_block(x, block_size):
    """m, l and o are those of the prefix: the definition, recomputed from all of it in np.longdouble."""
    v, before = values(len(x)), -np.inf
    steps = blockwise(x, v, block_size)
    assert len(steps) == -(-len(x) // block_size)
    for k, step in enumerate(steps, 1):
        prefix, top = np.array(x[: k * block_size], dtype=np.longdouble), max(x[: k * block_size])
        e = np.exp(prefix - top) if top > -np.inf else np.exp(prefix)
        assert step.m == top
        np.testing.assert_allclose(float(step.l), float(e.sum()), rtol=1e-12)
        np.testing.assert_allclose(float(step.o), float(e @ v[: k * block_size]), rtol=0, atol=1e-12)
        assert step.correction == (np.exp(before - top) if before > -np.inf else 0)
        before = top


@few
@given(st.lists(scores, min_size=1, max_size=6), st.randoms(use_true_random=False), st.sampled_from([None, 2]))
def test_merge_in_any_order_and_grouping(parts, random, d_v):
    parts = [(np.array(x), values(len(x), d_v, seed=k)) for k, x in enumerate(parts)]
    whole = update(EMPTY, *map(np.concatenate, zip(*parts)))
    states = [update(EMPTY, x, v) for x, v in parts]
    random.shuffle(states)
    scale = sum(len(x) for x, _ in parts)
    same(reduce(merge, states), whole, scale)
    same(reduce(lambda right, left: merge(left, right), reversed(states)), whole, scale)
    at = random.randint(0, len(states))
    same(merge(reduce(merge, states[:at], EMPTY), reduce(merge, states[at:], EMPTY)), whole, scale)


@few
@given(scores, st.sampled_from([None, 2]))
def test_empty_is_neutral(x, d_v):
    one = update(EMPTY, np.array(x), values(len(x), d_v))
    for joined in (merge(EMPTY, one), merge(one, EMPTY)):
        same(joined, one)
        assert np.shape(joined.o) == np.shape(one.o)
    assert finish(EMPTY) == 0 and merge(EMPTY, EMPTY).m == -np.inf


def test_rows_at_once():
    """[rows, n] scores give the same as row after row, masked rows included; d_v equal to rows hides nothing."""
    x, v = np.random.default_rng(5).normal(size=(4, 6)) * 30, values(6, 4)
    x[1, :3] = x[2] = -np.inf
    together = merge(EMPTY, merge(update(EMPTY, x[:, :3], v[:3]), EMPTY))
    together = update(together, x[:, 3:], v[3:])
    assert [np.shape(part) for part in together] == [(4,), (4,), (4, 4)]
    for r in range(4):
        one = update(update(EMPTY, x[r, :3], v[:3]), x[r, 3:], v[3:])
        same(State(*(part[r] for part in together)), one)
        np.testing.assert_allclose(finish(together)[r], oracle(x[r], v), rtol=0, atol=1e-13)


def test_dtype_stays_fp32():
    x, v = np.ones((2, 3), dtype=np.float32), np.ones((3, 2), dtype=np.float32)
    state = merge(update(update(EMPTY, x, v), x, v), update(EMPTY, x, v))
    assert {part.dtype for part in (*state, finish(state), softmax(x))} == {np.dtype(np.float32)}


def test_masked_scores_have_no_weight_and_no_nan():
    assert weight(-np.inf, -np.inf) == 0 and weight(-np.inf, 3.0) == 0 and weight(3.0, 3.0) == 1
    assert softmax([-np.inf, -np.inf]).tolist() == [0, 0] and softmax([]).tolist() == []
    assert softmax([[0, 0], [-np.inf, 5]]).tolist() == [[0.5, 0.5], [0, 1]]
    steps = blockwise([-np.inf, -np.inf, 1], [1, 2, 3], 2)
    assert (steps[0].m, steps[0].correction, steps[0].l, steps[0].o) == (-np.inf, 0, 0, 0)
    assert steps[1].o / steps[1].l == 3


@pytest.mark.parametrize(
    "x, v, block_size, message",
    [
        ([1], [1], 0, "block_size=0 不是正整数；请给一个不小于 1 的整数"),
        ([], [], 1, "x 的形状是 (0,)；请给至少一个分数组成的一维数组"),
        ([[1]], [1], 1, "x 的形状是 (1, 1)；请给至少一个分数组成的一维数组"),
        ([1, 2], [1], 1, "v 的形状是 (1,)，x 有 2 个分数；v 应为 [2] 或 [2, d_v]"),
        ([1, 2], 1, 1, "v 的形状是 ()，x 有 2 个分数；v 应为 [2] 或 [2, d_v]"),
        ([1, np.nan], [1, 2], 1, "x 含 NaN 或 +inf；分数只能是有限数，或表示掩码的 -inf"),
        ([1, np.inf], [1, 2], 1, "x 含 NaN 或 +inf；分数只能是有限数，或表示掩码的 -inf"),
    ],
)
def test_errors(x, v, block_size, message):
    for function in (blocks, blockwise):
        with pytest.raises(ValueError, match=re.escape(message)):
            function(x, v, block_size)
