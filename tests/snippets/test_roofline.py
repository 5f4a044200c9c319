"""snippets.roofline against closed forms, its two bounds, and the figures that the page quotes."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.roofline import GPUS, LENGTHS, Gpu, attainable, decode, frame, prefill, ridge_point

few = settings(deadline=None, max_examples=80)
n, width = st.integers(1, 5000), st.sampled_from([32, 64, 128, 256])
H200 = GPUS["H200 SXM"]


def test_the_two_peaks_of_each_gpu():
    assert GPUS == {
        "A100 40 GB SXM": (312e12, 1555e9), "A100 80 GB SXM": (312e12, 2039e9),
        "H100 SXM": (989e12, 3.35e12), "H200 SXM": (989e12, 4.8e12),
    }
    assert [round(ridge_point(one)) for one in GPUS.values()] == [201, 153, 295, 206]


@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS)
def test_slope_below_the_ridge_and_flat_above(gpu):
    at = ridge_point(gpu)
    assert attainable(at, gpu) == pytest.approx(gpu.peak)
    assert attainable(at / 2, gpu) == pytest.approx(gpu.peak / 2)
    assert attainable(at * 2, gpu) == gpu.peak
    assert attainable(1, gpu) == gpu.bandwidth


@few
@given(n, width, st.integers(1, 300), st.sampled_from([2, 4]))
def test_closed_forms(S, d, B_r, dtype_bytes):
    at, half = prefill(S, d, dtype_bytes, B_r), 2 / dtype_bytes
    assert at["naive"] == pytest.approx(half * d / 2 * S / (S + d))
    assert at["fused"] == pytest.approx(half * S / (1 + -(-S // B_r)))
    assert at["least"] == pytest.approx(half * S / 2)
    assert at["naive"] < half * d / 2 and at["fused"] < half * B_r and at["fused"] <= at["least"]
    assert decode(S, d, "fused", dtype_bytes) == pytest.approx(half * S / (S + 1))
    assert decode(S, d, "naive", dtype_bytes) == pytest.approx(half * S * d / (S * d + d + 2 * S))


@few
@given(n, width)
def test_decode_is_near_one_either_way(S, d):
    naive, fused = decode(S, d, "naive"), decode(S, d, "fused")
    assert naive < fused < 1
    assert S < 1000 or naive > d / (d + 2) - 2e-3


def test_what_the_page_says():
    long = prefill(131072, 128)
    assert round(long["naive"], 2) == 63.94 and long["naive"] < ridge_point(H200)  # longer S does not save naive
    assert round(attainable(128, H200) / 1e12) == 614  # what the count without L2 would cap
    at = prefill(4096, 128)
    assert at["naive"] < at["fused"] < ridge_point(H200) < at["least"]
    assert ridge_point(GPUS["A100 80 GB SXM"]) > at["fused"]


@few
@given(n, width, st.integers(1, 300), st.sampled_from(sorted(GPUS)))
def test_frame(S, d, B_r, gpu):
    data = frame(S, d, 2, B_r, gpu)
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert {key: data[key] for key in ("naive", "fused", "least")} == prefill(S, d, 2, B_r)
    assert (data["decode_naive"], data["decode_fused"]) == (decode(S, d, "naive"), decode(S, d, "fused"))
    assert (data["gpu"], [one["name"] for one in data["gpus"]]) == (gpu, list(GPUS))
    for one in data["gpus"]:
        own = Gpu(one["peak"], one["bandwidth"])
        assert one["ridge"] == ridge_point(own)
        assert one["attainable"] == {key: attainable(data[key], own) for key in one["attainable"]}
        assert set(one["attainable"]) == {"naive", "fused", "least", "decode_naive", "decode_fused"}


def test_curve_is_the_frame_at_every_length():
    assert LENGTHS == tuple(128 * 2**k for k in range(11))
    for point in frame()["curve"]:
        data = frame(S=point["S"])
        assert point == {key: data[key] for key in point} and len(point) == 6


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: attainable(0, H200), "intensity=0 不是正数；请给大于 0 的 FLOP/字节"),
        (lambda: attainable(float("nan"), H200), "intensity=nan 不是正数"),
        (lambda: prefill(0, 64), "S=0 不是正整数；请给一个不小于 1 的整数"),
        (lambda: prefill(1, 64, dtype_bytes=0), "dtype_bytes=0 不是正整数"),
        (lambda: prefill(1, 64, B_r=0), "tile=0 不是正整数"),
        (lambda: decode(1, 0, "fused"), "d=0 不是正整数"),
        (lambda: decode(1, 1, "flash"), "form='flash' 不认识；可选：naive、fused"),
        (lambda: frame(gpu="H300"), "gpu='H300' 不认识；可选：A100 40 GB SXM、"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
