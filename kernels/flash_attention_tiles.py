"""What the attention kernels share: which tile a program takes, how it loads one, and how the host hands tensors over.

Tensors come with their true strides. Where the device has a tensor memory accelerator (TMA, from sm_90 on) and the
layout suits it, a kernel gets descriptors and one thread asks for a whole tile; everywhere else it gets pointers. What
lies outside the tensor reads as 0 either way.
"""

import contextvars
import functools

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels import checks

ALIGNMENT = 16  # bytes: of a descriptor's base address and of all its strides but the last
L2_BYTES = 32 * 2**20  # of K and V, or Q and dO, that neighbouring programs may use at once: the H200's L2 has 60 MB
LOWEST = tl.constexpr(torch.finfo(torch.float32).min)  # a running maximum starts here: from -inf, -inf - -inf would be NaN
INTERPRETED_SMS = 40  # multiprocessors that the interpreter stands for: enough that splitting is tried


# --8<-- [start:place]
@triton.jit
def place(tiles, together_log2):
    """(tile, head) of this program. Heads go in groups of 2^together_log2: all heads of a group for tile 0, then tile 1 …

    So programs that run at the same time share the keys and values of few heads, which stay in L2. Heads past the last
    one are nobody's: the last group is as large as the others. Powers of 2 are shifted: a division takes longer.
    """
    pid = tl.program_id(axis=0)
    group = pid // (tiles << together_log2)
    within = pid - group * (tiles << together_log2)
    return within >> together_log2, (group << together_log2) + (within & ((1 << together_log2) - 1))
# --8<-- [end:place]


# --8<-- [start:load]
@triton.jit
def load_tile(x, strides, b, h, start, S, D: tl.constexpr, ROWS: tl.constexpr, BLOCK_D: tl.constexpr, TMA: tl.constexpr):
    """[ROWS, BLOCK_D]: rows from `start` on of head h of batch entry b of x [B, H, S, D], zeros past its edges.

    strides: elements from one batch entry, head and row to the next. TMA: x is a descriptor, which knows them itself, or one
    of `describe_head`.
    """
    if TMA:
        if len(x.block_shape) == 2:
            return x.load([start, 0])
        else:
            return x.load([b, h, start, 0]).reshape(ROWS, BLOCK_D)
    else:
        return tl.load(
            tile_pointers(x, strides, b, h, start, ROWS, BLOCK_D), mask=tile_mask(start, S, D, ROWS, BLOCK_D), other=0.0
        )


@triton.jit
def describe_head(x, strides, b, h, S, D: tl.constexpr, ROWS: tl.constexpr, BLOCK_D: tl.constexpr):
    """A descriptor, made on the device, of the rows of head h of batch entry b of x, a pointer."""
    head = x + tl.cast(b, tl.int64) * strides[0] + tl.cast(h, tl.int64) * strides[1]
    row = tl.where(S == 1, BLOCK_D, strides[2])  # one row may have any stride; a descriptor's must be a multiple of 16 bytes
    return tl.make_tensor_descriptor(head, [S, D], [tl.cast(row, tl.int64), 1], [ROWS, BLOCK_D])


@triton.jit
def store_tile(x, strides, b, h, start, S, tile, D: tl.constexpr, ROWS: tl.constexpr, BLOCK_D: tl.constexpr):
    """Write tile [ROWS, BLOCK_D] where x has such rows and columns, in x's dtype. Through pointers, always."""
    pointers = tile_pointers(x, strides, b, h, start, ROWS, BLOCK_D)
    tl.store(pointers, tile.to(x.dtype.element_ty), mask=tile_mask(start, S, D, ROWS, BLOCK_D))


@triton.jit
def tile_pointers(x, strides, b, h, start, ROWS: tl.constexpr, BLOCK_D: tl.constexpr):
    """Addresses of a tile; 64 bits, because offsets within a tensor may pass 2^31."""
    head = x + tl.cast(b, tl.int64) * strides[0] + tl.cast(h, tl.int64) * strides[1] + tl.cast(start, tl.int64) * strides[2]
    rows = tl.arange(0, ROWS).to(tl.int64)
    return head + rows[:, None] * strides[2] + tl.arange(0, BLOCK_D)[None, :]


@triton.jit
def tile_mask(start, S, D: tl.constexpr, ROWS: tl.constexpr, BLOCK_D: tl.constexpr):
    """Which places of a tile the tensor has."""
    return (tl.arange(0, ROWS) < S - start)[:, None] & (tl.arange(0, BLOCK_D) < D)[None, :]
