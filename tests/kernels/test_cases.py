"""Every kernel in the interpreter: all cases of its proof, and random shapes against the float64 oracle."""

import importlib

import pytest
import torch
import triton
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.flash_attention_tiles import heads_together, log2_together
from kernels.proof import assert_equal, flash_attention, softmax
from kernels.vector_add import add

KERNELS = ("vector_add", "softmax", "flash_attention", "flash_attention_backward", "flash_attention_decode")
CASES = [(name, case) for name in KERNELS for case in importlib.import_module(f"kernels.proof.{name}").cases("cpu")]
few = settings(deadline=None, max_examples=15, derandomize=True)
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NaN arithmetic in NumPy, wanted


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{name}-{case.name}") for name, case in CASES])
def test_interpreted(case):
    case.check("cpu")


@pytest.mark.parametrize("name", KERNELS)
def test_names_are_unique(name):
    """The GPU's table holds the same proofs and more, bf16 among them; building it runs nothing."""
    module = importlib.import_module(f"kernels.proof.{name}")
    cpu, cuda = ([case.name for case in module.cases(device)] for device in ("cpu", "cuda"))
    assert len(set(cpu)) == len(cpu) and len(set(cuda)) == len(cuda)
    assert any("bfloat16" in case for case in cuda) and not any("bfloat16" in case for case in cpu)
    variants = [(variant.name, variant.targets) for variant in module.variants(thorough=True)]
    assert len(set(variants)) == len(variants)


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_is_shown(name, monkeypatch):
    """What a build compiles and lists has a variant of each kernel function that the thorough set has."""
    monkeypatch.setattr("kernels.checks.interpreted", lambda kernel: False)  # it leaves out kernels that wait
    shown, thorough = (
        {variant.kernel for variant in importlib.import_module(f"kernels.proof.{name}").variants(thorough=each)}
        for each in (False, True)
    )
    assert shown == thorough


@few
@given(n=st.integers(0, 3000), step=st.integers(1, 3))
def test_add_any(n, step):
    x, y = torch.randn(n * step), torch.randn(n * step)
    assert_equal(add(x[::step], y[::step]), x[::step] + y[::step], "out")


@few
@given(shape=st.lists(st.integers(0, 9), max_size=4), data=st.data())
def test_softmax_any(shape, data):
    dim = data.draw(st.integers(-max(len(shape), 1), max(len(shape), 1) - 1))
    softmax._check(softmax.module.softmax, tuple(shape), dim, torch.float32, softmax._same, "cpu")


@few
@given(
    S_q=st.integers(0, 90), S_kv=st.integers(0, 90), D=st.integers(1, 70), causal=st.booleans(),
    H_kv=st.integers(1, 2), group=st.integers(1, 3), B=st.integers(1, 2),
    layout=st.sampled_from(sorted(flash_attention.LAYOUTS)),
)  # fmt: skip
def test_flash_attention_any(S_q, S_kv, D, causal, H_kv, group, B, layout):
    shape = flash_attention.Shape("any", S_q, S_kv, D, causal, H_kv * group, H_kv, B, layout)
    flash_attention.check(flash_attention.module.flash_attention, shape, torch.float32, "cpu")


def test_flash_attention_takes_heads_in_groups(monkeypatch):
    """Causal tiles of two heads at a time, the last group not full: on a GPU so long keys make it so."""
    monkeypatch.setattr("kernels.flash_attention_tiles.L2_BYTES", 2 * 2 * 70 * 16 * 4)  # K and V of two heads
    shape = flash_attention.Shape("groups", 70, 70, 16, True, 5, 5)
    flash_attention.check(flash_attention.module.flash_attention, shape, torch.float32, "cpu")


@pytest.mark.parametrize(
    "heads, together, wanted",
    [(5, 5, (3, 8)), (6, 6, (3, 8)), (12, 3, (1, 12)), (9, 4, (2, 12)), (12, 100, (4, 16)), (64, 48, (5, 64)), (1, 1, (0, 1))],
)
def test_heads_together_are_a_power_of_two(heads, together, wanted):
    assert log2_together(heads, together) == wanted


@pytest.mark.parametrize(
    "heads, group, size, times, wanted", [(12, 3, 2, 1, 6), (12, 1, 2, 2, 4), (4, 1, 2, 1, 2), (2, 1, 2, 9, 2), (12, 3, 99, 1, 3)]
)
def test_heads_that_fit(monkeypatch, heads, group, size, times, wanted):
    """Query heads of a group share their keys: so many more fit into L2."""
    monkeypatch.setattr("kernels.flash_attention_tiles.L2_BYTES", 4)
    assert heads_together(heads, group, size, times) == wanted


