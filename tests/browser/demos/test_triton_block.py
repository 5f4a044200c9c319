"""The demo triton-block: the same numbers as snippets.block_grid, by mouse, keyboard and touch."""

import json
import random

import pytest
from snippets.block_grid import MAX_BLOCK, frame

from .conftest import assert_same

NAME = "triton-block"


def cases():
    """Edges, then random grids; pid anywhere, or None for the last."""
    found = [(0, 1, None), (1, 1, 0), (10**9, 1, None), (10**9, 1, 10**9 - 1), (10**9, MAX_BLOCK, 0), (1025, 1024, 1)]
    choose = random.Random(19)
    for _ in range(400):
        n, block_size = int(10 ** choose.uniform(0, 9)), 2 ** choose.randrange(21)
        programs = -(-n // block_size)
        found.append((n, block_size, choose.choice([None, 0, programs - 1, choose.randrange(programs)])))
    return [dict(n=n, block_size=block_size, pid=pid) for n, block_size, pid in found]


def test_numbers_are_those_of_snippets(live):
    inputs = cases()
    for one, got in zip(inputs, live(NAME).compute(inputs), strict=True):
        assert_same(got, json.loads(json.dumps(frame(**one))), str(one))


def test_by_mouse(live):
    demo = live(NAME)
    assert "有效 640，屏蔽 384" in demo.said
    demo.button("STEP").click()
    assert demo.find(".block__kernel [aria-current]").inner_text().startswith("x = tl.load")
    demo.button("BACK").click()
    demo.button("BACK").click()
    assert demo.find(".block__kernel [aria-current]").inner_text().startswith("offsets")
    demo.find("button", ).and_(demo.page.get_by_role("button", name="首个")).click()
    assert "program 0：offsets 0…1,023，有效 1,024，屏蔽 0" in demo.said
    demo.field("unmasked").check()
    assert "mask" not in demo.find(".block__kernel li").nth(3).inner_text()
    demo.preset("不满一块")
    assert "有效 1,000，屏蔽 24" in demo.said


def test_waste_is_below_one_block(live):
    """The discovery: the same waste with 256, 512 and 1024; half a grid with one element too many."""
    demo = live(NAME)
    demo.preset("不满一块")
    for block_size in ("256", "512", "1024"):
        demo.fill(block_size=block_size)
        assert "24，占" in demo.find("[data-part=total]").inner_text()
    demo.preset("刚好多一个")
    assert "49.95%" in demo.find("[data-part=total]").inner_text()


def test_without_a_mask(live):
    demo = live(NAME)
    demo.field("unmasked").check()
    assert "越界 384" in demo.said and "解释器不报错" in demo.said
    assert demo.find(".text-error").count() > 0


WRONG = [
    ({"n": ""}, "是空的"),
    ({"n": "十"}, "不是数"),
    ({"n": "-1"}, "填一个 0 到"),
    ({"n": "1e400"}, "填一个"),
    ({"n": "NaN"}, "不是数"),
    ({"n": "1.5"}, "整数"),
    ({"block_size": "1000"}, "2 的幂"),
    ({"block_size": "0"}, "填一个 1 到"),
    ({"block_size": "2097152"}, "填一个 1 到"),
    ({"pid": "99999"}, "只有 program 0 到 9,765"),
]


@pytest.mark.parametrize(("texts", "told"), WRONG, ids=[str(texts) for texts, _ in WRONG])
def test_wrong_input_is_answered_in_place(live, texts, told):
    demo = live(NAME)
    before = demo.find("[data-part=map]").inner_html()
    demo.fill(**texts)
    assert told in demo.error
    assert demo.find("[aria-invalid=true]").count() == 1
    assert demo.find("[data-part=map]").inner_html() == before


def test_a_fix_is_one_press_away(live):
    demo = live(NAME)
    demo.fill(block_size="1000")
    demo.find(".demo-errors button", ).first.press("Enter")
    assert demo.field("block_size").input_value() == "512" and demo.error == ""
    assert demo.page.evaluate("document.activeElement.dataset.field") == "block_size"


def test_nothing_to_do(live):
    demo = live(NAME)
    demo.preset("一个也没有")
    assert "0 个 program" in demo.said
    demo.button("STEP").click()
    assert "0 个 program" in demo.find("[data-part=map]").text_content()


def test_challenge(live):
    demo = live(NAME)
    assert "先" in demo.guess("")
    assert demo.guess("五").startswith("“五”不是数")
    assert demo.guess("%").startswith("“%”不是数")
    assert demo.guess("50").startswith("✗") and "4.63" in demo.guess("50")
    demo.preset("刚好多一个")  # the question stays, and so does its answer
    assert demo.guess("4.6").startswith("✓") and demo.guess("４.６％").startswith("✓")


def test_touch(live):
    demo = live(NAME, width=360, has_touch=True)
    demo.button("STEP").tap()
    assert demo.said.startswith("第 4/6 行")
