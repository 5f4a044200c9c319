"""FlashAttention, forward, for Hopper alone: a warp that loads and warpgroups that compute, in Gluon.

Algorithm: FlashAttention-3, arXiv 2407.08608, algorithms 1 and 2: the softmax of a block runs beside the products of the
other consumers and, where `WAIT_LAST`, beside the product P V of the block before. It is the recurrence of
`kernels.flash_attention`; what plain Triton does not say is said here: which warps do what (`warp_specialize`), who
waits for whom (mbarriers) and which products are still under way (`warpgroup_mma_wait(n)`: the n latest at most). One
program stays on each multiprocessor and takes tile after tile: its producer loads the next while its consumers end one.
Accepts: `supported`. Any lengths from 1 key on, any B and H, tensors past 2^31 elements; causal aligned bottom-right;
grouped-query heads. Rows with nothing to attend to give 0 and -inf. Which program takes a tile may change from run to
run, the result does not.
Versions tried, TFLOP/s on an H200 (Triton 3.6.0, fp16, S = 16384 and no mask unless said, 16384 tokens and a hidden
size of 2048 in all; medians of interleaved rounds; figures after one colon are of one run, others do not compare, nor
do those of docs/evidence):
- as it stands, and cuDNN: d = 64 518, 446 (causal 500, 427); d = 128 640, 590 (618, 537); d = 256 704, 621 (638, 558);
  S = 1024: d = 64 420, 414 (299, 332); d = 128 534, 532 (408, 397); d = 256 570, 536 (433, 420)
- a program for each tile, and staying ones: d = 128 592, 612 (causal 584, 594), at S = 1024 445, 532 (343, 418)
- tiles by number, and by a counter: d = 128 598, 620; d = 256 704, 683, hence by number there; but causal: 464, 641
- d = 64 with two consumers, with four stages, as it stands: 439, 507, 509 (causal 424, 489, 494);
  causal with two consumers and blocks of 64 keys, as it stands: 375, 482
- without turns, and with: d = 64 499, 509 (causal 473, 486); d = 128 612, 606; d = 256 704, 689 (causal 603, 641)
- row maximum in one step, and in two: d = 128 causal 593, 605; d = 256 704, 658
- going through blocks that only other rows see, and passing over them: d = 64 502, 509 (S = 4096 causal 416, 431);
  d = 256 causal 641, 605
- d = 256 causal in one loop, and in two: 556, 641; in one, every block masked, and only where needed: 574, 600.
  Two loops were not tried at d = 64 and 128
- causal tiles over 16 MB of keys and values at a time, and 32: d = 128 572, 594; d = 256 548, 641; over 32 and 64:
  d = 64 536, 536; d = 128 659, 659; d = 256 674, 703 (S = 4096: 627, 649); d = 256 from the first block up 692
- waiting for P V where ptxas puts it, before or (d = 256) among the exponentials, and after them: d = 128 671, 657, causal
  643, 671 (S = 4096 676, 665, causal 616, 630; S = 1024 594, 591, causal 455, 462); d = 64 531, 522 (514, 510); d = 256
  745, 688 (695, 687)
- a quarter of the exponentials by a polynomial of degree 3: d = 128 685, 578 (665, 597); d = 64 538, 496; d = 256 763, 673
- O rescaled before P V of the last block is issued, beside Q K^T (S = 4096): d = 128 686, 689, causal 640, 642; d = 64 529,
  539; d = 256 757, 765, causal 654, 654, and waiting last besides 662 (722, where 711)
- d = 64, causal, S = 512, 1024, by three consumers 228, 312; by two, which divide S, 233, 315; SKIP off besides 239, 320
- causal tiles by a counter, and by number, every other round in reverse: d = 64 529, 495; d = 128 683, 623; d = 256 705,
  603, with the tiles of all heads mixed 715, 724 (S = 4096 643, 646, where over 64 MB the counter gives 653)
- d = 128 with three consumers and blocks of 64 keys, three stages: 637 (causal 621), as it stands 694 (658)
- a correction 2^(m c - m' c): fused, it just misses 1 where the maximum m stays, and after 2^24 keys the log-sum-exp
  was off by 0.08; hence 2^((m - m') c)
Not covered: fp32, other head dimensions and devices (`kernels.flash_attention` takes those), gradients.
"""

import functools
import math
from typing import NamedTuple

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
from triton.language.extra.cuda import gdc_wait

