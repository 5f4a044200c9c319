"""The groups of kernels.benchmarks but attention's: keys, refusals, and each in a dry run on the CPU."""

import importlib
import sys
import types

import pytest
import torch

from kernels import timing
from kernels.benchmarks import __main__ as by_hand
from kernels.benchmarks import ceilings, discipline, fuzz, sanitizer, softmax, vector_add

from .conftest import check_figures

GROUPS = [importlib.import_module(f"kernels.benchmarks.{name}") for name in by_hand.names()]


def test_first_figures():
    figures = discipline.first_figures([500.0, *[0.05] * 9])
    assert [told["value"] for told in figures.values()] == [500.0, 0.05, 50.05, 0.05]
    assert {told["unit"] for told in figures.values()} == {"ms"}


@pytest.mark.parametrize("group", GROUPS, ids=by_hand.names())
def test_refused_without_a_gpu(group, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    stand_in(monkeypatch)
    with pytest.raises(RuntimeError, match="没有可用的 NVIDIA GPU，不能测速；请在有 GPU 的机器上运行 make record"):
        group.measure()


def test_composed_softmax():
    x = torch.randn(5, 33) * 30
    torch.testing.assert_close(softmax.composed_softmax(x), torch.softmax(x, -1))


def raising(error):
    def run():
        raise error

    return run


# Every group, dry: small sizes on the CPU, kernels and timers replaced


def stand_in(monkeypatch):
    """Modules of that name in the kernels' place: the benchmarks are tested here, the kernels in their own tests."""
    fuzzed = {"cases": 600, "seed": 19, "failed": [], "dtypes": {"float16": 600}, "head_dims": {64: 600}, "causal": 300,
              "grouped": 400, "split": 150, "seconds": 9.0}  # fmt: skip
    for name, members in {
        "softmax": {"softmax": lambda x: torch.softmax(x, -1)},
        "vector_add": {"add": torch.add},
        "proof.fuzz": {"fuzz": lambda: fuzzed},
        "proof.sanitize": {"program": lambda: ("compute-sanitizer", (2026, 4)), "check_all": lambda: {
            "memcheck": {"errors": 0, "calls": 17, "kernels": [], "fault": 3}, "synccheck": {"errors": 0, "calls": 17, "kernels": [], "fault": 1},
            "racecheck": {"errors": 2, "calls": 17, "kernels": ["a", "b"], "fault": 1, "matrix_fault": 0},
        }},
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
        "DEVICE": "cpu", "SHAPES": ((4, 8), (4, 16)), "SIZES": (10, 1000), "LARGE": 1000, "PRODUCT": 256, "COPY": 1000, "need_gpu": lambda: None, "cache_bytes": lambda: 1000, "median_ms": once,
        "interleaved_ms": lambda calls: {name: (once(fn) - 1, 2.0, 3.0) for name, fn in calls.items()}, "launch_us": once,
        "graph_ms": lambda calls: [call() for call in calls] and 1.0, "host_ms": lambda fn, times, synchronise=True: [once(fn)] * times,
        "cold_calls_ms": lambda setup, call, times: [9.0] + [1.0] * (times - 1),
        "sustained": lambda fn: [(50, once(fn)), (3500, 2.5)], "smi_under_load": lambda fn, calls: timing.read_smi("1, 2, 3, 4, 5"),
    }.items():
        homes = [module for module in (ceilings, softmax, vector_add, discipline, fuzz, sanitizer) if hasattr(module, name)]
        assert homes, name
        for module in homes:
            monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(discipline, "SMALL", 10)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr(torch, "compile", lambda fn, **_: fn)
    return monkeypatch


@pytest.mark.parametrize(
    "group, some",
    [
        (ceilings, {"copy_gbps": "GB/s", "fp16_short_tflops": "TFLOP/s", "bf16_sustained_tflops": "TFLOP/s", "fp16_drop_percent": "%",
                      "bf16_sm_clock_mhz": "MHz", "fp16_power_w": "W"}),
        (softmax, {"composed_gbps_4x8": "GB/s", "ours_ms_4x16": "ms", "compiled_ms_4x16": "ms", "torch_launch_us": "µs",
                     "composed_over_ours_time_4x16": "倍", "ours_gbps_4x16_bf16": "GB/s", "torch_backward_ms_4x8": "ms", "ours_of_copy_4x8": "%", "copy_gbps_4x8": "GB/s",
                     "compiled_ms_4x16_bf16_low": "ms", "torch_backward_ms_4x8_high": "ms"}),
        (vector_add, {"torch_gbps_1000": "GB/s", "ours_ms_10": "ms", "ours_ms_1000_low": "ms"}),
        (discipline, {"large_host_unsynchronised_ms": "ms", "large_events_gbps": "GB/s", "small_warm_l2_us": "µs", "small_cold_l2_gbps": "GB/s",
                        "small_host_mean_us": "µs", "first_call_ms": "ms", "first_10_mean_ms": "ms"}),
        (fuzz, {"cases": "", "failed": "", "head_dims_64": ""}),
        (sanitizer, {"memcheck_errors": "", "racecheck_calls": "", "racecheck_kernels": "", "synccheck_errors": "", "version": ""}),
    ],
)
def test_dry_run(group, some, dry):
    check_figures(group.measure(), some)


def test_dry_run_without_some_peers(dry):
    def broken(fn, **_):
        return lambda x: raising(RuntimeError("no compiler at /opt/gcc"))()

    dry.setattr(torch, "compile", broken)
    figures = softmax.measure()
    assert figures["absent"]["value"] == "compiled: RuntimeError: no compiler at …"
    assert not any(key.startswith("compiled") for key in figures)

    def no_smi(fn, calls):
        raise FileNotFoundError("nvidia-smi")

    dry.setattr(ceilings, "smi_under_load", no_smi)
    assert ceilings.measure()["absent"]["value"] == "nvidia-smi: FileNotFoundError"


def test_a_case_that_fails_is_named(dry):
    def failed():
        return {"cases": 2, "failed": ["Call(x): AssertionError: o[0]"], "seed": 1}

    dry.setattr(sys.modules["kernels.proof.fuzz"], "fuzz", failed)
    with pytest.raises(AssertionError, match=r"1/2 例不对：Call\(x\)"):
        fuzz.measure()


def test_what_the_sanitizer_reports(dry):
    told = {key: each["value"] for key, each in sanitizer.measure().items()}
    assert told == {
        "memcheck_errors": 0, "memcheck_calls": 17, "racecheck_errors": 2, "racecheck_calls": 17, "racecheck_kernels": "a、b",
        "synccheck_errors": 0, "synccheck_calls": 17, "version": "2026.4",
        "memcheck_fault": 3, "racecheck_fault": 1, "racecheck_matrix_fault": 0, "synccheck_fault": 1,
    }  # fmt: skip


def test_a_sanitizer_that_does_not_run_is_noted(dry):
    proof = sys.modules["kernels.proof.sanitize"]
    old = {**proof.check_all(), "racecheck": OSError("compute-sanitizer 2025.4 的 racecheck 看不懂 mbarrier")}
    dry.setattr(proof, "check_all", lambda: old)
    figures = sanitizer.measure()
    assert figures["absent"]["value"] == "racecheck: compute-sanitizer 2025.4 的 racecheck 看不懂 mbarrier"
    assert {key.partition("_")[0] for key in figures} == {"memcheck", "synccheck", "version", "absent"}

    missing = dict.fromkeys(("memcheck", "racecheck", "synccheck"), FileNotFoundError("没有 compute-sanitizer"))
    dry.setattr(proof, "check_all", lambda: missing)
    dry.setattr(proof, "program", raising(FileNotFoundError("没有 compute-sanitizer")))
    figures = sanitizer.measure()
    assert list(figures) == ["absent"] and figures["absent"]["value"].startswith("memcheck: 没有 compute-sanitizer；racecheck")


def test_by_hand(dry, capsys):
    by_hand.main(["vector_add"])
    assert "vector_add#torch_ms_10 = 2.0 ms\n" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="没有基准组 speed；可用的是 attention、attention_backward"):
        by_hand.main(["speed"])
