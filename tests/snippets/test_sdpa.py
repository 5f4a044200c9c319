"""snippets.sdpa on CPU tensors: what may run is named, a refusal is left out, any other error comes through."""

import pytest
import torch
from torch.nn.attention import SDPBackend

from snippets import sdpa


def inputs(dtype=torch.float32):
    return torch.randn(3, 1, 2, 32, 16, dtype=dtype).unbind(0)


def test_names():
    names = sdpa.usable(*inputs())
    assert "MATH" in names and "ERROR" not in names and set(names) <= set(SDPBackend.__members__)
    assert names == [name for name in SDPBackend.__members__ if name in names]


def test_the_call_decides():
    assert "FLASH_ATTENTION" in sdpa.usable(*inputs())
    assert "FLASH_ATTENTION" not in sdpa.usable(*inputs(), dropout_p=0.1)


def test_no_warning_leaks(recwarn):
    sdpa.usable(*inputs(), dropout_p=0.1)
    assert not recwarn.list


def test_shapes_that_differ_are_no_refusal():
    q, k, v = inputs()
    with pytest.raises(RuntimeError, match="size|shape|dimension|match"):
        sdpa.usable(q, k[..., :8], v)


def test_memory_running_out_is_no_refusal(monkeypatch):
    def fails(*arguments, **options):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(sdpa.F, "scaled_dot_product_attention", fails)
    with pytest.raises(RuntimeError, match="out of memory"):
        sdpa.usable(*inputs())
