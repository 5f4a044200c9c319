"""FlashAttention: softmax(Q K^T * sm_scale) V without ever writing the S_q x S_kv scores to memory; with gradients.

Algorithm: FlashAttention, arXiv 2205.14135, algorithm 1, in the loop order of FlashAttention-2, arXiv 2307.08691,
algorithm 1: one program per tile of query rows and head, its state (m, l, acc) on the chip while K and V stream by. It
is `snippets.attention.tiled_attention` with the outer loop spread over programs.
Accepts: fp16, bf16, fp32 (products in full fp32, never TF32); head dimensions 1 to 256; any lengths, 0 included; causal
aligned bottom-right (query i sees keys up to i + S_kv - S_q); grouped-query heads; any strides. Rows with nothing to
attend to give 0, log-sum-exp -inf and no gradient. The kernel here runs everywhere; `forward` hands few query rows to
flash_attention_decode and what Hopper's own kernel takes to flash_attention_hopper. Gradients: flash_attention_backward.
Versions tried, on one H200, fp16, TFLOP/s at S = 16384 (causal), tile rows x keys, warps, stages; Triton 3.6:
- kept, where warps are not specialised: d 64: 64x128, 4, 2: 483 (486). d 128: 128x64, 4, 2: 547 (565). d 256: 128x64, 8,
  2: 554 (542).
- d 64: 128x64, 4, 2: 401 (381); 4, 3: 421 (426); 64x64, 4, 4: 412 (422); 128x128, 8, 3: 365 (377). Short and causal
  64x64, 4, 2 is ahead: at S = 1024 309 to 295, at 2048 374 to 373, at 4096 413 to 429.
- d 128: 128x128, 8, 3: 517 (555); 8, 2: 475 (478); 64x64, 4, 3: 476 (528); 128x64, 4, 3, one block a multiprocessor: 445
  (437); 128x32, 4, 3: 445 (411).
- d 256: 64x64, 4, 2: 421 (390); 64x32, 4, 2: 417 (400); 128x32, 8, 2: 330 (363).
- the causal mask in every tile: d 64 367, d 128 471, where a branch gives 460 and 540; two loops, without and with a mask:
  433, 502 (registers spill), d 256 524. At d 256 the branch makes the machine-code compiler wait after every wgmma: 430.
- where a program finds its tile by divisions, S = 1024: d 64 408 (308), d 128 467 (370); by a shift, and with a
  group of 1 known to the compiler: 412 (314), 468 (371); O through a descriptor besides: 412 (312), 472 (375).
- d 64, causal, S = 512, 1024, 2048: O through pointers 233, 309, 371; through a descriptor 237, 313, 376, and with at most
  64 heads mixed 246, 321, 376 (32: 247, 317, 379), where 32 MB of K and V hold 256, 128 and 64.
- warps specialised, no mask, S = 1024, 4096, 16384: d 128, 128x128, 4, 2: 443, 567, 562; 128x64: 410, 513, 501; where
  unspecialised 475, 544, 527. d 256, 128x64, 4, 2: 526, 635, 649, where 452, 532, 500. d 64, 128x128: S = 4096 408, where
  481. With 3 or 4 stages 70 % of the rows and more are NaN, in Triton's own tutorial as well.
Not covered: dropout, attention biases and other masks, fp64, second and forward-mode derivatives, transforms of torch.func
but vmap; bf16 in Triton's interpreter, which multiplies bit patterns. A tensor whose last dimension is not contiguous is
copied first, and q for a negative scale.
"""

import math
from functools import partial
from numbers import Real
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from kernels import checks, flash_attention_backward, flash_attention_decode, flash_attention_hopper
from kernels.flash_attention_tiles import (
    LOWEST, capability, dense_rows, describe_head, heads_together, large_memory, load_tile, log2_together, operand, output_like,
    padded, pair_bytes, place, store_tile, use_descriptors, whole_pieces, with_scratch,
)

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
MAX_D = 256
SHORT = 2048  # keys: a causal row of tiles then has few of them, and a large one holds much that no row sees
LONG = {128: 4096, 256: 1024}  # by head dimension: keys, none masked, from which on specialised warps are faster
MIXED = 64  # causal heads at most whose tiles mix: with more, short ones are slower
MAX_LENGTH = 2**30  # row and key numbers are 32-bit in the kernel
LOG2E = math.log2(math.e)
MAX_SCALE = 2.0**127 / LOG2E  # times log2(e), fp32 still holds it
TINY = 1e-30  # stands for a scale of 0: 2^(s * TINY) is 1 as well, but a masked score stays -inf where 0 makes it NaN


