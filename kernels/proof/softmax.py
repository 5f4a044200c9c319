"""Proof of kernels.softmax and its gradient against fp64, by the accepted criterion; NaN exactly where torch has it."""

from functools import partial

import torch
import triton.language as tl

from kernels import softmax as module
from kernels.proof import Case, Variant, assert_close, assert_equal, guarded_outputs, signature

WIDE = module.MAX_BLOCK
WIDTHS = (1, 2, 127, 128, 781, 1024, WIDE // 2, WIDE // 2 + 1, WIDE + 1, WIDE + 2 * module.WIDE_BLOCK + 4097)


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
        ("narrow", (70, 33), -1, torch.float32, _same),
        ("first-dim", (19, 7), 0, torch.float32, _same),
        ("first-dim-2100", (2100, 35), 0, torch.float16, _same),
        ("middle-dim", (3, 19, 5), 1, torch.float32, _same),
        ("middle-dim-40", (2, 40, 3, 37), 1, torch.float16, _same),
        ("first-dim-wide", (WIDE + 9, 3), 0, torch.float32, _same),
        ("transposed", (19, 7), -1, torch.float32, lambda x: x.t()),
        ("channels-last", (2, 9, 4, 5), 3, torch.float32, lambda x: x.permute(0, 2, 3, 1)),
        ("window", (9, 40), -1, torch.float32, lambda x: _nan_around(x)[2:7, 3:33]),
        ("every-other", (9, 40), -1, torch.float32, lambda x: x[::2, ::2]),
        ("three-strides", (4, 6, 5, 8), 1, torch.float32, lambda x: x[::2, :, ::2, ::2]),
        ("expanded", (1, 33), -1, torch.float32, lambda x: x.expand(4, 33)),
        ("large", (4, 300), -1, torch.float32, lambda x: x * 1e4),
        ("far-below-zero", (4, 300), -1, torch.float32, lambda x: x - 1e30),
        ("below-zero-wide", (2, WIDE + 9), -1, torch.float32, lambda x: x - 500),
        ("maximum-last", (2, WIDE + 9), -1, torch.float32, lambda x: _put(x, (slice(None), -1), 30.0)),
        ("maximum-first", (2, WIDE + 9), -1, torch.float32, lambda x: _put(x, (slice(None), 0), 30.0)),
    ]
    table += [
        (f"{name}-{str(d)[6:]}", shape, -1, d, change)
        for d in dtypes
        if d.itemsize == 2
        for name, shape, change in _halves(rows)
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
            ("wide-bf16", (700, 131072), -1, torch.bfloat16, _same),  # more programs than the GPU holds at once
            ("wider", (5, 2**20 + 3), -1, torch.float32, _same),
            ("many-rows", (100_000, 33), -1, torch.float16, _same),
            ("first-dim-4096", (4096, 4096), 0, torch.bfloat16, _same),
            ("past-32-bits", (2**17, 2**14 + 1), -1, torch.float16, _same),
        ]
    return [Case(name, partial(_check, softmax, *row)) for name, *row in table]


