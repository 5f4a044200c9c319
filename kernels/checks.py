"""Argument checks shared by the wrappers: each error names the argument, the fault and the remedy."""

import torch
import triton


def interpreted(kernel):
    """The kernel was defined under TRITON_INTERPRET=1: it runs on the CPU, block by block in NumPy."""
    return not isinstance(kernel, triton.JITFunction)


def needs_dispatch(*tensors):
    """Whether torch wants to see the operator: for gradients, torch.compile, a transform such as vmap, a mode, a subclass.

    Else a wrapper may call its kernel directly: on the host the dispatcher of an operator in Python takes longer than a
    small kernel runs. Forward-mode tangents are not among them: an operator in Python drops them as well.
    """
    return (
        torch.compiler.is_compiling()
        or any(type(x) is not torch.Tensor or x.requires_grad and torch.is_grad_enabled() for x in tensors)
        or torch._C._len_torch_dispatch_stack() > 0  # these two have no public name
        or torch._C._functorch.peek_interpreter_stack() is not None
    )


def tensors(kernel, dtypes, *, differentiable=False, **named):
    """TypeError or ValueError for the first tensor the kernel cannot take; `tensors(add_kernel, DTYPES, x=x, y=y)`.

    They must be torch tensors of one dtype among `dtypes`, on one device that the kernel runs on, needing no gradient
    unless it is `differentiable`.
    """
    (first, lead), *_ = named.items()
    interpret = interpreted(kernel)
    for name, x in named.items():
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} 是 {type(x).__name__}；应为 torch.Tensor")
        if x.dtype not in dtypes:
            raise TypeError(f"{name} 的 dtype 是 {x.dtype}；可用：{'、'.join(map(str, dtypes))}")
        if x.dtype != lead.dtype:
            raise TypeError(f"{name} 的 dtype 是 {x.dtype}，{first} 是 {lead.dtype}；请先转成同一种")
        if x.device != lead.device:
            raise ValueError(f"{name} 在 {x.device} 上，{first} 在 {lead.device} 上；请先移到同一设备")
        if x.device.type != "cuda" and not (x.device.type == "cpu" and interpret):
            raise ValueError(
                f"{name} 在 {x.device} 上；编译后的 kernel 只在 NVIDIA GPU 上运行。"
                f"请用 {name}.cuda()，或在导入之前设 TRITON_INTERPRET=1，让解释器在 CPU 上执行"
            )
        if x.dtype == torch.bfloat16 and interpret:  # its tl.dot multiplies bit patterns, its casts truncate
            raise TypeError(f"{name} 的 dtype 是 {x.dtype}；Triton 解释器算不准它。请改用 float16、float32，或在 GPU 上运行")
        if not differentiable and x.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} 需要梯度；这里只有前向，反向尚未实现。请用 {name}.detach()，或放进 torch.no_grad()")
