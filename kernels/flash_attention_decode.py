"""Split-KV attention for few query rows and long keys: programs share the keys, their states are merged at the end.

Algorithm: Flash-Decoding (Dao, Haziza, Massa, Sizov, 2023), as in `snippets.split_kv`: each program takes one segment of
one key-value head's keys for all query rows of the heads that share it, so keys and values are read once; a second
kernel merges the segments by their log-sum-exp. One segment, where the heads alone fill the GPU, writes its output
directly. From sm_90 on the second kernel is launched when the programs of the first have ended, and waits on the device
until what they wrote is there (programmatic dependent launch): the hand-over is hidden, not the work.
Accepts: what `kernels.flash_attention` takes, as far as `suits` says.
Versions tried, on one H200, fp16, 32 query and 8 key-value heads, d 128, one row, GB/s of reading K and V at B = 1,
8192 keys / B = 1, 32768 / B = 16, 8192 / B = 16, 131072; tile keys, warps, stages, programs a multiprocessor; from a
CUDA graph:
- 128, 4, 3, 1, kept: 2371 / 3626 / 4391 (4225 before the merge of a single segment was left out) / 4548.
- 128, 4, 2, 2: 2211 / 3471 / 4219 / 4528. 64, 2, 3, 2: 2204 / 3489 / 4222 / 4543. 64, 4, 2, 3: 2110 / 3400 / 4194 / 4517.
- 32, 2, 3, 4: 1929 / 3320 / 4186 / 4504. 64, 8, 6, 1: 2073 / 3369 / 3968 / 4177. 256, 8, 1, 1: 1990 / 2955 / 3517 / 3776.
- twice as many programs as run at once (64, 4, 3, 4): 1887 at B = 1, 8192 and 4012 at B = 16, 131072.
cuDNN in the same run: 2054 / 3548 / 4344 / 4574.
By events with cold L2 in other runs, not docs/evidence's, GB/s:
- B = 16, 32768 keys: kept 4607, as cuDNN; 64, 4, 6 4522; 128, 8, 3 4589. Each program from a tile of its own on 4607, from
  the last tile back 4609, through pointers 4591 (one run). In 2, 4, 8, 33 parts 4526, 4541, 4510, 4364, kept 4597 (another).
  With the keys as rows of the products and the queries as columns, wgmma instead of mma: 4489, kept 4496, cuDNN 4502.
- the merge launched early, and not: B = 1, 8192 keys 2013, 1730; 32768 3471, 3347; 131072 4305, 4259; with the split kernel
  saying when, at its start 1910, 3416, 4290, at its end 2009, 3472, 4310. From a CUDA graph no difference.
Not covered: more query rows a key-value head than MAX_ROWS, short keys: the other kernels take them.
"""

import functools
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_wait

from kernels import checks
from kernels.flash_attention_tiles import (
    LOWEST, capability, large_memory, load_tile, multiprocessors, operand, padded, use_descriptors,
)

MAX_ROWS = 64  # of one key-value head: query heads that share it times S_q; with more, tiles of query rows are worth it
MIN_KEYS = 256  # below it there is too little to split
MAX_STATES = 16 << 20  # bytes of all the segments' states, whatever the shape
BLOCK_S = 16  # segments that the merge takes at a time
BUSY = 0.95  # share of the multiprocessors to keep busy


