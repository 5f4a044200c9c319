"""Row softmax and its gradient, each in one kernel: one read and one write where a row fits one program.

Algorithm: the row's maximum, exponentials, sum and division without leaving the chip (safe softmax); backward
dx = y (dy - sum y dy). Three kernels for each, by width (`launch`): a tile of whole rows in registers; the online form
(Milakov & Gimelshein 2018, arXiv 1805.02867, algorithm 3), whose second sweep meets the row in a cache; rows split
among programs that exchange their m and l through memory, so that each part is read once.
Accepts: any shape, dim and strides; fp16, bf16, fp32 (computed in fp32), fp64; an all -inf row gives NaN, as in torch.
Gradients, deterministic; `torch.library` operators, so that torch.compile and opcheck see through them.
A tensor is copied only where its rows need more than two strides (three or more axes that do not merge).

Versions tried (one H200, torch 2.11, Triton 3.6; GB/s of one read and one write, fp32 then bf16; copy 4231 to 4268).
First what was chosen; all are figures of trial kernels, the chosen ones' within 1 % of docs/evidence or below.
  16384x8192    16 warps 4106, 4040; 8 warps 4080, 4002; loads evict-first and stores .cs -, 3823; persistent with
                asynchronous copies in 4 stages 3874, 3788; torch 1953, 1072; torch.compile 3644, -
  4096x12672    one tile 3947 (32 warps), 3766 (8 warps held to 80 registers; without 3320); online 3348, 3212;
                split 3685, 2774; torch 2835, 1873
  4096x32768    fp32 one tile 4066, bf16 split in two 3888; online 3728, 3713; bf16 one tile 3255; three sweeps 2290, 3503;
                torch 2646, 2200; torch.compile 2896, -
                bf16 in one program, as words of two numbers that are unpacked anew for maximum, sum and result 3866;
                asynchronous copies, bf16: persistent in 3 stages 3601; online at most 3427
  2048x131072   split in parts of 16384 4087, 3840 (bf16 on 80 registers); of 8192 3962, 3805; of 32768 -, 2441;
                with the number of parts as a variable, bf16: 3759; then on 72 registers 3486, on 96 2959; as words of two
                numbers 3391; programs that stay, and load the next row's words while they wait for this one's parts 3656;
                the exchange: an atomic for both numbers 3759, a store 2839, counters and two stores 3332; with tickets in
                place of program numbers 3690, 2945, 3405
                online 2831 for bf16, with asynchronous copies 2999; each part read twice 3546, 3289; torch 2067, 1913
  dim 0         4096x4096 8 and 16 neighbouring rows 2149, 1275; torch 28, 16
  exp2 for exp  no scaling of denormals, 3490 -> 3766 at 4096x12672 bf16
  backward      16384x8192 4303, 4235 (three tensors moved; torch 2153, 2109); 4096x32768 4186, 3956 (1823, 1877);
                2048x131072 4208, 3661 (1815, 1798)
16-bit rows past 32768 columns are the hardest: Triton holds them as fp32 while it computes, so half as many bytes are in
flight, and rows held as words take two exponentials an element. For a dim that is not adjacent 0.5 of copy is what 4096
columns reach: a tile of 32 bytes of neighbouring rows fills the registers.
Not covered: second derivatives; more than 2^30 columns.
"""

import functools
import operator
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from kernels import checks

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
MAX_BLOCK = 32768  # fp32 columns of a row that one program holds: 32 registers a thread on 32 warps
WIDE_BLOCK = 8192  # columns of one step in the online kernels
MAX_COLUMNS = 2**30  # column numbers are 32-bit in the kernels
MAX_PARTS = 32  # programs that share a row: all fit a GPU at once; one word a lane, so a warp leaves the wait as one
LOG2E = tl.constexpr(1.4426950408889634)  # e^x = 2^(x log2 e), and 2^x is one instruction


