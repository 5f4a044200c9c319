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


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("adjacent", [False, True])
@pytest.mark.parametrize("itemsize", [2, 4, 8])
def test_every_width_has_a_launch(itemsize, adjacent, backward, words, monkeypatch):
    """As compiled: the tile, the parts or the chunks hold the row, or the kernel goes through it in steps."""
    monkeypatch.setattr(module.checks, "interpreted", lambda kernel: False)
    for n_cols in sorted({max(2**k + d, 1) for k in range(31) for d in (-1, 0, 1)} - {2**30 + 1}):
        how = module.launch(n_cols, itemsize, adjacent, backward, words)
        stepping = how.kernel in (module.online_softmax_kernel, module.wide_softmax_backward_kernel)
        assert stepping or max(how.parts, how.chunks, 1) * how.BLOCK_SIZE >= n_cols
        assert words or not how.chunks
        assert all(n & (n - 1) == 0 for n in (how.ROWS, how.BLOCK_SIZE, how.options["num_warps"]))
        assert how.parts <= module.MAX_PARTS and how.ROWS * how.BLOCK_SIZE * max(itemsize, 4) <= 4 * module.MAX_BLOCK
        assert adjacent or how.ROWS * itemsize >= 32


def halves(*shape):
    return torch.randn(shape).half()


def at_two_bytes(n_rows, n_cols):
    """Without a storage offset, at an address that is 2 more than a multiple of 4."""
    return torch.frombuffer(bytearray(2 + 2 * n_rows * n_cols), dtype=torch.half, offset=2).view(n_rows, n_cols)


WIDE = {  # 16-bit rows of 16385 to 32768 columns, their dim, and whether they lie in whole words
    "narrowest": (lambda: halves(2, 16386), 1, True),
    "widest": (lambda: halves(2, 32768), 1, True),
    "vector": (lambda: halves(20000), 0, True),
    "every-second-row": (lambda: halves(4, 16386)[::2], 1, True),
    "even-offset": (lambda: halves(2, 16388)[:, 2:], 1, True),
    "transposed": (lambda: halves(2, 16386).t(), 0, True),
    "two-strides": (lambda: halves(2, 3, 16388)[:, :2, 2:], 2, True),
    "expanded": (lambda: halves(1, 16386).expand(3, 16386), 1, True),
    "one-row-of-an-odd-stride": (lambda: halves(2, 16387)[:1, :16386], 1, True),
    "odd-width": (lambda: halves(2, 16388)[:, :16387], 1, False),
    "odd-vector": (lambda: halves(16387), 0, False),
    "odd-offset": (lambda: halves(2, 16388)[:, 1:16387], 1, False),
    "odd-address": (lambda: at_two_bytes(2, 16386), 1, False),
    "odd-stride": (lambda: halves(2, 16387)[:, :16386], 1, False),
    "odd-outer-stride": (lambda: halves(100_000).as_strided((2, 2, 16386), (32775, 16388, 1)), 2, False),
    "every-other": (lambda: halves(2, 32772)[:, ::2], 1, False),
    "first-dim": (lambda: halves(16386, 2), 0, False),
    "too-narrow": (lambda: halves(2, 16384), 1, False),
    "too-wide": (lambda: halves(2, 32770), 1, False),
    "fp32": (lambda: torch.randn(2, 16386), 1, False),
}


def kernels_of(monkeypatch):
    """The list that each call appends its kernel to."""
    seen, plan = [], module.plan

    def noting(*args):
        planned = plan(*args)
        seen.append(planned[0].kernel)
        return planned

    monkeypatch.setattr(module, "plan", noting)
    return seen


@pytest.mark.parametrize("layout", WIDE)
def test_packed_only_where_rows_are_whole_words(layout, monkeypatch):
    """Else a GPU would stop at an address that is no multiple of 4, or a neighbour's element be taken along."""
    make, dim, packed = WIDE[layout]
    seen, x = kernels_of(monkeypatch), make()
    torch.testing.assert_close(softmax(x, dim), torch.softmax(x, dim))
    assert [kernel is module.packed_softmax_kernel for kernel in seen] == [packed]


def test_packed_is_decided_by_address_in_every_call(monkeypatch):
    """Plans are kept by shape and strides, which these share."""
    seen, x = kernels_of(monkeypatch), halves(2, 16390)
    for offset in (0, 1, 2, 3, 0):
        softmax(x[:, offset : offset + 16386])
    assert [kernel is module.packed_softmax_kernel for kernel in seen] == [True, False, True, False, True]


def test_packed_bfloat16(monkeypatch):
    """The wrapper refuses bf16 in the interpreter, which truncates it; its words and its -inf show even so."""
    monkeypatch.setattr(module.checks, "tensors", lambda *args, **more: None)
    x = (3 * torch.randn(2, 20002)).bfloat16()
    x[0, 1::2] = -torch.inf
    seen = kernels_of(monkeypatch)
    torch.testing.assert_close(softmax(x), torch.softmax(x, 1))
    assert seen == [module.packed_softmax_kernel]


@pytest.mark.parametrize("n_cols", [16385, 16387, 32767, 32768])
def test_16_bit_rows_that_are_not_whole_words(n_cols, monkeypatch):
    assert module.launch(n_cols, 2).kernel is module.online_softmax_kernel  # the interpreter's programs cannot wait
    monkeypatch.setattr(module.checks, "interpreted", lambda kernel: False)
    how = module.launch(n_cols, 2)
    assert how.kernel is module.split_softmax_kernel and how.parts == 2


def test_a_single_axis_of_rows_is_the_outer_one():
    """Where a program takes one row: its number is then divided by 1, which Triton leaves out."""
    one, two = torch.empty(6, 2000), torch.empty(6, 5, 4000)[:, ::2, :2000]
    for x, grid, strides, n_inner in (
        (one, 6, [(2000, 0, 1)], 1), (one[0], 1, [(0, 0, 1)], 1), (one[:, :100], 1, [(0, 2000, 1)], 6), (two, 18, [(20000, 8000, 1)], 3),
    ):  # fmt: skip
        how, *planned = module.plan(x.dim() - 1, x.dtype, False, True, x.shape, x.stride())
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
