"""The roofline: how fast a kernel can run at most, given its arithmetic intensity and a GPU's two peaks.

attainable = min(peak, bandwidth * intensity) (Williams, Waterman, Patterson 2009, doi 10.1145/1498765.1498785). Work is
the FLOPs of attention's two matrix products, bytes are `snippets.io_model`'s: no cache, m and l left out. So the fused
intensity from the count is a lower bound, and the one with every operand moved once an upper bound.
"""

from typing import NamedTuple

from snippets.checks import one_of, positive
from snippets.io_model import FORMS, compulsory, elements, flops, fused_forward, naive_forward

LENGTHS = tuple(2**k for k in range(7, 18))  # 128 .. 131,072


# --8<-- [start:roofline]
class Gpu(NamedTuple):
    """Data-sheet peaks: dense fp16 matrix FLOP/s, HBM bytes/s."""

    peak: float
    bandwidth: float


GPUS = {  # data sheets; H100 and H200: half of the sparse 1,979 TFLOP/s
    "A100 40 GB SXM": Gpu(312e12, 1.555e12),
    "A100 80 GB SXM": Gpu(312e12, 2.039e12),
    "H100 SXM": Gpu(989e12, 3.35e12),
    "H200 SXM": Gpu(989e12, 4.8e12),
}


def ridge_point(gpu):
    """FLOP/byte where slope and flat roof meet: below it bandwidth is the limit."""
    return gpu.peak / gpu.bandwidth


def attainable(intensity, gpu):
    """Upper bound in FLOP/s at that intensity (FLOP/byte). ValueError: not above 0."""
    if not intensity > 0:
        raise ValueError(f"intensity={intensity!r} 不是正数；请给大于 0 的 FLOP/字节")
    return min(gpu.peak, gpu.bandwidth * intensity)
# --8<-- [end:roofline]


# --8<-- [start:placing]
def prefill(S, d, dtype_bytes=2, B_r=128):
    """FLOP/byte of S queries on S keys, {form: value}. ValueError: sizes below 1.

    fused: FA2's loop order, K and V read again by each of T_r = ceil(S / B_r) row
    tiles. least: Q, K, V, O once each; nothing that starts in HBM moves less.
    In fp16 they are below d/2; S / (1 + T_r) < B_r; S/2.
    """
    positive(dtype_bytes=dtype_bytes)
    moved = {
        "naive": elements(*naive_forward(S, d)),
        "fused": elements(fused_forward(S, d, B_r, "fa2")),
        "least": compulsory(S, d),
    }
    return {form: flops(S, d) / (n * dtype_bytes) for form, n in moved.items()}


def decode(S, d, form, dtype_bytes=2):
    """FLOP/byte of one query on S cached keys, each head with its own K and V.

    4 S d FLOPs; K, V, q in and o out are (2 S + 2) d elements, and naive writes and
    reads a row of S and of P, 4 S more. ValueError: sizes below 1, unknown form.
    """
    positive(S=S, d=d, dtype_bytes=dtype_bytes)
    one_of(FORMS, form=form)
    moved = (2 * S + 2) * d + (4 * S if form == "naive" else 0)
    return 4 * S * d / (moved * dtype_bytes)
# --8<-- [end:placing]


def frame(S=4096, d=128, dtype_bytes=2, B_r=128, gpu="H200 SXM"):
    """Data of the demo `roofline`, JSON-plain: GPUs, the five points at S with what each may reach, the curve over S.

    Intensities in FLOP/byte, rates in FLOP/s; `gpu` is the one that the points are drawn on. ValueError: sizes, gpu.
    """
    one_of(tuple(GPUS), gpu=gpu)
    here = _point(S, d, dtype_bytes, B_r)
    names = [name for name in here if name != "S"]
    return here | {
        "d": d, "dtype_bytes": dtype_bytes, "B_r": B_r, "gpu": gpu,
        "gpus": [{"name": name, "peak": one.peak, "bandwidth": one.bandwidth, "ridge": ridge_point(one),
                  "attainable": {at: attainable(here[at], one) for at in names}} for name, one in GPUS.items()],
        "curve": [_point(n, d, dtype_bytes, B_r) for n in LENGTHS],
    }


def _point(S, d, dtype_bytes, B_r):
    """All intensities at one length."""
    return {"S": S} | prefill(S, d, dtype_bytes, B_r) | {
        f"decode_{form}": decode(S, d, form, dtype_bytes) for form in FORMS
    }