@triton.jit
def places(tile, n_inner, ROWS: tl.constexpr):
    """Row numbers [ROWS, 1] of a tile along the outer and the inner axis of rows; 64 bits: offsets may pass 2^31."""
    tiles = tl.cdiv(n_inner, ROWS)
    outer = (tile // tiles).to(tl.int64)
    inner = (tile % tiles).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    return outer, inner


@triton.jit
def at(ptr, strides, outer, inner, start, cols):
    """Addresses of columns start + cols; strides: of the outer and the inner axis of rows, and of the columns."""
    col = tl.cast(strides[2], tl.int64)
    return ptr + (outer * strides[0] + inner * strides[1] + start * col) + cols * col


# --8<-- [start:kernel]
@triton.jit
def softmax_kernel(
    x_ptr, out_ptr, x_strides, out_strides, n_inner, n_cols,
    ROWS: tl.constexpr, BLOCK_SIZE: tl.constexpr, COMPUTE: tl.constexpr,
):
    outer, inner = places(tl.program_id(axis=0), n_inner, ROWS)  # ROWS neighbouring rows
    cols = tl.arange(0, BLOCK_SIZE)[None, :]
    mask = (inner < n_inner) & (cols < n_cols)  # [ROWS, BLOCK_SIZE]
    x = tl.load(at(x_ptr, x_strides, outer, inner, 0, cols), mask=mask, other=float("-inf")).to(COMPUTE)
    e = tl.exp2((x - tl.max(x, axis=1)[:, None]) * LOG2E)  # 0 in the masked columns; NaN if all of a row is -inf
    y = e * (1.0 / tl.sum(e, axis=1))[:, None]
    tl.store(at(out_ptr, out_strides, outer, inner, 0, cols), y, mask=mask)
# --8<-- [end:kernel]


# --8<-- [start:online]
@triton.jit
def online_softmax_kernel(
    x_ptr, out_ptr, x_strides, out_strides, n_inner, n_cols,
    ROWS: tl.constexpr, BLOCK_SIZE: tl.constexpr, COMPUTE: tl.constexpr,
):
    outer, inner = places(tl.program_id(axis=0), n_inner, ROWS)
    cols = tl.arange(0, BLOCK_SIZE)[None, :]
    m_i = tl.full([ROWS], float("-inf"), COMPUTE)  # maximum so far
    l_i = tl.full([ROWS], 0.0, COMPUTE)  # sum of e^(x - m_i) so far
    for start in range(0, n_cols, BLOCK_SIZE):  # first sweep: m and l, nothing written
        mask = (inner < n_inner) & (cols < n_cols - start)
        x_ptrs = at(x_ptr, x_strides, outer, inner, start, cols)
        x = tl.load(x_ptrs, mask=mask, other=float("-inf"), eviction_policy="evict_last").to(COMPUTE)
        m_new = tl.maximum(m_i, tl.max(x, axis=1))
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)  # only -inf so far: -inf - -inf would be NaN
        l_i = l_i * tl.exp2((m_i - m_safe) * LOG2E) + tl.sum(tl.exp2((x - m_safe[:, None]) * LOG2E), axis=1)
        m_i = m_new
    scale = (1.0 / l_i)[:, None]
    last = (n_cols - 1) // BLOCK_SIZE * BLOCK_SIZE
    for done in range(0, n_cols, BLOCK_SIZE):  # second sweep, backwards: what was read last is still in a cache
        start = last - done
        mask = (inner < n_inner) & (cols < n_cols - start)
        x_ptrs = at(x_ptr, x_strides, outer, inner, start, cols)
        x = tl.load(x_ptrs, mask=mask, other=float("-inf"), eviction_policy="evict_first").to(COMPUTE)
        y = tl.exp2((x - m_i[:, None]) * LOG2E) * scale  # all -inf: NaN here, as in torch
        tl.store(at(out_ptr, out_strides, outer, inner, start, cols), y, mask=mask, cache_modifier=".cs")
# --8<-- [end:online]


