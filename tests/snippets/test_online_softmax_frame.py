"""The demo's data: JSON-plain, true to the module it shows."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.online_softmax import blockwise, softmax
from snippets.online_softmax_frame import frame
from snippets.softmax_faults import FAULTS, broken

few = settings(deadline=None, max_examples=40)
hand = [1, 2, 3, 4], [10, 20, 30, 40], 2


def test_hand_calculation():
    data = frame(*hand)
    assert [row["k"] for row in data["blocks"]] == [0, 1]
    assert data["blocks"][1]["x"] == [3.0, 4.0] and data["blocks"][1]["v"] == [30.0, 40.0]
    assert [round(row["ratio"], 3) for row in data["blocks"]] == [17.311, 34.927]
    last = data["blocks"][-1]
    assert [round(e, 4) for e in last["bars"]] == [round(e, 4) for e in last["due"]] == [0.0498, 0.1353, 0.3679, 1.0]
    assert (round(last["sum_e"], 3), round(last["sum_ev"], 2)) == (1.368, 51.04) and last["agrees"]
    assert data["difference"] < 1e-13 and round(data["one_pass"]["l"], 4) == 1.5530
    assert (data["m"], data["l"], data["o"]) == tuple(data["blocks"][-1][key] for key in "mlo")


@few
@given(st.lists(st.one_of(st.just("-inf"), st.floats(-900, 900)), min_size=1, max_size=20), st.integers(1, 22),
       st.sampled_from([None, *FAULTS]))
def test_rows_are_the_steps(x, block_size, fault):
    numbers, v = [float(one) for one in x], list(range(len(x)))
    data = frame(x, v, block_size, fault)
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    steps = broken(numbers, v, block_size, fault) if fault else blockwise(numbers, v, block_size)
    for row, step in zip(data["blocks"], steps, strict=True):
        for key in ("m", "correction", "l", "o"):
            assert str(float(row[key])) == str(float(getattr(step, key)))
        assert float(row["prefix"]) == pytest.approx(
            float(softmax(numbers[: len(step.x) + block_size * row["k"]]) @ v[: len(step.x) + block_size * row["k"]])
        )
    if fault is None:
        assert data["difference"] <= 1e-12 * max(sum(v), 1)
        assert all(row["agrees"] for row in data["blocks"])
        last = data["blocks"][-1]
        assert last["bars"] == pytest.approx(last["due"], rel=1e-9, abs=1e-300)
    for row in data["blocks"]:  # what is drawn is what l and o sum
        total = np.sum([float(one) for one in row["bars"]])
        assert total == pytest.approx(float(row["l"]), rel=1e-9, nan_ok=True)
        assert row["due_correction"] == row["correction"] or fault


def test_faults_are_seen():
    last = frame(*hand, "no_correction")["blocks"][-1]
    assert round(last["ratio"], 3) == 27.311 and not last["agrees"]
    assert [round(e, 4) for e in last["bars"]] == [0.3679, 1.0, 0.3679, 1.0] and round(last["due"][0], 4) == 0.0498
    assert (last["correction"], round(last["due_correction"], 4)) == (1.0, 0.1353)
    assert frame([4, 3, 2, 1], [40, 30, 20, 10], 2, "no_correction")["blocks"][-1]["agrees"]
    assert round(frame(*hand, "no_correction")["difference"], 3) == 7.616
    assert frame([1000, 1001], [1, 2], 1, "no_maximum")["ratio"] == "NaN"
    masked = frame(["-inf", 1], [1, 2], 1, "no_guard")
    assert masked["blocks"][0]["e"] == ["NaN"] and masked["blocks"][1]["bars"] == ["NaN", 1.0]
    assert masked["difference"] == "NaN" and masked["one_pass"]["ratio"] == 2
    everything = frame(["-inf", "-inf"], [1, 2], 1)
    assert everything["ratio"] == 0 and everything["blocks"][1]["bars"] == [0.0, 0.0] and everything["m"] == "-inf"


def test_errors():
    with pytest.raises(ValueError, match="fault='x' 不认识"):
        frame(*hand, "x")
    with pytest.raises(ValueError, match="block_size=0 不是正整数"):
        frame([1], [1], 0)
