"""kernels.softmax as an operator of torch: traced, differentiated, laid out; its split kernels in the interpreter."""

import threading
import time

import pytest
import torch

from kernels import softmax as module
from kernels.proof import guarded_outputs
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


def test_dimensions_that_change_are_compiled():
    x, compiled = torch.randn(6, 3, 4), torch.compile(softmax, fullgraph=True, backend="eager")
    for dim in (0, 1, 2, -1):
        assert torch.equal(compiled(x, dim), softmax(x, dim))


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


@pytest.mark.parametrize("n_cols", [16385, 16386, 20000, 32767, 32768])
def test_wide_16_bit_rows(n_cols, monkeypatch):
    """No tile holds them: split on a GPU, and online in the interpreter, whose programs cannot wait."""
    assert module.launch(n_cols, 2).kernel is module.online_softmax_kernel
    monkeypatch.setattr(module.checks, "interpreted", lambda kernel: False)
    assert module.launch(n_cols, 2).kernel is module.split_softmax_kernel


@pytest.mark.parametrize(
    "n_cols, itemsize, part, parts",
    [
        (16385, 2, 8192, 3), (20000, 2, 8192, 3), (24576, 2, 8192, 3), (24577, 2, 16384, 2), (32768, 2, 16384, 2),
        (122880, 2, 8192, 15), (122881, 2, 16384, 8), (131072, 2, 16384, 8), (131073, 2, 16384, 9), (200000, 2, 16384, 13),
        (262144, 2, 16384, 16), (524288, 2, 16384, 32), (32769, 4, 8192, 5), (40000, 4, 8192, 5), (49152, 4, 16384, 3), (131072, 4, 16384, 8),
        (262144, 4, 16384, 16),
    ],
)  # fmt: skip
def test_parts(n_cols, itemsize, part, parts, monkeypatch):
    """The larger part where it leaves no more columns empty than the smaller one, or where the row has too many of those."""
    monkeypatch.setattr(module.checks, "interpreted", lambda kernel: False)
    how = module.launch(n_cols, itemsize)
    assert (how.kernel, how.BLOCK_SIZE, how.parts) == (module.split_softmax_kernel, part, parts)


@pytest.mark.parametrize("itemsize", [2, 4])
def test_parts_backward(itemsize, monkeypatch):
    monkeypatch.setattr(module.checks, "interpreted", lambda kernel: False)
    for n_cols in (32769, 40000, 49152, 65536, 131072, 262144):
        how = module.launch(n_cols, itemsize, backward=True)
        assert (how.kernel, how.BLOCK_SIZE) == (module.split_softmax_backward_kernel, 8192)
        assert how.parts == -(-n_cols // 8192)


def test_not_in_parts(monkeypatch):
    """Too wide for the programs that may wait for each other, and fp64, of which a word holds no two numbers."""
    monkeypatch.setattr(module.checks, "interpreted", lambda kernel: False)
    for n_cols, itemsize in ((524289, 2), (524289, 4), (131072, 8)):
        assert module.launch(n_cols, itemsize).kernel is module.online_softmax_kernel
    for n_cols, itemsize in ((262145, 2), (262145, 4), (131072, 8)):
        assert module.launch(n_cols, itemsize, backward=True).kernel is module.wide_softmax_backward_kernel


def test_a_single_axis_of_rows_is_the_outer_one():
    """Where a program takes one row: its number is then divided by 1, which Triton leaves out."""
    one, two = torch.empty(6, 2000), torch.empty(6, 5, 4000)[:, ::2, :2000]
    for x, grid, strides, n_inner in (
        (one, 6, [(2000, 0, 1)], 1), (one[0], 1, [(0, 0, 1)], 1), (one[:, :100], 1, [(0, 2000, 1)], 6), (two, 18, [(20000, 8000, 1)], 3),
    ):  # fmt: skip
        how, *planned = module.plan(x.dim() - 1, x.dtype, False, x.shape, x.stride())
        assert planned == [grid, strides, n_inner, x.shape[-1]]


def split_in_two_passes(module, rows, n_cols, parts, dtype):
    """The interpreter's programs run in turn and could not wait: no word is 0 at first, and a second pass has them all."""
    n_outer, n_inner = rows
    x, dy = (torch.randn(2, n_outer * n_inner, n_cols) * 3).to(dtype)
    x[0, : n_cols // 2] = -torch.inf  # a part without a finite element
    x[1] = -torch.inf
    x[2] -= 500  # e^x is 0
    strides, sizes = [(n_inner * n_cols, n_cols, 1)] * 3, {"BLOCK_SIZE": 16, "PARTS": parts, "MAX_PARTS": 8}
    with guarded_outputs():
        y, dx = torch.empty_like(x), torch.empty_like(x)
        for kernel, tensors in ((module.split_softmax_kernel, (x, y)), (module.split_softmax_backward_kernel, (y, dy, dx))):
            words = torch.ones(len(x) * parts, dtype=torch.int64)
            for _ in range(2):
                kernel[(len(words),)](*tensors, *strides[: len(tensors)], words, n_inner, n_cols, **sizes)
                assert words.all(), "a part is there and its word is 0"
    torch.testing.assert_close(y, torch.softmax(x, -1), equal_nan=True)
    assert y[1].isnan().all() and not y[0].isnan().any()
    wide, wide_dy = y.float(), dy.float()
    expected = wide * (wide_dy - (wide * wide_dy).sum(-1, keepdim=True))
    torch.testing.assert_close(dx, expected.to(dtype), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rows, n_cols, parts", [((3, 1), 41, 3), ((1, 3), 16, 2), ((2, 2), 30, 5)])
def test_split_in_two_passes(rows, n_cols, parts, dtype):
    split_in_two_passes(module, rows, n_cols, parts, dtype)


def test_split_waits():
    """Until the other part's word is there: a row's first program alone, the second one's word left by hand."""
    x = torch.randn(1, 32)
    y, words = torch.full_like(x, torch.nan), torch.zeros(2, dtype=torch.int64)

    def program():
        row = (32, 0, 1)
        module.split_softmax_kernel[(1,)](x, y, row, row, words, 1, 32, BLOCK_SIZE=16, PARTS=2, MAX_PARTS=8)

    thread = threading.Thread(target=program, daemon=True)
    thread.start()
    try:
        while thread.is_alive() and not words[0]:
            time.sleep(0.01)
        thread.join(0.2)
        waited = thread.is_alive() and y.isnan().all()
    finally:
        other = x[0, 16:]
        high, low = torch.stack([other.max(), (other - other.max()).exp().sum()]).view(torch.int32).tolist()
        words[1] = high << 32 | low
        thread.join(10)
    assert waited and not thread.is_alive()
    torch.testing.assert_close(y[:, :16], torch.softmax(x, -1)[:, :16])
