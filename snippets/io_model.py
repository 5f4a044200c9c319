"""HBM traffic and FLOPs of attention, counted from the algorithms: naive (three steps) and fused (tiles).

Counts are elements of one head, S queries and S keys of width d, no mask; times dtype_bytes gives bytes, times
batch * heads the whole. m and l are left out except in `statistics_bytes`. No cache is modelled: since L2 serves part
of the re-reading, the fused counts are upper bounds. Source: FlashAttention, arXiv 2205.14135, algorithms 0 to 4.
"""

from typing import NamedTuple

from snippets.checks import one_of, positive

FORMS = ("naive", "fused")


class Pass(NamedTuple):
    """One kernel: what it reads from HBM and writes to it, {operand: elements}."""

    name: str
    reads: dict
    writes: dict


# --8<-- [start:naive_forward]
def naive_forward(S, d):
    """The three passes of decomposed attention, together 4 S^2 + 4 S d elements. ValueError: sizes below 1."""
    positive(S=S, d=d)
    x, s = S * d, S * S
    return [
        Pass("S = QKᵀ", {"Q": x, "K": x}, {"S": s}),
        Pass("P = softmax(S)", {"S": s}, {"P": s}),
        Pass("O = PV", {"P": s, "V": x}, {"O": x}),
    ]
# --8<-- [end:naive_forward]


def naive_backward(S, d):
    """The five passes of its backward pass, P kept from the forward one: 7 S^2 + 8 S d elements."""
    positive(S=S, d=d)
    x, s = S * d, S * S
    return [
        Pass("dV = PᵀdO", {"P": s, "dO": x}, {"dV": x}),
        Pass("dP = dOVᵀ", {"dO": x, "V": x}, {"dP": s}),
        Pass("dS", {"P": s, "dP": s}, {"dS": s}),
        Pass("dQ = dSK", {"dS": s, "K": x}, {"dQ": x}),
        Pass("dK = dSᵀQ", {"dS": s, "Q": x}, {"dK": x}),
    ]


def fused_forward(S, d, tile, order="fa1"):
    """The one Pass of a fused kernel; `tile` is the tile size of the outer loop. ValueError: sizes, unknown order.

    fa1: tile = B_c; K and V read once, Q and O read and O written T_c = ceil(S / B_c) times: (2 + 3 T_c) S d.
    fa2: tile = B_r; Q read and O written once, K and V read T_r = ceil(S / B_r) times: (2 + 2 T_r) S d.
    """
    positive(S=S, d=d, tile=tile)
    one_of(("fa1", "fa2"), order=order)
    x, turns = S * d, -(-S // tile)
    if order == "fa1":
        return Pass("fused", {"K": x, "V": x, "Q": turns * x, "O": turns * x}, {"O": turns * x})
    return Pass("fused", {"Q": x, "K": turns * x, "V": turns * x}, {"O": x})


def fused_backward(S, d, B_c):
    """FA1's backward kernel, S and P recomputed: K, V, dK, dV once; Q, O, dO, dQ in and dQ out: (4 + 5 T_c) S d."""
    positive(S=S, d=d, B_c=B_c)
    x, turns = S * d, -(-S // B_c)
    reads = {"K": x, "V": x} | dict.fromkeys(("Q", "O", "dO", "dQ"), turns * x)
    return Pass("fused backward", reads, {"dQ": turns * x, "dK": x, "dV": x})


def elements(*passes):
    """All elements that the passes read and write."""
    return sum(sum(p.reads.values()) + sum(p.writes.values()) for p in passes)


def statistics_bytes(S, B_c, backward=False):
    """Bytes of m and l (fp32) in FA1's order: each read and written T_c times forward, read T_c times backward."""
    positive(S=S, B_c=B_c)
    return (2 if backward else 4) * 4 * S * -(-S // B_c)


def compulsory(S, d, backward=False):
    """Elements that any method moves: Q, K, V in, O out; backward Q, K, V, O, dO in, dQ, dK, dV out."""
    positive(S=S, d=d)
    return (8 if backward else 4) * S * d


def flops(S, d, form="fused", backward=False):
    """FLOPs of the matrix products: two forward (4 S^2 d); four backward, five when fused (S is recomputed)."""
    positive(S=S, d=d)
    one_of(FORMS, form=form)
    return 2 * S * S * d * ((4 if form == "naive" else 5) if backward else 2)
