"""Proof of kernels.vector_add: one IEEE addition per element, so the result must equal torch's bit for bit."""

from functools import partial

import torch

from kernels import vector_add
from kernels.proof import Case, Variant, assert_equal, guarded_outputs, signature

SIZES = (0, 1, 1023, 1024, 1025, 2688)  # no block, a partial one, full ones, and 2 5/8
LARGE = (10_000_000, 2**31 + 1025)  # the second: offsets past 32 bits, 3 x 4 GB in fp16


def cases(device, add=vector_add.add):
    """All cases of `device`, "cpu" (interpreter) or "cuda"; add: the function to prove."""
    dtypes = [torch.float32, torch.float16, torch.float64] + [torch.bfloat16] * (device == "cuda")
    table = [(f"{size}-{str(dtype)[6:]}", (size,), dtype, None) for dtype in dtypes for size in SIZES]
    table += [
        ("matrix", (37, 65), torch.float32, None),
        ("scalar", (), torch.float32, None),
        ("transposed", (65, 37), torch.float32, lambda x: x.t()),
        ("every-third", (3000,), torch.float32, lambda x: x[::3]),
        ("expanded", (1, 700), torch.float32, lambda x: x.expand(3, 700)),
    ]
    if device == "cuda":
        table += [(f"{size}-large", (size,), torch.float16, None) for size in LARGE]
    return [Case(name, partial(_check, add, shape, dtype, view)) for name, shape, dtype, view in table]


def _check(add, shape, dtype, view, device):
    generator = torch.Generator(device).manual_seed(0)
    x, y = (torch.randn(shape, generator=generator, dtype=dtype, device=device) for _ in range(2))
    if view:
        x, y = view(x), view(y)
    with guarded_outputs():
        out = add(x, y)
    assert_equal(out, x + y, "out")


def variants(thorough=False):
    """fp32 and fp16; with `thorough` also a count not known to be a multiple of 16, other dtypes, 64-bit counts."""
    kernel = vector_add.add_kernel
    constexprs = {"BLOCK_SIZE": vector_add.BLOCK_SIZE}
    pointers = ("x_ptr", "y_ptr", "out_ptr")

    def variant(name, dtype, count="i32", divisible=("n_elements",)):
        types = signature(kernel, {**dict.fromkeys(pointers, f"*{dtype}"), "n_elements": count}, constexprs)
        return Variant(name, kernel, types, constexprs, {"num_warps": 4}, pointers + divisible)

    shown = [variant("fp32", "fp32"), variant("fp16", "fp16")]
    return shown + thorough * [
        variant("fp32-odd", "fp32", divisible=()),
        variant("bf16", "bf16"),
        variant("fp64", "fp64"),
        variant("fp16-past-32-bits", "fp16", "i64"),
    ]
