"""Gradients of FlashAttention: dQ, dK and dV, with P computed again tile by tile from Q, K and the log-sum-exp.

Algorithm: FlashAttention-2, arXiv 2307.08691, algorithm 2, in two kernels: one program per tile of dQ, then one per tile
of dK and dV, so that every element is summed by one program in one order: no atomics, the same bits each time. Seven
products instead of five are the price. It is `snippets.backward.tiled_backward`, each of its two loops outermost once.
A gradient of the log-sum-exp only lowers delta: d lse / d s = P, as in dS = P * (dP - delta).
Accepts: what `kernels.flash_attention` takes; gradients of any strides (copied if the last dimension is not contiguous).
The kernels here run everywhere; `backward` hands what Hopper's own take to flash_attention_hopper_backward.
Versions tried, on one H200, fp16, S = 16384, TFLOP/s counting 6 (dQ) and 8 (dK, dV) B H S^2 d, (causal); Triton 3.6:
- dQ, 64x64, 4 warps, 2 stages, kept: d 64 607 (610), d 128 617 (594), d 256 510 (518). d 256 on 8 warps: 274 (281). d 64:
  64x128 532, 128x64 506; d 128: 128x64 on 8 warps 528, 64x32 514; d 256: 128x64, 8, 1: 424.
- dK and dV, 64x64, 2 stages: d 128 670 causal, d 256 on 8 warps 338 causal; d 64: 547, with 3 stages, kept, 589. d 128:
  32x64 477, 64x128 on 8 warps 509, 64x64 on 8 warps 258; d 64: 128x128 on 8 warps 403.
- a group of 1 made a constant: the machine-code compiler then waits after every wgmma of dK and dV without a mask: 493 at
  d 128 where the causal kernel reached 670, 479 at d 64. Left a number (and with 3 stages), d 64 backward in all
  went from 371 to 398.
- heads in groups, as forward's causal tiles: up to 12 % slower for dK and dV. lse and delta through pointers: 472
  bytes a thread spilled at d 128, causal; by TMA none.
Not covered: second derivatives.
"""

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from kernels import flash_attention_hopper_backward
from kernels.flash_attention_tiles import (
    capability, dense_rows, large_memory, load_tile, matrix_operand, operand, output_like, padded, store_tile, use_descriptors,
)

LOG2E = math.log2(math.e)