def _halves(rows):
    """(name, shape, change) of 16-bit rows that no tile holds: on a GPU they are split, in two or more parts."""
    table = [(f"halves-{width}", (rows, width), _same) for width in (WIDE // 2 + 1, 20000, WIDE)]
    width, tail = 20002, (1, slice(8192, None))
    return table + [
        ("halves-window", (9, 20004), lambda x: _nan_around(x, 20000)[2:7, 4:20000]),
        ("halves-three-axes", (3, 4, width), lambda x: x[:, 1:3, 2:]),
        ("halves-maximum-first", (2, width), lambda x: _put(x, (slice(None), 0), 30.0)),
        ("halves-maximum-last", (2, width), lambda x: _put(x, (slice(None), -1), 30.0)),
        ("halves-far-below-zero", (2, width), lambda x: x - 1e4),
        ("halves-masked-part", (2, width), lambda x: _put(x, tail, -torch.inf)),
        ("halves-masked-most", (2, width), lambda x: _put(x, (slice(None), slice(0, -1)), -torch.inf)),
        ("halves-masked-row", (2, width), lambda x: _put(x, 1, -torch.inf)),
        ("halves-nan", (2, width), lambda x: _put(x, (1, 5), torch.nan)),
        ("halves-inf", (2, width), lambda x: _put(x, (1, 5), torch.inf)),
        ("halves-odd-offset", (3, width), lambda x: x[:, 1 : width - 1]),
        ("halves-every-other", (3, 2 * width), lambda x: x[:, ::2]),
    ]


def _check(softmax, shape, dim, dtype, change, device):
    generator = torch.Generator(device).manual_seed(0)
    x = change((torch.randn(shape, generator=generator, device=device, dtype=torch.float32) * 3).to(dtype))
    with guarded_outputs():
        out = softmax(x, dim)
    assert out.dtype == dtype, f"out is {out.dtype}, expected {dtype}"
    if out.numel() > 2**30:  # an fp64 oracle of all of it would not fit: the first and the last rows
        x, out = x[[0, 1, -2, -1]], out[[0, 1, -2, -1]]
    ref, plain = torch.softmax(x.double(), dim), _plain(x, dim)
    assert_close(out, ref, plain, "out")
    if device == "cuda":
        assert_equal(softmax(x, dim), out, "out, run again")
    for name, axes in {"dx": None, "dx of a broadcast": dim}.items():  # what comes in has other strides than x
        dy = _upstream(x, axes, generator)
        dx = _gradient(softmax, x, dim, dy)
        assert dx.dtype == dtype, f"{name} is {dx.dtype}, expected {dtype}"
        assert_close(dx, _formula(ref, dy.double(), dim), _formula(plain, dy, dim), name, factor=3)
        if device == "cuda":
            assert_equal(_gradient(softmax, x, dim, dy), dx, f"{name}, run again")


def _upstream(x, dim, generator):
    """Contiguous, with every second element left out, of x's shape; with `dim`, the same along all other axes."""
    shape = [size if dim is None or axis == dim % x.dim() else 1 for axis, size in enumerate(x.shape)]
    return torch.randn((*shape, 2), generator=generator, device=x.device).to(x.dtype)[..., 0].expand(x.shape)


def _gradient(softmax, x, dim, dy):
    x = x.detach().requires_grad_()
    with guarded_outputs():
        return torch.autograd.grad(softmax(x, dim), x, dy)[0]


def _formula(y, dy, dim):
    return y * (dy - (y * dy).sum(dim, keepdim=True)) if y.dim() else y * (dy - y * dy)


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


def _nan_around(x, end=33):
    """NaN outside rows 2 to 7 and columns 3 to `end`, so that a read past the view shows."""
    inside = torch.zeros_like(x, dtype=torch.bool)
    inside[2:7, 3:end] = True
    return x.masked_fill(~inside, torch.nan)


def variants(thorough=False):
    """A tile of 1024 columns, the widest, one of each other kernel; `thorough`: odd widths, strides, types."""

    def variant(name, n_cols, dtype, divisible=True, adjacent=True, backward=False):
        how = module.launch(n_cols, {"fp64": 8, "fp32": 4}.get(dtype, 2), adjacent, backward)
        tensors = ("y", "dy", "dx") if backward else ("x", "out")
        constexprs = {"BLOCK_SIZE": how.BLOCK_SIZE}
        if how.parts:
            constexprs |= {"PARTS": how.parts, "MAX_PARTS": module.MAX_PARTS}
        else:
            constexprs |= {"ROWS": how.ROWS, "COMPUTE": tl.float64 if dtype == "fp64" else tl.float32}
        types = {"words_ptr": "*i64"}
        # the launcher makes a stride of 1 a constant
        strides = ("i32", "i32", "constexpr") if adjacent else ("i32", "constexpr", "i32")
        for tensor in tensors:
            types |= {f"{tensor}_ptr": f"*{dtype}", f"{tensor}_strides": strides}
            constexprs[(how.kernel.arg_names.index(f"{tensor}_strides"), strides.index("constexpr"))] = 1
        multiples = [f"{tensor}_ptr" for tensor in tensors]
        if divisible:
            multiples += [f"{tensor}_strides" for tensor in tensors] + ["n_cols", "n_inner"]
        types = signature(how.kernel, types, constexprs)
        return Variant(name, how.kernel, types, constexprs, how.options, tuple(multiples))

    wider = module.MAX_PARTS * 16384 + 1
    shown = [
        variant("fp32-1024", 1024, "fp32"),
        variant("fp32-widest", WIDE, "fp32"),
        variant("fp32-online", wider, "fp32"),
        variant("fp32-split", 131072, "fp32"),
        variant("fp32-backward", 4096, "fp32", backward=True),
        variant("fp32-backward-wide", wider, "fp32", backward=True),
        variant("fp32-backward-split", 131072, "fp32", backward=True),
    ]
    return shown + thorough * [
        variant("fp32-781", 781, "fp32", False),
        variant("fp32-1", 1, "fp32", False),
        variant("fp32-strided", 4096, "fp32", adjacent=False),
        variant("fp32-strided-online", 8192, "fp32", adjacent=False),
        variant("bf16-1024", 1024, "bf16"),
        variant("bf16-widest", WIDE // 2, "bf16"),
        variant("fp16-split-odd", WIDE // 2 + 1, "fp16", False),
        variant("bf16-online", wider, "bf16"),
        variant("bf16-split", 131072, "bf16"),
        variant("bf16-strided", 1024, "bf16", adjacent=False),
        variant("fp64-1024", 1024, "fp64"),
        variant("fp64-widest", WIDE // 2, "fp64"),
        variant("fp64-online", WIDE, "fp64"),
        variant("fp32-backward-widest", WIDE // 2, "fp32", backward=True),
        variant("fp32-backward-strided", 2048, "fp32", adjacent=False, backward=True),
        variant("bf16-backward-widest", WIDE, "bf16", backward=True),  # spills 40 bytes
        variant("bf16-backward-split", 131072, "bf16", backward=True),
        variant("bf16-backward-wide", wider, "bf16", backward=True),
        variant("fp64-backward-widest", WIDE // 4, "fp64", backward=True),
        variant("fp64-backward-wide", WIDE, "fp64", backward=True),
    ]
