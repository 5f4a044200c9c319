"""Gradients of FlashAttention for Hopper alone: a warp that loads and warpgroups that compute, in Gluon.

Algorithm: that of `kernels.flash_attention_backward`: one kernel for dQ, then one for dK and dV, seven products in all,
every element summed by one program in one order: no atomics on data, the same bits each time. The parts are those of
`kernels.flash_attention_hopper`: one program stays on each multiprocessor, its producer loads ahead by TMA, its
consumers take turns in issuing products, and products of the block before run on through a block's exponentials.
The last two are mirror images: a tile of rows (of Q and dO) through which blocks of K and V stream, and a tile of keys
through which blocks of Q and dO stream, once for each query head of the group. What belongs to the tile is `own`.
Accepts: `supported`. Any lengths from 1 on, any B and H, tensors past 2^31 elements; causal aligned bottom-right;
grouped-query heads; qk_scale of any sign. Rows with nothing to attend to get 0. Which program takes a tile may change
from run to run, the result does not.
Versions tried, TFLOP/s on an H200 (Triton 3.6.0, fp16, S = 16384 (causal), 16384 tokens and a hidden size of 2048 in
all; medians of interleaved rounds), dQ counting 6 B H S^2 d and dK, dV counting 8; kept first:
- dQ, d = 128: 802 (800); Q and dO held in registers 811 (774); without turns 806 (800); each block's products awaited
  before the next 741 (715). d = 64: 662 (617); three consumers, blocks of 64 keys 633 (657); the same blocks, Q and dO
  in registers 592 (533)
- dK and dV, d = 128: 738 (703); without turns 711 (686); four stages, results in the buffers of K and V 729 (687);
  each block's products awaited 667 (650); all four products in flight: does not fit 240 registers
- dK and dV, d = 64: 626 (602); K and V read from shared memory 613 (519), and without `pin_by_wait` 539 (586), and without
  turns 632 (543); three consumers, each block's products awaited 573 (493)
- `pin_by_wait` in the other three kernels: 798 (786) for dQ at d = 128, 640 (610) at d = 64
- all gradients, counting 10, in one run, as without `pin` 488 (495) at d = 128, 417 (412) at d = 64: dK and dV waiting for dP
  after the exponentials, d = 128: 515 (491), at S = 4096 522 (476) where before them 504 (481); `pin` instead of
  `pin_by_wait`, d = 64: 403 (404); `pin` in dQ before both waits, d = 128 498 (500), d = 64 406 (400)
Not covered: fp32, D = 256 (dK and dV, two accumulators of that width, do not fit the registers) and other devices
(`kernels.flash_attention_backward` takes those), second derivatives.
"""

from typing import NamedTuple

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels import flash_attention_hopper as hopper
from kernels.flash_attention_hopper import (
    LN2, ROWS, addressable, announce, announced, barrier_ring, descriptor, filled, key_blocks, load_block, next_tile, place,
    pin, read_tile,
)
from kernels.flash_attention_tiles import heads_together, multiprocessors, pair_bytes

HEAD_DIMS = (64, 128)
CONSUMERS = gl.constexpr(2)  # warpgroups that own ROWS rows or keys of a tile each
CONSUMER_REGISTERS = gl.constexpr(240)  # of a thread; with the producer's warpgroup 64512 of a multiprocessor's 65536
PRODUCER_REGISTERS = gl.constexpr(24)
LOG2E = gl.constexpr(1.4426950408889634)
TILE = CONSUMERS.value * ROWS  # rows or keys
MAXNREG = (CONSUMERS.value * CONSUMER_REGISTERS.value + PRODUCER_REGISTERS.value) // (CONSUMERS.value + 1)  # at the launch
STATISTICS_LAYOUT = gl.NVMMASharedLayout(0, 32, 2)  # a row of lse2 or delta, not swizzled: it is no operand of wgmma