# --8<-- [start:dq]
@triton.jit(do_not_specialize=["H_q", "group", "S_q", "S_pad", "S_kv"])
def dq_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr,  # descriptors with TMA
    o_ptr, lse_ptr, dlse_ptr, lse2_ptr, delta_ptr, dq_ptr,
    strides_q, strides_k, strides_v, strides_do, strides_o, strides_dq,
    H_q, group, S_q, S_pad, S_kv, qk_scale,  # sm_scale * log2(e), of any sign
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, WHOLE: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """One tile of dQ: a row of tiles of P. It also writes what the other kernel needs to know about these rows.

    That is lse in units of log2, and delta, both [B * H_q, S_pad] with whole tiles, 0 from row S_q on.
    """
    tiles = tl.cdiv(S_q, BLOCK_M)
    pid = tl.program_id(axis=0)
    tile, head = pid % tiles, pid // tiles
    if CAUSAL:
        tile = tiles - 1 - tile  # longest first
    start_m = tile * BLOCK_M
    b, h = head // H_q, head % H_q
    h_kv = h // group

    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    in_q, at = offs_m < S_q, head.to(tl.int64) * S_q + offs_m
    q = load_tile(q_ptr, strides_q, b, h, start_m, S_q, D, BLOCK_M, BLOCK_D, TMA)
    do = load_tile(do_ptr, strides_do, b, h, start_m, S_q, D, BLOCK_M, BLOCK_D, TMA)
    o = load_tile(o_ptr, strides_o, b, h, start_m, S_q, D, BLOCK_M, BLOCK_D, False)
    lse = tl.load(lse_ptr + at, mask=in_q, other=0.0) * 1.4426950408889634  # log2(e)
    lse = tl.where(lse == float("-inf"), float("inf"), lse)  # a row that sees nothing: P is 2^(s - inf) = 0
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), axis=1)  # [BLOCK_M] the row sums of P * dP
    if dlse_ptr is not None:
        delta -= tl.load(dlse_ptr + at, mask=in_q, other=0.0)  # the derivative of lse by s is P
    tl.store(lse2_ptr + head.to(tl.int64) * S_pad + offs_m, lse)
    tl.store(delta_ptr + head.to(tl.int64) * S_pad + offs_m, delta)

    seen = S_kv
    whole = S_kv // BLOCK_N * BLOCK_N
    if CAUSAL:
        seen = tl.minimum(start_m + BLOCK_M + S_kv - S_q, S_kv)
        whole = tl.minimum(whole, tl.maximum(start_m + 1 + S_kv - S_q, 0) // BLOCK_N * BLOCK_N)
    dq = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for masked in tl.static_range(1 if WHOLE and not CAUSAL else 2):
        begin, end = (whole, seen) if masked else (0, whole)
        for start_n in range(begin, end, BLOCK_N):
            k = load_tile(k_ptr, strides_k, b, h_kv, start_n, S_kv, D, BLOCK_N, BLOCK_D, TMA)
            s = tl.dot(q, tl.trans(k), input_precision="ieee")  # [BLOCK_M, BLOCK_N]
            p = tl.exp2(s * qk_scale - lse[:, None])  # computed again, now with its final sum
            if masked and CAUSAL:
                p = tl.where(start_n + offs_n[None, :] <= offs_m[:, None] + (S_kv - S_q), p, 0.0)
            elif masked:
                p = tl.where((offs_n < S_kv - start_n)[None, :], p, 0.0)
            v = load_tile(v_ptr, strides_v, b, h_kv, start_n, S_kv, D, BLOCK_N, BLOCK_D, TMA)
            dp = tl.dot(do, tl.trans(v), input_precision="ieee")
            ds = p * (dp - delta[:, None])
            dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")
    sm_scale = qk_scale * 0.6931471805599453  # ln 2
    store_tile(dq_ptr, strides_dq, b, h, start_m, S_q, dq * sm_scale, D, BLOCK_M, BLOCK_D)
# --8<-- [end:dq]


# --8<-- [start:dkdv]
@triton.jit(do_not_specialize=["H_kv", "group", "S_q", "S_pad", "S_kv"])  # a constant group of 1 costs 36 %, see above
def dkdv_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse2_ptr, delta_ptr,  # descriptors with TMA
    dk_ptr, dv_ptr,
    strides_q, strides_k, strides_v, strides_do, strides_dk, strides_dv,
    H_kv, group, S_q, S_pad, S_kv, qk_scale,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, TMA: tl.constexpr,
):  # fmt: skip
    """One tile of dK and of dV: a column of tiles of P, one column for each query head that shares the keys.

    Tiles of P stand transposed, keys by queries, so that they enter both products from registers.
    """
    pid, tiles = tl.program_id(axis=0), tl.cdiv(S_kv, BLOCK_N)
    start_n, head = pid % tiles * BLOCK_N, pid // tiles  # causal: the first keys are seen most, so longest first
    b, h_kv = head // H_kv, head % H_kv

    offs_m = tl.arange(0, BLOCK_M)
    offs_n = start_n + tl.arange(0, BLOCK_N)
    k = load_tile(k_ptr, strides_k, b, h_kv, start_n, S_kv, D, BLOCK_N, BLOCK_D, TMA)
    v = load_tile(v_ptr, strides_v, b, h_kv, start_n, S_kv, D, BLOCK_N, BLOCK_D, TMA)
    dk = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    dv = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)

    first, whole = 0, 0  # query rows from `first` on see some key of the tile, rows from `whole` on see all
    if CAUSAL:
        first = tl.maximum(start_n + S_q - S_kv, 0) // BLOCK_M * BLOCK_M
        whole = tl.cdiv(tl.maximum(start_n + BLOCK_N - 1 + S_q - S_kv, 0), BLOCK_M) * BLOCK_M
    for one in range(group):  # the sum over query heads stays in this program: no atomics, always in the same order
        h = h_kv * group + one
        row = b * H_kv * group + h  # of lse2 and delta
        for masked in tl.static_range(2 if CAUSAL else 1):
            begin, end = (first, tl.minimum(whole, S_q)) if masked else (whole, S_q)
            for start_m in range(begin, end, BLOCK_M):
                q = load_tile(q_ptr, strides_q, b, h, start_m, S_q, D, BLOCK_M, BLOCK_D, TMA)
                lse = load_statistics(lse2_ptr, row, S_pad, start_m, BLOCK_M, TMA)
                s = tl.dot(k, tl.trans(q), input_precision="ieee")  # [BLOCK_N, BLOCK_M]
                p = tl.exp2(s * qk_scale - lse[None, :])
                if masked:
                    p = tl.where(offs_n[:, None] <= (start_m + offs_m)[None, :] + (S_kv - S_q), p, 0.0)
                do = load_tile(do_ptr, strides_do, b, h, start_m, S_q, D, BLOCK_M, BLOCK_D, TMA)
                dv = tl.dot(p.to(do.dtype), do, dv, input_precision="ieee")
                dp = tl.dot(v, tl.trans(do), input_precision="ieee")
                delta = load_statistics(delta_ptr, row, S_pad, start_m, BLOCK_M, TMA)
                ds = p * (dp - delta[None, :])
                dk = tl.dot(ds.to(q.dtype), q, dk, input_precision="ieee")
    sm_scale = qk_scale * 0.6931471805599453  # ln 2
    store_tile(dk_ptr, strides_dk, b, h_kv, start_n, S_kv, dk * sm_scale, D, BLOCK_N, BLOCK_D)
    store_tile(dv_ptr, strides_dv, b, h_kv, start_n, S_kv, dv, D, BLOCK_N, BLOCK_D)


@triton.jit
def load_statistics(x, row, S_pad, start, ROWS: tl.constexpr, TMA: tl.constexpr):
    """[ROWS] of x [B * H_q, S_pad] in fp32. By TMA too: as pointers they take registers that the products need."""
    if TMA:
        return x.load([row, start]).reshape(ROWS)
    else:
        return tl.load(x + tl.cast(row, tl.int64) * S_pad + start + tl.arange(0, ROWS))