# --8<-- [start:split]
@triton.jit(do_not_specialize=["H_kv", "group", "S_q", "S_kv", "segment", "splits"])
def split_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,  # k and v: descriptors with TMA
    strides_q, strides_k, strides_v, strides_o,
    H_kv, group, S_q, S_kv, segment, splits, qk_scale,  # segment: keys of one program, whole tiles; qk_scale > 0
    D: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, ALONE: tl.constexpr, TMA: tl.constexpr,  # ALONE: one segment, nothing to merge
):  # fmt: skip
    """All query rows of one key-value head against one segment of its keys, which are read once for all of them.

    o [B * H_kv, splits, group * S_q, D] and lse [B * H_kv, splits, group * S_q], fp32, in units of log2: what one segment
    hands over, as `snippets.split_kv.lse` has it; ALONE: o and natural lse of the whole. The loop is `flash_attention_kernel`'s.
    """
    pid = tl.program_id(axis=0)
    head, split = pid // splits, pid % splits
    b, h_kv = head // H_kv, head % H_kv
    rows, offs_n, offs_d = tl.arange(0, ROWS), tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_D)
    h, i = h_kv * group + rows // S_q, rows % S_q  # [ROWS] query head and query of a row
    in_q = (rows < group * S_q)[:, None] & (offs_d < D)[None, :]
    row_offsets = b.to(tl.int64) * strides_q[0] + h.to(tl.int64) * strides_q[1] + i.to(tl.int64) * strides_q[2]
    q = tl.load(q_ptr + row_offsets[:, None] + offs_d[None, :], mask=in_q, other=0.0)

    m_i = tl.full([ROWS], LOWEST, tl.float32)
    l_i = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, BLOCK_D], tl.float32)
    begin = split * segment
    for start_n in range(begin, tl.minimum(begin + segment, S_kv), BLOCK_N):
        k = load_tile(k_ptr, strides_k, b, h_kv, start_n, S_kv, D, BLOCK_N, BLOCK_D, TMA)
        s = tl.dot(q, tl.trans(k), input_precision="ieee")  # [ROWS, BLOCK_N]
        seen = (offs_n < S_kv - start_n)[None, :]
        if CAUSAL:
            seen = start_n + offs_n[None, :] <= i[:, None] + (S_kv - S_q)
        s = tl.where(seen, s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, axis=1) * qk_scale)
        alpha = tl.exp2(m_i - m_new)
        p = tl.exp2(s * qk_scale - m_new[:, None])
        l_i = l_i * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None]
        v = load_tile(v_ptr, strides_v, b, h_kv, start_n, S_kv, D, BLOCK_N, BLOCK_D, TMA)
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")
        m_i = m_new

    l_safe = tl.where(l_i == 0.0, 1.0, l_i)
    o = acc / l_safe[:, None]
    lse = tl.where(l_i == 0.0, float("-inf"), m_i + tl.log2(l_safe))
    at = pid.to(tl.int64) * group * S_q + rows
    o_offsets = at * D
    if ALONE:  # rows of a key-value head's queries are neighbours in lse, but not always in o
        lse *= 0.6931471805599453  # ln 2
        o_offsets = b.to(tl.int64) * strides_o[0] + h.to(tl.int64) * strides_o[1] + i.to(tl.int64) * strides_o[2]
    tl.store(o_ptr + o_offsets[:, None] + offs_d[None, :], o.to(o_ptr.dtype.element_ty), mask=in_q)
    tl.store(lse_ptr + at, lse, mask=rows < group * S_q)
# --8<-- [end:split]


