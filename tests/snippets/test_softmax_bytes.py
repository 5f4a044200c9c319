"""snippets.softmax_bytes against its closed forms, and against the operators that PyTorch really runs."""

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from snippets.io_model import elements
from snippets.softmax_bytes import composed, fused, ratio

few = settings(deadline=None, max_examples=60)
sizes = st.integers(1, 5000)


@few
@given(sizes, sizes)
def test_closed_forms(M, N):
    assert elements(*composed(M, N)) == 8 * M * N + 4 * M
    assert elements(fused(M, N)) == 2 * M * N and elements(fused(M, N, sweeps=2)) == 3 * M * N
    assert ratio(M, N) == pytest.approx(4 + 2 / N) and ratio(M, N, 2) == pytest.approx((4 + 2 / N) * 2 / 3)


def test_five_kernels_each_named_and_counted():
    passes = composed(10, 7)
    assert [(sum(p.reads.values()), sum(p.writes.values())) for p in passes] == [
        (70, 10), (80, 70), (70, 70), (70, 10), (80, 70)
    ]
    produced = {"x"}
    for one in passes:  # nothing is read before it was written
        assert set(one.reads) <= produced
        produced |= set(one.writes)


class Counter(TorchDispatchMode):
    """Elements that each operator takes and gives; views move nothing."""

    def __init__(self):
        super().__init__()
        self.moved = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if not func.is_view:
            read = sum(one.numel() for one in args if isinstance(one, torch.Tensor))
            self.moved.append((read, out.numel()))
        return out


def test_pytorch_runs_these_five():
    x = torch.randn(12, 9)
    with Counter() as counter:
        e = torch.exp(x - x.amax(dim=1)[:, None])
        p = e / e.sum(dim=1)[:, None]
    torch.testing.assert_close(p, torch.softmax(x, dim=1))
    assert counter.moved == [(sum(one.reads.values()), sum(one.writes.values())) for one in composed(12, 9)]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: composed(0, 4), "M=0 不是正整数"),
        (lambda: composed(4, 2.5), "N=2.5 不是正整数"),
        (lambda: fused(4, -1), "N=-1 不是正整数"),
        (lambda: fused(4, 4, sweeps=3), "sweeps=3 不认识；可选：1、2"),
        (lambda: ratio(True, 4), "M=True 不是正整数"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