# --8<-- [start:dq]
@gluon.jit
def dq_producer(given, CAUSAL: gl.constexpr, CONFIG: gl.constexpr):
    """One warp that takes tiles of rows and loads their Q, dO and O, and all K and V that they see."""
    descs, buffers, handover, barriers, counter_ptr, H_q, group, S_q, S_pad, S_kv, heads, together = given
    q_desc, do_desc, o_desc, k_desc, v_desc = descs
    q_smem, do_smem, o_smem, k_smem, v_smem = buffers
    own_full, own_empty, o_full, o_empty, k_full, k_empty, v_full, v_empty, turn = barriers
    STAGES: gl.constexpr = CONFIG.value.STAGES
    ROWS: gl.constexpr = q_desc.block_shape[2]
    BLOCK_M: gl.constexpr = CONSUMERS * ROWS
    row_tiles = (S_pad + BLOCK_M - 1) // BLOCK_M
    tile = gl.program_id(0)
    tiles = 0  # tiles and blocks of keys so far: how often a buffer was filled before tells its barrier's phase
    count = 0
    while tile < row_tiles * heads:
        row_tile, b, h = place(tile, row_tiles, heads, together, H_q)
        h_kv = h // group
        n = key_blocks(row_tile * BLOCK_M, BLOCK_M, S_q, S_kv, CAUSAL, CONFIG.value.BLOCK)
        load_block(k_desc, k_smem, k_full, k_empty, n - 1, count, b, h_kv, STAGES)  # from the last block down to 0
        load_block(v_desc, v_smem, v_full, v_empty, n - 1, count, b, h_kv, STAGES)

        mbarrier.wait(own_empty, tiles & 1 ^ 1)
        announce(handover, row_tile, b, h)
        mbarrier.expect(own_full, CONSUMERS * (q_desc.block_type.nbytes + do_desc.block_type.nbytes))
        for i in gl.static_range(CONSUMERS):
            row = row_tile * BLOCK_M + i * ROWS
            tma.async_copy_global_to_shared(q_desc, [b, h, row, 0], own_full, q_smem.index(i))
            tma.async_copy_global_to_shared(do_desc, [b, h, row, 0], own_full, do_smem.index(i))
        mbarrier.wait(o_empty, tiles & 1 ^ 1)
        mbarrier.expect(o_full, CONSUMERS * o_desc.block_type.nbytes)
        for i in gl.static_range(CONSUMERS):
            tma.async_copy_global_to_shared(o_desc, [b, h, row_tile * BLOCK_M + i * ROWS, 0], o_full, o_smem.index(i))

        tile = next_tile(tile, counter_ptr, CAUSAL)  # causal tiles are not alike
        for j in range(1, n):
            load_block(k_desc, k_smem, k_full, k_empty, n - 1 - j, count + j, b, h_kv, STAGES)
            load_block(v_desc, v_smem, v_full, v_empty, n - 1 - j, count + j, b, h_kv, STAGES)
        count += n
        tiles += 1
    mbarrier.wait(own_empty, tiles & 1 ^ 1)
    announce(handover, -1, 0, 0)


@gluon.jit
def row_statistics(do, o, lse_ptr, dlse_ptr, lse2_ptr, delta_ptr, head, row, S_q, S_pad, DLSE: gl.constexpr):
    """([ROWS] lse in units of log2, [ROWS] delta) of rows of a head, stored for the other kernel: 0 from row S_q on."""
    at = head.to(gl.int64) * S_q + row
    lse2 = gl.load(lse_ptr + at, mask=row < S_q, other=0.0) * LOG2E
    lse2 = gl.where(lse2 == float("-inf"), float("inf"), lse2)  # a row that sees nothing: P is 2^(s - inf) = 0
    delta = gl.sum(do.to(gl.float32) * o.to(gl.float32), axis=1)  # the row sums of P * dP
    delta = gl.convert_layout(delta, row.type.layout)
    if DLSE:
        delta -= gl.load(dlse_ptr + at, mask=row < S_q, other=0.0)  # the derivative of lse by s is P
    at = head.to(gl.int64) * S_pad + row
    gl.store(lse2_ptr + at, lse2, mask=row < S_pad)
    gl.store(delta_ptr + at, delta, mask=row < S_pad)
    return lse2, delta


@gluon.jit
def seen_only(p, row, start, S_q, S_kv, CAUSAL: gl.constexpr):
    """p [ROWS, BLOCK], of keys from `start` on, 0 where the row does not see the key.

    It is p that is masked: -inf in place of a score would not stay so under a scale that is negative or 0.
    """
    key = start + gl.arange(0, p.shape[1], gl.SliceLayout(0, p.type.layout))
    if CAUSAL:
        return gl.where(key[None, :] < gl.minimum(row + S_kv - S_q + 1, S_kv)[:, None], p, 0.0)
    else:
        return gl.where((key < S_kv)[None, :], p, 0.0)