# --8<-- [start:kernel]
@triton.jit(do_not_specialize=["heads", "H_q", "together_log2", "S_q", "S_kv"])
def flash_attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,  # q, k and v as pointers, or with TMA as descriptors; o with TMA_O
    strides_q, strides_k, strides_v, strides_o,  # of each: elements from one batch entry, head and row to the next
    heads, H_q, group, together_log2, S_q, S_kv,  # heads: B * H_q; group: query heads per key-value head
    qk_scale,  # |sm_scale| * log2(e), above 0: exp2 is what the hardware computes
    D: tl.constexpr, BLOCK_D: tl.constexpr,  # head dimension, and the power of two that holds it
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,  # query rows and keys of one tile
    CAUSAL: tl.constexpr, WHOLE: tl.constexpr,  # WHOLE: S_kv is a multiple of BLOCK_N
    TMA: tl.constexpr, TMA_O: tl.constexpr,
    WARP_SPECIALIZE: tl.constexpr,  # some warps load, the others compute; q, k, v and o are pointers then
):  # fmt: skip
    tiles = tl.cdiv(S_q, BLOCK_M)
    tile, head = place(tiles, together_log2)
    if CAUSAL:
        if head >= heads:  # the last group of heads is not full
            return
        tile = tiles - 1 - tile  # the last rows see most keys: longest first, so that the end is not awaited
    start_m = tile * BLOCK_M
    b, h = head // H_q, head % H_q
    h_kv = h // group

    if WARP_SPECIALIZE:  # the compiler wants descriptors of two dimensions for it
        q_ptr = describe_head(q_ptr, strides_q, b, h, S_q, D, BLOCK_M, BLOCK_D)
        k_ptr = describe_head(k_ptr, strides_k, b, h_kv, S_kv, D, BLOCK_N, BLOCK_D)
        v_ptr = describe_head(v_ptr, strides_v, b, h_kv, S_kv, D, BLOCK_N, BLOCK_D)
    rows = tl.arange(0, BLOCK_M)  # [BLOCK_M] query rows of the tile
    offs_m = start_m + rows  # [BLOCK_M] query rows
    offs_n = tl.arange(0, BLOCK_N)  # [BLOCK_N] keys of a tile
    q = load_tile(q_ptr, strides_q, b, h, start_m, S_q, D, BLOCK_M, BLOCK_D, TMA)

    m_i = tl.full([BLOCK_M], LOWEST, tl.float32)  # largest score so far, in units of log2
    l_i = tl.zeros([BLOCK_M], tl.float32)  # sum of 2^(s - m_i) so far
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)  # sum of 2^(s - m_i) * v so far, not divided by l_i yet

    seen = S_kv  # keys before this one are visible to some row of the tile
    if CAUSAL:
        seen = tl.minimum(start_m + BLOCK_M + S_kv - S_q, S_kv)  # below 1: no tile at all
        whole = tl.maximum(start_m + 1 + S_kv - S_q, 0) // BLOCK_N * BLOCK_N  # every row sees the tiles before this one
    for start_n in tl.range(0, seen, BLOCK_N, warp_specialize=WARP_SPECIALIZE):
        k = load_tile(k_ptr, strides_k, b, h_kv, start_n, S_kv, D, BLOCK_N, BLOCK_D, TMA)
        s = tl.dot(q, tl.trans(k), input_precision="ieee")  # [BLOCK_M, BLOCK_N] fp32
        if CAUSAL:
            if BLOCK_D > 128 or start_n >= whole:  # at 256 the branch would make the compiler wait for every product
                s = tl.where(start_n + offs_n[None, :] <= offs_m[:, None] + (S_kv - S_q), s, float("-inf"))
        elif not WHOLE:
            s = tl.where((offs_n < S_kv - start_n)[None, :], s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, axis=1) * qk_scale)
        alpha = tl.exp2(m_i - m_new)  # [BLOCK_M] the correction: old sums measured with the new maximum
        p = tl.exp2(s * qk_scale - m_new[:, None])  # [BLOCK_M, BLOCK_N], never leaves the chip
        l_i = l_i * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None]
        v = load_tile(v_ptr, strides_v, b, h_kv, start_n, S_kv, D, BLOCK_N, BLOCK_D, TMA)
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")
        m_i = m_new

    l_safe = tl.where(l_i == 0.0, 1.0, l_i)  # a row that saw no key, or scores of -inf alone: acc is 0, and so is its output
    o = acc * (1.0 / l_safe)[:, None]
    if TMA_O:
        o_ptr.store([b, h, start_m, 0], o.to(o_ptr.dtype).reshape(1, 1, BLOCK_M, BLOCK_D))
    else:
        store_tile(o_ptr, strides_o, b, h, start_m, S_q, o, D, BLOCK_M, BLOCK_D)
    lse = tl.where(l_i == 0.0, float("-inf"), (m_i + tl.log2(l_safe)) * 0.6931471805599453)  # ln 2: natural logarithms
    if WARP_SPECIALIZE:  # in offs_m the compiler shifts the rows of the second half by 64 twice
        tl.store(lse_ptr + (head.to(tl.int64) * S_q + start_m) + rows, lse, mask=rows < S_q - start_m)
    else:
        tl.store(lse_ptr + head.to(tl.int64) * S_q + offs_m, lse, mask=offs_m < S_q)