# --8<-- [start:split]
@triton.jit
def share(words_ptr, part, high, low):
    """Leave two fp32 numbers, not both 0, to the programs of the other parts: one word, so it is there whole or not yet."""
    high, low = high.to(tl.int32, bitcast=True).to(tl.int64), low.to(tl.int32, bitcast=True).to(tl.int64)
    tl.atomic_xchg(words_ptr + part, (high << 32) | (low & 0xFFFFFFFF), sem="relaxed")  # with a store, a quarter slower


@triton.jit
def shared(words_ptr, PARTS: tl.constexpr, MAX_PARTS: tl.constexpr):
    """The numbers of all parts, [MAX_PARTS] each, once they are there; zeros past PARTS.

    Waiting is safe: programs start in the order of their numbers, as CUB's scans rely on too, so those awaited run
    already or will before any that come later.
    """
    each = tl.arange(0, MAX_PARTS)
    words = tl.load(words_ptr + each, mask=each < PARTS, other=1, volatile=True)
    while tl.min((words != 0).to(tl.int32), axis=0) == 0:
        words = tl.load(words_ptr + each, mask=each < PARTS, other=1, volatile=True)
    words = tl.where(each < PARTS, words, 0)
    return (words >> 32).to(tl.int32).to(tl.float32, bitcast=True), words.to(tl.int32).to(tl.float32, bitcast=True)