@gluon.jit
def dq_consumer(given, INDEX: gl.constexpr, CAUSAL: gl.constexpr, DLSE: gl.constexpr, CONFIG: gl.constexpr):
    """Four warps that own ROWS rows of every tile: S = Q K^T, dP = dO V^T, dS = P * (dP - delta), dQ = dS K."""
    dq_desc, pointers, buffers, handover, barriers, H_q, S_q, S_pad, S_kv, qk_scale = given
    lse_ptr, dlse_ptr, lse2_ptr, delta_ptr = pointers
    q_smem, do_smem, o_smem, k_smem, v_smem = buffers
    own_full, own_empty, o_full, o_empty, k_full, k_empty, v_full, v_empty, turn = barriers
    BLOCK: gl.constexpr = CONFIG.value.BLOCK
    STAGES: gl.constexpr = CONFIG.value.STAGES
    ROWS: gl.constexpr = dq_desc.block_shape[2]
    D: gl.constexpr = dq_desc.block_shape[3]
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK, 16])  # as wgmma leaves its result
    D_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    DS_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, D_LAYOUT, 2)  # dS in registers: in dP's places, so nothing moves
    FIRST: gl.constexpr = 1 if INDEX == 0 else 0  # the first consumer takes the first turn unasked
    NEXT: gl.constexpr = (INDEX + 1) % CONSUMERS

    zeros = gl.zeros([ROWS, BLOCK], gl.float32, S_LAYOUT)
    tiles = 0  # tiles and blocks of keys so far: how often a buffer was filled before tells its barrier's phase
    count = 0
    row_tile, b, h = announced(handover, 0)
    while row_tile >= 0:
        mbarrier.wait(own_full, tiles & 1)
        first_row = (row_tile * CONSUMERS + INDEX) * ROWS
        row = first_row + gl.arange(0, ROWS, gl.SliceLayout(1, S_LAYOUT))
        whole = S_kv  # keys before this one are visible to every row
        if CAUSAL:
            whole = gl.minimum(first_row + S_kv - S_q + 1, S_kv)
        n = key_blocks(row_tile * CONSUMERS * ROWS, CONSUMERS * ROWS, S_q, S_kv, CAUSAL, BLOCK)
        q = q_smem.index(INDEX).reshape([ROWS, D])
        do = do_smem.index(INDEX).reshape([ROWS, D])

        k = filled(k_smem, k_full, count, STAGES)
        v = filled(v_smem, v_full, count, STAGES)
        mbarrier.wait(turn.index(INDEX), count & 1 ^ FIRST)
        s = warpgroup_mma(q, k.permute((1, 0)), zeros, use_acc=False, is_async=True)  # [ROWS, BLOCK]
        dp = warpgroup_mma(do, v.permute((1, 0)), zeros, use_acc=False, is_async=True)
        mbarrier.arrive(turn.index(NEXT), count=1)
        mbarrier.wait(o_full, tiles & 1)
        do_tile = do_smem.index(INDEX).reshape([ROWS, D]).load(D_LAYOUT)
        o_tile = o_smem.index(INDEX).reshape([ROWS, D]).load(D_LAYOUT)
        lse2, delta = row_statistics(
            do_tile, o_tile, lse_ptr, dlse_ptr, lse2_ptr, delta_ptr, b * H_q + h, row, S_q, S_pad, DLSE
        )
        s = warpgroup_mma_wait(1, deps=[s])
        p = gl.exp2(s * qk_scale - gl.expand_dims(lse2, 1))
        if n * BLOCK > whole:
            p = seen_only(p, row, (n - 1) * BLOCK, S_q, S_kv, CAUSAL)
        dp = warpgroup_mma_wait(0, deps=[dp])
        mbarrier.arrive(v_empty.index(count % STAGES), count=1)
        ds = gl.convert_layout((p * (dp - gl.expand_dims(delta, 1))).to(dq_desc.dtype), DS_LAYOUT)
        dq = gl.zeros([ROWS, D], gl.float32, D_LAYOUT)

        for j in range(1, n):
            k = filled(k_smem, k_full, count + 1, STAGES)
            v = filled(v_smem, v_full, count + 1, STAGES)
            mbarrier.wait(turn.index(INDEX), count + 1 & 1 ^ FIRST)
            s = warpgroup_mma(q, k.permute((1, 0)), zeros, use_acc=False, is_async=True)
            dp = warpgroup_mma(do, v.permute((1, 0)), zeros, use_acc=False, is_async=True)
            k_before = k_smem.index(count % STAGES).reshape([BLOCK, D])
            dq = warpgroup_mma(ds, k_before, dq, is_async=True)  # runs on through this block's exponentials
            mbarrier.arrive(turn.index(NEXT), count=1)
            s = warpgroup_mma_wait(2, deps=[s])
            p = gl.exp2(s * qk_scale - gl.expand_dims(lse2, 1))
            if CAUSAL:
                if (n - j) * BLOCK > whole:
                    p = seen_only(p, row, (n - 1 - j) * BLOCK, S_q, S_kv, CAUSAL)
            dp = warpgroup_mma_wait(1, deps=[dp])
            mbarrier.arrive(v_empty.index((count + 1) % STAGES), count=1)
            ds_new = (p * (dp - gl.expand_dims(delta, 1))).to(dq_desc.dtype)
            dq = warpgroup_mma_wait(0, deps=[dq])
            mbarrier.arrive(k_empty.index(count % STAGES), count=1)
            ds = gl.convert_layout(ds_new, DS_LAYOUT)
            count += 1

        mbarrier.arrive(own_empty, count=1)  # the next tile's Q and dO load while this one ends
        dq = warpgroup_mma(ds, k_smem.index(count % STAGES).reshape([BLOCK, D]), dq, is_async=True)
        dq = warpgroup_mma_wait(0, deps=[dq])
        mbarrier.arrive(k_empty.index(count % STAGES), count=1)
        dq = dq * (qk_scale * LN2)  # sm_scale

        o_smem.index(INDEX).reshape([ROWS, D]).store(dq.to(dq_desc.dtype))  # O has been read
        fence_async_shared()  # TMA reads past the caches of ordinary stores
        tma.async_copy_shared_to_global(dq_desc, [b, h, first_row, 0], o_smem.index(INDEX))
        tma.store_wait(0)
        mbarrier.arrive(o_empty, count=1)
        count += 1
        tiles += 1
        row_tile, b, h = announced(handover, tiles)