# --8<-- [end:dkdv]


# --8<-- [start:wrapper]
def backward(do, dlse, q, k, v, o, lse, causal, sm_scale):
    """(dq, dk, dv), like q, k and v, from what `kernels.flash_attention.forward` took and gave.

    do [B, H_q, S_q, D] in q's dtype, any strides; dlse fp32 [B, H_q, S_q], or None where the log-sum-exp is not used.
    """
    q, k, v, do, o = map(dense_rows, (q, k, v, do, o))
    dlse = None if dlse is None else dlse.resolve_neg().contiguous()
    dq, dk, dv = map(output_like, (q, k, v))
    with torch.cuda.device_of(q):
        if flash_attention_hopper_backward.supported(q, k, v, do, o):
            flash_attention_hopper_backward.backward(q, k, v, do, o, lse, dlse, dq, dk, dv, causal, sm_scale * LOG2E)
        else:
            backward_plain(q, k, v, do, o, lse, dlse, dq, dk, dv, causal, sm_scale * LOG2E)
    return dq, dk, dv


def backward_plain(q, k, v, do, o, lse, dlse, dq, dk, dv, causal, qk_scale):
    """Fill dq, dk and dv by the kernels above, whatever other kernels there are."""
    (B, H_q, S_q, D), (H_kv, S_kv) = q.shape, k.shape[1:3]
    group = H_q // H_kv if H_kv else 1
    tma = use_descriptors(dq_kernel, q, k, v, do)
    by_query, by_key = config(q.dtype, D, capability(q) if tma else None)
    S_pad = triton.cdiv(S_q, by_query.BLOCK_M) * by_query.BLOCK_M
    lse2, delta = (torch.empty((B * H_q, S_pad), dtype=torch.float32, device=q.device) for _ in range(2))
    sizes = {"D": D, "BLOCK_D": padded(D), "CAUSAL": causal, "TMA": tma}
    if dq.numel():
        tiles = triton.cdiv(S_q, by_query.BLOCK_M)
        dq_kernel[(tiles * B * H_q,)](
            *_operands(q, k, v, do, by_query, tma), o, lse, dlse, lse2, delta, dq, *_strides(q, k, v, do, o, dq),
            H_q, group, S_q, S_pad, S_kv, qk_scale,
            WHOLE=S_kv % by_query.BLOCK_N == 0, **sizes, **by_query._asdict(),
        )  # fmt: skip
    if dk.numel():
        tiles = triton.cdiv(S_kv, by_key.BLOCK_N)
        statistics = [matrix_operand(x, by_key.BLOCK_M, tma) for x in (lse2, delta)]
        dkdv_kernel[(tiles * B * H_kv,)](
            *_operands(q, k, v, do, by_key, tma), *statistics, dk, dv, *_strides(q, k, v, do, dk, dv),
            H_kv, group, S_q, S_pad, S_kv, qk_scale, **sizes, **by_key._asdict(),
        )  # fmt: skip


def _operands(q, k, v, do, blocks, tma):
    M, N = blocks.BLOCK_M, blocks.BLOCK_N
    return operand(q, M, tma), operand(k, N, tma), operand(v, N, tma), operand(do, M, tma)


def _strides(*tensors):
    return [x.stride()[:3] for x in tensors]
# --8<-- [end:wrapper]


class Blocks(NamedTuple):
    """Query rows and keys of one tile, warps of a program, stages of the load pipeline."""

    BLOCK_M: int
    BLOCK_N: int
    num_warps: int
    num_stages: int


# --8<-- [start:config]
def config(dtype, D, capability=None):
    """(tiles of the dQ kernel, tiles of the dK and dV kernel), as `kernels.flash_attention.config`.

    The first must have no fewer query rows than the second, so that it fills every row of lse2 and delta.
    """
    BLOCK_D = padded(D)
    if dtype == torch.float32:  # products on the ordinary cores
        if BLOCK_D <= 64:
            return Blocks(32, 32, 4, 2), Blocks(32, 32, 8, 2)
        return Blocks(16, 16, 8, 1), Blocks(16, 16, 8, 1)
    if not large_memory(capability):
        by_query = {128: Blocks(32, 32, 8, 1), 256: Blocks(16, 32, 8, 1)}
        by_key = {128: Blocks(32, 32, 8, 1), 256: Blocks(16, 16, 8, 1)}
        return by_query.get(BLOCK_D, Blocks(64, 64, 4, 2)), by_key.get(BLOCK_D, Blocks(32, 64, 4, 2))
    if BLOCK_D == 256:
        return Blocks(64, 64, 4, 2), Blocks(64, 64, 8, 2 if capability[0] == 9 else 1)
    if BLOCK_D == 128:
        return Blocks(64, 64, 4, 2), Blocks(64, 64, 4 if capability[0] == 9 else 8, 2)
    return Blocks(64, 64, 4, 2), Blocks(64, 64, 4, 3)
# --8<-- [end:config]
