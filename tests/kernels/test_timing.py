"""kernels.timing without a GPU: formulas, notes, refusals."""

import math
import subprocess
import sys

import pytest
import torch

from kernels import timing

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


def test_peers_take_turns(monkeypatch):
    """In each round all functions, in an order drawn anew, in the next in its reverse; as often as fits, a call that takes long FEWEST times."""
    order = []
    monkeypatch.setattr(timing, "_device_ms", lambda fn, times, buffer: [order.append((fn, times)) or {"a": 1.0, "b": 30.0, "c": 1.0}[fn]] * times)
    monkeypatch.setattr(torch, "zeros", lambda *size, **rest: None)
    told = timing.interleaved_ms({"short": "a", "long": "b", "third": "c"}, rounds=60, ms=5)
    turns = {"a": [("a", 1), ("a", 5)], "b": [("b", 1), ("b", 2)], "c": [("c", 1), ("c", 5)]}
    rounds = ["".join(order[at][0] for at in (start, start + 2, start + 4)) for start in range(0, len(order), 6)]
    assert order == [turn for names in rounds for name in names for turn in turns[name]]
    assert rounds[1::2] == [names[::-1] for names in rounds[::2]] and set(rounds[::2]) == {"abc", "acb", "bac", "bca", "cab", "cba"}
    assert told == {"short": (1.0, 1.0, 1.0), "long": (30.0, 30.0, 30.0), "third": (1.0, 1.0, 1.0)}
    order.clear()
    timing.interleaved_ms({"short": "a", "long": "b", "third": "c"}, rounds=60, ms=5)
    assert rounds != ["".join(order[at][0] for at in (start, start + 2, start + 4)) for start in range(0, len(order), 6)]


@pytest.mark.parametrize("readings, found", [([3.0], (3.0, 3.0, 3.0)), ([1.0, 2.0], (1.2, 1.5, 1.8)), ([5, 1, 4, 2, 3, 0], (1, 2.5, 4))])
def test_quantiles(readings, found):
    assert timing.quantiles(readings) == pytest.approx(found)


def test_refused_under_the_interpreter(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(RuntimeError, match="TRITON_INTERPRET=1 时 kernel 由解释器执行"):
        timing.need_gpu()


# Notes


def test_absent_note():
    assert timing.absent_note({}) == {}
    told = timing.absent_note({"sdpa_cudnn": RuntimeError("No available\n kernel"), "compiled": "no gcc at /usr/lib/x.so: y"})
    assert told == {"absent": {"value": "sdpa_cudnn: No available kernel；compiled: no gcc at …: y", "unit": ""}}
    assert len(timing.absent_note({"p": "x" * 900})["absent"]["value"]) == 203
