"""Vector addition, the first kernel: each program adds one block of BLOCK_SIZE elements, the last one partly masked.

Algorithm: out[i] = x[i] + y[i]; 3 elements moved for 1 addition, so memory bandwidth is the whole cost.
Accepts: any shape (no element at all included) and any strides; fp16, bf16, fp32, fp64; x and y of one shape and dtype.
Versions tried (one H200, torch 2.11, Triton 3.6, fp32, GB/s at 2^28 and 10^7 elements; torch 4347, 3592):
  blocks of 1024 on 4 warps, two loads of 16 bytes a thread  4347, 3592
  512 on 4 warps 4361, 3515; 1024 on 8 4361, 3582; 2048 on 8 4326, 3518; 8192 on 8 4321, 3434
  1024 on 4 with loads evict-first and stores .cs            4108, 3511
All but the last move what the memory allows. At 10^7 elements a call takes 33 us, and the host's launch counts unless a
CUDA graph replays it (3173 to 3272 by `add`, torch 3589; measured before the grid was divided in plain Python).
Not covered: broadcasting, mixed dtypes, gradients, torch.compile. A non-contiguous argument is copied first.
"""

import torch
import triton
import triton.language as tl

from kernels import checks

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
BLOCK_SIZE = 1024


# --8<-- [start:kernel]
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0).to(tl.int64)  # which block; 64 bits, so that offsets may pass 2^31
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)  # [BLOCK_SIZE] element numbers
    mask = offsets < n_elements  # [BLOCK_SIZE]; false only in the last block
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)
# --8<-- [end:kernel]


# --8<-- [start:wrapper]
def add(x, y):
    """x + y, elementwise, by the kernel above.

    x, y: tensors of one shape, dtype (fp16, bf16, fp32, fp64) and device -> a new contiguous tensor like them.
    TypeError, ValueError: anything else, naming the argument.
    """
    checks.tensors(add_kernel, DTYPES, x=x, y=y)
    checks.refuse_transforms("add", x, y)
    if x.shape != y.shape:
        raise ValueError(f"y 的形状是 {tuple(y.shape)}，x 是 {tuple(x.shape)}；两者应相同，这里不做广播")
    x, y = x.resolve_neg().contiguous(), y.resolve_neg().contiguous()
    out = torch.empty_like(x)
    n_elements = out.numel()
    if n_elements:  # a grid of no programs cannot be launched
        with torch.cuda.device_of(x):
            programs = (n_elements + BLOCK_SIZE - 1) // BLOCK_SIZE  # rounded up
            add_kernel[(programs,)](x, y, out, n_elements, BLOCK_SIZE=BLOCK_SIZE)
    return out
# --8<-- [end:wrapper]