@pytest.mark.parametrize("S_q, S_kv, causal", [(41, 40, True), (40, 41, True), (41, 40, False)])
def test_tiles_are_chosen_by_the_mask_and_the_keys(monkeypatch, S_q, S_kv, causal):
    module, asked = flash_attention.module, []
    config = module.config
    monkeypatch.setattr(module, "config", lambda *given: asked.append(given[-2:]) or config(*given))
    flash_attention.check(module.flash_attention, flash_attention.Shape("one", S_q, S_kv, 16, causal), torch.float16, "cpu")
    assert set(asked) == {(causal, S_kv)}


@pytest.mark.parametrize(
    "S, D, loads, store",
    [
        *((20, 64, True, True), (20, 65, False, False), (20, 72, True, True), (20, 128, True, True), (20, 129, False, False)),
        (1, 129, True, False),
    ],
)
def test_where_descriptors_are_used(monkeypatch, S, D, loads, store):
    """Not where the next row is not aligned; nor to write a row, be it the only one, that does not end where 16 bytes do."""
    module, operands = flash_attention.module, []
    operand = module.operand
    monkeypatch.setattr(module, "operand", lambda x, rows, tma: operands.append(tma) or operand(x, rows, tma))
    flash_attention.check(module.flash_attention, flash_attention.Shape("one", S, S, D, H_q=1, H_kv=1), torch.float16, "cpu")
    assert operands[:4] == [loads, loads, loads, store]


def test_tiles_of_few_keys():
    """Smaller for a causal row of them at d = 64 alone."""
    config, SHORT = flash_attention.module.config, flash_attention.module.SHORT
    usual = config(torch.float16, 64, (9, 0))
    assert config(torch.float16, 64, (9, 0), True, SHORT).BLOCK_N < usual.BLOCK_N
    for causal, S_kv in ((True, SHORT + 1), (False, SHORT)):
        assert config(torch.float16, 64, (9, 0), causal, S_kv) == usual
    for D, capability in ((64, None), (64, (12, 0)), (32, (9, 0)), (128, (9, 0)), (256, (9, 0))):
        assert config(torch.float16, D, capability, True, SHORT) == config(torch.float16, D, capability)


def test_where_warps_are_specialised():
    """Long keys in whole tiles, none masked, on Hopper."""
    config, LONG = flash_attention.module.config, flash_attention.module.LONG
    for D, S in LONG.items():
        blocks = config(torch.float16, D, (9, 0), False, S)
        assert blocks.WARP_SPECIALIZE and S % blocks.BLOCK_N == 0 and blocks.num_stages == 2
        others = [(D, (9, 0), False, S - 128), (D, (9, 0), False, S + 1), (D, (9, 0), True, S), (64, (9, 0), False, S)]
        others += [(D - 8, (9, 0), False, S)]
        for given in [*others, (D, (10, 0), False, S), (D, None, False, S)]:
            assert not config(torch.float16, *given).WARP_SPECIALIZE
        assert not config(torch.float32, D, (9, 0), False, S).WARP_SPECIALIZE


@pytest.mark.parametrize("layout", ["plain", "token-major", "window"])
def test_specialised_warps_in_the_interpreter(monkeypatch, layout):
    """Which has no warps, but the descriptors that the kernel makes itself: the same results, and the caller's allocator stays."""
    module = flash_attention.module
    monkeypatch.setattr(module, "config", lambda *_: module.Blocks(32, 16, 4, 2, WARP_SPECIALIZE=True))
    before = triton.runtime._allocation._allocator.get()
    shape = flash_attention.Shape("specialised", 70, 48, 24, H_q=4, B=2, layout=layout)
    flash_attention.check(module.flash_attention, shape, torch.float16, "cpu")
    assert triton.runtime._allocation._allocator.get() is before


def test_flash_attention_equals_the_tiled_reference():
    """The kernel and snippets.attention.tiled_attention, side by side on the page, are the same computation."""
    from snippets.attention import tiled_attention

    q, k, v = (torch.randn(1, 1, S, 24) for S in (70, 90, 90))
    tiled = tiled_attention(*(x[0, 0].numpy() for x in (q, k, v)), q_tile=32, k_tile=16, causal=True)
    o = flash_attention.module.flash_attention(q, k, v, causal=True)
    torch.testing.assert_close(o[0, 0], torch.from_numpy(tiled), rtol=1e-5, atol=1e-6)


def test_layout_of_the_output():
    """Token-major q gives token-major o, so that the caller's transpose and reshape copy nothing."""
    q = torch.randn(2, 7, 3, 16).transpose(1, 2)
    assert flash_attention.module.flash_attention(q, q, q).stride() == q.stride()
