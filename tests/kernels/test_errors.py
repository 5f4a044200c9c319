"""One test per refusal: the message names the argument, the fault and the remedy."""

import re

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

from kernels import checks
from kernels.flash_attention import flash_attention
from kernels.softmax import softmax
from kernels.vector_add import add

x = torch.zeros(4)
grad = torch.zeros(4, requires_grad=True)


def q(B=1, H=2, S=3, D=4, **options):
    return torch.zeros(B, H, S, D, **options)


ERRORS = [
    (lambda: add(x, 1.0), TypeError, "y 是 float；应为 torch.Tensor"),
    (lambda: add(x, x.half()), TypeError, "y 的 dtype 是 torch.float16，x 是 torch.float32"),
    (lambda: add(x.int(), x.int()), TypeError, "x 的 dtype 是 torch.int32；可用"),
    (lambda: add(x.bfloat16(), x.bfloat16()), TypeError, "Triton 解释器算不准它"),
    (lambda: add(x, x[:3]), ValueError, "y 的形状是 (3,)，x 是 (4,)"),
    (lambda: add(x, x[None]), ValueError, "y 的形状是 (1, 4)，x 是 (4,)"),
    (lambda: add(x, x.to("meta")), ValueError, "y 在 meta 上，x 在 cpu 上"),
    (lambda: add(x, grad), ValueError, "y 需要梯度"),
    (lambda: softmax([1.0]), TypeError, "x 是 list"),
    (lambda: softmax(x.long()), TypeError, "x 的 dtype 是 torch.int64"),
    (lambda: softmax(x, 1), IndexError, "dim=1 超出范围；x 有 1 维"),
    (lambda: softmax(x[0], 1), IndexError, "dim=1 超出范围；x 有 0 维"),
    (lambda: softmax(x.to("meta")), ValueError, "x 在 meta 上"),
    (lambda: softmax(x[:1].expand(2**30 + 1)), ValueError, "至多 1073741824 个"),
    (lambda: flash_attention(q(), q(), None), TypeError, "v 是 NoneType"),
    (lambda: flash_attention(q(), q().half(), q()), TypeError, "k 的 dtype 是 torch.float16，q 是 torch.float32"),
    (lambda: flash_attention(*[q().double()] * 3), TypeError, "q 的 dtype 是 torch.float64"),
    (lambda: flash_attention(*[q().bfloat16()] * 3), TypeError, "q 的 dtype 是 torch.bfloat16"),
    (lambda: flash_attention(q(), q(), q(device="meta")), ValueError, "v 在 meta 上，q 在 cpu 上"),
    (lambda: flash_attention(q()[0], q(), q()), ValueError, "q 的形状是 (2, 3, 4)；应为四维"),
    (lambda: flash_attention(q(), q(), q()[0]), ValueError, "v 的形状是 (2, 3, 4)；应为四维"),
    (lambda: flash_attention(*[q(D=257)] * 3), ValueError, "q 的头维度 D=257；应在 1 到 256 之间"),
    (lambda: flash_attention(*[q(D=0)] * 3), ValueError, "q 的头维度 D=0"),
    (lambda: flash_attention(q(), q(B=2), q()), ValueError, "k 的批大小是 2，q 是 1"),
    (lambda: flash_attention(q(), q(), q(B=2)), ValueError, "v 的批大小是 2，q 是 1"),
    (lambda: flash_attention(q(), q(D=8), q()), ValueError, "k 的头维度是 8，q 是 4"),
    (lambda: flash_attention(q(), q(), q(D=8)), ValueError, "v 的头维度是 8，q 是 4"),
    (lambda: flash_attention(q(), q(), q(S=5)), ValueError, "v 的形状是 (1, 2, 5, 4)，k 是 (1, 2, 3, 4)"),
    (lambda: flash_attention(q(H=3), q(), q()), ValueError, "q 有 3 个头，k 有 2 个"),
    (lambda: flash_attention(q(H=1), q(), q()), ValueError, "q 有 1 个头，k 有 2 个"),
    (lambda: flash_attention(q(), q(H=0), q(H=0)), ValueError, "q 有 2 个头，k 有 0 个"),
    (lambda: flash_attention(q(), q(S=1).expand(1, 2, 2**30 + 1, 4), q()), ValueError, "k 的长度是 1073741825"),
    (lambda: flash_attention(q(), q(), q(), sm_scale=float("nan")), ValueError, "sm_scale=nan 不是 FP32 装得下的有限的数"),
    (lambda: flash_attention(q(), q(), q(), sm_scale=1e300), ValueError, "sm_scale=1e+300 不是 FP32 装得下的有限的数"),
    (lambda: flash_attention(q(), q(), q(), sm_scale=10**400), ValueError, "不是 FP32 装得下的有限的数（绝对值至多 1.2e+38）"),
    (lambda: flash_attention(q(), q(), q(), sm_scale="1"), TypeError, "sm_scale 是 str；应为实数，请用 float(sm_scale)"),
    (lambda: flash_attention(q(), q(), q(), sm_scale=torch.tensor(0.5)), TypeError, "sm_scale 是 Tensor；应为实数"),
    (lambda: flash_attention(q(), q(), q(), causal="False"), TypeError, "causal='False' 应为 True 或 False"),
    (lambda: flash_attention(q(), q(), q(), causal=torch.tensor([True, False])), TypeError, "应为 True 或 False"),
    (lambda: flash_attention(q(), q(), q(), return_lse=torch.ones(2)), TypeError, "return_lse=tensor([1., 1.]) 应为 True 或 False"),
    (lambda: flash_attention(q(), q(), q().to_sparse()), TypeError, "v 的布局是 torch.sparse_coo；应是普通的张量"),
    (lambda: add(torch.nested.nested_tensor([x, x[:2]]), x), TypeError, "x 的布局是 嵌套的；应是普通的张量"),
    (lambda: softmax(x, 0.0), TypeError, "dim 是 float；应为一个整数"),
    (lambda: softmax(x, None), TypeError, "dim 是 NoneType；应为一个整数"),
    (lambda: softmax(x, torch.tensor([0, 1])), TypeError, "dim 是 Tensor；应为一个整数"),
    (lambda: softmax(x, 1), IndexError, "dim 应在 -1 到 0 之间"),
    (lambda: torch.func.grad(lambda x: softmax(x)[0])(x), NotImplementedError, "softmax 不支持 torch.func 的变换（vmap 除外）和前向模式的导数"),
    (lambda: torch.func.jacrev(softmax)(x), NotImplementedError, "softmax 不支持 torch.func 的变换"),
    (lambda: torch.func.jacfwd(softmax)(x), NotImplementedError, "softmax 不支持 torch.func 的变换"),
    (lambda: torch.func.jvp(softmax, (x,), (x,)), NotImplementedError, "softmax 不支持 torch.func 的变换"),
    (lambda: torch.func.grad(lambda q: flash_attention(q, q, q).sum())(q()), NotImplementedError, "flash_attention 不支持 torch.func 的变换"),
    (lambda: torch.vmap(add)(x, x), NotImplementedError, "add 不支持 torch.func 的变换和前向模式"),
    (lambda: dual(softmax), NotImplementedError, "梯度请用 torch.autograd.grad"),
    (lambda: dual(lambda x: add(x, x)), NotImplementedError, "add 不支持"),
    (lambda: dual(attend), NotImplementedError, "flash_attention 不支持"),
    (lambda: dual_upstream(softmax), NotImplementedError, "softmax 不支持"),
    (lambda: dual_upstream(attend), NotImplementedError, "flash_attention 不支持"),
    (lambda: compiled(lambda x: torch.func.jvp(softmax, (x,), (x,))[1])(x), NotImplementedError, "softmax 不支持"),
    (lambda: dual(compiled(softmax)), NotImplementedError, "softmax 不支持"),
    (lambda: add_in_a_batched_backward(), NotImplementedError, "add 不支持"),
    (lambda: twice(softmax), NotImplementedError, "softmax 只有一阶梯度；二阶梯度请用 torch.softmax"),
]


