"""Split-KV attention: the keys in segments that know nothing of each other, their states merged at the end.

This is how one query row (decode) can still keep a whole GPU busy. Source: Flash-Decoding, Dao, Haziza, Massa,
Sizov, 2023; FlashAttention-2, arXiv 2307.08691 (thread blocks over rows). One head unless said otherwise.
"""

from functools import reduce

import numpy as np

from snippets.attention import scores
from snippets.checks import positive
from snippets.online_softmax import EMPTY, finish, merge, update


def segments(S_kv, parts):
    """(start, stop) of `parts` consecutive segments of the keys, sizes differing by at most one.

    ValueError: sizes below 1, more parts than keys.
    """
    positive(S_kv=S_kv, parts=parts)
    if parts > S_kv:
        raise ValueError(f"parts={parts} 多于键的个数 S_kv={S_kv}；每段至少要有一个键，请减小 parts")
    ends = [S_kv * k // parts for k in range(parts + 1)]
    return list(zip(ends, ends[1:]))


# --8<-- [start:split]
def partial_states(Q, K, V, parts, *, causal=False):
    """One State per segment, each computed from its own keys alone: on a GPU, one thread block each.

    Q [S_q, d], K [S_kv, d], V [S_kv, d_v], NumPy arrays of one float dtype. causal: aligned bottom-right.
    ValueError: as in `segments`; K and V of different lengths.
    """
    if len(V) != len(K):
        raise ValueError(f"V 有 {len(V)} 行，K 有 {len(K)} 行；每个键配一个值，两者应相等")
    offset = len(K) - len(Q) if causal else None
    cuts = segments(len(K), parts)
    return [update(EMPTY, scores(Q, K[a:b], 0, a, offset), V[a:b]) for a, b in cuts]


def split_attention(Q, K, V, parts, *, causal=False):
    """softmax(Q K^T / sqrt(d)) V [S_q, d_v], as `standard_attention`, from the merged states of `parts` segments."""
    return finish(reduce(merge, partial_states(Q, K, V, parts, causal=causal)))
# --8<-- [end:split]


def lse(state):
    """log-sum-exp [rows] of a state, m + log l; -inf where no key was seen. With o / l it is what a segment hands over."""
    seen = np.asarray(state.l) > 0
    return np.where(seen, state.m, -np.inf) + np.log(np.where(seen, state.l, 1.0))


# --8<-- [start:pieces]
def pieces(heads, S_q, B_r, parts=1):
    """How many thread blocks can work at once: batch * heads, times row tiles of B_r queries, times key segments."""
    positive(heads=heads, S_q=S_q, B_r=B_r, parts=parts)
    return heads * -(-S_q // B_r) * parts


def busy_share(work, sms):
    """Largest share of `sms` multiprocessors that `work` equal pieces keep busy, one piece on each at a time."""
    positive(work=work, sms=sms)
    return work / (-(-work // sms) * sms)


def parts_to_fill(heads, S_q, B_r, sms, target=0.95):
    """Fewest key segments that bring `busy_share` to `target`; 1 where there is enough work already.

    More is not always better: one piece too many starts a second turn in which almost all stand idle.
    ValueError: sizes below 1, a target outside 0 to 1.
    """
    positive(sms=sms)
    if not 0 < target <= 1:
        raise ValueError(f"target={target!r} 不在 0 与 1 之间；请给一个份额，例如 0.95")
    alone = pieces(heads, S_q, B_r)
    return next(parts for parts in range(1, sms + 1) if busy_share(alone * parts, sms) >= target)  # sms parts give 1
# --8<-- [end:pieces]


def scratch_bytes(heads, S_q, d, parts):
    """HBM bytes that splitting adds: each segment writes o / l [S_q, d] and lse [S_q] in fp32, the merge reads both.

    Nothing is added by one part, which writes its output directly.
    """
    positive(heads=heads, S_q=S_q, d=d, parts=parts)
    return 0 if parts == 1 else 2 * heads * parts * S_q * (d + 1) * 4
