"""One test per refusal: the message names the argument, the fault and the remedy."""

import re

import pytest
import torch

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
    (lambda: flash_attention(q(), q(), q(), sm_scale=float("nan")), ValueError, "sm_scale=nan 不是有限的实数"),
    (lambda: flash_attention(q(), q(), q(), sm_scale="1"), ValueError, "sm_scale='1' 不是有限的实数"),
]


@pytest.mark.parametrize("call, error, message", ERRORS, ids=[row[2] for row in ERRORS])
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
