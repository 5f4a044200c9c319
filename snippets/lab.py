"""Checks for the lab's exercises: each takes the reader's function and answers with a verdict that can be printed.

A verdict starts with 通过, 还没写 (the function returned None) or 不对; what the function raises is not caught.
"""

import numpy as np

from snippets.attention import scores, standard_attention
from snippets.online_softmax import softmax

TOLERANCE = 1e-10  # far above the rounding of these small fp64 cases, far below any mistake of method


def inputs(S_q, S_kv, d=8, d_v=5, seed=0):
    """Random Q [S_q, d], K [S_kv, d] and V [S_kv, d_v], fp64; the largest scores come late, to catch lost corrections."""
    rng = np.random.default_rng(seed)
    Q, K, V = rng.normal(size=(S_q, d)), rng.normal(size=(S_kv, d)), rng.normal(size=(S_kv, d_v))
    return Q, K * np.linspace(0.1, 4, S_kv)[:, None], V


def compare(name, got, want):
    """None where got agrees with want (array), else what is wrong with it."""
    if np.shape(got) != want.shape:
        return f"{name} 的形状是 {np.shape(got)}，应为 {want.shape}"
    difference = np.abs(np.asarray(got, dtype=float) - want).max()
    return None if difference < TOLERANCE else f"{name} 最多差 {difference:.2g}"  # NaN fails too


def judge(candidate, cases, fault):
    """Call candidate(*arguments) for each (label, arguments); fault(result, *arguments) is None or what is wrong."""
    for label, arguments in cases:
        result = candidate(*(np.copy(a) if isinstance(a, np.ndarray) else a for a in arguments))
        if result is None:
            return "还没写：函数返回了 None"
        wrong = fault(result, *arguments)
        if wrong:
            return f"不对：{label} 时，{wrong}"
    return f"通过：{len(cases)} 种情形都与标准写法一致（差小于 {TOLERANCE:g}）"


def check_split(candidate):
    """Exercise 1, candidate(Q, K, V, parts) -> O: the keys in `parts` segments, merged (split-KV)."""
    cases = [(f"{parts} 段", (*inputs(6, 16), parts)) for parts in (1, 2, 4, 8)]
    return judge(candidate, cases, lambda O, Q, K, V, parts: compare("O", O, standard_attention(Q, K, V)))


def check_kv_outer(candidate):
    """Exercise 2, candidate(Q, K, V, q_tile, k_tile) -> (O, visits): K/V in the outer loop, visits the pairs (i, j)."""

    def fault(result, Q, K, V, q_tile, k_tile):
        O, visits = result
        rows, columns = range(-(-len(Q) // q_tile)), range(-(-len(K) // k_tile))
        if [tuple(pair) for pair in visits] != [(i, j) for j in columns for i in rows]:
            return f"访问次序是 {list(visits)[:4]}…，应先固定 j，让 i 走完一遍"
        return compare("O", O, standard_attention(Q, K, V))

    cases = [(f"块为 {q}×{k}", (*inputs(9, 11), q, k)) for q, k in ((3, 4), (4, 3), (9, 11), (1, 1))]
    return judge(candidate, cases, fault)


def check_window(candidate):
    """Exercise 3, candidate(Q, K, V, window, q_tile, k_tile) -> O: query r sees keys r - window + 1 to r."""

    def fault(O, Q, K, V, window, q_tile, k_tile):
        distance = np.arange(len(Q))[:, None] - np.arange(len(K))
        S = np.where((distance >= 0) & (distance < window), scores(Q, K, 0, 0, None), -np.inf)
        return compare("O", O, softmax(S) @ V)

    cases = [(f"window={w}，块为 {q}×{k}", (*inputs(12, 12), w, q, k)) for w in (12, 5, 2, 1) for q, k in ((4, 4), (5, 3))]
    return judge(candidate, cases, fault)


def check_lse(candidate):
    """Exercise 4, candidate(Q, K, V, q_tile, k_tile) -> (O, lse): lse [S_q] gives any tile of P back from Q and K."""

    def fault(result, Q, K, V, q_tile, k_tile):
        O, lse = result
        S = scores(Q, K, 0, 0, None)
        if np.shape(lse) != (len(Q),):
            return f"lse 的形状是 {np.shape(lse)}，应为 {(len(Q),)}"
        return compare("exp(S − lse)", np.exp(S - lse[:, None]), softmax(S)) or compare("O", O, standard_attention(Q, K, V))

    cases = [(f"块为 {q}×{k}", (*inputs(7, 10), q, k)) for q, k in ((2, 4), (7, 10), (3, 3))]
    return judge(candidate, cases, fault)
