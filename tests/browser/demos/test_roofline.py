"""The demo roofline: the same numbers as snippets.roofline, by mouse, keyboard and touch."""

import json
import random
import re

import pytest
from snippets.roofline import GPUS, LENGTHS, frame

from .conftest import assert_same

NAME = "roofline"


def cases():
    """Edges, then random shapes on every GPU."""
    edges = [(128, 8, 1, 1), (131072, 256, 1024, 4), (129, 255, 1000, 2), (131072, 8, 1, 1)]
    choose = random.Random(19)
    rows = edges + [
        (int(2 ** choose.uniform(7, 17)), choose.randint(8, 256), choose.randint(1, 1024), choose.choice([1, 2, 4]))
        for _ in range(350)
    ]
    names = list(GPUS)
    return [dict(S=S, d=d, B_r=B_r, dtype_bytes=b, gpu=names[k % 4]) for k, (S, d, B_r, b) in enumerate(rows)]


def test_numbers_are_those_of_snippets(live):
    inputs = cases()
    for one, got in zip(inputs, live(NAME).compute(inputs), strict=True):
        assert_same(got, json.loads(json.dumps(frame(**one))), str(one))


def test_each_step_doubles_S(live):
    demo = live(NAME)
    demo.button("RESET").click()
    for S in LENGTHS:
        assert demo.said.startswith(f"S={S:,}，")
        demo.button("STEP").click()
    assert demo.said.startswith("S=131,072，d=128：预填充时朴素 63.94")  # the last step stays


def test_what_binds(live):
    """Naive and decode hang on bandwidth; fused, with high tiles, on the peak."""
    demo = live(NAME)
    rows = demo.find("[data-part=sums] tr")
    assert ["▶ 4.8" in rows.nth(k).inner_text() for k in range(3)] == [True, True, True]
    demo.fill(B_r="512")
    assert "▶ 989" in rows.nth(1).inner_text()
    assert "▶ 4.8" in rows.nth(0).inner_text()


def test_ones_own_length(live):
    demo = live(NAME)
    demo.fill(S="5000")
    assert demo.said.startswith("S=5,000，")
    demo.button("STEP").click()
    assert demo.said.startswith("S=8,192，")


def test_every_gpu(live):
    demo = live(NAME)
    for name, gpu in GPUS.items():
        demo.field("gpu").select_option(name)
        assert f"拐点 {gpu.peak / gpu.bandwidth:.0f}" in demo.find("[data-part=map]").text_content()
        assert demo.find("[data-part=gpus] .demo-table__now").inner_text().startswith(name.replace(" SXM", ""))


def test_points_outside_are_clamped(live):
    demo = live(NAME)
    demo.fill(S="131072", d="8", B_r="1024")
    for path in demo.find("[data-part=map] path").all():
        x, y = map(float, re.match(r"M([\d.]+) ([\d.]+)", path.get_attribute("d")).groups())
        assert 44 <= x <= 306 and 16 <= y <= 196
    assert "→" in demo.find("[data-part=map]").text_content()


WRONG = [({"S": "127"}, "填一个 128 到"), ({"S": "长"}, "不是数"), ({"d": "0"}, "8 到 256"), ({"B_r": ""}, "是空的"), ({"d": "1e400"}, "8 到 256")]


@pytest.mark.parametrize(("texts", "told"), WRONG, ids=[str(texts) for texts, _ in WRONG])
def test_wrong_input_is_answered_in_place(live, texts, told):
    demo = live(NAME)
    before = demo.find("[data-part=map]").inner_html()
    demo.fill(**texts)
    assert told in demo.error
    assert demo.find("[data-part=map]").inner_html() == before


def test_challenge(live):
    demo = live(NAME)
    assert demo.guess("yes").startswith("✗") and "63.94" in demo.guess("yes")
    demo.preset("A100，d=64")
    demo.fill(d="256")
    demo.field("dtype_bytes").select_option("1")  # the question stays, and so does its answer
    assert demo.guess("no").startswith("✓") and "H200" in demo.guess("no")
