"""The demo's data: the figures that the page quotes, and sums that add up."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.io_model_frame import LENGTHS, frame

few = settings(deadline=None, max_examples=40)


@pytest.mark.parametrize(
    "S, d, ratio", [(1024, 64, 6.18), (4096, 64, 7.43), (131072, 64, 7.97)]
)
def test_ratios(S, d, ratio):
    assert round(frame(S=S, d=d)["ratio"], 2) == ratio


@pytest.mark.parametrize("d, limit", [(64, 8), (128, 2), (256, 0.5)])
def test_limits(d, limit):
    data = frame(d=d)
    assert data["ratio_limit"] == limit == data["M"] / (3 * d * d)
    assert frame(S=2**28, d=d)["ratio"] == pytest.approx(limit, rel=1e-4)


def test_fusing_may_move_more():
    assert round(frame(S=131072, d=256)["ratio"], 2) == 0.50


def test_from_4096_to_131072():
    curve = {point["S"]: point["ratio"] for point in frame()["curve"]}
    assert round(curve[131072] / curve[4096], 2) == 1.07


def test_fit_on_an_a100():
    assert frame(S=32768)["naive"]["fits"] and not frame(S=65536)["naive"]["fits"]
    assert frame()["naive"]["largest_S"] == 35_291 and frame(S=65536)["fused"]["fits"]


@few
@given(st.integers(1, 5000), st.sampled_from([32, 64, 128, 256]), st.sampled_from([2, 4]), st.integers(1, 1024),
       st.integers(16, 512))
def test_sums(S, d, dtype_bytes, heads, sram_kib):
    data = frame(S, d, dtype_bytes, heads, sram_kib * 1024)
    assert json.loads(json.dumps(data)) == data
    unit, T_c = dtype_bytes * heads, -(-S // data["B_c"])
    assert data["T_c"] == T_c
    assert data["naive"]["total_bytes"] == (4 * S * S + 4 * S * d) * unit
    assert data["fused"]["total_bytes"] == (2 + 3 * T_c) * S * d * unit
    assert data["compulsory_bytes"] == 4 * S * d * unit and data["flops_per_head"] == 4 * S * S * d
    assert data["ratio"] == pytest.approx(data["naive"]["total_bytes"] / data["fused"]["total_bytes"])
    for form in ("naive", "fused"):
        steps = data[form]["steps"]
        for step in steps:
            assert step["read_bytes"] == sum(step["reads"].values())
            assert step["write_bytes"] == sum(step["writes"].values())
            assert step["total_bytes"] == step["read_bytes"] + step["write_bytes"]
        assert data[form]["total_bytes"] == sum(step["total_bytes"] for step in steps)
        assert data[form]["memory_bytes"] - data[form]["extra_bytes"] == 4 * S * d * unit
    assert data["naive"]["extra_bytes"] == 2 * S * S * unit and data["fused"]["extra_bytes"] == 8 * S * heads


def test_curve_is_the_frame_at_every_length():
    assert LENGTHS == (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
    for point in frame(heads=3)["curve"]:
        data = frame(S=point["S"], heads=3)
        assert point == {
            "S": data["S"], "ratio": data["ratio"],
            "memory_ratio": data["naive"]["memory_bytes"] / data["fused"]["memory_bytes"],
            "naive_bytes": data["naive"]["total_bytes"], "fused_bytes": data["fused"]["total_bytes"],
            "naive_memory_bytes": data["naive"]["memory_bytes"], "fused_memory_bytes": data["fused"]["memory_bytes"],
        }


@pytest.mark.parametrize("name", ["S", "d", "dtype_bytes", "heads", "sram_bytes", "limit_bytes"])
def test_errors(name):
    with pytest.raises(ValueError, match=re.escape(f"{name}=0 不是正整数；请给一个不小于 1 的整数")):
        frame(**{name: 0})
