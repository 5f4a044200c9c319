"""These tests use Triton's interpreter and its compiler, GPU or not; a GPU's own proof is `make record`."""

import os

import pytest

os.environ["TRITON_INTERPRET"] = "1"  # before any kernel is defined


@pytest.fixture(autouse=True)
def one_thread():
    """Tensors of a few thousand elements: sharing them out to threads costs more than it saves on a busy machine."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
