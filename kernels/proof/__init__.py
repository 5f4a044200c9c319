"""What the proofs of all kernels share: a case to run, a variant to compile, the accepted criterion, guarded outputs.

A kernel is proved on three levels: `cases("cpu")` in Triton's interpreter, `variants()` compiled without a GPU, and
`cases("cuda")` on one.
"""

import math
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest import mock

import torch

GUARD = 32768  # elements on each side of a guarded output: more than any block; keeps the alignment of 16 bytes


@dataclass(frozen=True)
class Case:
    """One call to prove; check(device) raises AssertionError naming the index and both values."""

    name: str
    check: Callable[[str], None]


@dataclass(frozen=True)
class Variant:
    """One compilation. signature: type of every argument ("*fp16", "i32", "constexpr"); constexprs: their values.

    options: num_warps and num_stages. divisible: arguments known to be multiples of 16, as the launcher finds out about
    pointers and strides: without it no 16-byte load or asynchronous copy comes out. An argument that is a tuple has a
    tuple of types. targets: compute capabilities it is launched on (90 is sm_90), all where empty.
    """

    name: str
    kernel: Callable
    signature: dict[str, str | tuple[str, ...]]
    constexprs: dict
    options: dict
    divisible: tuple[str, ...] = field(default=())
    targets: tuple[int, ...] = field(default=())

    def source(self):
        """What `triton.compile` takes; the kernel must have been defined without the interpreter."""
        from triton.compiler import ASTSource

        paths = []
        for at, (name, kind) in enumerate(self.signature.items()):
            if name in self.divisible:
                paths += [(at, place) for place in range(len(kind))] if isinstance(kind, tuple) else [(at,)]
        attrs = {path: [["tt.divisibility", 16]] for path in paths}
        return ASTSource(fn=self.kernel, signature=self.signature, constexprs=self.constexprs, attrs=attrs)


def signature(kernel, types, constexprs):
    """Types of all the kernel's arguments in order: `types`, "constexpr" where a value is given, else "i32"."""
    return {name: "constexpr" if name in constexprs else types.get(name, "i32") for name in kernel.arg_names}


def assert_close(out, ref, out_pt, what, factor=2, terms=1, exponent=0.0, alike=False):
    """FlashAttention's own criterion: max|out - ref| <= factor max|out_pt - ref| + 2 max|ref + 0.3 - 0.3 - ref|.

    factor: 2, for gradients 3. ref: fp64. out_pt: the same formula in out's dtype, by torch. The second term is what one
    addition rounds away in out's dtype, for cases where out_pt happens to be exact. To it come roundings of the largest
    value in the dtype that computes, fp32 (fp64 for fp64), nothing beside fp16's own: four, as many as a kernel makes
    after its sums, or the square root of `terms`, the numbers that are added one after the other, where torch's sums are
    trees, or a quarter of them where they are `alike`, the same number each time: every addition may round to the same
    side, by half an ulp of the sum so far; or twice `exponent`, the largest power of 2 whose exponent is rounded before it
    is raised: a kernel rounds scale, product and difference, each by half an ulp of that size.
    NaN and the infinities must stand where ref has them.
    """
    assert out.shape == ref.shape, f"{what}: shape {tuple(out.shape)}, expected {tuple(ref.shape)}"
    if not out.numel():
        return
    rounded = ref.to(out.dtype)
    eps = torch.finfo(torch.float64 if out.dtype == torch.float64 else torch.float32).eps
    out, ref, out_pt = out.double(), ref.double(), out_pt.double()
    same = (out == ref) | (out.isnan() & ref.isnan())
    finite = ref.isfinite()
    _fail(~same & ~finite, out, ref, what, "exactly")
    ulp = (rounded + 0.3 - 0.3).double() - rounded.double()
    rounding = max(4, terms / 4 if alike else math.sqrt(terms), 2 * exponent) * eps * _largest(ref, finite)
    bound = factor * _largest(out_pt - ref, finite) + 2 * _largest(ulp, finite) + rounding
    _fail(~same & ~((out - ref).abs() <= bound), out, ref, what, f"within {bound:.3g}")


def assert_near(out, ref, bound, what):
    """|out - ref| <= bound * (1 + |ref|) everywhere; the infinities must agree."""
    assert out.shape == ref.shape, f"{what}: shape {tuple(out.shape)}, expected {tuple(ref.shape)}"
    out, ref = out.double(), ref.double()
    near = (out == ref) | ref.isfinite() & ((out - ref).abs() <= bound * (1 + ref.abs()))
    _fail(~near, out, ref, what, f"within {bound:.3g} of 1 + its size")


def assert_equal(out, ref, what):
    """Bit for bit, NaN equal to NaN."""
    assert out.shape == ref.shape, f"{what}: shape {tuple(out.shape)}, expected {tuple(ref.shape)}"
    _fail(~((out == ref) | (out.isnan() & ref.isnan())), out, ref, what, "exactly")


def _largest(x, where):
    """max|x| over the places `where`; 0 where there is none. NaN counts as 0: a reference that fails grants nothing."""
    kept = x.abs()[where].nan_to_num(nan=0.0, posinf=0.0)
    return kept.max().item() if kept.numel() else 0.0


def _fail(wrong, out, ref, what, how):
    """AssertionError at the first place that is wrong."""
    if wrong.any():
        at = tuple(wrong.nonzero()[0].tolist())
        values = f"got {out[at].item()!r}, expected {ref[at].item()!r} {how}"
        raise AssertionError(f"{what}{list(at)}: {values}; {int(wrong.sum())} wrong")


@contextmanager
def guarded_outputs():
    """Within, torch.empty and torch.empty_like give NaN between guards; on leaving, the guards must be whole.

    So an element that no program writes shows as NaN, and a store past either end as an AssertionError.
    """
    buffers = []

    def strided(size, stride, dtype, device):
        extent = sum((n - 1) * s for n, s in zip(size, stride)) + 1 if all(size) else 0
        buffer = torch.full((extent + 2 * GUARD,), torch.nan, dtype=dtype, device=device)
        buffers.append((buffer, extent))
        return buffer.as_strided(size, stride, GUARD)

    def empty(size, dtype, device):
        return strided(size, [math.prod(size[axis + 1 :]) for axis in range(len(size))], dtype, device)

    def empty_like(x):
        return strided(x.shape, real(x).stride(), x.dtype, x.device)

    real = torch.empty_like
    with mock.patch("torch.empty", empty), mock.patch("torch.empty_like", empty_like):
        yield
    for buffer, extent in buffers:
        for side, guard in (("before", buffer[:GUARD]), ("after", buffer[GUARD + extent :])):
            assert guard.isnan().all(), f"{int((~guard.isnan()).sum())} elements written {side} the output"
