"""FlashAttention, forward: softmax(Q K^T * sm_scale) V without ever writing the S_q x S_kv scores to memory.

Algorithm: FlashAttention, arXiv 2205.14135, algorithm 1, in the loop order of FlashAttention-2, arXiv 2307.08691,
algorithm 1: one program per tile of query rows and head, its state (m, l, acc) on the chip while K and V stream by. It
is `snippets.attention.tiled_attention` with the outer loop spread over programs.
Accepts: fp16, bf16, fp32 (products in full fp32, never TF32); head dimensions 1 to 256; any lengths, 0 included; causal
aligned bottom-right (query i sees keys up to i + S_kv - S_q); grouped-query heads; any strides. Rows with nothing to
attend to give 0 and log-sum-exp -inf.
Versions tried: one, through pointers, with the same tiles on every device (`config`). Tiles of rows x keys left out for
what they spill, compiled for four targets (causal, Triton 3.7.1; bytes a thread): fp16 d = 64, 128 x 64: 16 on sm_120;
64 x 128: 144 on sm_100; d = 256, 128 x 32 with one stage: 200 on sm_80; fp32 d = 64, 64 x 32 on 4 warps: 152 on
sm_80; fp32 d = 256, 16 x 32 with one stage: 7 KB on sm_90.
Not covered: gradients, dropout, attention biases and other masks, fp64, several programs per row of tiles (split-KV): few
query rows leave most of a GPU idle; bf16 in Triton's interpreter, which multiplies bit patterns. A tensor whose last
dimension is not contiguous is copied first.
"""

import math
from numbers import Real
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from kernels import checks

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
MAX_D = 256
MAX_LENGTH = 2**30  # row and key numbers are 32-bit in the kernel
LOG2E = math.log2(math.e)


# --8<-- [start:kernel]
@triton.jit
def flash_attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,
    stride_qb, stride_qh, stride_qs,  # elements from one batch entry, head and row of q to the next
    stride_kb, stride_kh, stride_ks,
    stride_vb, stride_vh, stride_vs,
    stride_ob, stride_oh, stride_os,
    H_q, group, S_q, S_kv,  # group: query heads per key-value head
    qk_scale,  # sm_scale * log2(e): exp2 is what the hardware computes
    D: tl.constexpr, BLOCK_D: tl.constexpr,  # head dimension, and the power of two that holds it
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,  # query rows and keys of one tile
    CAUSAL: tl.constexpr, WHOLE: tl.constexpr,  # WHOLE: S_kv is a multiple of BLOCK_N
):  # fmt: skip
    # Which rows of which head: tiles of one head are neighbours, so that they find its K and V in L2.
    pid = tl.program_id(axis=0)
    tiles = tl.cdiv(S_q, BLOCK_M)
    start_m = pid % tiles * BLOCK_M
    b = (pid // tiles // H_q).to(tl.int64)  # 64 bits: offsets of whole tensors may pass 2^31
    h = (pid // tiles % H_q).to(tl.int64)
    h_kv = h // group

    offs_m = start_m + tl.arange(0, BLOCK_M)  # [BLOCK_M] query rows
    offs_n = tl.arange(0, BLOCK_N)  # [BLOCK_N] keys of a tile
    offs_d = tl.arange(0, BLOCK_D)
    rows, keys = offs_m.to(tl.int64)[:, None], offs_n.to(tl.int64)[:, None]
    in_q = (offs_m < S_q)[:, None] & (offs_d < D)[None, :]
    q = tl.load(q_ptr + b * stride_qb + h * stride_qh + rows * stride_qs + offs_d[None, :], mask=in_q, other=0.0)
    k_ptrs = k_ptr + b * stride_kb + h_kv * stride_kh + keys * stride_ks + offs_d[None, :]
    v_ptrs = v_ptr + b * stride_vb + h_kv * stride_vh + keys * stride_vs + offs_d[None, :]
    step_k, step_v = tl.cast(stride_ks, tl.int64), tl.cast(stride_vs, tl.int64)

    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)  # largest score so far, in units of log2
    l_i = tl.zeros([BLOCK_M], tl.float32)  # sum of 2^(s - m_i) so far
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)  # sum of 2^(s - m_i) * v so far, not divided by l_i yet

    seen = S_kv  # keys before this one are visible to some row of the tile
    if CAUSAL:
        seen = tl.minimum(start_m + BLOCK_M + S_kv - S_q, S_kv)  # below 1: no tile at all
    for start_n in range(0, seen, BLOCK_N):
        in_kv = (offs_n < S_kv - start_n)[:, None] & (offs_d < D)[None, :]
        k = tl.load(k_ptrs + start_n * step_k, mask=in_kv, other=0.0)  # [BLOCK_N, BLOCK_D]
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * qk_scale  # [BLOCK_M, BLOCK_N] fp32
        if CAUSAL:
            s = tl.where(start_n + offs_n[None, :] <= offs_m[:, None] + (S_kv - S_q), s, float("-inf"))
        if not WHOLE:
            s = tl.where((offs_n < S_kv - start_n)[None, :], s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, axis=1))
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)  # nothing seen yet: -inf - -inf would be NaN
        alpha = tl.exp2(m_i - m_safe)  # [BLOCK_M] the correction: old sums measured with the new maximum
        p = tl.exp2(s - m_safe[:, None])  # [BLOCK_M, BLOCK_N], never leaves the chip
        l_i = l_i * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None]
        v = tl.load(v_ptrs + start_n * step_v, mask=in_kv, other=0.0)  # [BLOCK_N, BLOCK_D]
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")
        m_i = m_new

    l_safe = tl.where(l_i == 0.0, 1.0, l_i)  # a row that saw no key: acc is 0, and so is its output
    o_ptrs = o_ptr + b * stride_ob + h * stride_oh + rows * stride_os + offs_d[None, :]
    tl.store(o_ptrs, (acc / l_safe[:, None]).to(o_ptr.dtype.element_ty), mask=in_q)
    lse = (m_i + tl.log2(l_safe)) * 0.6931471805599453  # ln 2: back to natural logarithms; -inf without a key
    tl.store(lse_ptr + (b * H_q + h) * S_q + offs_m, lse, mask=offs_m < S_q)
