"""Kernels with one deliberate fault each: what a tool of compute-sanitizer must report before its "nothing found" counts."""

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@triton.jit
def past_the_end_kernel(x_ptr, n):
    """Write 128 places of x, which has n."""
    tl.store(x_ptr + tl.arange(0, 128), n)


@gluon.jit
def leave(shared, layout: gl.constexpr):
    shared.store(gl.arange(0, 128, layout).to(shared.dtype))


@gluon.jit
def take(x_ptr, shared, layout: gl.constexpr):
    gl.store(x_ptr + gl.arange(0, 128, layout), shared.load(layout))


@gluon.jit
def race_kernel(x_ptr):
    """Four warps write shared memory, four others read it, and nobody waits: no mbarrier is between them.

    64 bits an element become ordinary stores and loads, 32 bits stmatrix and ldmatrix.
    """
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    shared = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [128], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    gl.warp_specialize([(leave, (shared, layout)), (take, (x_ptr, shared, layout))], [4], [32])


@triton.jit
def half_a_warp_kernel(x_ptr):
    """Half of a warp's lanes go to a barrier that all of them have to reach together."""
    lane = tl.arange(0, 32)
    lane = tl.inline_asm_elementwise(
        "{ .reg .pred p; setp.lt.s32 p, $1, 16; @p bar.sync 1, 32; mov.b32 $0, $1; }",
        "=r,r", [lane], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    tl.store(x_ptr + lane, lane)


def run(tool, bits=64):
    """Launch the kernel that `tool` must report; bits: of an element of the race's."""
    x = torch.zeros(100, dtype=torch.int32, device="cuda")
    if tool == "memcheck":
        past_the_end_kernel[(1,)](x, x.numel())
    elif tool == "racecheck":
        dtype = {64: torch.int64, 32: torch.int32}[bits]
        race_kernel[(1,)](torch.zeros(128, dtype=dtype, device="cuda"), num_warps=4, maxnreg=64)
    else:
        half_a_warp_kernel[(1,)](x, num_warps=1)
    torch.cuda.synchronize()
