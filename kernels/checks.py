"""Argument checks shared by the wrappers: each error names the argument, the fault and the remedy."""

import torch
import triton


def interpreted(kernel):
    """The kernel was defined under TRITON_INTERPRET=1: it runs on the CPU, block by block in NumPy."""
    return not isinstance(kernel, triton.JITFunction)


def tensors(kernel, dtypes, *, differentiable=False, **named):
    """TypeError or ValueError for the first tensor the kernel cannot take; `tensors(add_kernel, DTYPES, x=x, y=y)`.

    They must be torch tensors of one dtype among `dtypes`, on one device that the kernel runs on, needing no gradient unless
    it is `differentiable`.
    """
    (first, lead), *_ = named.items()
    for name, x in named.items():
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} 是 {type(x).__name__}；应为 torch.Tensor")
        if x.dtype not in dtypes:
            raise TypeError(f"{name} 的 dtype 是 {x.dtype}；可用：{'、'.join(map(str, dtypes))}")
        if x.dtype != lead.dtype:
            raise TypeError(f"{name} 的 dtype 是 {x.dtype}，{first} 是 {lead.dtype}；请先转成同一种")
        if x.device != lead.device:
            raise ValueError(f"{name} 在 {x.device} 上，{first} 在 {lead.device} 上；请先移到同一设备")
        if x.device.type != "cuda" and not (x.device.type == "cpu" and interpreted(kernel)):
            raise ValueError(
                f"{name} 在 {x.device} 上；编译后的 kernel 只在 NVIDIA GPU 上运行。"
                f"请用 {name}.cuda()，或在导入之前设 TRITON_INTERPRET=1，让解释器在 CPU 上执行"
            )
        if x.dtype == torch.bfloat16 and interpreted(kernel):  # its tl.dot multiplies bit patterns, its casts truncate
            raise TypeError(f"{name} 的 dtype 是 {x.dtype}；Triton 解释器算不准它。请改用 float16、float32，或在 GPU 上运行")
        if not differentiable and x.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} 需要梯度；这里只有前向，反向尚未实现。请用 {name}.detach()，或放进 torch.no_grad()")