# --8<-- [end:kernel]


# --8<-- [start:wrapper]
def flash_attention(q, k, v, *, causal=False, sm_scale=None, return_lse=False):
    """Exact attention, softmax(q k^T * sm_scale) v; differentiable once in q, k and v.

    q [B, H_q, S_q, D], k and v [B, H_kv, S_kv, D], H_q a multiple of H_kv: query head h uses key-value head
    h // (H_q / H_kv). fp16, bf16 or fp32, one dtype and device. sm_scale: 1 / sqrt(D) unless given.
    causal: query i sees keys up to i + S_kv - S_q (bottom-right; torch's `is_causal` is aligned top-left).
    Returns o [B, H_q, S_q, D] in q's dtype; with return_lse also the natural log-sum-exp, fp32 [B, H_q, S_q].
    TypeError, ValueError, NotImplementedError: anything that is not taken, naming the argument.
    """
    check(q, k, v, causal, sm_scale, return_lse)
    sm_scale = 1 / math.sqrt(q.shape[3]) if sm_scale is None else float(sm_scale)
    run = forward
    if checks.needs_dispatch(q, k, v):
        checks.refuse_transforms("flash_attention", q, k, v, batched=True)
        run = attention_op
    o, lse = run(q, k, v, bool(causal), sm_scale)
    return (o, lse) if return_lse else o


def forward(q, k, v, causal, sm_scale):
    """(o, lse) from the kernel that suits the shape: few query rows, then Hopper's own, else the one above."""
    q, k, v = map(dense_rows, (q, k, v))
    o = output_like(q)  # before -q, which may lie otherwise
    q = q if sm_scale >= 0 else dense_rows(-q)  # the kernels take scales above 0 only
    qk_scale = max(abs(sm_scale) * LOG2E, TINY)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    if o.numel():  # a grid of no programs cannot be launched
        with torch.cuda.device_of(q):
            if flash_attention_decode.suits(q, k):
                flash_attention_decode.forward(q, k, v, o, lse, causal, qk_scale)
            elif flash_attention_hopper.supported(q, k, v):
                flash_attention_hopper.forward(q, k, v, o, lse, causal, qk_scale)
            else:
                forward_plain(q, k, v, o, lse, causal, qk_scale)
    return o, lse


def forward_plain(q, k, v, o, lse, causal, qk_scale):
    """Fill o and lse by the kernel above, whatever other kernels there are."""
    (B, H_q, S_q, D), (H_kv, S_kv) = q.shape, k.shape[1:3]
    tma = use_descriptors(flash_attention_kernel, q, k, v)
    blocks = config(q.dtype, D, capability(q) if tma else None, causal, S_kv)
    host_tma = tma and not blocks.WARP_SPECIALIZE
    tma_o = host_tma and use_descriptors(flash_attention_kernel, o) and whole_pieces(o)
    tiles, group = triton.cdiv(S_q, blocks.BLOCK_M), H_q // H_kv
    mixed = causal and 2 * tiles * B * H_q < 2**31  # a grid holds no more, and the last group of heads may be half empty
    together = min(MIXED, heads_together(B * H_q, group, pair_bytes(k))) if mixed else 1
    together_log2, launched = log2_together(B * H_q, together)
    launch = partial(
        flash_attention_kernel[(tiles * launched,)],
        operand(q, blocks.BLOCK_M, host_tma), operand(k, blocks.BLOCK_N, host_tma), operand(v, blocks.BLOCK_N, host_tma),
        operand(o, blocks.BLOCK_M, tma_o), lse,
        q.stride()[:3], k.stride()[:3], v.stride()[:3], o.stride()[:3],
        B * H_q, H_q, group, together_log2, S_q, S_kv, qk_scale,
        D=D, BLOCK_D=padded(D), CAUSAL=causal, WHOLE=S_kv % blocks.BLOCK_N == 0, TMA=tma, TMA_O=tma_o, **blocks._asdict(),
    )  # fmt: skip
    if blocks.WARP_SPECIALIZE:
        with_scratch(launch, q.device)
    else:
        launch()
# --8<-- [end:wrapper]


