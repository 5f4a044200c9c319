"""The demo's data at any step equals what walking the schedule up to that step gives."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.tiling import ORDERS, schedule, sram_bytes_used, traffic
from snippets.tiling_frame import PHASES, RUNS, frame

few = settings(deadline=None, max_examples=80)


def walked(S, d, B_r, B_c, dtype_bytes, order, causal, step):
    """(visit, reads per block, writes per block, bytes read, bytes written) after `step`, one visit at a time."""
    reads, writes = {name: {} for name in "QKVO"}, {}
    read = written = 0
    for at, one in enumerate(schedule(S, S, B_r, B_c, order, causal)):
        if 3 * at > step:
            break
        visit, place = one, {"Q": one.i, "O": one.i, "K": one.j, "V": one.j}
        for name, rows in one.read.items():
            reads[name][place[name]] = reads[name].get(place[name], 0) + 1
            read += rows * d * dtype_bytes
        if step >= 3 * at + 2:
            for rows in one.written.values():
                writes[one.i] = writes.get(one.i, 0) + 1
                written += rows * d * dtype_bytes
    return visit, reads, writes, read, written


@few
@given(st.integers(1, 20), st.integers(1, 4), st.integers(1, 24), st.integers(1, 24), st.sampled_from([2, 4]),
       st.sampled_from(ORDERS), st.booleans(), st.data())
def test_any_step_is_that_of_the_walk(S, d, B_r, B_c, dtype_bytes, order, causal, data):
    pairs = len(list(schedule(S, S, B_r, B_c, order, causal)))
    step = data.draw(st.integers(0, 3 * pairs - 1))
    same_as_the_walk(S, d, B_r, B_c, dtype_bytes, order, causal, step)


@pytest.mark.parametrize("B_r, B_c", [(1, 1), (2, 3), (3, 2)])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("causal", [False, True])
def test_every_step_is_that_of_the_walk(B_r, B_c, order, causal):
    for step in range(frame(7, 2, B_r, B_c, order=order, causal=causal)["steps"]):
        same_as_the_walk(7, 2, B_r, B_c, 2, order, causal, step)


def same_as_the_walk(S, d, B_r, B_c, dtype_bytes, order, causal, step):
    got = frame(S, d, B_r, B_c, dtype_bytes, 1024, order, causal, step)
    assert json.loads(json.dumps(got)) == got
    r, c = min(B_r, S), min(B_c, S)
    visit, reads, writes, read, written = walked(S, d, r, c, dtype_bytes, order, causal, step)
    assert (got["i"], got["j"], got["pair"], got["phase"]) == (visit.i, visit.j, step // 3, PHASES[step % 3])
    assert got["steps"] == 3 * len(list(schedule(S, S, r, c, order, causal)))
    assert (got["B_r"], got["B_c"]) == (r, c)
    assert (sum(got["read_bytes"].values()), got["written_bytes"]) == (read, written)
    assert got["hbm_bytes"] == read + written
    for name, counts in (reads | {"O_write": writes}).items():
        blocks = got["T_r"] if name in ("Q", "O", "O_write") else got["T_c"]
        assert got["strips"][name] == [[k, k, counts.get(k, 0)] for k in range(blocks)]
    rows, cols = (got[key][1] - got[key][0] for key in ("rows", "cols"))
    used = sram_bytes_used(rows, cols, d, dtype_bytes)
    if got["phase"] != "compute":
        del used["S"]
    assert {slot["name"]: slot["bytes"] for slot in got["slots"]} == used
    place = {"Q": visit.i, "O": visit.i, "K": visit.j, "V": visit.j}
    for slot in got["slots"]:
        name = slot["name"]
        assert slot["reads"] == (reads[name].get(place[name], 0) if name in place else 0)
    assert got["sram_now"] == sum(used.values()) <= got["sram_peak"]


@few
@given(st.integers(1, 20), st.integers(1, 8), st.integers(1, 8), st.sampled_from(ORDERS), st.booleans())
def test_the_last_step_is_the_total(S, B_r, B_c, order, causal):
    data = frame(S, 4, B_r, B_c, order=order, causal=causal)
    end = frame(S, 4, B_r, B_c, order=order, causal=causal, step=data["steps"] - 1)
    assert data["final"] == end["final"] == end["strips"]
    total = next(one for one in data["orders"] if one["order"] == order)
    assert end["hbm_bytes"] == total["total_bytes"] == total["read_bytes"] + total["write_bytes"]
    moves = traffic(S, S, 4, min(B_r, S), min(B_c, S), 2, order, causal)
    assert [row.pop("name") for row in total["rows"]] == list("QKVO")
    assert [tuple(row.values()) for row in total["rows"]] == list(moves.values())


def test_the_static_figure():
    data = frame()
    assert data["phase"] == "compute" and "S" in [slot["name"] for slot in data["slots"]]
    assert (data["i"], data["j"], data["T_r"], data["T_c"]) == (4, 0, 8, 16) and data["pair"] == data["pairs"] // 2
    assert data["naive_bytes"] == 8_912_896 and data["fits"] and data["sram_peak"] == 97 * 1024
    assert [one["total_bytes"] for one in data["orders"]] == [6_553_600, 2_359_296]
    assert data["suggested"] == {"B_r": 64, "B_c": 384}


def test_the_papers_tile_does_not_fit():
    data = frame(B_r=64, B_c=384, order="fa1")
    assert data["sram_peak"] == 216.5 * 1024 and not data["fits"]
    assert frame(B_r=64, B_c=384, sram_bytes=data["sram_peak"])["fits"]


@pytest.mark.parametrize("order", ORDERS)
def test_many_blocks_stay_small(order):
    data = frame(S=131072, B_r=1, B_c=1, order=order, causal=True)
    assert len(json.dumps(data)) < 24_000
    for runs in (*data["strips"].values(), *data["final"].values(), data["visible"]):
        assert len(runs) <= RUNS and runs[0][0] == 0 and runs[-1][1] == 131071
        assert all(a[1] + 1 == b[0] for a, b in zip(runs, runs[1:]))
    assert [run[2] for run in data["visible"]] == [2048 * k for k in range(1, 65)]


@pytest.mark.parametrize(
    "inputs, message",
    [
        ({"S": 0}, "S=0 不是正整数"), ({"d": 0}, "d=0 不是正整数"), ({"B_r": 0}, "B_r=0 不是正整数"),
        ({"B_c": 0}, "B_c=0 不是正整数"), ({"dtype_bytes": 0}, "dtype_bytes=0 不是正整数"),
        ({"sram_bytes": 0}, "sram_bytes=0 不是正整数"), ({"order": "x"}, "order='x' 不认识；可选：fa1、fa2"),
        ({"step": 384}, "step=384 不存在；应在 0 到 383 之间"), ({"step": -1}, "step=-1 不存在"),
        ({"step": 0.5}, "step=0.5 不存在"),
    ],
)
def test_errors(inputs, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        frame(**inputs)
