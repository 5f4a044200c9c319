"""Peak HBM memory of attention's forward pass: with S and P (naive), or with m and l alone (fused).

Bytes; no mask, no padding, no allocator overhead. Source: FlashAttention, arXiv 2205.14135, theorem 1.
"""

import bisect

from snippets.checks import one_of, positive
from snippets.io_model import FORMS


def extra_bytes(S, form, dtype_bytes=2):
    """Peak forward memory of one head beyond Q, K, V, O: S and P alive at once (naive), m and l in fp32 (fused)."""
    positive(S=S, dtype_bytes=dtype_bytes)
    one_of(FORMS, form=form)
    return 2 * S * S * dtype_bytes if form == "naive" else 2 * S * 4


def memory_bytes(S, d, form, dtype_bytes=2, heads=1):
    """Peak forward memory of batch * heads heads, Q, K, V and O included."""
    positive(d=d, heads=heads)
    return heads * (extra_bytes(S, form, dtype_bytes) + 4 * S * d * dtype_bytes)


def largest_S(limit_bytes, d, form, dtype_bytes=2, heads=1):
    """Largest S whose `memory_bytes` is at most limit_bytes; 0 when not even S = 1 fits."""
    positive(limit_bytes=limit_bytes)
    lengths = range(1, limit_bytes + 1)  # memory exceeds S bytes, so the answer lies inside
    return bisect.bisect_right(lengths, limit_bytes, key=lambda S: memory_bytes(S, d, form, dtype_bytes, heads))