@triton.jit
def split_softmax_kernel(
    x_ptr, out_ptr, x_strides, out_strides, words_ptr, n_inner, n_cols,
    BLOCK_SIZE: tl.constexpr, PARTS: tl.constexpr, MAX_PARTS: tl.constexpr,
):
    row, part = tl.program_id(axis=0) // PARTS, tl.program_id(axis=0) % PARTS
    outer, inner = (row // n_inner).to(tl.int64), (row % n_inner).to(tl.int64)
    start, cols = part * BLOCK_SIZE, tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols - start
    x = tl.load(at(x_ptr, x_strides, outer, inner, start, cols), mask=mask, other=float("-inf")).to(tl.float32)
    m_i = tl.max(x, axis=0)
    e = tl.exp2((x - tl.where(m_i == float("-inf"), 0.0, m_i)) * LOG2E)  # stays in registers
    words_ptr += row.to(tl.int64) * PARTS
    share(words_ptr, part, m_i, tl.sum(e, axis=0))
    m_each, l_each = shared(words_ptr, PARTS, MAX_PARTS)  # merged in one order: the same bits in every run
    m_each = tl.where(tl.arange(0, MAX_PARTS) < PARTS, m_each, float("-inf"))
    m = tl.max(m_each, axis=0)
    l = tl.sum(l_each * tl.exp2((m_each - m) * LOG2E), axis=0)
    y = e * (tl.exp2((m_i - m) * LOG2E) / l)  # all -inf: NaN, as in torch
    tl.store(at(out_ptr, out_strides, outer, inner, start, cols), y, mask=mask)
# --8<-- [end:split]


# --8<-- [start:backward]
@triton.jit
def softmax_backward_kernel(
    y_ptr, dy_ptr, dx_ptr, y_strides, dy_strides, dx_strides, n_inner, n_cols,
    ROWS: tl.constexpr, BLOCK_SIZE: tl.constexpr, COMPUTE: tl.constexpr,
):
    outer, inner = places(tl.program_id(axis=0), n_inner, ROWS)
    cols = tl.arange(0, BLOCK_SIZE)[None, :]
    mask = (inner < n_inner) & (cols < n_cols)
    y = tl.load(at(y_ptr, y_strides, outer, inner, 0, cols), mask=mask, other=0.0).to(COMPUTE)
    dy = tl.load(at(dy_ptr, dy_strides, outer, inner, 0, cols), mask=mask, other=0.0).to(COMPUTE)
    dx = y * (dy - tl.sum(y * dy, axis=1)[:, None])
    tl.store(at(dx_ptr, dx_strides, outer, inner, 0, cols), dx, mask=mask)
# --8<-- [end:backward]


@triton.jit
def wide_softmax_backward_kernel(
    y_ptr, dy_ptr, dx_ptr, y_strides, dy_strides, dx_strides, n_inner, n_cols,
    ROWS: tl.constexpr, BLOCK_SIZE: tl.constexpr, COMPUTE: tl.constexpr,
):
    outer, inner = places(tl.program_id(axis=0), n_inner, ROWS)
    cols = tl.arange(0, BLOCK_SIZE)[None, :]
    total = tl.full([ROWS], 0.0, COMPUTE)  # sum of y dy
    for start in range(0, n_cols, BLOCK_SIZE):
        mask = (inner < n_inner) & (cols < n_cols - start)
        y = tl.load(at(y_ptr, y_strides, outer, inner, start, cols), mask=mask, other=0.0).to(COMPUTE)
        dy = tl.load(at(dy_ptr, dy_strides, outer, inner, start, cols), mask=mask, other=0.0).to(COMPUTE)
        total += tl.sum(y * dy, axis=1)
    last = (n_cols - 1) // BLOCK_SIZE * BLOCK_SIZE
    for done in range(0, n_cols, BLOCK_SIZE):
        start = last - done
        mask = (inner < n_inner) & (cols < n_cols - start)
        y = tl.load(at(y_ptr, y_strides, outer, inner, start, cols), mask=mask, other=0.0).to(COMPUTE)
        dy = tl.load(at(dy_ptr, dy_strides, outer, inner, start, cols), mask=mask, other=0.0).to(COMPUTE)
        dx = y * (dy - total[:, None])
        tl.store(at(dx_ptr, dx_strides, outer, inner, start, cols), dx, mask=mask, cache_modifier=".cs")


@triton.jit
def split_softmax_backward_kernel(
    y_ptr, dy_ptr, dx_ptr, y_strides, dy_strides, dx_strides, words_ptr, n_inner, n_cols,
    BLOCK_SIZE: tl.constexpr, PARTS: tl.constexpr, MAX_PARTS: tl.constexpr,
):
    row, part = tl.program_id(axis=0) // PARTS, tl.program_id(axis=0) % PARTS
    outer, inner = (row // n_inner).to(tl.int64), (row % n_inner).to(tl.int64)
    start, cols = part * BLOCK_SIZE, tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols - start
    y = tl.load(at(y_ptr, y_strides, outer, inner, start, cols), mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(at(dy_ptr, dy_strides, outer, inner, start, cols), mask=mask, other=0.0).to(tl.float32)
    words_ptr += row.to(tl.int64) * PARTS
    total = tl.sum(y * dy, axis=0)
    share(words_ptr, part, tl.full([], 1.0, tl.float32), total)  # 1: the word is not 0 whatever the total
    _, each = shared(words_ptr, PARTS, MAX_PARTS)
    tl.store(at(dx_ptr, dx_strides, outer, inner, start, cols), y * (dy - tl.sum(each, axis=0)), mask=mask)


# Tuning, apart from the algorithm: measured on an H200 (header), and chosen without asking the driver.


@dataclass(frozen=True)
class Launch:
    """kernel and its tile; `parts` programs share a row, if not 0.

    options: num_warps, and maxnreg if bounded.
    """

    kernel: Any
    ROWS: int
    BLOCK_SIZE: int
    options: dict
    parts: int = 0


def launch(n_cols, itemsize, adjacent=True, backward=False):
    """Launch for rows of n_cols elements of `itemsize` bytes; adjacent: the columns lie side by side in memory.

    Otherwise rows lie side by side, and a tile takes at least 32 bytes of neighbouring rows, a sector of device memory.
    """
    tile, wide, split = (
        (softmax_backward_kernel, wide_softmax_backward_kernel, split_softmax_backward_kernel) if backward
        else (softmax_kernel, online_softmax_kernel, split_softmax_kernel)
    )
    block = triton.next_power_of_2(n_cols)
    held = MAX_BLOCK * 4 // max(itemsize, 4) // (2 if backward else 1)  # elements of a tile, 32-bit registers at least
    if not adjacent:
        rows = min(held // block, max(32, 2048 // block)) if block <= held else 0
        if rows * itemsize < 32:
            return Launch(wide, 16, 512, {"num_warps": 16})
        return Launch(tile, rows, block, {"num_warps": min(max(rows * block // 1024, 1), 16)})
    if itemsize == 2:  # measured: forward others win past 16384 columns, backward the tile holds 32768
        held = MAX_BLOCK if backward else MAX_BLOCK // 2
    if block <= held:
        rows = max(1024 // block, 1)
        if itemsize == 2 and block == MAX_BLOCK // 2 and not backward:
            return Launch(tile, 1, block, {"num_warps": 8, "maxnreg": 80})  # three programs on an SM
        return Launch(tile, rows, block, {"num_warps": min(rows * block // 512, 32)})
    part, options = 8192, {"num_warps": 8}
    if itemsize == 2 and not backward:
        options = {"num_warps": 4, "maxnreg": 80}
    if not backward and (triton.cdiv(n_cols, part) % 2 == 0 or n_cols > MAX_PARTS // 2 * part):  # else half of a part is empty
        part, options = 16384, {"num_warps": 8, "maxnreg": 80 if itemsize == 2 else 96}
    parts = triton.cdiv(n_cols, part)
    if itemsize < 8 and parts <= MAX_PARTS and not checks.interpreted(split):  # whose programs run in turn
        return Launch(split, 1, part, options, parts)
    return Launch(wide, 1, WIDE_BLOCK * 4 // max(itemsize, 4), {"num_warps": 8})


def row_axes(dim, shape, *strides):
    """[(size, stride in each tensor)] of the fewest axes that run over all rows in all tensors, outermost first."""
    axes = sorted((a for a in range(len(shape)) if a != dim and shape[a] != 1), key=lambda a: -strides[0][a])
    merged = []
    for axis in axes:
        size, steps = shape[axis], [each[axis] for each in strides]
        if merged and merged[-1][1] == [size * step for step in steps]:
            size *= merged.pop()[0]
        merged.append((size, steps))
    return merged


def laid_out(dim, *inputs):
    """(*inputs, output like the first): as they are where two strides reach every row, else contiguous copies."""
    tensors = (*inputs, torch.empty_like(inputs[0]))
    if len(row_axes(dim, inputs[0].shape, *(x.stride() for x in tensors))) <= 2:
        return tensors
    inputs = [x.contiguous() for x in inputs]
    return (*inputs, torch.empty_like(inputs[0]))


@functools.lru_cache(maxsize=4096)  # all of this would cost a small call more than its kernel takes
def plan(dim, dtype, backward, shape, *strides):
    """(Launch, grid, strides for the kernel, n_inner, n_cols) of tensors so laid out; None: copy them first."""
    axes = row_axes(dim, shape, *strides)
    if len(axes) > 2:
        return None
    (n_outer, outer), (n_inner, inner) = ([(1, [0] * len(strides))] * 2 + axes)[-2:]
    n_cols = shape[dim]
    reduced = [(o, i, each[dim]) for o, i, each in zip(outer, inner, strides)]
    how = launch(n_cols, dtype.itemsize, n_cols == 1 or strides[0][dim] == 1, backward)
    grid = n_outer * (n_inner * how.parts or triton.cdiv(n_inner, how.ROWS))
    if how.ROWS == 1 and n_outer == 1:  # as the outer axis: Triton drops the division by an n_inner of 1
        n_outer, n_inner, reduced = n_inner, 1, [(i, o, col) for o, i, col in reduced]
    return how, grid, reduced, n_inner, n_cols


def run(dim, backward, *inputs):
    """Launch on `inputs` (x, or y and dy) along dim >= 0 and return the output."""
    inputs = [x.resolve_neg() for x in inputs]
    lead = inputs[0]
    if lead.numel() == 0:
        return torch.empty_like(lead)
    if lead.dim() == 0:
        return run(0, backward, *(x.view(1) for x in inputs)).view(())
    tensors = (*inputs, torch.empty_like(lead))
    planned = plan(dim, lead.dtype, backward, lead.shape, *(x.stride() for x in tensors))
    if planned is None:
        return run(dim, backward, *(x.contiguous() for x in inputs))
    how, grid, strides, n_inner, n_cols = planned
    with torch.cuda.device_of(lead):
        if how.parts:
            words = torch.zeros(grid, dtype=torch.int64, device=lead.device)
            how.kernel[(grid,)](
                *tensors, *strides, words, n_inner, n_cols,
                BLOCK_SIZE=how.BLOCK_SIZE, PARTS=how.parts, MAX_PARTS=MAX_PARTS, **how.options,
            )
        else:
            compute = tl.float64 if lead.dtype == torch.float64 else tl.float32
            how.kernel[(grid,)](
                *tensors, *strides, n_inner, n_cols,
                ROWS=how.ROWS, BLOCK_SIZE=how.BLOCK_SIZE, COMPUTE=compute, **how.options,
            )
    return tensors[-1]


NAMESPACE = __name__.replace(".", "_")


@torch.library.custom_op(f"{NAMESPACE}::softmax", mutates_args=())
def _softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    return run(dim, False, x)


@torch.library.custom_op(f"{NAMESPACE}::softmax_backward", mutates_args=())
def _softmax_backward(y: torch.Tensor, dy: torch.Tensor, dim: int) -> torch.Tensor:
    return run(dim, True, y, dy)


@_softmax.register_fake
def _(x, dim):
    return laid_out(dim, x)[-1]


@_softmax_backward.register_fake
def _(y, dy, dim):
    return laid_out(dim, y, dy)[-1]


def _save(ctx, inputs, output):
    ctx.dim = inputs[1]
    ctx.save_for_backward(output)  # torch raises if it is written to before the backward pass


def _differentiate(ctx, dy):
    (y,) = ctx.saved_tensors
    if not checks.needs_dispatch(y, dy):
        return run(ctx.dim, True, y, dy), None
    checks.refuse_transforms("softmax", y, dy, batched=True)
    return _softmax_backward(y, dy, ctx.dim), None


def _no_second(ctx, *_):
    raise NotImplementedError("softmax 只有一阶梯度；二阶梯度请用 torch.softmax")


_softmax.register_autograd(_differentiate, setup_context=_save)
_softmax_backward.register_autograd(_no_second)


# --8<-- [start:wrapper]
def softmax(x, dim=-1):
    """e^x / sum of e^x along `dim`, differentiable, by the kernels above.

    x: any shape; fp16, bf16, fp32 or fp64 -> a new tensor of x's shape and dtype; its strides are those of
    torch.empty_like(x), or contiguous where x's rows need more than two strides.
    IndexError: no such dim. TypeError, ValueError, NotImplementedError: anything else that is not taken.
    """
    checks.tensors(softmax_kernel, DTYPES, x=x, differentiable=True)
    if not isinstance(dim, (int, torch.SymInt)):
        try:
            dim = operator.index(dim)
        except TypeError:
            raise TypeError(f"dim 是 {type(dim).__name__}；应为一个整数") from None
    dims = max(x.dim(), 1)
    if not -dims <= dim < dims:
        raise IndexError(f"dim={dim} 超出范围；x 有 {x.dim()} 维，dim 应在 {-dims} 到 {dims - 1} 之间")
    dim = dim % dims
    if x.dim() and x.numel() and x.shape[dim] > MAX_COLUMNS:
        raise ValueError(f"x 的第 {dim} 维有 {x.shape[dim]} 个元素；至多 {MAX_COLUMNS} 个")
    if not checks.needs_dispatch(x):
        return run(dim, False, x)
    checks.refuse_transforms("softmax", x, batched=True)
    return _softmax(x, dim)
# --8<-- [end:wrapper]
