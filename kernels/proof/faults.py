"""Kernels with one deliberate fault each: what a tool of compute-sanitizer must report before its "nothing found" counts."""

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma, warpgroup_mma, warpgroup_mma_wait
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

SIDE = gl.constexpr(64)  # of a tile


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


@gluon.jit
def fill_twice(desc, buffer, full):
    for i in gl.static_range(2):
        mbarrier.expect(full.index(i), desc.block_type.nbytes)
        tma.async_copy_global_to_shared(desc, [i * SIDE, 0], full.index(i), buffer)  # nobody has said that it is empty
        mbarrier.wait(full.index(i), 0)


@gluon.jit
def read_once(x_ptr, buffer, full, WGMMA: gl.constexpr):
    mbarrier.wait(full.index(0), 0)
    if WGMMA:
        layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, SIDE, 16])
        x = warpgroup_mma(buffer, buffer.permute((1, 0)), gl.zeros([SIDE, SIDE], gl.float32, layout), is_async=True)
        x = warpgroup_mma_wait(0, deps=[x])
    else:
        blocked: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
        x = buffer.load(blocked).to(gl.float32)
    rows, columns = gl.arange(0, SIDE, gl.SliceLayout(1, x.type.layout)), gl.arange(0, SIDE, gl.SliceLayout(0, x.type.layout))
    gl.store(x_ptr + gl.expand_dims(rows, 1) * SIDE + gl.expand_dims(columns, 0), x)


@gluon.jit
def overwrite_kernel(desc, x_ptr, WGMMA: gl.constexpr):
    """TMA brings a second tile while the first may still be read, by ordinary loads or by wgmma: nobody waits for empty."""
    buffer = gl.allocate_shared_memory(desc.dtype, desc.block_shape, desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(full.index(i), count=1)
    gl.warp_specialize([(read_once, (x_ptr, buffer, full, WGMMA)), (fill_twice, (desc, buffer, full))], [1], [32])


@triton.jit
def half_a_warp_kernel(x_ptr):
    """Half of a warp's lanes go to a barrier that all of them have to reach together."""
    lane = tl.arange(0, 32)
    lane = tl.inline_asm_elementwise(
        "{ .reg .pred p; setp.lt.s32 p, $1, 16; @p bar.sync 1, 32; mov.b32 $0, $1; }",
        "=r,r", [lane], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    tl.store(x_ptr + lane, lane)


def run(fault):
    """Launch a kernel with this fault, a key of FAULTS."""
    FAULTS[fault]()
    torch.cuda.synchronize()


def _numbers(n, dtype=torch.int32):
    return torch.zeros(n, dtype=dtype, device="cuda")


def _past_the_end():
    past_the_end_kernel[(1,)](_numbers(100), 100)


def _race(dtype):
    race_kernel[(1,)](_numbers(128, dtype), num_warps=4, maxnreg=64)


def _overwrite(wgmma):
    tiles, side = _numbers(2 * SIDE.value**2, torch.float16).view(-1, SIDE.value), SIDE.value
    layout = gl.NVMMASharedLayout.get_default_for([side, side], gl.float16)
    desc = TensorDescriptor(tiles, list(tiles.shape), [side, 1], [side, side], layout)
    overwrite_kernel[(1,)](desc, _numbers(side * side, torch.float32), WGMMA=wgmma, num_warps=4, maxnreg=128)


def _half_a_warp():
    half_a_warp_kernel[(1,)](_numbers(32), num_warps=1)


FAULTS = {
    "memcheck": _past_the_end,  # by the tool that must report it
    "racecheck": lambda: _race(torch.int64),
    "synccheck": _half_a_warp,
    "racecheck_matrix": lambda: _race(torch.int32),  # and what racecheck may not see
    "racecheck_tma": lambda: _overwrite(False),
    "racecheck_wgmma": lambda: _overwrite(True),
}