from kernels.flash_attention_tiles import capability, heads_together, multiprocessors, pair_bytes

DTYPES = (torch.float16, torch.bfloat16)
HEAD_DIMS = (64, 128, 256)
ROWS = 64  # query rows of a consumer: what the four warps of one wgmma cover
ALIGNMENT = 16  # bytes, of what TMA reads: base addresses and strides
LONG_BYTES = 4 * 2**20  # of a head's K and V from which on causal tiles mix over twice L2_BYTES: many programs share each head
LN2 = gl.constexpr(math.log(2))


# --8<-- [start:schedule]
@gluon.jit
def place(tile, row_tiles, heads, together, H_q):
    """(row tile, batch entry, head) of a tile: `together` heads at a time, the rows that see most keys first."""
    first = tile // (row_tiles * together) * together
    width = gl.minimum(together, heads - first)  # the last heads may be fewer
    within = tile - first * row_tiles
    head = first + within % width
    return row_tiles - 1 - within // width, head // H_q, head % H_q


@gluon.jit
def key_blocks(row, rows, S_q, S_kv, CAUSAL: gl.constexpr, BLOCK_N: gl.constexpr):
    """Blocks of keys that `rows` rows from `row` on go through; at least one: blind rows are written as well."""
    seen = S_kv
    if CAUSAL:
        seen = gl.minimum(row + rows + S_kv - S_q, S_kv)
    return gl.maximum((seen + BLOCK_N - 1) // BLOCK_N, 1)
# --8<-- [end:schedule]


# --8<-- [start:producer]
@gluon.jit
def load_block(desc, buffers, full, empty, block, count, b, h, STAGES: gl.constexpr):
    """Start the copy of a block of K or V, the count-th of all, into its buffer, once every consumer has left that."""
    stage = count % STAGES
    mbarrier.wait(empty.index(stage), count // STAGES & 1 ^ 1)  # at once for the first STAGES blocks
    mbarrier.expect(full.index(stage), desc.block_type.nbytes)  # `full` completes when so many bytes have arrived
    start = block * desc.block_shape[2]
    tma.async_copy_global_to_shared(desc, [b, h, start, 0], full.index(stage), buffers.index(stage))


@gluon.jit
def next_tile(tile, counter_ptr, DYNAMIC: gl.constexpr):
    """The tile after this one: by a counter, or by number, as the first ones went."""
    if DYNAMIC:
        gdc_wait()  # where launched early: for the kernel that sets the counter to 0
        return gl.num_programs(0) + gl.atomic_add(counter_ptr, 1, sem="relaxed")
    else:
        return tile + gl.num_programs(0)


@gluon.jit
def announce(handover, row_tile, b, h):
    """Leave the next tile to the consumers, who have left the one before. -1 ends them.

    Each lane writes a place of its own and only the first lane's is read: that lane arrives, and an arrival orders the
    writes of its own thread alone.
    """
    tile_smem, tile_full = handover
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [1], [0])
    tile_smem.index(0).store(gl.full([32], row_tile, gl.int64, layout))
    tile_smem.index(1).store(gl.full([32], b, gl.int64, layout))
    tile_smem.index(2).store(gl.full([32], h, gl.int64, layout))
    mbarrier.arrive(tile_full, count=1)


@gluon.jit
def producer(given, CAUSAL: gl.constexpr, CONFIG: gl.constexpr):
    """One warp that takes tiles and loads their Q, K and V, as far ahead of the consumers as buffers are free."""
    descs, buffers, handover, barriers, counter_ptr, H_q, group, S_q, S_kv, heads, together = given
    q_desc, k_desc, v_desc = descs
    q_smem, k_smem, v_smem = buffers
    q_full, q_empty, k_full, k_empty, v_full, v_empty, turn = barriers
    STAGES: gl.constexpr = CONFIG.value.STAGES
    CONSUMERS: gl.constexpr = CONFIG.value.CONSUMERS
    ROWS: gl.constexpr = q_desc.block_shape[2]
    BLOCK_M: gl.constexpr = CONSUMERS * ROWS
    row_tiles = (S_q + BLOCK_M - 1) // BLOCK_M
    tile = gl.program_id(0)
    tiles = 0  # tiles and blocks of keys so far: how often a buffer was filled before tells its barrier's phase
    count = 0
    while tile < row_tiles * heads:
        row_tile, b, h = place(tile, row_tiles, heads, together, H_q)
        h_kv = h // group
        n = key_blocks(row_tile * BLOCK_M, BLOCK_M, S_q, S_kv, CAUSAL, CONFIG.value.BLOCK_N)
        load_block(k_desc, k_smem, k_full, k_empty, n - 1, count, b, h_kv, STAGES)  # from the last block down to 0

        mbarrier.wait(q_empty, tiles & 1 ^ 1)
        announce(handover, row_tile, b, h)
        mbarrier.expect(q_full, CONSUMERS * q_desc.block_type.nbytes)
        for i in gl.static_range(CONSUMERS):
            tma.async_copy_global_to_shared(q_desc, [b, h, row_tile * BLOCK_M + i * ROWS, 0], q_full, q_smem.index(i))

        tile = next_tile(tile, counter_ptr, CONFIG.value.DYNAMIC)
        for j in range(1, n):
            load_block(k_desc, k_smem, k_full, k_empty, n - 1 - j, count + j, b, h_kv, STAGES)
            load_block(v_desc, v_smem, v_full, v_empty, n - j, count + j - 1, b, h_kv, STAGES)
        load_block(v_desc, v_smem, v_full, v_empty, 0, count + n - 1, b, h_kv, STAGES)
        count += n
        tiles += 1
    mbarrier.wait(q_empty, tiles & 1 ^ 1)
    announce(handover, -1, 0, 0)
# --8<-- [end:producer]


# --8<-- [start:softmax]
@gluon.jit
def visible(s, row, start, S_q, S_kv, CAUSAL: gl.constexpr):
    """s [ROWS, BLOCK_N], scores of keys from `start` on, -inf where the row does not see the key."""
    key = start + gl.arange(0, s.shape[1], gl.SliceLayout(0, s.type.layout))
    if CAUSAL:
        return gl.where(key[None, :] < gl.minimum(row + S_kv - S_q + 1, S_kv)[:, None], s, float("-inf"))
    else:
        return gl.where((key < S_kv)[None, :], s, float("-inf"))


@gluon.jit
def row_max(s, TREE: gl.constexpr):
    """[ROWS] largest of each row. TREE: over columns 8 apart first, two chains in a thread instead of one."""
    if TREE:
        pairs = gl.max(gl.reshape(s, [s.shape[0], s.shape[1] // 8, 8]), axis=1)
        return gl.convert_layout(gl.max(pairs, axis=1), gl.SliceLayout(1, s.type.layout))
    else:
        return gl.max(s, axis=1)


@gluon.jit
def row_sums(p):
    """[ROWS, 8] sums over columns 8 apart: what a thread adds by itself; the eight are added once, at the end."""
    return gl.sum(gl.reshape(p, [p.shape[0], p.shape[1] // 8, 8]), axis=1)


@gluon.jit
def finite(m):
    """[ROWS] m, but 0 where a row has seen nothing yet: -inf - -inf would be NaN."""
    return gl.where(m == float("-inf"), 0.0, m)
# --8<-- [end:softmax]


# --8<-- [start:consumer]
@gluon.jit
def filled(buffers, full, count, STAGES: gl.constexpr):
    """[BLOCK_N, D] the count-th block of K or V in shared memory, once it is there."""
    mbarrier.wait(full.index(count % STAGES), count // STAGES & 1)
    return buffers.index(count % STAGES).reshape([buffers.shape[3], buffers.shape[4]])


@gluon.jit
def announced(handover, tiles):
    """(row tile, batch entry, head) that the producer left, once it has; tiles: how many came before."""
    tile_smem, tile_full = handover
    mbarrier.wait(tile_full, tiles & 1)
    return read_tile(tile_smem)


@gluon.jit
def read_tile(tile_smem):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    row_tile = gl.max(tile_smem.index(0).slice(0, 1).load(layout), axis=0).to(gl.int32)
    b = gl.max(tile_smem.index(1).slice(0, 1).load(layout), axis=0).to(gl.int32)
    h = gl.max(tile_smem.index(2).slice(0, 1).load(layout), axis=0).to(gl.int32)
    return row_tile, b, h


@gluon.jit
def pin(count, barrier):
    """Keep ptxas from moving a wait for products past what stands above: it moves nothing past a branch.

    This one is never taken; ptxas cannot tell that a count is never negative.
    """
    if count < 0:
        mbarrier.arrive(barrier, count=1)


@gluon.jit
def consumer(given, INDEX: gl.constexpr, CAUSAL: gl.constexpr, CONFIG: gl.constexpr):
    """Four warps that attend with ROWS rows of every tile: S = Q K^T, softmax and O = P V, one product issued ahead."""
    o_desc, lse_ptr, buffers, o_smem, handover, barriers, H_q, S_q, S_kv, qk_scale = given
    q_smem, k_smem, v_smem = buffers
    q_full, q_empty, k_full, k_empty, v_full, v_empty, turn = barriers
    BLOCK_N: gl.constexpr = CONFIG.value.BLOCK_N
    STAGES: gl.constexpr = CONFIG.value.STAGES
    CONSUMERS: gl.constexpr = CONFIG.value.CONSUMERS
    PING_PONG: gl.constexpr = CONFIG.value.PING_PONG
    TREE: gl.constexpr = CONFIG.value.TREE
    LOOPS: gl.constexpr = 2 if CAUSAL and CONFIG.value.MASK_APART else 1
    ROWS: gl.constexpr = o_desc.block_shape[2]
    D: gl.constexpr = o_desc.block_shape[3]
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])  # as wgmma leaves its result
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    O_ROW: gl.constexpr = gl.SliceLayout(1, O_LAYOUT)
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, O_LAYOUT, 2)  # P in registers: in S's places, so nothing moves
    FIRST: gl.constexpr = 1 if INDEX == 0 else 0  # the first consumer takes the first turn unasked
    NEXT: gl.constexpr = (INDEX + 1) % CONSUMERS

    q = q_smem.index(INDEX).reshape([ROWS, D])
    zeros = gl.zeros([ROWS, BLOCK_N], gl.float32, S_LAYOUT)
    tiles = 0  # tiles and blocks of keys so far: how often a buffer was filled before tells its barrier's phase
    count = 0
    row_tile, b, h = announced(handover, 0)
    while row_tile >= 0:
        mbarrier.wait(q_full, tiles & 1)
        first_row = (row_tile * CONSUMERS + INDEX) * ROWS
        row = first_row + gl.arange(0, ROWS, gl.SliceLayout(1, S_LAYOUT))
        whole = S_kv  # keys before this one are visible to every row
        if CAUSAL:
            whole = gl.minimum(first_row + S_kv - S_q + 1, S_kv)
        n = key_blocks(row_tile * CONSUMERS * ROWS, CONSUMERS * ROWS, S_q, S_kv, CAUSAL, BLOCK_N)
        if CONFIG.value.SKIP:  # blocks that the tile goes through for other consumers' rows
            own = gl.where(first_row < S_q, key_blocks(first_row, ROWS, S_q, S_kv, CAUSAL, BLOCK_N), 1)
            for j in range(n - own):
                filled(k_smem, k_full, count, STAGES)
                if PING_PONG:
                    mbarrier.wait(turn.index(INDEX), count & 1 ^ FIRST)
                    mbarrier.arrive(turn.index(NEXT), count=1)
                mbarrier.arrive(k_empty.index(count % STAGES), count=1)
                filled(v_smem, v_full, count, STAGES)
                mbarrier.arrive(v_empty.index(count % STAGES), count=1)
                count += 1
            n = own

        k = filled(k_smem, k_full, count, STAGES)
        if PING_PONG:
            mbarrier.wait(turn.index(INDEX), count & 1 ^ FIRST)
        s = warpgroup_mma(q, k.permute((1, 0)), zeros, use_acc=False, is_async=True)  # [ROWS, BLOCK_N]
        if PING_PONG:
            mbarrier.arrive(turn.index(NEXT), count=1)
        s = warpgroup_mma_wait(0, deps=[s])
        mbarrier.arrive(k_empty.index(count % STAGES), count=1)
        if n * BLOCK_N > whole:
            s = visible(s, row, (n - 1) * BLOCK_N, S_q, S_kv, CAUSAL)
        m = row_max(s, TREE)  # [ROWS] largest score so far, not scaled
        p = gl.exp2(s * qk_scale - gl.expand_dims(finite(m) * qk_scale, 1))
        l = row_sums(p)  # [ROWS, 8] sum of p so far, in eight parts
        L_ROW: gl.constexpr = gl.SliceLayout(1, l.type.layout)
        p = gl.convert_layout(p.to(o_desc.dtype), P_LAYOUT)
        acc = gl.zeros([ROWS, D], gl.float32, O_LAYOUT)  # [ROWS, D] sum of p v so far

        begin = 1
        for loop in gl.static_range(LOOPS):
            end = n
            if loop < LOOPS - 1:
                end = gl.maximum(n - gl.maximum(whole, 0) // BLOCK_N, 1)  # blocks before this one need a mask
            for j in range(begin, end):
                k = filled(k_smem, k_full, count + 1, STAGES)
                if PING_PONG:
                    mbarrier.wait(turn.index(INDEX), count + 1 & 1 ^ FIRST)
                s = warpgroup_mma(q, k.permute((1, 0)), zeros, use_acc=False, is_async=True)
                v = filled(v_smem, v_full, count, STAGES)
                acc = warpgroup_mma(p, v, acc, is_async=True)  # of the block before
                if PING_PONG:
                    mbarrier.arrive(turn.index(NEXT), count=1)
                s = warpgroup_mma_wait(1, deps=[s])  # all but the latest product, that of P and V
                mbarrier.arrive(k_empty.index((count + 1) % STAGES), count=1)
                if CAUSAL and loop == 0:
                    if LOOPS == 2 or (n - j) * BLOCK_N > whole:
                        s = visible(s, row, (n - 1 - j) * BLOCK_N, S_q, S_kv, CAUSAL)
                m_new = gl.maximum(m, row_max(s, TREE))
                m_safe = finite(m_new)
                alpha = gl.exp2((m - m_safe) * qk_scale)  # [ROWS] correction of older sums: exactly 1 while m stays
                p_new = gl.exp2(s * qk_scale - gl.expand_dims(m_safe * qk_scale, 1))
                l = l * gl.expand_dims(gl.convert_layout(alpha, L_ROW), 1) + row_sums(p_new)
                m = m_new
                p = gl.convert_layout(p_new.to(o_desc.dtype), P_LAYOUT)
                if CONFIG.value.WAIT_LAST:
                    pin(count, v_empty.index(0))
                    acc, p = warpgroup_mma_wait(0, deps=[acc, p])
                else:
                    acc = warpgroup_mma_wait(0, deps=[acc])
                mbarrier.arrive(v_empty.index(count % STAGES), count=1)
                acc = acc * gl.expand_dims(gl.convert_layout(alpha, O_ROW), 1)
                count += 1
            begin = end

        if CONFIG.value.OWN_O:
            mbarrier.arrive(q_empty, count=1)  # the next tile's Q loads while this one ends
        v = filled(v_smem, v_full, count, STAGES)
        acc = warpgroup_mma(p, v, acc, is_async=True)
        l = gl.convert_layout(gl.sum(l, axis=1), gl.SliceLayout(1, S_LAYOUT))
        l_safe = gl.where(l == 0.0, 1.0, l)  # a row that saw no key: acc is 0, m is -inf
        lse = m * (qk_scale * LN2) + gl.log(l_safe)
        gl.store(lse_ptr + (b * H_q + h).to(gl.int64) * S_q + row, lse, mask=row < S_q)
        acc = warpgroup_mma_wait(0, deps=[acc])
        mbarrier.arrive(v_empty.index(count % STAGES), count=1)
        acc = acc * gl.expand_dims(gl.convert_layout(1.0 / l_safe, O_ROW), 1)

        tma.store_wait(0)  # the tile before has left the buffer
        o_smem.index(INDEX).reshape([ROWS, D]).store(acc.to(o_desc.dtype))
        fence_async_shared()  # TMA reads past the caches of ordinary stores
        tma.async_copy_shared_to_global(o_desc, [b, h, first_row, 0], o_smem.index(INDEX))
        if not CONFIG.value.OWN_O:
            tma.store_wait(0)
            mbarrier.arrive(q_empty, count=1)
        count += 1
        tiles += 1
        row_tile, b, h = announced(handover, tiles)
    tma.store_wait(0)
# --8<-- [end:consumer]


# --8<-- [start:kernel]
@gluon.jit
def barrier_ring(SIZE: gl.constexpr, ARRIVALS: gl.constexpr):
    """SIZE mbarriers; each completes a phase when ARRIVALS have arrived, and the bytes that were announced to it."""
    ring = gl.allocate_shared_memory(gl.int64, [SIZE, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(SIZE):
        mbarrier.init(ring.index(i), count=ARRIVALS)
    return ring


@gluon.jit(do_not_specialize=["H_q", "group", "S_q", "S_kv", "heads", "together"])
def flash_attention_hopper_kernel(
    q_desc, k_desc, v_desc, o_desc,  # [B, H, S, D] with their strides, in blocks of [1, 1, ROWS or BLOCK_N, D]
    lse_ptr, counter_ptr,  # fp32 [B, H_q, S_q]; int32, 0: tiles handed out beyond the first of each program
    H_q, group, S_q, S_kv, heads, together,  # query heads per key-value head; B * H_q; heads whose tiles mix
    qk_scale,  # sm_scale * log2(e), above 0
    CAUSAL: gl.constexpr, CONFIG: gl.constexpr,
):  # fmt: skip
    STAGES: gl.constexpr = CONFIG.value.STAGES
    CONSUMERS: gl.constexpr = CONFIG.value.CONSUMERS
    FOR_CONSUMER: gl.constexpr = CONFIG.value.CONSUMER_REGISTERS
    FOR_PRODUCER: gl.constexpr = CONFIG.value.PRODUCER_REGISTERS
    q_smem = gl.allocate_shared_memory(q_desc.dtype, [CONSUMERS] + q_desc.block_shape, q_desc.layout)
    k_smem = gl.allocate_shared_memory(k_desc.dtype, [STAGES] + k_desc.block_shape, k_desc.layout)
    v_smem = gl.allocate_shared_memory(v_desc.dtype, [STAGES] + v_desc.block_shape, v_desc.layout)
    o_smem = q_smem
    if CONFIG.value.OWN_O:
        o_smem = gl.allocate_shared_memory(o_desc.dtype, [CONSUMERS] + o_desc.block_shape, o_desc.layout)
    tile_smem = gl.allocate_shared_memory(gl.int64, [3, 32], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    handover = (tile_smem, barrier_ring(1, 1).index(0))
    q_full, q_empty = barrier_ring(1, 1).index(0), barrier_ring(1, CONSUMERS).index(0)
    k_full, k_empty = barrier_ring(STAGES, 1), barrier_ring(STAGES, CONSUMERS)
    v_full, v_empty = barrier_ring(STAGES, 1), barrier_ring(STAGES, CONSUMERS)
    turn = barrier_ring(CONSUMERS, 1)
    fence_async_shared()

    buffers, barriers = (q_smem, k_smem, v_smem), (q_full, q_empty, k_full, k_empty, v_full, v_empty, turn)
    descs = (q_desc, k_desc, v_desc)
    loads = (descs, buffers, handover, barriers, counter_ptr, H_q, group, S_q, S_kv, heads, together)
    works = (o_desc, lse_ptr, buffers, o_smem, handover, barriers, H_q, S_q, S_kv, qk_scale)
    # Constants are written out in each tuple: one that is kept in a variable turns them into tensors.
    if CONSUMERS == 2:
        gl.warp_specialize(
            [(consumer, (works, 0, CAUSAL, CONFIG)), (consumer, (works, 1, CAUSAL, CONFIG)),
             (producer, (loads, CAUSAL, CONFIG))],
            [4, 1], [FOR_CONSUMER, FOR_PRODUCER],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [(consumer, (works, 0, CAUSAL, CONFIG)), (consumer, (works, 1, CAUSAL, CONFIG)),
             (consumer, (works, 2, CAUSAL, CONFIG)), (producer, (loads, CAUSAL, CONFIG))],
            [4, 4, 1], [FOR_CONSUMER, FOR_CONSUMER, FOR_PRODUCER],
        )  # fmt: skip
# --8<-- [end:kernel]


# --8<-- [start:config]
class Config(NamedTuple):
    """How the work is laid out; each choice is timed in the module's header."""

    BLOCK_N: int  # keys of a block
    STAGES: int  # buffers for blocks of K, and as many for V
    CONSUMERS: int  # warpgroups with ROWS query rows each, 2 or 3
    CONSUMER_REGISTERS: int  # of a thread; with the producer's warpgroup at most the 65536 of a multiprocessor
    PRODUCER_REGISTERS: int
    DYNAMIC: bool  # tiles by a counter; else the same number for each program
    PING_PONG: bool  # consumers take turns in issuing products, so that one's softmax meets another's products
    OWN_O: bool  # a buffer for O beside that of Q, which is then free for the next tile earlier
    TREE: bool  # the row maximum in two steps
    SKIP: bool  # a consumer passes over blocks that only other consumers' rows see
    WAIT_LAST: bool  # wait for the product P V only after the exponentials, by `pin`; else ptxas moves it before or among them
    MASK_APART: bool  # causal: blocks that need a mask in a loop of their own; else an `if` in the one loop

    @property
    def maxnreg(self):
        """Registers of a thread at the launch, when all have the same; the producer's warp has a group to itself."""
        return (self.CONSUMERS * self.CONSUMER_REGISTERS + self.PRODUCER_REGISTERS) // (self.CONSUMERS + 1)


def config(D, causal):
    """Shared memory: 112 KB for D = 64 (24 Q, 32 K, 32 V, 24 O), 192 for 128 (32, 64, 64, 32) and 256 (64, 64, 64)."""
    if D == 64:
        return Config(128, 2, 3, 160, 32, True, True, True, True, True, False, False)
    if D == 128:
        return Config(128, 2, 2, 240, 24, True, causal, True, True, False, causal, False)
    return Config(64, 2, 2, 240, 24, causal, causal, False, False, False, False, True)
# --8<-- [end:config]


# --8<-- [start:wrapper]
def supported(q, k, v):
    """Whether `forward` takes these tensors [B, H, S, D]; nothing is compiled to find out."""
    return (
        not triton.knobs.runtime.interpret
        and q.is_cuda
        and capability(q) == (9, 0)  # elsewhere wgmma ends the process while compiling
        and q.dtype in DTYPES
        and q.shape[3] in HEAD_DIMS
        and k.shape[2] > 0
        and all(addressable(x) for x in (q, k, v))
    )


def addressable(x):
    """Whether TMA can: rows contiguous, base address and strides multiples of 16 bytes, 0 as well."""
    steps = [step * x.element_size() for n, step in zip(x.shape[:3], x.stride()) if n > 1]
    return x.stride(3) == 1 and not any(size % ALIGNMENT for size in (x.data_ptr(), *steps))


def descriptor(x, rows):
    """x [B, H, S, D] as TMA sees it, in blocks of `rows` rows of a head: rows past S read as 0 and are not written."""
    D = x.shape[3]
    steps = [step if n > 1 else D for n, step in zip(x.shape[:3], x.stride())]  # of a single one: any stride
    return TensorDescriptor(x, list(x.shape), [*steps, 1], [1, 1, rows, D], shared_layout(rows, D))


@functools.cache
def shared_layout(rows, D):
    """How TMA leaves a block in shared memory, and wgmma finds it there."""
    return gl.NVMMASharedLayout.get_default_for([1, 1, rows, D], gl.float16)  # bf16 is as wide


def forward(q, k, v, o, lse, causal, qk_scale):
    """Fill o, like q, with attention, and lse, fp32 [B, H_q, S_q], with its natural log-sum-exp.

    q [B, H_q, S_q, D], k and v [B, H_kv, S_kv, D]: as `supported`, none empty. qk_scale: sm_scale * log2(e), above 0.
    """
    (B, H_q, S_q, D), (H_kv, S_kv) = q.shape, k.shape[1:3]
    chosen = config(D, bool(causal))
    group = H_q // H_kv
    tiles = triton.cdiv(S_q, chosen.CONSUMERS * ROWS) * B * H_q
    programs = min(tiles, multiprocessors(q))
    head_bytes = pair_bytes(k)
    together = heads_together(B * H_q, group, head_bytes, 2 if head_bytes >= LONG_BYTES else 1) if causal else 1
    # This kernel may start while the one that fills `counter`, an ordinary launch, ends: what came before has ended.
    counter = torch.zeros(1, dtype=torch.int32, device=q.device)
    flash_attention_hopper_kernel[(programs,)](
        descriptor(q, ROWS), descriptor(k, chosen.BLOCK_N), descriptor(v, chosen.BLOCK_N), descriptor(o, ROWS),
        lse, counter, H_q, group, S_q, S_kv, B * H_q, together, qk_scale,
        CAUSAL=bool(causal), CONFIG=chosen, num_warps=4, maxnreg=chosen.maxnreg, launch_pdl=chosen.DYNAMIC,
    )  # fmt: skip
# --8<-- [end:wrapper]