# --8<-- [end:kernel]


# --8<-- [start:wrapper]
def flash_attention(q, k, v, *, causal=False, sm_scale=None, return_lse=False):
    """Exact attention, softmax(q k^T * sm_scale) v, by the kernel above.

    q [B, H_q, S_q, D], k and v [B, H_kv, S_kv, D], H_q a multiple of H_kv: query head h uses key-value head
    h // (H_q / H_kv). fp16, bf16 or fp32, one dtype and device. sm_scale: 1 / sqrt(D) unless given.
    causal: query i sees keys up to i + S_kv - S_q (bottom-right; torch's `is_causal` is aligned top-left).
    Returns o [B, H_q, S_q, D] in q's dtype; with return_lse also the natural log-sum-exp, fp32 [B, H_q, S_q].
    TypeError, ValueError: anything that is not taken, naming the argument.
    """
    check(q, k, v, sm_scale)
    B, H_q, S_q, D = q.shape
    H_kv, S_kv = k.shape[1:3]
    sm_scale = 1 / math.sqrt(D) if sm_scale is None else float(sm_scale)
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    o = torch.empty_like(q)
    lse = torch.empty((B, H_q, S_q), dtype=torch.float32, device=q.device)
    if o.numel():  # a grid of no programs cannot be launched
        tiles = config(q.dtype, D)
        grid = (triton.cdiv(S_q, tiles.BLOCK_M) * B * H_q,)
        with torch.cuda.device_of(q):
            flash_attention_kernel[grid](
                q, k, v, o, lse,
                *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *o.stride()[:3],
                H_q, H_q // H_kv, S_q, S_kv, sm_scale * LOG2E,
                D=D, BLOCK_D=padded(D), CAUSAL=bool(causal), WHOLE=S_kv % tiles.BLOCK_N == 0, **tiles._asdict(),
            )  # fmt: skip
    return (o, lse) if return_lse else o
# --8<-- [end:wrapper]


class Tiles(NamedTuple):
    """Query rows and keys of one tile, warps of a program, stages of the load pipeline."""

    BLOCK_M: int
    BLOCK_N: int
    num_warps: int
    num_stages: int


# --8<-- [start:config]
def config(dtype, D):
    """Tiles for a dtype and head dimension that fit 99 KB of shared memory, the least of any target (sm_120, sm_86)."""
    BLOCK_D = padded(D)
    if dtype == torch.float32:  # products on the ordinary cores: small tiles, or registers spill
        return Tiles(64, 32, 4, 2) if BLOCK_D <= 32 else Tiles(32, 32, 4, 2) if BLOCK_D <= 128 else Tiles(16, 16, 4, 2)
    tiles = {64: Tiles(64, 64, 4, 2), 128: Tiles(128, 64, 8, 2), 256: Tiles(64, 32, 8, 2)}
    return tiles.get(BLOCK_D, Tiles(128, 64, 4, 2))


def padded(D):
    """The tile width for a head dimension: a power of two, and at least 16 because a product's inner length must be."""
    return max(16, triton.next_power_of_2(D))
# --8<-- [end:config]


def check(q, k, v, sm_scale):
    """TypeError or ValueError naming the argument that `flash_attention` does not take."""
    checks.tensors(flash_attention_kernel, DTYPES, q=q, k=k, v=v)
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 4:
            raise ValueError(f"{name} 的形状是 {tuple(x.shape)}；应为四维，[B, H, S, D]")
        if x.shape[2] > MAX_LENGTH:
            raise ValueError(f"{name} 的长度是 {x.shape[2]}；至多 {MAX_LENGTH}")
    B, H_q, _, D = q.shape
    if not 1 <= D <= MAX_D:
        raise ValueError(f"q 的头维度 D={D}；应在 1 到 {MAX_D} 之间")
    for name, x in (("k", k), ("v", v)):
        if x.shape[0] != B:
            raise ValueError(f"{name} 的批大小是 {x.shape[0]}，q 是 {B}；两者应相等")
        if x.shape[3] != D:
            raise ValueError(f"{name} 的头维度是 {x.shape[3]}，q 是 {D}；两者应相等")
    if v.shape != k.shape:
        raise ValueError(f"v 的形状是 {tuple(v.shape)}，k 是 {tuple(k.shape)}；每个键配一个值，两者应相同")
    H_kv = k.shape[1]
    if H_q and (not H_kv or H_q % H_kv):
        raise ValueError(f"q 有 {H_q} 个头，k 有 {H_kv} 个；前者应是后者的整数倍")
    if sm_scale is not None and not (isinstance(sm_scale, Real) and math.isfinite(sm_scale)):
        raise ValueError(f"sm_scale={sm_scale!r} 不是有限的实数；缺省为 1/√D")
