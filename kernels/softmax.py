"""Row softmax in one kernel: one program per row, one read and one write of it where it fits a block.

Algorithm: the row's maximum, exponentials, sum and division without leaving the chip (safe softmax). Rows wider than
MAX_BLOCK take the online form (Milakov & Gimelshein 2018, arXiv 1805.02867, algorithm 3): a first sweep keeps only m
and l, a second one writes, so two reads and one write instead of the plain form's three reads and one write.
Accepts: any shape, dim and strides; fp16, bf16, fp32 (computed in fp32), fp64; an all -inf row gives NaN, as in torch.
Versions tried: one block up to 16384 columns, online beyond.
Not covered: gradients; more than 2^30 columns. Rows that are not contiguous along `dim` are copied first.
"""

import torch
import triton
import triton.language as tl

from kernels import checks

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
MAX_BLOCK = 16384  # columns; as fp32 on 16 warps that is 32 registers a thread
WIDE_BLOCK = 8192  # columns of one step in the online kernel
MAX_COLUMNS = 2**30  # column numbers are 32-bit in the kernels


# --8<-- [start:kernel]
@triton.jit
def softmax_kernel(x_ptr, out_ptr, stride_x, n_cols, BLOCK_SIZE: tl.constexpr, COMPUTE: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64)  # 64 bits: row * stride may pass 2^31
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride_x + cols, mask=mask, other=float("-inf")).to(COMPUTE)  # [BLOCK_SIZE]
    e = tl.exp(x - tl.max(x, axis=0))  # 0 in the masked lanes; NaN throughout if all of the row is -inf
    tl.store(out_ptr + row * n_cols + cols, e / tl.sum(e, axis=0), mask=mask)
# --8<-- [end:kernel]


# --8<-- [start:online]
@triton.jit
def online_softmax_kernel(x_ptr, out_ptr, stride_x, n_cols, BLOCK_SIZE: tl.constexpr, COMPUTE: tl.constexpr):
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    x_ptrs = x_ptr + row * stride_x + cols
    out_ptrs = out_ptr + row * n_cols + cols
    m_i = tl.full([], float("-inf"), COMPUTE)  # maximum so far
    l_i = tl.full([], 0.0, COMPUTE)  # sum of e^(x - m_i) so far
    for start in range(0, n_cols, BLOCK_SIZE):  # first sweep: m and l, nothing written
        x = tl.load(x_ptrs + start, mask=cols < n_cols - start, other=float("-inf")).to(COMPUTE)
        m_new = tl.maximum(m_i, tl.max(x, axis=0))
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)  # only -inf so far: -inf - -inf would be NaN
        l_i = l_i * tl.exp(m_i - m_safe) + tl.sum(tl.exp(x - m_safe), axis=0)
        m_i = m_new
    for start in range(0, n_cols, BLOCK_SIZE):  # second sweep: read again, write
        mask = cols < n_cols - start
        x = tl.load(x_ptrs + start, mask=mask, other=float("-inf")).to(COMPUTE)
        tl.store(out_ptrs + start, tl.exp(x - m_i) / l_i, mask=mask)  # all -inf: NaN here, as in torch
# --8<-- [end:online]


# --8<-- [start:wrapper]
def softmax(x, dim=-1):
    """e^x / sum of e^x along `dim`, by one of the two kernels above.

    x: any shape; fp16, bf16, fp32 or fp64 -> a new tensor of x's shape and dtype, contiguous along `dim`.
    IndexError: no such dim. TypeError, ValueError: anything else that is not taken, naming the argument.
    """
    checks.tensors(softmax_kernel, DTYPES, x=x)
    if not -max(x.dim(), 1) <= dim < max(x.dim(), 1):
        raise IndexError(f"dim={dim} 超出范围；x 有 {x.dim()} 维")
    if x.numel() == 0:
        return torch.empty_like(x)
    moved = x.movedim(dim, -1) if x.dim() else x.reshape(1)
    n_cols = moved.shape[-1]
    if n_cols > MAX_COLUMNS:
        raise ValueError(f"x 的第 {dim} 维有 {n_cols} 个元素；至多 {MAX_COLUMNS} 个")
    rows = moved.reshape(-1, n_cols)  # [rows, n_cols]; a view where the strides allow
    if rows.stride(1) != 1:
        rows = rows.contiguous()
    out = torch.empty(rows.shape, dtype=x.dtype, device=x.device)
    kernel, block, warps = launch(n_cols)
    compute = tl.float64 if x.dtype == torch.float64 else tl.float32
    with torch.cuda.device_of(x):
        kernel[(len(rows),)](rows, out, rows.stride(0), n_cols, BLOCK_SIZE=block, COMPUTE=compute, num_warps=warps)
    return out.view(moved.shape).movedim(-1, dim) if x.dim() else out.view(())


def launch(n_cols):
    """(kernel, BLOCK_SIZE, num_warps) for rows of n_cols: at most 32 elements a thread."""
    wide = n_cols > MAX_BLOCK
    block = WIDE_BLOCK if wide else triton.next_power_of_2(n_cols)
    return online_softmax_kernel if wide else softmax_kernel, block, min(max(block // 512, 4), 16)
# --8<-- [end:wrapper]
