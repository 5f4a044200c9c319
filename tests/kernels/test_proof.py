"""The proof's own tools: what the criterion lets pass, and what the guards notice."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from kernels.proof import GUARD, assert_close, assert_equal, assert_near, guarded_outputs
from kernels.flash_attention import flash_attention
from kernels.proof import flash_attention_backward, fuzz, sanitize
from kernels.proof.flash_attention import Shape

ref = torch.tensor([1.0, 2.0, -3.0], dtype=torch.float64)
half = ref.half()


def test_within_twice_the_error_of_the_plain_formula():
    plain = half + torch.tensor([0, 0.01, 0]).half()
    assert_close(half + torch.tensor([0.015, 0, 0]).half(), ref, plain, "o")
    with pytest.raises(AssertionError, match=r"o\[1\]: got 2.0\d+, expected 2.0 within .*; 1 wrong"):
        assert_close(half + torch.tensor([0, 0.04, 0]).half(), ref, plain, "o")


def test_long_sums_in_fp32_may_round_more():
    exact = torch.ones(3, dtype=torch.float64)
    off = 1 + 20 * torch.finfo(torch.float32).eps
    assert_close((exact * off).float(), exact, exact.float(), "o", terms=400)
    with pytest.raises(AssertionError):
        assert_close((exact * off).float(), exact, exact.float(), "o", terms=100)
    assert_close((exact * off).float(), exact, exact.float(), "o", terms=100, alike=True)


def test_equal_terms_round_to_one_side():
    """What is granted for them is needed: one number, added up in fp32, is further off than the root of its terms."""
    term, total, n = torch.tensor(0.0027), torch.tensor(0.0), 400
    for _ in range(n):
        total = total + term
    exact = term.double().mul(n).reshape(1)
    assert_close(total.reshape(1), exact, exact.float(), "o", terms=n, alike=True)
    with pytest.raises(AssertionError):
        assert_close(total.reshape(1), exact, exact.float(), "o", terms=n)


@pytest.mark.parametrize("value, expected", [(0.0, torch.nan), (torch.nan, 0.0), (torch.inf, -torch.inf), (0.0, torch.inf)])
def test_what_is_not_finite_must_stand_in_its_place(value, expected):
    out, wanted = torch.tensor([value, 1.0]), torch.tensor([expected, 1.0]).double()
    with pytest.raises(AssertionError, match=r"o\[0\]"):
        assert_close(out, wanted, out, "o")
    assert_close(wanted.float(), wanted, out, "o")


def test_a_plain_formula_that_fails_grants_nothing():
    with pytest.raises(AssertionError):
        assert_close(torch.zeros(3), ref, torch.full((3,), torch.nan), "o")


def test_shapes_and_empty():
    assert_close(ref[:0].half(), ref[:0], ref[:0], "o")
    with pytest.raises(AssertionError, match=r"o: shape \(2,\), expected \(3,\)"):
        assert_close(half[:2], ref, half, "o")


def test_near_and_equal():
    assert_near(torch.tensor([1.0, -torch.inf]), torch.tensor([1.00001, -torch.inf]), 1e-4, "lse")
    with pytest.raises(AssertionError, match=r"lse\[0\]"):
        assert_near(torch.tensor([1.0]), torch.tensor([-torch.inf]), 1e-4, "lse")
    with pytest.raises(AssertionError, match=r"out\[0\]"):
        assert_equal(half, half + 1, "out")


def test_guards():
    x = torch.zeros(5, 7).t()
    with guarded_outputs():
        like, new = torch.empty_like(x), torch.empty((2, 3), dtype=torch.float16, device="cpu")
    assert like.stride() == x.stride() and new.is_contiguous() and like.isnan().all() and new.isnan().all()
    for place, side in ((GUARD + 6, "after"), (GUARD - 1, "before")):
        with pytest.raises(AssertionError, match=f"1 elements written {side} the output"):
            with guarded_outputs():
                out = torch.empty((2, 3), dtype=torch.float32, device="cpu")
                out.as_strided((1,), (1,), place).zero_()
    assert not torch.empty_like(torch.zeros(1)).storage_offset()  # torch's own again


@pytest.mark.parametrize(
    "printed, told",
    [
        ("sample: 17 calls\n========= ERROR SUMMARY: 0 errors", {"errors": 0, "calls": 17, "kernels": [], "fault": 4}),
        ("sample: 17 calls\n========= ERROR SUMMARY: 3 errors", {"errors": 3, "calls": 17, "kernels": [], "fault": 4}),
        (
            "========= Error: Race reported between Write access at one_kernel+0x10 in x.py:9\nsample: 17 calls\n"
            "========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)",
            {"errors": 2, "calls": 17, "kernels": ["one_kernel"], "fault": 4},
        ),
        ("========= ERROR SUMMARY: 0 errors", "memcheck 没有跑完那批调用：========= ERROR SUMMARY: 0 errors"),
        ("sample: 17 calls", "memcheck 没有给出结果：sample: 17 calls"),
    ],
)
def test_what_the_sanitizer_prints(printed, told, tmp_path, monkeypatch):
    sanitizer(tmp_path, monkeypatch, "Version 2026.4.0.0", printed)
    if isinstance(told, dict):
        assert sanitize.check("memcheck") == told
    else:
        with pytest.raises(OSError, match=told):
            sanitize.check("memcheck")


FAULT = "========= ERROR SUMMARY: 4 errors"


def sanitizer(folder, monkeypatch, version, printed, fault=FAULT, unseen=0):
    """Path of a program that stands in for compute-sanitizer; fault: what it prints of the kernel with a fault.

    unseen: its exit status for faults that racecheck need not see.
    """
    return installed(
        folder, monkeypatch,
        f"if [ \"$1\" = --version ]; then echo '{version}'; exit; fi\n"
        f"case \"$*\" in *' fault racecheck_'*) echo '{fault}'; exit {unseen};; *' fault '*) echo '{fault}'; exit 1;; esac\n"
        f"cat <<'END'\n{printed}\nEND\n",
    )  # fmt: skip


def installed(folder, monkeypatch, script):
    """Path of a compute-sanitizer, first on PATH, that runs a shell script."""
    program = folder / "compute-sanitizer"
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return str(program)


def test_a_sanitizer_that_misses_the_deliberate_fault(tmp_path, monkeypatch):
    sanitizer(tmp_path, monkeypatch, "Version 2026.4.0.0", CLEAN, fault="========= ERROR SUMMARY: 0 errors")
    with pytest.raises(OSError, match="synccheck 没有报告 kernels/proof/faults.py 里故意写错的 kernel"):
        sanitize.check("synccheck")


def test_a_fault_that_did_not_run_is_not_one_that_is_not_seen(tmp_path, monkeypatch):
    sanitizer(tmp_path, monkeypatch, "Version 2026.4.0.0", CLEAN, unseen=1)
    with pytest.raises(OSError, match="racecheck 没有跑完 kernels/proof/faults.py 的 racecheck_matrix"):
        sanitize.check("racecheck")


def test_a_sanitizer_that_never_ends(tmp_path, monkeypatch):
    installed(tmp_path, monkeypatch, "exec sleep 60\n")
    monkeypatch.setattr(sanitize, "SECONDS", 0.2)
    with pytest.raises(OSError, match="0.2 秒里没有跑完：--version"):
        sanitize.check("memcheck")


CLEAN = "sample: 17 calls\n========= ERROR SUMMARY: 0 errors\n========= RACECHECK SUMMARY: 0 hazards displayed"


@pytest.mark.parametrize("version, old", [((2025, 4), True), ((2026, 0), True), ((2026, 1), False), ((2027, 0), False)])
def test_racecheck_must_know_mbarriers(version, old, tmp_path, monkeypatch):
    banner = "NVIDIA (R) Compute Sanitizer\nCopyright (c) 2020-2026 NVIDIA Corporation\nVersion {}.{}.1.0".format(*version)
    path = sanitizer(tmp_path, monkeypatch, banner, CLEAN)
    assert sanitize.program() == (path, version)
    told = {tool: sanitize._checked(tool) for tool in sanitize.TOOLS}
    refused = told.pop("racecheck") if old else None
    if not old:
        assert [told["racecheck"].pop(f"{kind}_fault") for kind in ("matrix", "tma", "wgmma")] == [4, 4, 4]
    assert told == dict.fromkeys(told, {"errors": 0, "calls": 17, "kernels": [], "fault": 4}) and len(told) == 3 - old
    if old:
        assert isinstance(refused, OSError)
        assert "compute-sanitizer {}.{} 的 racecheck".format(*version) in str(refused) and "请用 2026.1 或更新的" in str(refused)


def test_a_sanitizer_without_a_version(tmp_path, monkeypatch):
    sanitizer(tmp_path, monkeypatch, "cannot start: no driver", CLEAN)
    for tool in sanitize.TOOLS:
        with pytest.raises(OSError, match="compute-sanitizer --version 没有给出版本：cannot start: no driver"):
            sanitize.check(tool)


def test_no_sanitizer(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sanitize, "Path", lambda path: tmp_path / "cuda")  # the place where the toolkit has it
    with pytest.raises(FileNotFoundError, match="没有 compute-sanitizer；请装 nvidia-cuda-sanitizer-api"):
        sanitize.check("memcheck")


def test_random_calls_are_the_same_for_a_seed_and_checked():
    calls = fuzz.draw(40, seed=3)
    assert calls == fuzz.draw(40, seed=3) != fuzz.draw(40, seed=4)
    assert {call.dtype for call in calls} == set(fuzz.DTYPES) and {call.shape.causal for call in calls} == {True, False}
    small = [call for call in calls if call.dtype == "float32" and call.shape.S_q * call.shape.S_kv < 9000][:2]
    assert len(small) == 2 and [fuzz.check(call, "cpu") for call in small] == [None, None]
    wrong = small[0]._replace(upstream="nowhere")
    assert "KeyError: 'nowhere'" in fuzz.check(wrong, "cpu")


def test_equal_terms_are_granted_to_dv_without_a_mask(monkeypatch):
    granted = []
    monkeypatch.setattr(flash_attention_backward, "assert_close", lambda *place, alike: granted.append((place[3], alike)))
    for causal, scale, upstream in ((False, 0.0, "expanded"), (True, 0.0, "expanded"), (False, 0.1, "expanded"), (False, 0.0, "plain")):
        shape = Shape("alike", 5, 7, 8, causal=causal, scale=scale)
        flash_attention_backward.check(flash_attention, shape, upstream, torch.float32, "cpu")
    assert granted == [(name, (number, name) == (0, "dv")) for number in range(4) for name in ("dq", "dk", "dv")]


@pytest.mark.parametrize("printed, failed", [(CLEAN, False), (CLEAN.replace("0 errors", "2 errors"), True), ("no summary", True)])
def test_exit_status_of_the_sanitizer(printed, failed, tmp_path, monkeypatch):
    sanitizer(tmp_path, monkeypatch, "Version 2026.4.0.0", printed)
    assert sanitize.report() is failed


@pytest.mark.parametrize("failed", [False, True])
def test_exit_status_of_random_calls(failed, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(fuzz, "_check_all", lambda calls: ["wrong" if failed else None] * len(calls))
    monkeypatch.setattr(fuzz, "ProcessPoolExecutor", lambda workers, mp_context: ThreadPoolExecutor(workers))
    assert fuzz.report("3") is failed


def test_random_calls_need_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "没有可用的 NVIDIA GPU" in fuzz.report()
