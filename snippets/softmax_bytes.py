"""HBM traffic of a row softmax over an [M, N] matrix: composed of five PyTorch kernels, or fused into one.

Counts are elements; times the element's bytes gives bytes. Assumed: every kernel reads its inputs from HBM and writes
its output to HBM once, no cache in between (eager mode; torch.compile may fuse the five). Counted from the algorithms.
"""

from snippets.checks import one_of, positive
from snippets.io_model import Pass, elements


# --8<-- [start:composed]
def composed(M, N):
    """The five passes of max, subtract, exp, sum, divide: together 8 M N + 4 M elements. ValueError: sizes below 1.

    m [M] and s [M] are one number per row; z, e and p are as large as x [M, N].
    """
    positive(M=M, N=N)
    x, row = M * N, M
    return [
        Pass("m = max(x)", {"x": x}, {"m": row}),
        Pass("z = x − m", {"x": x, "m": row}, {"z": x}),
        Pass("e = exp(z)", {"z": x}, {"e": x}),
        Pass("s = sum(e)", {"e": x}, {"s": row}),
        Pass("p = e / s", {"e": x, "s": row}, {"p": x}),
    ]
# --8<-- [end:composed]


# --8<-- [start:fused]
def fused(M, N, sweeps=1):
    """The one pass of a fused kernel: 2 M N elements; a row wider than a block is read twice, 3 M N.

    sweeps: 1 where a whole row stays on chip, 2 where the row is read once for m and l and again for the output.
    ValueError: sizes below 1, another number of sweeps.
    """
    positive(M=M, N=N)
    one_of((1, 2), sweeps=sweeps)
    return Pass("softmax(x)", {"x": sweeps * M * N}, {"p": M * N})
# --8<-- [end:fused]


def ratio(M, N, sweeps=1):
    """How many times the fused traffic the composed form moves: 4 + 2 / N, or with two sweeps 2/3 of it."""
    return elements(*composed(M, N)) / elements(fused(M, N, sweeps))