# --8<-- [start:autograd]
@torch.library.custom_op(f"{__name__.replace('.', '_')}::forward", mutates_args=())
def attention_op(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, sm_scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """What autograd and torch.compile see of `forward`: one operator."""
    return forward(q, k, v, causal, sm_scale)


@torch.library.custom_op(f"{__name__.replace('.', '_')}::backward", mutates_args=())
def gradients_op(
    do: torch.Tensor, dlse: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    o: torch.Tensor, lse: torch.Tensor, causal: bool, sm_scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """The same for the gradients of q, k and v."""
    return flash_attention_backward.backward(do, dlse, q, k, v, o, lse, causal, sm_scale)


@attention_op.register_fake
def _(q, k, v, causal, sm_scale):
    return output_like(dense_rows(q)), q.new_empty(q.shape[:3], dtype=torch.float32)


@gradients_op.register_fake
def _(do, dlse, q, k, v, o, lse, causal, sm_scale):
    return tuple(output_like(dense_rows(x)) for x in (q, k, v))


def _save(ctx, inputs, output):
    *qkv, ctx.causal, ctx.sm_scale = inputs
    ctx.save_for_backward(*qkv, *output)  # with their versions: a later write in place is found out
    ctx.set_materialize_grads(False)


def _gradients(ctx, do, dlse):
    q, k, v, o, lse = ctx.saved_tensors
    do = torch.zeros_like(o) if do is None else do
    tensors, run = [x for x in (do, dlse, q, k, v) if x is not None], flash_attention_backward.backward
    if checks.needs_dispatch(*tensors):
        checks.refuse_transforms("flash_attention", *tensors, batched=True)
        run = gradients_op
    return *run(do, dlse, q, k, v, o, lse, ctx.causal, ctx.sm_scale), None, None


def _no_second(ctx, *_):
    raise NotImplementedError("flash_attention 只有一阶梯度；二阶梯度请用 scaled_dot_product_attention 的 MATH 后端")


attention_op.register_autograd(_gradients, setup_context=_save)
gradients_op.register_autograd(_no_second)
# --8<-- [end:autograd]


class Blocks(NamedTuple):
    """Query rows and keys of one tile, warps of a program, stages of the load pipeline."""

    BLOCK_M: int
    BLOCK_N: int
    num_warps: int
    num_stages: int
    WARP_SPECIALIZE: bool = False


# --8<-- [start:config]
def config(dtype, D, capability=None, causal=False, S_kv=0):
    """Tiles for a dtype, head dimension, mask, number of keys and, where descriptors are used, compute capability.

    sm_90 and sm_100 have 227 KB of shared memory a block; None and the others get what fits the least of any, 99 KB.
    """
    BLOCK_D = padded(D)
    if dtype == torch.float32:  # products on the ordinary cores: small tiles, or registers spill
        return Blocks(64, 32, 4, 2) if BLOCK_D <= 32 else Blocks(32, 32, 4, 2) if BLOCK_D <= 128 else Blocks(16, 16, 4, 2)
    if large_memory(capability):
        if BLOCK_D == 64 and causal and 0 < S_kv <= SHORT:
            return Blocks(64, 64, 4, 2)
        long = Blocks(128, 64 if D == 256 else 128, 4, 2, WARP_SPECIALIZE=True)  # with 3 stages: NaN
        if capability == (9, 0) and not causal and S_kv >= LONG.get(D, math.inf) and S_kv % long.BLOCK_N == 0:
            return long
        return {64: Blocks(64, 128, 4, 2), 256: Blocks(128, 64, 8, 2)}.get(BLOCK_D, Blocks(128, 64, 4, 2))
    tiles = {64: Blocks(64, 32, 4, 2), 128: Blocks(128, 64, 8, 2), 256: Blocks(64, 32, 8, 2)}
    return tiles.get(BLOCK_D, Blocks(128, 64, 4, 2))
# --8<-- [end:config]


def check(q, k, v, causal, sm_scale, return_lse):
    """TypeError or ValueError naming the argument that `flash_attention` does not take."""
    checks.tensors(flash_attention_kernel, DTYPES, differentiable=True, q=q, k=k, v=v)
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
    for name, x in (("causal", causal), ("return_lse", return_lse)):
        if getattr(x, "ndim", 0) or x not in (0, 1):
            raise TypeError(f"{name}={x!r:.40} 应为 True 或 False")
    if sm_scale is not None and not isinstance(sm_scale, (Real, torch.SymFloat, torch.SymInt)):
        raise TypeError(f"sm_scale 是 {type(sm_scale).__name__}；应为实数，请用 float(sm_scale)；缺省为 1/√D")
    if sm_scale is not None and not -MAX_SCALE <= sm_scale <= MAX_SCALE:
        raise ValueError(f"sm_scale={sm_scale!r:.40} 不是 FP32 装得下的有限的数（绝对值至多 {MAX_SCALE:.1e}）；缺省为 1/√D")
