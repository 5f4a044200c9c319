"""snippets.pictures against the modules that it asks and against closed forms."""

import json
from math import exp

import pytest

from snippets.online_softmax import blockwise
from snippets.pictures import lanes, loop_orders, merged


def plain(data):
    return json.loads(json.dumps(data, allow_nan=False))


@pytest.mark.parametrize(("T_r", "T_c"), [(3, 4), (1, 1), (2, 5)])
def test_orders_walk_columns_or_rows(T_r, T_c):
    for step in range(1, T_r * T_c + 1):
        orders = plain(loop_orders(T_r, T_c, step))["orders"]
        rows = [(i, j) for i in range(T_r) for j in range(T_c)]
        for name, one in orders.items():
            order = sorted(rows, key=lambda tile: tile[1]) if name == "fa1" else rows
            assert [[order.index((i, j)) + 1 for j in range(T_c)] for i in range(T_r)] == one["turns"]
            assert (one["i"], one["j"]) == order[step - 1]
        assert sum(orders["fa1"]["written"]) == step
        assert sum(orders["fa2"]["written"]) == step // T_c
        assert orders["fa1"]["total"] == {"Q": [T_c, 0], "K": [1, 0], "V": [1, 0], "O": [T_c, T_c]}
        assert orders["fa2"]["total"] == {"Q": [1, 0], "K": [T_r, 0], "V": [T_r, 0], "O": [0, 1]}


@pytest.mark.parametrize(("sizes", "says"), [((3, 4, 13), "超过 12 块"), ((0, 4, 1), "T_r=0"), ((3, 4, 0), "step=0")])
def test_refused_loops(sizes, says):
    with pytest.raises(ValueError, match=says):
        loop_orders(*sizes)


def test_merged_is_the_blockwise_result():
    data, last = plain(merged()), blockwise([1, 2, 3, 4], [10, 20, 30, 40], 2)[-1]
    assert [data["both"][key] for key in "mlo"] == pytest.approx([float(last.m), float(last.l), float(last.o)])
    assert data["both"]["ratio"] == pytest.approx(float(last.o / last.l))
    assert (data["a"]["to"], data["b"]["to"]) == (pytest.approx(exp(-2)), 1)
    assert data["a"]["l"] * data["a"]["to"] + data["b"]["l"] * data["b"]["to"] == pytest.approx(data["both"]["l"])


def test_lanes():
    programs = plain(lanes(10, 4))["programs"]
    assert [[one[key] for key in ("pid", "start", "live", "masked")] for one in programs] == [
        [0, 0, 4, 0], [1, 4, 4, 0], [2, 8, 2, 2],
    ]  # fmt: skip
    with pytest.raises(ValueError, match="不是 2 的幂"):
        lanes(10, 3)