def dual(call):
    with forward_ad.dual_level():
        return call(forward_ad.make_dual(x, x))


def attend(x):
    return flash_attention(*[x.view(1, 1, 1, 4)] * 3)


def compiled(call):
    return torch.compile(call, backend="eager")


def dual_upstream(call):
    a = torch.zeros(4, requires_grad=True)
    y = call(a)
    with forward_ad.dual_level():
        torch.autograd.grad(y, a, forward_ad.make_dual(torch.ones_like(y), torch.ones_like(y)))


def add_in_a_batched_backward():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, dy):
            return add(dy, dy)

    a = torch.zeros(4, requires_grad=True)
    torch.autograd.grad(Twice.apply(a), a, torch.eye(4), is_grads_batched=True)


def twice(call):
    a = torch.zeros(4, requires_grad=True)
    (g,) = torch.autograd.grad(call(a)[0], a, create_graph=True)
    return torch.autograd.grad(g.sum(), a)


@pytest.mark.parametrize("call, error, message", ERRORS, ids=[f"{number}: {row[2]}" for number, row in enumerate(ERRORS)])
def test_refused(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_compiled_kernel_refuses_cpu_tensors(monkeypatch):
    monkeypatch.setattr(checks, "interpreted", lambda kernel: False)
    with pytest.raises(ValueError, match="x 在 cpu 上；编译后的 kernel 只在 NVIDIA GPU 上运行"):
        add(x, x)


def test_no_grad_is_enough():
    with torch.no_grad():
        assert torch.equal(add(grad, grad), x)


@pytest.mark.parametrize("causal", [0, 1, np.True_, torch.tensor(True)])
def test_what_stands_for_a_truth_value(causal):
    assert flash_attention(q(), q(), q(), causal=causal).shape == q().shape


def test_what_a_transform_does_not_follow_is_taken():
    """x, which does not depend on what is differentiated; an open level of forward mode without a tangent."""
    tall, one = torch.randn(3, 4), torch.tensor(1.0)
    assert torch.equal(torch.func.grad(lambda z: (softmax(tall)[0] * z).sum())(one), softmax(tall)[0].sum())
    assert torch.func.jvp(lambda z: (softmax(tall) * z).sum(), (one,), (one,))[1] == softmax(tall).sum()
    assert torch.equal(torch.func.functionalize(softmax)(tall), softmax(tall))
    with forward_ad.dual_level():
        assert torch.equal(torch.vmap(softmax)(tall), softmax(tall)) and torch.equal(softmax(tall), torch.vmap(softmax)(tall))


def test_the_negative_bit():
    """Set by a view of complex numbers, say: the memory then holds the other sign."""
    plain = torch.randn(3, 4)
    seen = torch._neg_view(-plain)
    assert seen.is_neg() and seen.is_contiguous()
    assert torch.equal(add(seen, plain), plain + plain) and torch.equal(add(plain, seen), plain + plain)
    assert torch.equal(softmax(seen), softmax(plain))
    a = plain.requires_grad_()
    y = softmax(a)
    dy = torch.randn(3, 4, dtype=torch.complex64).conj().imag
    (found,) = torch.autograd.grad(y, a, dy, retain_graph=True)
    assert torch.equal(found, torch.autograd.grad(y, a, dy.clone())[0])
