"""snippets.memory_model against adding up the arrays themselves."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.memory_model import extra_bytes, largest_S, memory_bytes

few = settings(deadline=None, max_examples=60)
form = st.sampled_from(["naive", "fused"])
A100 = {"limit_bytes": 80 * 10**9, "d": 64, "dtype_bytes": 2, "heads": 16}


@few
@given(st.integers(1, 12), st.integers(1, 6), st.sampled_from([np.float16, np.float32]), st.integers(1, 3))
def test_arrays(S, d, dtype, heads):
    tensors = [np.empty((heads, S, d), dtype) for _ in "QKVO"]
    naive = [np.empty((heads, S, S), dtype) for _ in "SP"]
    fused = [np.empty((heads, S), np.float32) for _ in "ml"]
    size = np.dtype(dtype).itemsize
    assert memory_bytes(S, d, "naive", size, heads) == sum(x.nbytes for x in tensors + naive)
    assert memory_bytes(S, d, "fused", size, heads) == sum(x.nbytes for x in tensors + fused)
    assert heads * extra_bytes(S, "naive", size) == sum(x.nbytes for x in naive)
    assert heads * extra_bytes(S, "fused", size) == sum(x.nbytes for x in fused)


def test_a100():
    """16 heads in all, d = 64, fp16, S and P both alive, Q, K, V, O counted: 35,291 keys fit in 80 GB, no more."""
    assert largest_S(form="naive", **A100) == 35_291
    sizes = {"d": 64, "form": "naive", "dtype_bytes": 2, "heads": 16}
    assert memory_bytes(35_291, **sizes) <= 80 * 10**9 < memory_bytes(35_292, **sizes)
    assert largest_S(form="fused", **A100) == 80 * 10**9 // (16 * (4 * 64 * 2 + 8))


@few
@given(st.integers(1, 10**7), st.integers(1, 64), form, st.integers(1, 4), st.integers(1, 20))
def test_largest_is_the_largest(limit, d, form, dtype_bytes, heads):
    S = largest_S(limit, d, form, dtype_bytes, heads)
    assert S == 0 or memory_bytes(S, d, form, dtype_bytes, heads) <= limit
    assert memory_bytes(S + 1, d, form, dtype_bytes, heads) > limit


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: extra_bytes(0, "naive"), "S=0 不是正整数；请给一个不小于 1 的整数"),
        (lambda: extra_bytes(1, "naive", 0), "dtype_bytes=0 不是正整数"),
        (lambda: extra_bytes(1, "x"), "form='x' 不认识；可选：naive、fused"),
        (lambda: memory_bytes(1, 0, "naive"), "d=0 不是正整数"),
        (lambda: memory_bytes(1, 1, "naive", 2, 0), "heads=0 不是正整数"),
        (lambda: largest_S(0, 1, "naive"), "limit_bytes=0 不是正整数"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
