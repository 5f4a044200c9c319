"""kernels.softmax as an operator of torch: traced, differentiated, laid out; its split kernels in the interpreter."""

import pytest
import torch

from kernels import softmax as module
from kernels.softmax import softmax

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NaN arithmetic in masked rows, by NumPy
LAYOUTS = {
    "contiguous": lambda: (torch.randn(3, 33), 1),
    "first-dim": lambda: (torch.randn(19, 7), 0),
    "middle-dim": lambda: (torch.randn(3, 9, 5), 1),
    "permuted": lambda: (torch.randn(3, 4, 5, 6).transpose(1, 3), 1),
    "three-strides": lambda: (torch.randn(4, 6, 5, 8)[::2, :, ::2, ::2], 1),
    "scalar": lambda: (torch.randn(()), 0),
    "empty": lambda: (torch.randn(0, 3), 1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_opcheck(layout):
    """Schema, autograd registration, fake tensors and aot_autograd: what torch.compile relies on, strides included."""
    x, dim = LAYOUTS[layout]()
    torch.library.opcheck(module._softmax, (x.requires_grad_(), dim))
    torch.library.opcheck(module._softmax_backward, (x.detach(), torch.randn(x.shape[-1:]).expand(x.shape), dim))


def test_traced_whole():
    x = torch.randn(4, 50, requires_grad=True)
    compiled = torch.compile(lambda x: softmax(2 * x, 0).square().sum(), fullgraph=True, backend="aot_eager")
    expected = torch.autograd.grad(torch.softmax(2 * x, 0).square().sum(), x)[0]
    torch.testing.assert_close(torch.autograd.grad(compiled(x), x)[0], expected)


def test_gradcheck():
    x = torch.randn(3, 5, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: softmax(x, 1), (x,))


def test_changed_output_is_noticed():
    y = softmax(torch.randn(3, 5, requires_grad=True))
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_strides_of_the_output():
    x = torch.randn(3, 4, 5, 6).permute(0, 2, 3, 1)
    assert softmax(x).stride() == x.stride()


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("adjacent", [False, True])
@pytest.mark.parametrize("itemsize", [2, 4, 8])
def test_every_width_has_a_launch(itemsize, adjacent, backward, monkeypatch):
    """As compiled: the tile or the parts hold the row, or the kernel goes through it in steps."""
    monkeypatch.setattr(module.checks, "interpreted", lambda kernel: False)
    for n_cols in sorted({max(2**k + d, 1) for k in range(31) for d in (-1, 0, 1)} - {2**30 + 1}):
        how = module.launch(n_cols, itemsize, adjacent, backward)
        stepping = how.kernel in (module.online_softmax_kernel, module.wide_softmax_backward_kernel)
        assert stepping or max(how.parts, 1) * how.BLOCK_SIZE >= n_cols
        assert all(n & (n - 1) == 0 for n in (how.ROWS, how.BLOCK_SIZE, how.options["num_warps"]))
        assert how.parts <= module.MAX_PARTS and how.ROWS * how.BLOCK_SIZE * max(itemsize, 4) <= 4 * module.MAX_BLOCK
        assert adjacent or how.ROWS * itemsize >= 32


@pytest.mark.parametrize("shape, parts", [((3, 41), 3), ((2, 16), 2), ((4, 30), 5)])
def test_split_in_two_passes(shape, parts, monkeypatch):
    """The interpreter's programs run in turn and could not wait: here none waits, and a second pass has them."""
    monkeypatch.setattr(module, "wait", lambda counts_ptr, row, parts: None)
    n_rows, n_cols = shape
    x, dy = torch.randn(2, *shape) * 3
    x[0, : n_cols // 2] = -torch.inf  # a part without a finite element
    x[1] = -torch.inf
    y, dx = torch.empty_like(x), torch.empty_like(x)
    stats, rows = torch.full((n_rows * parts, 2), torch.nan), [(0, n_cols, 1)] * 3
    for kernel, tensors in ((module.split_softmax_kernel, (x, y)), (module.split_softmax_backward_kernel, (y, dy, dx))):
        for _ in range(2):
            counts = torch.zeros(n_rows + 1, dtype=torch.int32)
            more = {"BLOCK_SIZE": 16, "MAX_PARTS": 8}
            strides = rows[: len(tensors)]
            kernel[(n_rows * parts,)](*tensors, *strides, stats, counts, n_rows, n_cols, n_rows, parts, **more)
    reference = torch.softmax(x, -1)
    torch.testing.assert_close(y, reference, equal_nan=True)
    expected = reference * (dy - (reference * dy).sum(-1, keepdim=True))
    torch.testing.assert_close(dx, expected, equal_nan=True, rtol=1e-4, atol=1e-6)