@gluon.jit(do_not_specialize=["H_q", "group", "S_q", "S_pad", "S_kv", "heads", "together"])
def dq_hopper_kernel(
    q_desc, do_desc, o_desc, k_desc, v_desc, dq_desc,  # [B, H, S, D] with their strides, in blocks of rows
    lse_ptr, dlse_ptr,  # fp32 [B, H_q, S_q]; dlse only if DLSE
    lse2_ptr, delta_ptr,  # fp32 [B * H_q, S_pad], filled
    counter_ptr,  # int32, 0: tiles handed out beyond the first of each program
    H_q, group, S_q, S_pad, S_kv, heads, together,  # query heads per key-value head; B * H_q; heads whose tiles mix
    qk_scale,  # sm_scale * log2(e), of any sign
    CAUSAL: gl.constexpr, DLSE: gl.constexpr, CONFIG: gl.constexpr,
):  # fmt: skip
    STAGES: gl.constexpr = CONFIG.value.STAGES
    q_smem = gl.allocate_shared_memory(q_desc.dtype, [CONSUMERS] + q_desc.block_shape, q_desc.layout)
    do_smem = gl.allocate_shared_memory(do_desc.dtype, [CONSUMERS] + do_desc.block_shape, do_desc.layout)
    o_smem = gl.allocate_shared_memory(o_desc.dtype, [CONSUMERS] + o_desc.block_shape, o_desc.layout)  # later dQ's
    k_smem = gl.allocate_shared_memory(k_desc.dtype, [STAGES] + k_desc.block_shape, k_desc.layout)
    v_smem = gl.allocate_shared_memory(v_desc.dtype, [STAGES] + v_desc.block_shape, v_desc.layout)
    tile_smem = gl.allocate_shared_memory(gl.int64, [3, 32], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    handover = (tile_smem, barrier_ring(1, 1).index(0))
    own_full, own_empty = barrier_ring(1, 1).index(0), barrier_ring(1, CONSUMERS).index(0)
    o_full, o_empty = barrier_ring(1, 1).index(0), barrier_ring(1, CONSUMERS).index(0)
    k_full, k_empty = barrier_ring(STAGES, 1), barrier_ring(STAGES, CONSUMERS)
    v_full, v_empty = barrier_ring(STAGES, 1), barrier_ring(STAGES, CONSUMERS)
    turn = barrier_ring(CONSUMERS, 1)
    fence_async_shared()

    buffers = (q_smem, do_smem, o_smem, k_smem, v_smem)
    barriers = (own_full, own_empty, o_full, o_empty, k_full, k_empty, v_full, v_empty, turn)
    descs, pointers = (q_desc, do_desc, o_desc, k_desc, v_desc), (lse_ptr, dlse_ptr, lse2_ptr, delta_ptr)
    loads = (descs, buffers, handover, barriers, counter_ptr, H_q, group, S_q, S_pad, S_kv, heads, together)
    works = (dq_desc, pointers, buffers, handover, barriers, H_q, S_q, S_pad, S_kv, qk_scale)
    # Constants are written out in each tuple: one that is kept in a variable turns them into tensors.
    gl.warp_specialize(
        [(dq_consumer, (works, 0, CAUSAL, DLSE, CONFIG)), (dq_consumer, (works, 1, CAUSAL, DLSE, CONFIG)),
         (dq_producer, (loads, CAUSAL, CONFIG))],
        [4, 1], [CONSUMER_REGISTERS, PRODUCER_REGISTERS],
    )  # fmt: skip
# --8<-- [end:dq]


# --8<-- [start:dkdv]
@gluon.jit
def pin_by_wait(own_full, tiles):
    """`pin` by a branch that is taken: the wait for what the tile owns, which is there as long as the tile is."""
    mbarrier.wait(own_full, tiles & 1)


@gluon.jit
def first_query_block(key, S_q, S_kv, CAUSAL: gl.constexpr, BLOCK: gl.constexpr):
    """Number of the first block of query rows that sees keys from `key` on."""
    if CAUSAL:
        return gl.maximum(key + S_q - S_kv, 0) // BLOCK
    else:
        return 0


@gluon.jit
def load_rows(descs, buffers, full, empty, block, count, b, h, head, STAGES: gl.constexpr):
    """Start the copy of a block of Q, dO, lse2 and delta, the count-th of all, once consumers have left its place."""
    q_desc, do_desc, lse2_desc, delta_desc = descs
    q_smem, do_smem, lse2_smem, delta_smem = buffers
    stage = count % STAGES
    start = block * q_desc.block_shape[2]
    arrived = full.index(stage)
    mbarrier.wait(empty.index(stage), count // STAGES & 1 ^ 1)  # at once for the first STAGES blocks
    mbarrier.expect(arrived, 2 * q_desc.block_type.nbytes + 2 * lse2_desc.block_type.nbytes)
    tma.async_copy_global_to_shared(q_desc, [b, h, start, 0], arrived, q_smem.index(stage))
    tma.async_copy_global_to_shared(lse2_desc, [head, start], arrived, lse2_smem.index(stage))
    tma.async_copy_global_to_shared(do_desc, [b, h, start, 0], arrived, do_smem.index(stage))
    tma.async_copy_global_to_shared(delta_desc, [head, start], arrived, delta_smem.index(stage))


@gluon.jit
def dkdv_producer(given, CAUSAL: gl.constexpr, CONFIG: gl.constexpr):
    """One warp that takes tiles of keys and loads their K and V, and all Q and dO that see them, head after head."""
    descs, buffers, handover, barriers, counter_ptr, H_kv, group, S_q, S_kv, heads, together = given
    k_desc, v_desc, row_descs = descs
    k_smem, v_smem, dk_smem, dv_smem, row_buffers = buffers
    own_full, own_empty, full, empty, turn = barriers
    BLOCK: gl.constexpr = CONFIG.value.BLOCK
    STAGES: gl.constexpr = CONFIG.value.STAGES
    ROWS: gl.constexpr = k_desc.block_shape[2]
    BLOCK_N: gl.constexpr = CONSUMERS * ROWS
    key_tiles = (S_kv + BLOCK_N - 1) // BLOCK_N
    tile = gl.program_id(0)
    tiles = 0  # tiles and blocks of query rows so far: how often a buffer was filled before tells its barrier's phase
    count = 0
    while tile < key_tiles * heads:
        last_first, b, h_kv = place(tile, key_tiles, heads, together, H_kv)
        key_tile = key_tiles - 1 - last_first  # causal: the first keys are seen most
        first = first_query_block(key_tile * BLOCK_N, S_q, S_kv, CAUSAL, BLOCK)
        blocks = (S_q + BLOCK - 1) // BLOCK - first  # of each query head
        h = h_kv * group
        head = (b * H_kv + h_kv) * group
        load_rows(row_descs, row_buffers, full, empty, first, count, b, h, head, STAGES)

        mbarrier.wait(own_empty, tiles & 1 ^ 1)
        announce(handover, key_tile, b, h_kv)
        mbarrier.expect(own_full, CONSUMERS * (k_desc.block_type.nbytes + v_desc.block_type.nbytes))
        for i in gl.static_range(CONSUMERS):
            key = key_tile * BLOCK_N + i * ROWS
            tma.async_copy_global_to_shared(k_desc, [b, h_kv, key, 0], own_full, k_smem.index(i))
            tma.async_copy_global_to_shared(v_desc, [b, h_kv, key, 0], own_full, v_smem.index(i))

        tile = next_tile(tile, counter_ptr, CAUSAL)
        for j in range(1, group * blocks):
            one, block = j // blocks, first + j % blocks
            load_rows(row_descs, row_buffers, full, empty, block, count + j, b, h + one, head + one, STAGES)
        count += group * blocks
        tiles += 1
    mbarrier.wait(own_empty, tiles & 1 ^ 1)
    announce(handover, -1, 0, 0)


@gluon.jit
def columns(statistics, count, LAYOUT: gl.constexpr, STAGES: gl.constexpr):
    """[1, BLOCK] lse2 or delta of the count-th block of query rows, which stand in columns here."""
    row = statistics.index(count % STAGES).reshape([statistics.shape[2]]).load(gl.SliceLayout(0, LAYOUT))
    return gl.expand_dims(row, 0)


@gluon.jit
def probabilities(s, lse2, before, qk_scale, CAUSAL: gl.constexpr):
    """P [ROWS, BLOCK], keys by query rows; the first row sees the first `before` keys, each later one a key more."""
    p = gl.exp2(s * qk_scale - lse2)
    if CAUSAL:
        if before < s.shape[0]:
            key = gl.arange(0, s.shape[0], gl.SliceLayout(1, s.type.layout))
            row = gl.arange(0, s.shape[1], gl.SliceLayout(0, s.type.layout))
            p = gl.where(key[:, None] < (row + before)[None, :], p, 0.0)
    return p


@gluon.jit
def dkdv_consumer(given, INDEX: gl.constexpr, CAUSAL: gl.constexpr, CONFIG: gl.constexpr):
    """Four warps that own ROWS keys of every tile: S^T = K Q^T, dP^T = V dO^T, dV = P^T dO, dK = dS^T Q.

    P and dS stand transposed, so that they enter the last two products from registers.
    """
    dk_desc, dv_desc, buffers, handover, barriers, group, S_q, S_kv, qk_scale = given
    k_smem, v_smem, dk_smem, dv_smem, row_buffers = buffers
    q_smem, do_smem, lse2_smem, delta_smem = row_buffers
    own_full, own_empty, full, empty, turn = barriers
    BLOCK: gl.constexpr = CONFIG.value.BLOCK
    STAGES: gl.constexpr = CONFIG.value.STAGES
    FOUR: gl.constexpr = CONFIG.value.FOUR_IN_FLIGHT
    ROWS: gl.constexpr = dk_desc.block_shape[2]
    D: gl.constexpr = dk_desc.block_shape[3]
    BLOCK_N: gl.constexpr = CONSUMERS * ROWS
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK, 16])  # as wgmma leaves its result
    D_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, D_LAYOUT, 2)  # P and dS in registers: nothing moves
    OWN_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, S_LAYOUT, 2)
    FIRST: gl.constexpr = 1 if INDEX == 0 else 0  # the first consumer takes the first turn unasked
    NEXT: gl.constexpr = (INDEX + 1) % CONSUMERS

    zeros = gl.zeros([ROWS, BLOCK], gl.float32, S_LAYOUT)
    tiles = 0  # tiles and blocks of query rows so far: how often a buffer was filled before tells its barrier's phase
    count = 0
    key_tile, b, h_kv = announced(handover, 0)
    while key_tile >= 0:
        mbarrier.wait(own_full, tiles & 1)
        first_key = (key_tile * CONSUMERS + INDEX) * ROWS
        first = first_query_block(key_tile * BLOCK_N, S_q, S_kv, CAUSAL, BLOCK) * BLOCK
        n = group * ((S_q - first + BLOCK - 1) // BLOCK)
        fewest = first + S_kv - S_q - first_key + 1  # own keys that the first row of a head's first block sees
        most = S_kv - first_key + 1  # and that a row past the head's last would see
        before = fewest
        k = k_smem.index(INDEX).reshape([ROWS, D])
        v = v_smem.index(INDEX).reshape([ROWS, D])
        if FOUR:
            k = k.load(OWN_LAYOUT)
            v = v.load(OWN_LAYOUT)
        dk = gl.zeros([ROWS, D], gl.float32, D_LAYOUT)
        dv = gl.zeros([ROWS, D], gl.float32, D_LAYOUT)

        q = filled(q_smem, full, count, STAGES)
        do = do_smem.index(count % STAGES).reshape([BLOCK, D])
        mbarrier.wait(turn.index(INDEX), count & 1 ^ FIRST)
        s = warpgroup_mma(k, q.permute((1, 0)), zeros, use_acc=False, is_async=True)  # [ROWS, BLOCK]
        dp = warpgroup_mma(v, do.permute((1, 0)), zeros, use_acc=False, is_async=True)
        mbarrier.arrive(turn.index(NEXT), count=1)
        s = warpgroup_mma_wait(1, deps=[s])
        lse2 = columns(lse2_smem, count, S_LAYOUT, STAGES)
        p = probabilities(s, lse2, before, qk_scale, CAUSAL)
        dp = warpgroup_mma_wait(0, deps=[dp])
        ds = p * (dp - columns(delta_smem, count, S_LAYOUT, STAGES))
        p = gl.convert_layout(p.to(dv_desc.dtype), P_LAYOUT)
        ds = gl.convert_layout(ds.to(dk_desc.dtype), P_LAYOUT)
        for j in range(1, n):
            before = gl.where(before + BLOCK < most, before + BLOCK, fewest)
            q_before = q_smem.index(count % STAGES).reshape([BLOCK, D])
            do_before = do_smem.index(count % STAGES).reshape([BLOCK, D])
            q = filled(q_smem, full, count + 1, STAGES)
            do = do_smem.index((count + 1) % STAGES).reshape([BLOCK, D])
            mbarrier.wait(turn.index(INDEX), count + 1 & 1 ^ FIRST)
            s = warpgroup_mma(k, q.permute((1, 0)), zeros, use_acc=False, is_async=True)
            if FOUR:
                dp = warpgroup_mma(v, do.permute((1, 0)), zeros, use_acc=False, is_async=True)
                dv = warpgroup_mma(p, do_before, dv, is_async=True)  # of the block before, as the next
                dk = warpgroup_mma(ds, q_before, dk, is_async=True)
            else:
                dv = warpgroup_mma(p, do_before, dv, is_async=True)
                dk = warpgroup_mma(ds, q_before, dk, is_async=True)
                dv = warpgroup_mma_wait(1, deps=[dv])  # P's registers are free before dP needs its own
                dp = warpgroup_mma(v, do.permute((1, 0)), zeros, use_acc=False, is_async=True)
            mbarrier.arrive(turn.index(NEXT), count=1)
            s = warpgroup_mma_wait(3 if FOUR else 2, deps=[s])
            lse2 = columns(lse2_smem, count + 1, S_LAYOUT, STAGES)
            p_new = probabilities(s, lse2, before, qk_scale, CAUSAL)
            if FOUR:
                pin_by_wait(own_full, tiles)
                dp = warpgroup_mma_wait(2, deps=[dp])
            else:
                if CONFIG.value.WAIT_LAST:
                    pin(count, empty.index(0))
                dk, dp = warpgroup_mma_wait(0, deps=[dk, dp])
                mbarrier.arrive(empty.index(count % STAGES), count=1)
            ds_new = p_new * (dp - columns(delta_smem, count + 1, S_LAYOUT, STAGES))
            if FOUR:
                pin_by_wait(own_full, tiles)
                dv, dk = warpgroup_mma_wait(0, deps=[dv, dk])
                mbarrier.arrive(empty.index(count % STAGES), count=1)
            p = gl.convert_layout(p_new.to(dv_desc.dtype), P_LAYOUT)
            ds = gl.convert_layout(ds_new.to(dk_desc.dtype), P_LAYOUT)
            count += 1
        tile_smem, _ = handover
        key_tile, b, h_kv = read_tile(tile_smem)  # once more, rather than keep registers for them
        dv = warpgroup_mma(p, do_smem.index(count % STAGES).reshape([BLOCK, D]), dv, is_async=True)
        dk = warpgroup_mma(ds, q_smem.index(count % STAGES).reshape([BLOCK, D]), dk, is_async=True)
        dv, dk = warpgroup_mma_wait(0, deps=[dv, dk])
        mbarrier.arrive(empty.index(count % STAGES), count=1)
        mbarrier.arrive(own_empty, count=1)  # the next tile's K and V load while this one ends
        count += 1

        tma.store_wait(0)  # the tile before has left the buffers
        dv_smem.index(INDEX).reshape([ROWS, D]).store(dv.to(dv_desc.dtype))
        dk_smem.index(INDEX).reshape([ROWS, D]).store((dk * (qk_scale * LN2)).to(dk_desc.dtype))  # times sm_scale
        fence_async_shared()  # TMA reads past the caches of ordinary stores
        first_key = (key_tile * CONSUMERS + INDEX) * ROWS
        tma.async_copy_shared_to_global(dv_desc, [b, h_kv, first_key, 0], dv_smem.index(INDEX))
        tma.async_copy_shared_to_global(dk_desc, [b, h_kv, first_key, 0], dk_smem.index(INDEX))
        tiles += 1
        key_tile, b, h_kv = announced(handover, tiles)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["H_kv", "group", "S_q", "S_kv", "heads", "together"])
