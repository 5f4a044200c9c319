"""kernels.benchmarks.attention and what builds on it, without a GPU: keys, references, peers, and every group in a dry run on the CPU."""

import ast
import functools
import json
import math
import re
import sys
import types

import pytest
import torch

from kernels import timing
from kernels.benchmarks import attention as benchmarks
from kernels.benchmarks import attention_backward, attention_decode, attention_packages

from .conftest import KEY, check_figures

SDPA = torch.nn.functional.scaled_dot_product_attention


@pytest.mark.parametrize("shape", benchmarks.forward_shapes(), ids=str)
def test_flops(shape):
    B, H, S, d = shape.size
    assert timing.attention_flops(B, H, S, S, d) == 4 * 16384 * 2048 * S  # tokens, hidden size and S alone decide
    assert timing.attention_flops(B, H, S, S, d, causal=True) * 2 == timing.attention_flops(B, H, S, S, d)


def test_keys_differ():
    keys = [shape.key(peer, measure) for peer in ("eager", "ours") for measure in ("ms", "tflops") for shape in benchmarks.forward_shapes()]
    assert len(set(keys)) == len(keys) and all(map(KEY.fullmatch, keys))
    assert {"eager_ms_512", "ours_tflops_4096_d64_causal", "ours_ms_16384_d256_causal_bf16"} <= set(keys)
    assert set(benchmarks.backward_shapes()) <= set(benchmarks.forward_shapes())


def test_checked_heads_are_spread():
    assert benchmarks._heads(torch.empty(2, 8, 1, 1)) == [(0, 0), (1, 0), (1, 7)]
    assert benchmarks._heads(torch.empty(1, 1, 1, 1)) == [(0, 0)]


