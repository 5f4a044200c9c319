"""kernels.timing and kernels.benchmarks without a GPU: formulas, keys, refusals, and every group in a dry run on the CPU."""

import json
import math
import re
import subprocess
import sys
import types

import pytest
import torch

from kernels import benchmarks, timing

KEY = re.compile(r"[a-z0-9_]+")


# Formulas


@pytest.mark.parametrize(
    "value, kept",
    [(4281.37, 4281.0), (0.00123456, 0.001235), (123456.0, 123500.0), (9766, 9766), ("FLASH_ATTENTION", "FLASH_ATTENTION"), (0.0, 0.0)],
)
def test_four_significant_digits(value, kept):
    told = timing.figure(value, "GB/s")
    assert told == {"value": kept, "unit": "GB/s"} and type(told["value"]) is type(value)


def test_rates():
    assert timing.gbps(4_281_000_000, 1.0) == pytest.approx(4281)
    assert timing.tflops(2 * 8192**3, 1.6) == pytest.approx(687.2, abs=0.1)


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("S", benchmarks.LENGTHS)
def test_attention_flops(S, d):
    B, H = 16384 // S, 2048 // d
    assert timing.attention_flops(B, H, S, S, d) == 4 * 16384 * 2048 * S  # tokens, hidden and S alone decide
    assert timing.attention_flops(B, H, S, S, d, causal=True) * 2 == timing.attention_flops(B, H, S, S, d)


@pytest.mark.parametrize("moved, cache, sets", [(33_554_432, 62_914_560, 8), (3 << 30, 62_914_560, 1), (100, 25, 1), (100, 26, 2)])
def test_rotation(moved, cache, sets):
    assert timing.rotation(moved, cache) == sets and sets * moved >= 4 * cache


def test_early_and_late():
    run = [(25, 1.0), (50, 1.1), (75, 1.2), (100, 1.3), (125, 9.0), (3000, 9.0), (3030, 1.5), (3060, 1.6), (3090, 1.7)]
    assert timing.early_and_late(run) == (pytest.approx(1.15), 1.6)
    assert timing.early_and_late([(400, 20.0), (3200, 21.0)]) == (20.0, 21.0)  # one chunk longer than the early window
    with pytest.raises(ValueError, match="负载没有持续到 3000 ms；请加长 seconds"):
        timing.early_and_late([(25, 1.0)])


def test_read_smi():
    told = timing.read_smi("1395, 1980, 698.21, 700.00, [N/A]\n")
    assert told["sm_clock_mhz"] == {"value": 1395.0, "unit": "MHz"} and told["power_w"] == {"value": 698.2, "unit": "W"}
    assert "temperature_c" not in told and len(told) == 4
    with pytest.raises(ValueError, match="nvidia-smi 给出 2 个字段，应为 5 个"):
        timing.read_smi("1395, 1980")


def test_first_figures():
    figures = benchmarks.first_figures([500.0, *[0.05] * 9])
    assert [told["value"] for told in figures.values()] == [500.0, 0.05, 50.05, 0.05]
    assert {told["unit"] for told in figures.values()} == {"ms"}


# Discipline


def test_check_close():
    ref = torch.randn(64, dtype=torch.float64)
    timing.check_close(ref.float(), ref, 1e-6, "ours")
    for wrong in (ref.float() * 1.01, torch.full((64,), math.nan)):
        with pytest.raises(AssertionError, match="ours 的相对误差是 .*，应不超过 1e-06；先改对再测速"):
            timing.check_close(wrong, ref, 1e-6, "ours")


def test_at_names_the_place():
    with pytest.raises(RuntimeError, match="softmax，4×4，ours：ValueError：bad") as caught, timing.at("softmax，4×4，ours"):
        raise ValueError("bad")
    assert isinstance(caught.value.__cause__, ValueError)


def test_host_clock_synchronises_round_each_reading(monkeypatch):
    events = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: events.append("sync"))
    assert len(timing.host_ms(lambda: events.append("run"), 3)) == 3
    assert events == ["sync", "run", "sync"] * 3 + ["sync"]
    events.clear()
    timing.host_ms(lambda: events.append("run"), 2, synchronise=False)
    assert events == ["sync", "run"] * 2 + ["sync"]


def test_cold_calls_use_a_new_process_and_an_empty_cache(monkeypatch):
    seen = {}

    def run(command, env, **rest):
        seen.update(command=command, cache=env["TRITON_CACHE_DIR"], **rest)
        return subprocess.CompletedProcess(command, 0, "warning\n[3.0, 1.0]\n", "")

    monkeypatch.setattr(timing.subprocess, "run", run)
    assert timing.cold_calls_ms("x = 1", "add(x)", 2) == [3.0, 1.0]
    compile(seen["command"][2], "child", "exec")
    assert seen["command"][0] == sys.executable and "host_ms(lambda: add(x), 2)" in seen["command"][2] and seen["cache"]
    monkeypatch.setattr(timing.subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 1, "", "boom"))
    with pytest.raises(RuntimeError, match="首次调用的子进程失败：boom"):
        timing.cold_calls_ms("x = 1", "add(x)", 2)