# --8<-- [start:merge]
@triton.jit(do_not_specialize=["H_q", "group", "S_q", "splits"])
def merge_kernel(
    part_ptr, part_lse_ptr, o_ptr, lse_ptr, strides_o, H_q, group, S_q, splits,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_S: tl.constexpr,  # segments taken at a time
    EARLY: tl.constexpr,  # launched before the split kernel has ended
):  # fmt: skip
    """One output row: the segments' rows weighted with their share of the sum, 2^(lse of the segment - largest lse)."""
    pid = tl.program_id(axis=0)
    head, i = pid // S_q, pid % S_q
    b, h = head // H_q, head % H_q
    row = (head // group * splits).to(tl.int64) * group * S_q + h % group * S_q + i  # of the first segment
    offs_s, offs_d = tl.arange(0, BLOCK_S), tl.arange(0, BLOCK_D)

    m_i, l_i = tl.full([], LOWEST, tl.float32), 0.0
    acc = tl.zeros([BLOCK_D], tl.float32)
    if EARLY:
        gdc_wait()  # for the end of the split kernel: its results can be read from here on
    for start in range(0, splits, BLOCK_S):
        there = start + offs_s < splits
        at = row + (start + offs_s).to(tl.int64) * group * S_q
        lse = tl.load(part_lse_ptr + at, mask=there, other=float("-inf"))
        m_new = tl.maximum(m_i, tl.max(lse, axis=0))
        alpha = tl.exp2(m_i - m_new)
        w = tl.exp2(lse - m_new)
        part = tl.load(
            part_ptr + at[:, None] * D + offs_d[None, :], mask=there[:, None] & (offs_d < D)[None, :], other=0.0
        )
        l_i = l_i * alpha + tl.sum(w, axis=0)
        acc = acc * alpha + tl.sum(w[:, None] * part, axis=0)
        m_i = m_new

    l_safe = tl.where(l_i == 0.0, 1.0, l_i)
    target = o_ptr + b.to(tl.int64) * strides_o[0] + h.to(tl.int64) * strides_o[1] + i.to(tl.int64) * strides_o[2]
    tl.store(target + offs_d, (acc / l_safe).to(o_ptr.dtype.element_ty), mask=offs_d < D)
    tl.store(lse_ptr + pid, tl.where(l_i == 0.0, float("-inf"), (m_i + tl.log2(l_safe)) * 0.6931471805599453))
# --8<-- [end:merge]


# --8<-- [start:wrapper]
def suits(q, k):
    """Few query rows a key-value head, and keys enough to split."""
    (H_kv, S_kv), (H_q, S_q) = k.shape[1:3], q.shape[1:3]
    return H_q // H_kv * S_q <= MAX_ROWS and S_kv >= MIN_KEYS


def forward(q, k, v, o, lse, causal, qk_scale):
    """Fill o and lse, as `kernels.flash_attention.forward_plain`; q's last dimension is contiguous, nothing is empty.

    The segments' own o and lse take 4 (D + 1) bytes a row each, MAX_STATES bytes in all.
    """
    (B, H_q, S_q, D), (H_kv, S_kv) = q.shape, k.shape[1:3]
    group = H_q // H_kv
    tma = use_descriptors(split_kernel, k, v)
    blocks = config(q.dtype, D, capability(q) if tma else None)
    most = MAX_STATES // (B * H_q * S_q * (D + 1) * 4)
    segment, splits = division(B * H_kv, S_kv, blocks.BLOCK_N, multiprocessors(q), most)
    alone, part, part_lse = splits == 1, o, lse
    if not alone:
        part = torch.empty((B * H_kv, splits, group * S_q, D), dtype=torch.float32, device=q.device)
        part_lse = torch.empty(part.shape[:3], dtype=torch.float32, device=q.device)
    split_kernel[(B * H_kv * splits,)](
        q, operand(k, blocks.BLOCK_N, tma), operand(v, blocks.BLOCK_N, tma), part, part_lse,
        q.stride()[:3], k.stride()[:3], v.stride()[:3], o.stride()[:3], H_kv, group, S_q, S_kv, segment, splits, qk_scale,
        D=D, BLOCK_D=padded(D), ROWS=padded(group * S_q), CAUSAL=causal, ALONE=alone, TMA=tma, **blocks._asdict(),
    )  # fmt: skip
    if not alone:
        early = not checks.interpreted(merge_kernel) and capability(q)[0] >= 9
        merge_kernel[(B * H_q * S_q,)](
            part, part_lse, o, lse, o.stride()[:3], H_q, group, S_q, splits,
            D=D, BLOCK_D=padded(D), BLOCK_S=BLOCK_S, EARLY=early, launch_pdl=early,
        )  # fmt: skip
# --8<-- [end:wrapper]


class Blocks(NamedTuple):
    """Keys of one tile, warps of a program, stages of the load pipeline."""

    BLOCK_N: int
    num_warps: int
    num_stages: int


# --8<-- [start:config]
@functools.lru_cache(maxsize=4096)  # it would cost a short call more than its kernels take
def division(heads, S_kv, BLOCK_N, sms, most):
    """(keys of a segment, segments): the fewest that keep a share BUSY of the multiprocessors busy, one program on each.

    As `snippets.split_kv.parts_to_fill`; the largest share that there is where BUSY is out of reach, with `most` segments
    at most.
    """
    tiles = triton.cdiv(S_kv, BLOCK_N)
    tried = range(1, max(min(tiles, sms, most), 1) + 1)
    shares = [(heads * parts / (triton.cdiv(heads * parts, sms) * sms), parts) for parts in tried]
    parts = next((parts for share, parts in shares if share >= BUSY), max(shares)[1])
    segment = triton.cdiv(tiles, parts)
    return segment * BLOCK_N, triton.cdiv(tiles, segment)


def config(dtype, D, capability=None):
    """Tiles for a dtype, head dimension and compute capability, as `kernels.flash_attention.config`."""
    BLOCK_D = padded(D)
    if dtype == torch.float32:
        return Blocks(32, 4, 2) if BLOCK_D <= 64 else Blocks(16, 4, 2) if BLOCK_D <= 128 else Blocks(16, 8, 1)
    if large_memory(capability):
        return Blocks(64 if BLOCK_D == 256 else 128, 4, 3)
    return Blocks(32 if BLOCK_D == 256 else 64, 4, 2)
# --8<-- [end:config]