@pytest.mark.parametrize("causal", [False, True])
def test_peers_and_references_agree(causal, monkeypatch):
    monkeypatch.setattr(benchmarks, "DEVICE", "cpu")
    q, k, v, do = (torch.randn(2, 3, 17, 8) for _ in range(4))
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    exact = SDPA(*leaves, is_causal=causal)
    for head, ref, low in benchmarks.reference(q.half(), k.half(), v.half(), causal):
        assert ref.dtype == torch.float32 and low.dtype == torch.float16
        torch.testing.assert_close(ref.double(), exact[head], rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(benchmarks.eager(17, causal)(q, k, v).double(), exact, rtol=1e-5, atol=1e-6)
    exact_gradients = torch.autograd.grad(exact, leaves, do.double())
    for wanted, place in zip(exact_gradients, benchmarks.reference_gradients(q, k, v, do, causal), strict=True):
        for head, ref, low in place:
            torch.testing.assert_close(ref.double(), wanted[head], rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(ref, low)


def test_grouped_heads_of_the_reference():
    q, k, v = torch.randn(1, 4, 1, 8), torch.randn(1, 2, 9, 8), torch.randn(1, 2, 9, 8)
    exact = SDPA(q, k, v, enable_gqa=True)
    for head, ref, _ in benchmarks.reference(q, k, v, False):
        torch.testing.assert_close(ref, exact[head])


def test_agree_refuses():
    q = torch.randn(1, 2, 5, 8)
    expected = benchmarks.reference(q, q, q, False)
    out = SDPA(q, q, q)
    benchmarks.agree(out, expected, "ours")
    with pytest.raises(AssertionError, match="ours，头"):
        benchmarks.agree(out + 0.1, expected, "ours")
    with pytest.raises(AssertionError, match="ours 的结果里有 NaN"):
        benchmarks.agree(out.index_fill(2, torch.tensor([3]), math.nan), expected, "ours")


def test_compared_by_the_spreads():
    shapes = [benchmarks.Shape(S, d, causal) for S, d, causal in ((1024, 128, False), (1024, 64, True), (4096, 128, True), (4096, 256, False))]
    spreads = {"ours": ((1, 2), (3, 4), (2, 4), (1, 1)), "peer": ((3, 4), (1, 2), (3, 5), (2, 2))}
    figures = {}
    for peer, found in spreads.items():
        for shape, (low, high) in zip(shapes, found):
            key = shape.key(peer, "ms")
            figures |= {f"{key}_low": {"value": low}, f"{key}_high": {"value": high}, shape.key(peer, "tflops"): {"value": 2 / (low + high)}}
    told = {name: one["value"] for name, one in benchmarks.compared(figures, shapes, "ours", "peer").items()}
    assert told["ours_over_peer_behind"] == "d=64，S=1024，因果" and told["ours_over_peer_undecided"] == "d=128，S=4096，因果"
    assert told["ours_over_peer_shapes"] == 4 and told["ours_over_peer_ahead"] == 2
    assert told["ours_over_peer_least"] == pytest.approx(3 / 7, rel=1e-3) and told["ours_over_peer_least_long"] == pytest.approx(8 / 6, rel=1e-3)
    fewer = benchmarks.compared(figures, shapes[:1], "ours", "peer")
    assert fewer["ours_over_peer_behind"]["value"] == fewer["ours_over_peer_undecided"]["value"] == "没有"


def test_choice_is_a_backend_name():
    q = torch.randn(1, 1, 8, 16)
    assert re.fullmatch("[A-Z_]+", benchmarks.sdpa_choice(q, q, q, False))


def raising(error):
    def run():
        raise error

    return run


@pytest.mark.parametrize(
    "peer, error, note",
    [
        ("eager", torch.cuda.OutOfMemoryError("tried to allocate"), {"eager S=4": "out of memory"}),
        ("sdpa_cudnn", RuntimeError("No available kernel. Aborting execution."), {"sdpa_cudnn": "No available kernel. Aborting execution."}),
        ("flex", ValueError("no compiler"), {"flex S=4": "no compiler"}),
    ],
)
def test_what_a_machine_lacks_is_noted(peer, error, note):
    absent = {}
    assert benchmarks.offered(peer, raising(error), absent, "S=4") is None
    assert {key: str(reason) for key, reason in absent.items()} == note


@pytest.mark.parametrize(
    "peer, error",
    [
        ("ours", torch.cuda.OutOfMemoryError("x")), ("plain", RuntimeError("No available kernel")),
        ("sdpa_flash", RuntimeError("illegal address")), ("eager", ValueError("x")),
    ],
)
def test_other_failures_are_raised(peer, error):
    with pytest.raises(type(error)):
        benchmarks.offered(peer, raising(error), {}, "")


@pytest.fixture
def dry(monkeypatch):
    """The groups at small sizes on the CPU: every timer calls what it is given once and tells a fixed time."""

    def once(fn, *_, **__):
        fn()
        return 2.0

    def stand_in(causal):
        return lambda q, k, v: SDPA(q, k, v, is_causal=causal, enable_gqa=True)

    stand_ins = {
        "DEVICE": "cpu", "TOKENS": 64, "HIDDEN": 256, "LENGTHS": (16, 32), "BACKWARD_LENGTHS": (32,), "BF16_LENGTHS": (32,),
        "SIZES": ((1, 64), (2, 128)), "need_gpu": lambda: None, "prepare": lambda *direction: None,
        "interleaved_ms": lambda calls: {name: (once(fn) - 1, 2.0, 3.0) for name, fn in calls.items()},
        "peak_extra_mb": once, "launch_us": once, "median_ms": once, "ours": stand_in, "plain": stand_in,
        "sdpa_peers": lambda causal, **options: {"sdpa_flash": stand_in(causal), "sdpa_cudnn": stand_in(causal)},
        "flex_attention": lambda shape: stand_in(shape.causal),
    }  # fmt: skip
    for name, value in stand_ins.items():
        homes = [module for module in (benchmarks, attention_backward, attention_decode, attention_packages) if hasattr(module, name)]
        assert homes, name
        for module in homes:
            monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(attention_packages, "SHAPES", [benchmarks.Shape(S, 64, causal) for S in (16, 32) for causal in (False, True)])
    monkeypatch.delenv(attention_packages.TUTORIAL, raising=False)
    monkeypatch.setitem(sys.modules, "flash_attn", None)
    return monkeypatch


@pytest.mark.parametrize(
    "group, some",
    [
        (benchmarks, {"eager_ms_16": "ms", "ours_ms_32_low": "ms", "plain_tflops_32_d64_causal": "TFLOP/s", "eager_mb_32": "MB",
                                "sdpa_choice_16": "", "flex_ms_32_d256": "ms", "ours_tflops_32_bf16": "TFLOP/s", "plain_launch_us": "µs",
                                "ours_over_sdpa_cudnn_mean": "倍", "plain_over_flex_least": "倍"}),
        (attention_backward, {"ours_ms_32_d256_causal": "ms", "sdpa_cudnn_tflops_32": "TFLOP/s", "ours_over_flex_least": "倍", "ours_over_flex_mean_d256": "倍", "flex_launch_us": "µs"}),
        (attention_decode, {"ours_gbps_128_b2": "GB/s", "sdpa_flash_ms_64_b1": "ms", "ours_launch_us": "µs", "read_gbps_64_b1": "GB/s",
                             "ours_ms_64_b1_low": "ms", "sdpa_cudnn_ms_128_b2_high": "ms", "ours_over_read_64_b1": "倍", "ours_over_sdpa_cudnn_128_b2": "倍"}),
    ],
    ids=["forward", "backward", "decode"],
)  # fmt: skip
def test_dry_run(group, some, dry):
    check_figures(group.measure(), some)


def test_a_wrong_kernel_is_not_timed(dry):
    dry.setattr(benchmarks, "ours", lambda causal: lambda q, k, v: torch.zeros_like(q))
    dry.setattr(benchmarks, "interleaved_ms", lambda calls: pytest.fail("timed"))
    with pytest.raises(RuntimeError, match=r"attention，Shape\(S=16, d=128, causal=False, dtype='fp16'\)，ours：AssertionError"):
        benchmarks.measure()


def test_flex_is_compiled_in_lots(monkeypatch):
    commands = []
    monkeypatch.setattr(benchmarks.subprocess, "run", lambda command, **_: commands.append(command))
    benchmarks.prepare("backward")
    shapes = [shape for command in commands for shape in ast.literal_eval(re.search(r"(\[.*\])\)$", command[2])[1])]
    assert sorted(shapes) == sorted(map(tuple, benchmarks.backward_shapes())) and commands[0][0] == sys.executable


TUTORIAL = """
import types
from torch.nn.functional import scaled_dot_product_attention

calls = []  # the cache that a call met, and what it was called with
_attn_fwd = types.SimpleNamespace(configs=list(range(20)), cache={"what an import": "left"})


def attention(q, k, v, causal, sm_scale, warp_specialize):
    assert sm_scale == q.shape[-1] ** -0.5 and not (causal and warp_specialize)
    key = (q.shape, causal, warp_specialize)
    calls.append((_attn_fwd.cache, key, list(_attn_fwd.configs)))
    _attn_fwd.cache[key] = types.SimpleNamespace(kwargs={"BLOCK_M": 128, "BLOCK_N": k.shape[2]}, num_warps=4, num_stages=2)
    if q.shape[2] in REFUSED or warp_specialize in REFUSED:
        raise ValueError("no room in shared memory")
    return scaled_dot_product_attention(q, k, v, is_causal=causal)
"""


@pytest.fixture
def tutorial(dry, tmp_path):
    """What the file that TRITON_TUTORIAL names defines; loaded once, so that its calls can be looked at."""
    path = tmp_path / "06-fused-attention.py"
    path.write_text(TUTORIAL, "utf-8")
    dry.setenv(attention_packages.TUTORIAL, str(path))
    module, digest = attention_packages.load_tutorial()
    module.REFUSED = ()
    dry.setattr(attention_packages, "load_tutorial", lambda: (module, digest))
    return module


@pytest.fixture
def fa4(dry):
    """A package in FlashAttention-4's place, whose tensors are [B, S, H, d]; what it was called with."""
    seen = []

    def flash_attn_func(q, k, v, causal):
        seen.append((tuple(q.shape), causal))
        out = SDPA(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=causal).transpose(1, 2)
        return (out, None) if causal else out  # it has given both

    for name, members in {"flash_attn": {}, "flash_attn.cute": {"flash_attn_func": flash_attn_func}}.items():
        module = types.ModuleType(name)
        vars(module).update(members)
        dry.setitem(sys.modules, name, module)
    dry.setattr(attention_packages.importlib.metadata, "version", lambda name: {"flash-attn-4": "4.0.1"}[name])
    return seen


def test_packages_that_are_not_there(dry):
    dry.setattr(benchmarks, "interleaved_ms", lambda calls: pytest.fail("timed"))
    dry.setattr(benchmarks.Shape, "draw", lambda shape, n: pytest.fail("drawn"))
    figures = attention_packages.measure()
    assert list(figures) == ["absent"]
    assert re.match("tutorial: TRITON_TUTORIAL 没有给出.*；fa4: .*flash-attn-4", figures["absent"]["value"])


def test_a_tutorial_that_is_not_there(dry, fa4):
    dry.setenv(attention_packages.TUTORIAL, "/nowhere/06-fused-attention.py")
    figures = attention_packages.measure()
    assert figures["absent"]["value"].startswith("tutorial: [Errno 2] No such file") and "/nowhere" not in str(figures)
    assert "fa4_ms_32_d64" in figures and not any(key.startswith("tutorial") for key in figures)


def test_the_tutorial_is_timed(tutorial):
    figures = attention_packages.measure()
    assert json.loads(json.dumps(figures)) == figures and all(map(KEY.fullmatch, figures))
    assert figures["tutorial_choice_32_d64_causal"]["value"] == "128×32，4 warp，2 级"
    some = {"tutorial_tflops_16_d64": "TFLOP/s", "tutorial_choice_16_d64": "", "tutorial_ms_32_d64_causal": "ms",
            "plain_over_tutorial_mean": "倍", "plain_over_tutorial_least": "倍", "sdpa_cudnn_ms_16_d64": "ms",
            "ours_tflops_32_d64": "TFLOP/s", "tutorial_sha256": ""}  # fmt: skip
    assert {key: figures[key]["unit"] for key in some} == some
    assert figures["plain_over_tutorial_shapes"]["value"] == 4
    assert not any("_ws" in key for key in figures) and figures["tutorial_nan"]["value"] == "没有"
    assert re.fullmatch("[0-9a-f]{12}", figures["tutorial_sha256"]["value"])
    assert figures["absent"]["value"].startswith("fa4: ") and "；" not in figures["absent"]["value"]


def test_the_tutorial_is_tuned_for_every_shape(tutorial):
    attention_packages.measure()
    keys = {key for _, key, _ in tutorial.calls}
    assert len(keys) == 6 < len(tutorial.calls)  # S, causal; without a mask with warps specialised as well
    assert all(list(cache) == [key] for cache, key, _ in tutorial.calls), "tuned for another shape"
    assert len({id(cache) for cache, _, _ in tutorial.calls}) == 6


@pytest.mark.parametrize("times, refused, best", [((1.0, 2.0), (), False), ((2.0, 1.0), (), True), ((2.0, 1.0), (True,), False)])
def test_the_better_of_the_tutorials_two_is_timed(times, refused, best, tutorial, monkeypatch):
    tutorial.REFUSED, left = refused, list(times)
    monkeypatch.setattr(attention_packages, "median_ms", lambda call: left.pop(0))
    shape, absent, chosen = attention_packages.SHAPES[0], {}, {}
    run, (q, k, v) = attention_packages.tuned(tutorial, shape, absent, chosen, set()), shape.draw(3)
    tutorial.calls.clear()
    run(q, k, v)
    assert tutorial.calls[-1][1][2] is best
    run(q, k, v)
    assert len(tutorial.calls) == 4 and tutorial.calls[-1][1][2] is best  # both tried once
    assert list(absent) == [f"tutorial {shape} warp_specialize={one}" for one in refused]
    assert chosen == {shape: "128×16，4 warp，2 级" + "，特化" * best}


class Tuner:
    """What `right_ms` uses of Triton's tuner: it fills o and tells a time."""

    def __init__(self, o, time):
        self.nargs, self.time = {"desc_o": o}, time

    def _bench(self, *args, config, **meta):
        return [self.time * config.num_stages] * 3


@pytest.mark.parametrize("specialised, name", [(True, "128×64，4 warp，3 级，特化"), (False, "128×64，4 warp，3 级")])
@pytest.mark.parametrize("described", [True, False])
def test_a_configuration_that_gives_nan_is_never_the_best(described, specialised, name):
    o, wrong, config = torch.zeros(2, 3), set(), types.SimpleNamespace(kwargs={"BLOCK_M": 128, "BLOCK_N": 64}, num_warps=4, num_stages=3)
    kernel = Tuner(types.SimpleNamespace(base=o) if described else o, 2.0)
    call = functools.partial(attention_packages.right_ms, kernel, wrong, "grid", config=config, warp_specialize=specialised)
    assert call() == [6.0] * 3 and not wrong
    o[1, 2] = math.nan
    assert call() == [math.inf] * 3 and wrong == {name}
    wrong.clear()
    kernel.time = math.inf  # does not fit: it has not run, so the NaN is not its own
    assert call() == [math.inf] * 3 and not wrong


def test_a_way_that_gives_nan_or_fails_is_passed_over(monkeypatch):
    monkeypatch.setattr(attention_packages, "median_ms", lambda call: 1.0)
    fails = functools.partial(torch.linalg.inv, torch.zeros(2, 2))
    best, failed = attention_packages.fastest({"nan": lambda: torch.tensor([1, math.nan]), "fails": fails, "right": lambda: torch.ones(1)})
    assert best == "right" and list(failed) == ["nan", "fails"] and "NaN" in str(failed["nan"])
    with pytest.raises(ArithmeticError, match="NaN"):
        attention_packages.fastest({"nan": lambda: torch.tensor([math.nan])})


def test_the_package_is_timed(fa4):
    figures = attention_packages.measure()
    assert set(fa4) == {((64 // S, S, 4, 64), causal) for S in (16, 32) for causal in (False, True)}
    assert figures["fa4_version"]["value"] == "4.0.1" and figures["ours_over_fa4_shapes"]["value"] == 4
    assert {"fa4_tflops_32_d64_causal", "ours_over_fa4_mean", "ours_ms_16_d64"} <= figures.keys()
    assert figures["absent"]["value"].startswith("tutorial: ")


def test_a_tutorial_whose_imports_are_missing(dry, tmp_path):
    path = tmp_path / "06-fused-attention.py"
    path.write_text("import a_package_that_is_not_there")
    dry.setenv(attention_packages.TUTORIAL, str(path))
    assert "tutorial: No module named 'a_package_that_is_not_there'" in attention_packages.measure()["absent"]["value"]


def test_a_package_that_fails_is_noted(tutorial):
    tutorial.REFUSED = (16,)
    figures = attention_packages.measure()
    for causal in (False, True):
        assert f"tutorial Shape(S=16, d=64, causal={causal}, dtype='fp16'): no room in shared memory" in figures["absent"]["value"]
    assert "S=32" not in figures["absent"]["value"] and figures["plain_over_tutorial_shapes"]["value"] == 2
    assert "ours_ms_16_d64" in figures and "tutorial_ms_16_d64" not in figures


@pytest.mark.parametrize("peer", ["ours", "plain"])
def test_our_own_failure_is_raised(peer, tutorial, monkeypatch):
    monkeypatch.setattr(attention_packages, peer, lambda causal: lambda q, k, v: raising(ValueError("broken"))())
    with pytest.raises(RuntimeError, match=rf"attention_packages，Shape\(S=16, .*\)，{peer}：ValueError：broken"):
        attention_packages.measure()


def test_a_wrong_package_is_not_timed(tutorial):
    right = tutorial.attention
    tutorial.attention = lambda *rest: torch.zeros_like(right(*rest))
    with pytest.raises(RuntimeError, match="，tutorial：AssertionError"):
        attention_packages.measure()


def test_a_lot_that_takes_too_long_is_left_to_the_timing(monkeypatch):
    too_long = benchmarks.subprocess.TimeoutExpired("python", 240)
    monkeypatch.setattr(benchmarks.subprocess, "run", lambda *_, **__: raising(too_long)())
    attention_packages.prepare()


def test_the_tutorial_is_compiled_in_lots(monkeypatch):
    commands = []
    monkeypatch.setattr(benchmarks.subprocess, "run", lambda command, **_: commands.append(command))
    attention_packages.prepare()
    starts = [int(re.search(r"compile_tutorial\((\d+)\)$", command[2])[1]) for command in commands]
    assert sorted(starts) == list(range(attention_packages.WORKERS)) and commands[0][0] == sys.executable


def test_every_configuration_is_compiled_once(tutorial):
    tutorial.REFUSED, configs = (16,), tutorial._attn_fwd.configs  # what does not fit is passed over
    for start in range(attention_packages.WORKERS):
        tutorial._attn_fwd.configs = configs
        attention_packages.compile_tutorial(start)
    seen = [(shape[2], causal, specialised, *met) for _, (shape, causal, specialised), met in tutorial.calls]
    assert sorted(seen) == sorted(
        (shape.S, shape.causal, one, config)
        for shape in attention_packages.SHAPES for one in attention_packages.ways(shape) for config in configs
    )  # fmt: skip