@pytest.mark.parametrize("group", benchmarks.GROUPS)
def test_refused_without_a_gpu(group, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    stand_in(monkeypatch)
    with pytest.raises(RuntimeError, match="没有可用的 NVIDIA GPU，不能测速；请在有 GPU 的机器上运行 make record"):
        benchmarks.GROUPS[group]()


def test_refused_under_the_interpreter(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(RuntimeError, match="TRITON_INTERPRET=1 时 kernel 由解释器执行"):
        timing.need_gpu()


# Keys


def test_attention_keys_differ():
    keys = [
        benchmarks.attention_key(peer, measure, *shape)
        for peer in ("eager", "sdpa_flash", "sdpa_cudnn", "sdpa", "ours") for measure in ("ms", "tflops", "mb")
        for shape in benchmarks.attention_shapes()
    ]
    assert len(set(keys)) == len(keys) == 5 * 3 * 14 and all(map(KEY.fullmatch, keys))
    assert {"sdpa_flash_ms_4096", "eager_mb_16384", "ours_tflops_4096_d64_causal"} <= set(keys)


def test_absent_note():
    assert benchmarks.absent_note({}) == {}
    told = benchmarks.absent_note({"sdpa_cudnn": RuntimeError("No available\n kernel"), "compiled": "no gcc at /usr/lib/x.so: y"})
    assert told == {"absent": {"value": "sdpa_cudnn: No available kernel；compiled: no gcc at …: y", "unit": ""}}
    assert len(benchmarks.absent_note({"p": "x" * 900})["absent"]["value"]) == 203


# Peers


@pytest.mark.parametrize("causal", [False, True])
def test_peers_and_reference_agree(causal, monkeypatch):
    monkeypatch.setattr(benchmarks, "DEVICE", "cpu")
    q, k, v = (torch.randn(2, 3, 17, 8) for _ in range(3))
    exact = torch.nn.functional.scaled_dot_product_attention(*(x.double() for x in (q, k, v)), is_causal=causal)
    ref, low = benchmarks._reference(q, k, v, causal)
    for out in (ref, low, benchmarks._eager(17, causal)(q, k, v), benchmarks._sdpa_peers(causal)["sdpa"](q, k, v)):
        torch.testing.assert_close(out.double(), exact, rtol=1e-5, atol=1e-6)
    assert benchmarks._reference(*(x.half() for x in (q, k, v)), causal)[1].dtype == torch.float16


def test_composed_softmax():
    x = torch.randn(5, 33) * 30
    torch.testing.assert_close(benchmarks.composed_softmax(x), torch.softmax(x, -1))


def test_choice_is_a_backend_name():
    q = torch.randn(1, 1, 8, 16)
    assert re.fullmatch("[A-Z_]+", benchmarks._sdpa_choice(q, q, q, False))


def raising(error):
    def run():
        raise error

    return run


@pytest.mark.parametrize(
    "peer, error, note",
    [
        ("eager", torch.cuda.OutOfMemoryError("tried to allocate"), {"eager S=4": "out of memory"}),
        ("sdpa_cudnn", RuntimeError("No available kernel. Aborting execution."), {"sdpa_cudnn": "No available kernel. Aborting execution."}),
    ],
)
def test_what_a_machine_lacks_is_noted(peer, error, note):
    absent = {}
    assert benchmarks._offered(peer, raising(error), absent, " S=4") is None
    assert {key: str(reason) for key, reason in absent.items()} == note


@pytest.mark.parametrize(
    "peer, error",
    [
        ("ours", torch.cuda.OutOfMemoryError("x")), ("ours", RuntimeError("No available kernel")),
        ("sdpa_flash", RuntimeError("illegal address")), ("eager", ValueError("x")),
    ],
)
def test_other_failures_are_raised(peer, error):
    with pytest.raises(type(error)):
        benchmarks._offered(peer, raising(error), {}, "")


# Every group, dry: small sizes on the CPU, kernels and timers replaced


def stand_in(monkeypatch, attention=None):
    """Modules of that name in the kernels' place: the benchmarks are tested here, the kernels in their own tests."""
    sdpa = torch.nn.functional.scaled_dot_product_attention

    sdpa = torch.nn.functional.scaled_dot_product_attention

    def assert_close(out, ref, out_pt, what):
        torch.testing.assert_close(out.float(), ref.float(), rtol=2e-2, atol=2e-2, msg=lambda m: f"{what}: {m}")

    for name, members in {
        "flash_attention": {"flash_attention": attention or (lambda q, k, v, causal: sdpa(q, k, v, is_causal=causal))},
        "softmax": {"softmax": lambda x: torch.softmax(x, -1)},
        "vector_add": {"add": torch.add},
        "proof": {"assert_close": assert_close},
    }.items():
        module = types.ModuleType(f"kernels.{name}")
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.fixture
def dry(monkeypatch):
    """The groups at small sizes on the CPU: every timer calls what it is given once and tells a fixed time."""

    def once(fn, *_, **__):
        fn()
        return 2.0

    stand_in(monkeypatch)
    for name, value in {
        "DEVICE": "cpu", "TOKENS": 64, "HIDDEN": 256, "LENGTHS": (16, 32), "CAUSAL_LENGTH": 32, "DECODE_LENGTHS": (64, 128),
        "SOFTMAX_SHAPES": ((4, 8), (4, 16)), "SMALL_SOFTMAX": (4, 8), "ADD_SIZES": (10, 1000), "LARGE_ADD": 1000,
        "SMALL_ADD": 10, "PRODUCT": 256, "COPY": 1000, "need_gpu": lambda: None, "_cache_bytes": lambda: 1000,
        "spread_ms": lambda fn: (once(fn) - 1, 2.0, 3.0), "median_ms": once, "peak_extra_mb": once,
        "graph_ms": lambda calls: [call() for call in calls] and 1.0, "host_ms": lambda fn, times, synchronise=True: [once(fn)] * times,
        "cold_calls_ms": lambda setup, call, times: [9.0] + [1.0] * (times - 1),
        "sustained": lambda fn: [(50, once(fn)), (3500, 2.5)], "smi_under_load": lambda fn, calls: timing.read_smi("1, 2, 3, 4, 5"),
    }.items():
        assert hasattr(benchmarks, name), name
        monkeypatch.setattr(benchmarks, name, value)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr(torch, "compile", lambda fn, **_: fn)
    return monkeypatch


@pytest.mark.parametrize(
    "group, some",
    [
        ("ceilings", {"copy_gbps": "GB/s", "fp16_short_tflops": "TFLOP/s", "bf16_sustained_tflops": "TFLOP/s", "fp16_drop_percent": "%",
                      "bf16_sm_clock_mhz": "MHz", "fp16_power_w": "W"}),
        ("attention", {"eager_ms_16": "ms", "ours_ms_32_low": "ms", "ours_ms_32_high": "ms", "sdpa_flash_tflops_32_d64_causal": "TFLOP/s",
                       "eager_mb_32": "MB", "sdpa_choice_16": "", "decode_ours_ms_128": "ms", "decode_sdpa_gbps_64": "GB/s"}),
        ("softmax", {"composed_gbps_4x8": "GB/s", "ours_ms_4x16": "ms", "compiled_ms_4x16": "ms", "torch_graph_ms_4x8": "ms",
                     "composed_over_ours_time_4x16": "倍", "composed_over_ours_graph_time_4x8": "倍"}),
        ("vector_add", {"torch_gbps_1000": "GB/s", "ours_graph_ms_10": "ms"}),
        ("discipline", {"large_host_unsynchronised_ms": "ms", "large_events_gbps": "GB/s", "small_warm_l2_us": "µs", "small_cold_l2_gbps": "GB/s",
                        "small_host_mean_us": "µs", "first_call_ms": "ms", "first_10_mean_ms": "ms"}),
    ],
)
def test_dry_run(group, some, dry):
    figures = benchmarks.GROUPS[group]()
    assert json.loads(json.dumps(figures)) == figures
    for key, told in figures.items():
        assert KEY.fullmatch(key) and set(told) == {"value", "unit"}, key
        assert isinstance(told["value"], (str, int)) or math.isfinite(told["value"]), key
    assert {key: figures[key]["unit"] for key in some} == some


def test_dry_run_without_some_peers(dry):
    def broken(fn, **_):
        return lambda x: raising(RuntimeError("no compiler at /opt/gcc"))()

    dry.setattr(torch, "compile", broken)
    figures = benchmarks.softmax()
    assert figures["absent"]["value"] == "compiled: RuntimeError: no compiler at …"
    assert not any(key.startswith("compiled") for key in figures)

    def no_smi(fn, calls):
        raise FileNotFoundError("nvidia-smi")

    dry.setattr(benchmarks, "smi_under_load", no_smi)
    assert benchmarks.ceilings()["absent"]["value"] == "nvidia-smi: FileNotFoundError"


def test_a_wrong_kernel_is_not_timed(dry):
    stand_in(dry, attention=lambda q, k, v, causal: torch.zeros_like(q))
    dry.setattr(benchmarks, "spread_ms", lambda fn: pytest.fail("timed") if fn().count_nonzero() == 0 else (1.0, 2.0, 3.0))
    with pytest.raises(RuntimeError, match="attention，S=16，d=128，causal=False，ours：AssertionError"):
        benchmarks.attention()


def test_by_hand(dry, capsys):
    benchmarks.main(["vector_add"])
    assert "vector_add#torch_ms_10 = 2.0 ms\n" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="没有基准组 speed；可用的是 ceilings、attention、softmax、vector_add、discipline"):
        benchmarks.main(["speed"])
