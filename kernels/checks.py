"""Argument checks shared by the wrappers: each error names the argument, the fault and the remedy."""

import torch
import triton
from torch._C import _functorch as functorch
from torch.autograd import forward_ad


def interpreted(kernel):
    """The kernel was defined under TRITON_INTERPRET=1: it runs on the CPU, block by block in NumPy."""
    return not isinstance(kernel, triton.JITFunction)


def needs_dispatch(*tensors):
    """Whether torch wants to see the operator: for gradients, torch.compile, a transform such as vmap, a mode, a subclass.

    Else a wrapper may call its kernel directly: on the host the dispatcher of an operator in Python takes longer than a
    small kernel runs.
    """
    return (
        torch.compiler.is_compiling()
        or any(type(x) is not torch.Tensor or x.requires_grad and torch.is_grad_enabled() for x in tensors)
        or torch._C._len_torch_dispatch_stack() > 0  # these have no public name
        or functorch.peek_interpreter_stack() is not None
        or any(functorch.is_legacy_batchedtensor(x) for x in tensors)  # of is_grads_batched
        or forward_ad._current_level >= 0
    )


def refuse_transforms(name, *tensors, batched=False):
    """NotImplementedError where a transform of torch.func or forward mode follows a tensor: a kernel knows nothing of them.

    batched: vmap is taken. While torch.compile traces, tangents cannot be seen: forward mode is refused whole.
    """
    forward = forward_ad._current_level >= 0
    if forward if torch.compiler.is_compiling() else any(_followed(x, batched, forward) for x in tensors):
        also = "（vmap 除外）" if batched else ""
        raise NotImplementedError(f"{name} 不支持 torch.func 的变换{also}和前向模式的导数；梯度请用 torch.autograd.grad 或 backward()")


def _followed(x, batched, forward):
    while functorch.is_functorch_wrapped_tensor(x):
        if not batched or functorch.is_gradtrackingtensor(x):
            return True
        x = functorch.get_unwrapped(x)
    if functorch.is_legacy_batchedtensor(x):
        return not batched
    return forward and forward_ad.unpack_dual(x).tangent is not None


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
        if x.layout != torch.strided or x.is_nested:
            raise TypeError(f"{name} 的布局是 {'嵌套的' if x.is_nested else x.layout}；应是普通的张量，请先用 {name}.to_dense() 或补齐")
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
