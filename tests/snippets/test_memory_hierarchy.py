"""snippets.memory_hierarchy: the ratios that the page states, and the picture's four levels in their order."""

import json

import pytest

from snippets.memory_hierarchy import CHIPS, faster, frame, smaller
from snippets.roofline import GPUS


def test_sram_is_some_times_faster_and_thousands_of_times_smaller():
    assert list(CHIPS) == list(GPUS)
    assert [round(faster(name), 1) for name in CHIPS] == [12.2, 9.3, 9.3, 6.5]
    assert [round(smaller(name)) for name in CHIPS] == [1884, 3768, 2312, 4075]
    assert CHIPS["H100 SXM"].sram == 33 * 1024**2


def test_levels_grow_and_slow_down_from_the_chip_outwards():
    data = json.loads(json.dumps(frame(), allow_nan=False))
    levels = [data[name] for name in ("sram", "l2", "hbm")]
    assert [one["bytes"] for one in levels] == sorted(one["bytes"] for one in levels)
    assert [one["bandwidth"] for one in levels] == [31e12, 12e12, 3.35e12]
    assert data["registers"] == {"bytes": 33 * 1024**2, "bandwidth": None}
    assert data["smaller"] == data["hbm"]["bytes"] / data["sram"]["bytes"]


@pytest.mark.parametrize("ratio", [faster, smaller])
def test_unknown_gpu(ratio):
    with pytest.raises(KeyError):
        ratio("B200")
