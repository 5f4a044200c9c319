"""snippets.lab: a right solution of each exercise passes, every plausible mistake is named."""

import numpy as np
import pytest

from snippets.attention import scores, standard_attention, tiled_attention
from snippets.lab import check_kv_outer, check_lse, check_split, check_window
from snippets.online_softmax import EMPTY, State, finish, merge, update


def split(Q, K, V, parts):
    size = len(K) // parts
    total = EMPTY
    for at in range(0, len(K), size):
        total = merge(total, update(EMPTY, scores(Q, K[at : at + size], 0, at, None), V[at : at + size]))
    return finish(total)


def split_by_mean(Q, K, V, parts):
    size = len(K) // parts
    segments = range(0, len(K), size)
    return np.mean([standard_attention(Q, K[at : at + size], V[at : at + size]) for at in segments], axis=0)


def kv_outer(Q, K, V, q_tile, k_tile, order="columns"):
    rows, columns = range(0, len(Q), q_tile), range(0, len(K), k_tile)
    states, visits = [EMPTY] * len(rows), []
    for j, col in enumerate(columns):
        for i, row in enumerate(rows):
            S = scores(Q[row : row + q_tile], K[col : col + k_tile], row, col, None)
            states[i] = update(states[i], S, V[col : col + k_tile])
            visits.append((i, j))
    return np.concatenate([finish(state) for state in states]), visits if order == "columns" else sorted(visits)


def kv_outer_forgetting(Q, K, V, q_tile, k_tile):
    """No correction: the old sums stay as they were measured."""
    rows, columns = range(0, len(Q), q_tile), range(0, len(K), k_tile)
    states, visits = [EMPTY] * len(rows), []
    for j, col in enumerate(columns):
        for i, row in enumerate(rows):
            S = scores(Q[row : row + q_tile], K[col : col + k_tile], row, col, None)
            new = update(EMPTY, S, V[col : col + k_tile])
            m, l, o = states[i]
            states[i] = State(np.maximum(m, new.m), l + new.l, o + new.o)
            visits.append((i, j))
    return np.concatenate([finish(state) for state in states]), visits


def window(Q, K, V, window, q_tile, k_tile, shift=0):
    O = np.zeros((len(Q), V.shape[1]))
    for row in range(0, len(Q), q_tile):
        r, state = np.arange(row, min(row + q_tile, len(Q)))[:, None], EMPTY
        for col in range(0, min(row + q_tile, len(K)), k_tile):
            c = np.arange(col, min(col + k_tile, len(K)))
            S = scores(Q[row : row + q_tile], K[col : col + k_tile], row, col, None)
            S = np.where((c <= r) & (c > r - window + shift), S, -np.inf)
            state = update(state, S, V[col : col + k_tile])
        O[row : row + q_tile] = finish(state)
    return O


def lse(Q, K, V, q_tile, k_tile, scale=1.0):
    trace = []
    O = tiled_attention(Q, K, V, q_tile, k_tile, trace=trace)
    last = {step.i: step for step in trace}  # the last column tile of each row tile
    return O, np.concatenate([step.m + scale * np.log(step.l) for step in last.values()])


@pytest.mark.parametrize(
    "check, solution", [(check_split, split), (check_kv_outer, kv_outer), (check_window, window), (check_lse, lse)]
)
def test_a_right_solution_passes_and_an_empty_one_is_not_yet_written(check, solution):
    assert check(solution).startswith("通过：")
    assert check(lambda *arguments: None) == "还没写：函数返回了 None"


MISTAKES = [
    (check_split, split_by_mean, "不对：2 段 时，O 最多差 "),
    (check_split, lambda Q, K, V, parts: np.zeros(3), "不对：1 段 时，O 的形状是 (3,)，应为 (6, 5)"),
    (check_split, lambda Q, K, V, parts: np.full((6, 5), np.nan), "不对：1 段 时，O 最多差 nan"),
    (check_kv_outer, lambda *a: kv_outer(*a, order="rows"), "不对：块为 3×4 时，访问次序是 [(0, 0), (0, 1), "),
    (check_kv_outer, kv_outer_forgetting, "不对：块为 3×4 时，O 最多差 "),
    (check_window, lambda Q, K, V, w, q, k: tiled_attention(Q, K, V, q, k, causal=True), "不对：window=5，块为 4×4 时，O"),
    (check_window, lambda *a: window(*a, shift=1), "不对：window=12，块为 4×4 时，O"),
    (check_lse, lambda *a: lse(*a, scale=0.0), "不对：块为 2×4 时，exp(S − lse) 最多差 "),
    (check_lse, lambda *a: (lse(*a)[0], 0.0), "不对：块为 2×4 时，lse 的形状是 ()，应为 (7,)"),
    (check_lse, lambda *a: (lse(*a)[0] + 1, lse(*a)[1]), "不对：块为 2×4 时，O 最多差 1"),
]


@pytest.mark.parametrize("check, candidate, message", MISTAKES)
def test_mistakes_are_named(check, candidate, message):
    assert check(candidate).startswith(message)


def test_a_candidate_cannot_spoil_the_inputs():
    def spoiling(Q, K, V, parts):
        O = standard_attention(Q, K, V)
        Q[:] = K[:] = V[:] = 0
        return O

    assert check_split(spoiling).startswith("通过：")
