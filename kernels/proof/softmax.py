"""Proof of kernels.softmax against softmax in fp64, by the accepted criterion; NaN exactly where torch has it."""

from functools import partial

import torch
import triton.language as tl

from kernels import softmax as module
from kernels.proof import Case, Variant, assert_close, assert_equal, guarded_outputs, signature

WIDE = module.MAX_BLOCK
WIDTHS = (1, 2, 127, 128, 781, 1024, WIDE, WIDE + 1, 2 * module.WIDE_BLOCK + 4097)


def cases(device, softmax=module.softmax):
    """All cases of `device`, "cpu" (interpreter) or "cuda"; softmax: the function to prove."""
    dtypes = [torch.float32, torch.float16] + [torch.bfloat16, torch.float64] * (device == "cuda")
    rows = 2 if device == "cpu" else 133
    table = [(f"{rows}x{width}-{str(d)[6:]}", (rows, width), -1, d, _same) for d in dtypes for width in WIDTHS]
    table += [
        ("fp64", (3, 50), -1, torch.float64, _same),
        ("vector", (77,), 0, torch.float32, _same),
        ("scalar", (), -1, torch.float32, _same),
        ("no-row", (0, 5), -1, torch.float32, _same),
        ("no-column", (5, 0), -1, torch.float32, _same),
        ("first-dim", (19, 7), 0, torch.float32, _same),
        ("middle-dim", (3, 19, 5), 1, torch.float32, _same),
        ("transposed", (19, 7), -1, torch.float32, lambda x: x.t()),
        ("window", (9, 40), -1, torch.float32, lambda x: _nan_around(x)[2:7, 3:33]),
        ("every-other", (9, 40), -1, torch.float32, lambda x: x[::2, ::2]),
        ("expanded", (1, 33), -1, torch.float32, lambda x: x.expand(4, 33)),
        ("large", (4, 300), -1, torch.float32, lambda x: x * 1e4),
        ("far-below-zero", (4, 300), -1, torch.float32, lambda x: x - 1e30),
        ("maximum-last", (2, WIDE + 9), -1, torch.float32, lambda x: _put(x, (slice(None), -1), 30.0)),
        ("maximum-first", (2, WIDE + 9), -1, torch.float32, lambda x: _put(x, (slice(None), 0), 30.0)),
    ]
    start, most = (slice(None), slice(0, 200)), (slice(None), slice(0, -1))
    for width in (300, WIDE + 9):
        table += [
            (f"masked-part-{width}", (2, width), -1, torch.float32, lambda x: _put(x, start, -torch.inf)),
            (f"masked-most-{width}", (2, width), -1, torch.float32, lambda x: _put(x, most, -torch.inf)),
            (f"masked-row-{width}", (2, width), -1, torch.float32, lambda x: _put(x, 1, -torch.inf)),
            (f"nan-{width}", (2, width), -1, torch.float32, lambda x: _put(x, (1, 5), torch.nan)),
            (f"inf-{width}", (2, width), -1, torch.float32, lambda x: _put(x, (1, 5), torch.inf)),
        ]
    if device == "cuda":
        table += [
            ("wide", (64, 131072), -1, torch.float32, _same),
            ("many-rows", (100_000, 33), -1, torch.float16, _same),
            ("past-32-bits", (2**17, 2**14 + 1), -1, torch.float16, _same),
        ]
    return [Case(name, partial(_check, softmax, *row)) for name, *row in table]


def _check(softmax, shape, dim, dtype, change, device):
    generator = torch.Generator(device).manual_seed(0)
    x = change((torch.randn(shape, generator=generator, device=device, dtype=torch.float32) * 3).to(dtype))
    with guarded_outputs():
        out = softmax(x, dim)
    assert out.dtype == dtype, f"out is {out.dtype}, expected {dtype}"
    if out.numel() > 2**30:  # an fp64 oracle of all of it would not fit: the first and the last rows
        x, out = x[[0, 1, -2, -1]], out[[0, 1, -2, -1]]
    assert_close(out, torch.softmax(x.double(), dim), _plain(x, dim), "out")
    if device == "cuda":
        assert_equal(softmax(x, dim), out, "out, run again")


def _plain(x, dim):
    """The formula step by step in x's dtype, as composed operators give it."""
    if not x.numel():
        return x
    e = torch.exp(x - x.amax(dim, keepdim=True))
    return e / e.sum(dim, keepdim=True)


def _same(x):
    return x


def _put(x, where, value):
    x[where] = value
    return x


def _nan_around(x):
    """NaN outside rows 2 to 7 and columns 3 to 33, so that a read past the view shows."""
    inside = torch.zeros_like(x, dtype=torch.bool)
    inside[2:7, 3:33] = True
    return x.masked_fill(~inside, torch.nan)


def variants(thorough=False):
    """One block of 1024 columns, the widest, the online kernel; with `thorough` also odd widths and other dtypes."""

    def variant(name, n_cols, dtype, divisible=("stride_x", "n_cols"), ones=()):
        kernel, block, warps = module.launch(n_cols)
        constexprs = {"BLOCK_SIZE": block, "COMPUTE": tl.float64 if dtype == "fp64" else tl.float32, **dict.fromkeys(ones, 1)}
        types = signature(kernel, {"x_ptr": f"*{dtype}", "out_ptr": f"*{dtype}"}, constexprs)
        return Variant(name, kernel, types, constexprs, {"num_warps": warps}, ("x_ptr", "out_ptr", *divisible))

    shown = [
        variant("fp32-1024", 1024, "fp32"),
        variant("fp32-widest", WIDE, "fp32"),
        variant("fp32-online", WIDE + 1, "fp32"),
    ]
    return shown + thorough * [
        variant("fp32-781", 781, "fp32", ()),
        variant("fp16-1024", 1024, "fp16"),
        variant("bf16-1024", 1024, "bf16"),
        variant("bf16-online", WIDE + 1, "bf16"),
        variant("fp64-1024", 1024, "fp64"),
        variant("fp64-widest", WIDE, "fp64"),
        variant("fp64-online", WIDE + 1, "fp64"),
        variant("fp32-1", 1, "fp32", (), ("stride_x", "n_cols")),  # the launcher makes a 1 a constant
    ]