def dkdv_hopper_kernel(
    q_desc, do_desc, k_desc, v_desc, dk_desc, dv_desc,  # [B, H, S, D] with their strides, in blocks of rows
    lse2_desc, delta_desc,  # fp32 [B * H_q, S_pad], in blocks of [1, BLOCK]
    counter_ptr,  # int32, 0: tiles handed out beyond the first of each program
    H_kv, group, S_q, S_kv, heads, together,  # query heads per key-value head; B * H_kv; heads whose tiles mix
    qk_scale,  # sm_scale * log2(e), of any sign
    CAUSAL: gl.constexpr, CONFIG: gl.constexpr,
):  # fmt: skip
    STAGES: gl.constexpr = CONFIG.value.STAGES
    q_smem = gl.allocate_shared_memory(q_desc.dtype, [STAGES] + q_desc.block_shape, q_desc.layout)
    do_smem = gl.allocate_shared_memory(do_desc.dtype, [STAGES] + do_desc.block_shape, do_desc.layout)
    lse2_smem = gl.allocate_shared_memory(gl.float32, [STAGES] + lse2_desc.block_shape, lse2_desc.layout)
    delta_smem = gl.allocate_shared_memory(gl.float32, [STAGES] + delta_desc.block_shape, delta_desc.layout)
    k_smem = gl.allocate_shared_memory(k_desc.dtype, [CONSUMERS] + k_desc.block_shape, k_desc.layout)
    v_smem = gl.allocate_shared_memory(v_desc.dtype, [CONSUMERS] + v_desc.block_shape, v_desc.layout)
    dk_smem = gl.allocate_shared_memory(dk_desc.dtype, [CONSUMERS] + dk_desc.block_shape, dk_desc.layout)
    dv_smem = gl.allocate_shared_memory(dv_desc.dtype, [CONSUMERS] + dv_desc.block_shape, dv_desc.layout)
    tile_smem = gl.allocate_shared_memory(gl.int64, [3, 32], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    handover = (tile_smem, barrier_ring(1, 1).index(0))
    own_full, own_empty = barrier_ring(1, 1).index(0), barrier_ring(1, CONSUMERS).index(0)
    full, empty = barrier_ring(STAGES, 1), barrier_ring(STAGES, CONSUMERS)
    turn = barrier_ring(CONSUMERS, 1)
    fence_async_shared()

    buffers = (k_smem, v_smem, dk_smem, dv_smem, (q_smem, do_smem, lse2_smem, delta_smem))
    barriers = (own_full, own_empty, full, empty, turn)
    descs = (k_desc, v_desc, (q_desc, do_desc, lse2_desc, delta_desc))
    loads = (descs, buffers, handover, barriers, counter_ptr, H_kv, group, S_q, S_kv, heads, together)
    works = (dk_desc, dv_desc, buffers, handover, barriers, group, S_q, S_kv, qk_scale)
    # Constants are written out in each tuple: one that is kept in a variable turns them into tensors.
    gl.warp_specialize(
        [(dkdv_consumer, (works, 0, CAUSAL, CONFIG)), (dkdv_consumer, (works, 1, CAUSAL, CONFIG)),
         (dkdv_producer, (loads, CAUSAL, CONFIG))],
        [4, 1], [CONSUMER_REGISTERS, PRODUCER_REGISTERS],
    )  # fmt: skip
# --8<-- [end:dkdv]


# --8<-- [start:config]
class Config(NamedTuple):
    """How the work of one of the two kernels is laid out; each choice is timed in the module's header."""

    BLOCK: int  # keys (dQ) or query rows (dK and dV) of a block that streams by
    STAGES: int  # buffers for blocks of K or Q, and as many for V or dO
    FOUR_IN_FLIGHT: bool = False  # dK and dV: all products of a step at once, K and V in registers: at d = 64 they fit
    WAIT_LAST: bool = False  # dK and dV: wait for dP only after the exponentials, by `pin`; else ptxas waits earlier


def config(D, causal):
    """(of the dQ kernel, of the dK and dV kernel).

    Shared memory, KB: D = 64 144 (Q, dO and O 48, K 48, V 48) and 130 (K and V 32, Q 32, dO 32, dK and dV 32, lse2 and
    delta 2); D = 128 192 (96, 48, 48) and 226 (64, 48, 48, 64, 2).
    """
    return (Config(128, 3), Config(64, 4, True)) if D == 64 else (Config(64, 3), Config(64, 3, WAIT_LAST=not causal))
# --8<-- [end:config]


# --8<-- [start:wrapper]
def supported(q, k, v, do, o):
    """Whether `backward` takes these tensors [B, H, S, D]; nothing is compiled to find out."""
    return (
        hopper.supported(q, k, v)
        and q.shape[3] in HEAD_DIMS
        and q.numel() > 0
        and all(addressable(x) for x in (do, o))
    )


def backward(q, k, v, do, o, lse, dlse, dq, dk, dv, causal, qk_scale):
    """Fill dq, dk and dv, like q, k and v, with the gradients of attention.

    q, do, o [B, H_q, S_q, D], k and v [B, H_kv, S_kv, D]: as `supported`, none empty. lse fp32 [B, H_q, S_q],
    contiguous; so is dlse, its gradient, or None. qk_scale: sm_scale * log2(e), of any sign.
    """
    (B, H_q, S_q, D), causal = q.shape, bool(causal)
    by_query, by_key = config(D, causal)
    S_pad = triton.cdiv(S_q, by_key.BLOCK) * by_key.BLOCK
    lse2, delta = (torch.empty((B * H_q, S_pad), dtype=torch.float32, device=q.device) for _ in range(2))
    counters = torch.zeros(2, 4, dtype=torch.int32, device=q.device)  # 16 bytes apart, as pointers are taken to be
    launch_dq(q, k, v, do, o, lse, dlse, lse2, delta, dq, counters[0], causal, qk_scale, by_query)
    launch_dkdv(q, k, v, do, lse2, delta, dk, dv, counters[1], causal, qk_scale, by_key)


def launch_dq(q, k, v, do, o, lse, dlse, lse2, delta, dq, counter, causal, qk_scale, chosen):
    """Fill dq, and lse2 and delta, fp32 [B * H_q, S_pad], for `launch_dkdv`. counter: int32, 0."""
    (B, H_q, S_q, D), (H_kv, S_kv), S_pad = q.shape, k.shape[1:3], lse2.shape[1]
    tiles = triton.cdiv(S_pad, TILE) * B * H_q
    group = H_q // H_kv
    together = heads_together(B * H_q, group, pair_bytes(k)) if causal else 1
    dq_hopper_kernel[(min(tiles, multiprocessors(q)),)](
        *(descriptor(x, ROWS) for x in (q, do, o)), *(descriptor(x, chosen.BLOCK) for x in (k, v)),
        descriptor(dq, ROWS),
        lse, lse if dlse is None else dlse, lse2, delta, counter,
        H_q, group, S_q, S_pad, S_kv, B * H_q, together, qk_scale,
        CAUSAL=causal, DLSE=dlse is not None, CONFIG=chosen, num_warps=4, maxnreg=MAXNREG,
    )  # fmt: skip


def launch_dkdv(q, k, v, do, lse2, delta, dk, dv, counter, causal, qk_scale, chosen):
    """Fill dk and dv. S_pad is a multiple of chosen.BLOCK."""
    (H_q, S_q), (B, H_kv, S_kv, D) = q.shape[1:3], k.shape
    tiles = triton.cdiv(S_kv, TILE) * B * H_kv
    group = H_q // H_kv
    together = heads_together(B * H_kv, 1, group * pair_bytes(q)) if causal else 1
    dkdv_hopper_kernel[(min(tiles, multiprocessors(q)),)](
        *(descriptor(x, chosen.BLOCK) for x in (q, do)), *(descriptor(x, ROWS) for x in (k, v, dk, dv)),
        *(statistics(x, chosen.BLOCK) for x in (lse2, delta)), counter,
        H_kv, group, S_q, S_kv, B * H_kv, together, qk_scale,
        CAUSAL=causal, CONFIG=chosen, num_warps=4, maxnreg=MAXNREG,
    )  # fmt: skip


def statistics(x, rows):
    """x [B * H_q, S_pad] fp32 as TMA sees it, in pieces of `rows` columns of one row."""
    return TensorDescriptor(x, list(x.shape), list(x.stride()), [1, rows], STATISTICS_LAYOUT)
# --8<-- [end:wrapper]