# --8<-- [end:load]


@functools.cache  # asked several times a call, and Triton takes microseconds to answer
def padded(D):
    """The tile width for a head dimension: a power of two, and at least 16 because a product's inner length must be."""
    return max(16, triton.next_power_of_2(D))


def dense_rows(x):
    """x with a contiguous last dimension and its sign in its elements, which every kernel here wants: itself, or a copy."""
    x = x.resolve_neg()
    return x if x.stride(-1) == 1 else x.contiguous()


def output_like(x):
    """Uninitialised, of x's shape, last dimension contiguous: in x's own layout where that has it so, else contiguous.

    Then a caller's transpose and reshape of token-major tensors copy nothing. empty_like alone may move another dimension
    of stride 1 to the end where x overlaps itself. Rows of one element: contiguous, since fake tensors may order them otherwise.
    """
    new = torch.empty_like(x)
    return new if x.shape[-1] > 1 and new.stride(-1) == 1 else torch.empty(x.shape, dtype=x.dtype, device=x.device)


def capability(x):
    """(major, minor) of x's device; None in the interpreter."""
    return (properties(x.device).major, properties(x.device).minor) if x.is_cuda else None


def large_memory(capability):
    """A block of this device may have 227 KB of shared memory: sm_90, sm_100. Others (sm_120, sm_86) have 99 KB."""
    return capability is not None and capability[0] in (9, 10)


def multiprocessors(x):
    """How many multiprocessors x's device has."""
    return properties(x.device).multi_processor_count if x.is_cuda else INTERPRETED_SMS


@functools.cache
def properties(device):
    """What torch tells about a device, kept: asking takes microseconds."""
    return torch.cuda.get_device_properties(device)


def pair_bytes(x):
    """Bytes of one head of x [B, H, S, D] and of its twin: K and V, or Q and dO."""
    return 2 * x.shape[2] * x.shape[3] * x.element_size()


def heads_together(heads, group, bytes_per_head, times=1):
    """How many heads' tiles may mix when a key-value head of `bytes_per_head` serves `group` query heads.

    times: of L2_BYTES that they may use.
    """
    kv_heads = max(1, times * L2_BYTES // max(1, bytes_per_head))
    return min(heads, kv_heads * group)


def log2_together(heads, together):
    """(logarithm, heads to launch for) of `place`'s groups: the power of 2 up to `together`, or that holds all heads."""
    log2 = (heads - 1).bit_length() if together >= heads else together.bit_length() - 1
    return log2, triton.cdiv(heads, 1 << log2) << log2


def use_descriptors(kernel, *tensors):
    """Descriptors can replace pointers: 16-bit elements, TMA (or the interpreter), and every layout fits one."""
    device = checks.interpreted(kernel) or capability(tensors[0])[0] >= 9
    return device and all(_describable(x) for x in tensors)


def whole_pieces(x):
    """A row of x ends where 16 bytes do: TMA writes no less at once, so it would write past the end of a shorter one."""
    return x.shape[-1] * x.element_size() % ALIGNMENT == 0


def _describable(x):
    if x.element_size() != 2 or not x.numel() or x.data_ptr() % ALIGNMENT:
        return False
    return all(n == 1 or s > 0 and s * x.element_size() % ALIGNMENT == 0 for n, s in zip(x.shape[:3], x.stride()))


def with_scratch(launch, device):
    """Call `launch`; torch gives what the descriptors need that the kernel makes itself: 128 bytes each, in every program.

    Triton's allocator is one for a context: the caller's stays.
    """

    def run():
        triton.set_allocator(lambda size, alignment, stream: torch.UntypedStorage(size, device=device))
        launch()

    contextvars.copy_context().run(run)


def operand(x, rows, tma):
    """What a kernel takes for x [B, H, S, D] moved in tiles of `rows`: a descriptor with tma, else x itself."""
    if not tma:
        return x
    step = ALIGNMENT // x.element_size()  # a dimension of one entry may have any stride; a descriptor's must be a multiple
    strides = [s if n > 1 else -(-s // step) * step or step for n, s in zip(x.shape[:3], x.stride())]
    return TensorDescriptor(x, list(x.shape), [*strides, 1], [1, 1, rows, padded(x.shape[3])])


def matrix_operand(x, columns, tma):
    """The same for a contiguous matrix, loaded in pieces of one row."""
    return TensorDescriptor(x, list(x.shape), list(x.stride()), [1, columns]) if tma else x
