"""The demo online-softmax in the page: by mouse, keyboard and touch; its numbers are those of snippets."""

import functools
import math
import random
import re

import pytest
from playwright.sync_api import expect

from snippets.online_softmax_frame import frame
from snippets.softmax_faults import FAULTS



@pytest.fixture
def demo(live):
    """`demo(hash="", **options of visit)`: the living demo."""
    return functools.partial(live, "online-softmax")


def fault(demo, label):
    return demo.root.get_by_role("radio", name=label)


def to_the_end(demo):
    demo.find("[data-seek]").fill(demo.find("[data-seek]").get_attribute("max"))


def lit(demo):
    """Code lines marked with ▶, and for those who do not see it."""
    marked = """lines => lines.filter(one => getComputedStyle(one, '::before').content.includes('▶'))
        .map(one => one.innerText.trim())"""
    found = demo.find(".softmax__code li").evaluate_all(marked)
    assert [line.strip() for line in demo.find(".softmax__code [aria-current=step]").all_inner_texts()] == found
    return found


# --- the numbers -----------------------------------------------------------------------------------------------------


def settable(count):
    """Inputs that a reader can set: edges first, then at random."""
    low = -math.inf
    masked, tiny = [low, low, 1, 2], [1e-300, -0.0, 3]
    for x in ([5], [low], masked, [0] * 64, [10000, -10000], [709, 710, 711], [-745, -750, 0], tiny):
        for block_size in {1, 2, len(x)}:
            yield x, [10.0 * (i - 1) for i in range(len(x))], min(block_size, len(x))
    chance = random.Random(19)
    for _ in range(count):
        n, width = chance.randint(1, 64), chance.choice([1, 5, 40, 900, 10000])
        x = [low if chance.random() < 0.1 else chance.uniform(-width, width) for _ in range(n)]
        yield x, [chance.uniform(-100, 100) for _ in range(n)], chance.randint(1, n)


def same(here, there, scale):
    """Equal, or floats that differ by rounding; `scale` is what a sum of signed terms is measured by."""
    if isinstance(here, float | int) and isinstance(there, float | int) and not isinstance(here, bool):
        return abs(here - there) <= 1e-12 * max(abs(here), scale) + 1e-300
    return type(here) is type(there) and here == there


def differences(here, there):
    """Keys whose values are not the same in the two results."""
    size = max(map(abs, there["v"]))
    wrong = [key for key in ("x", "v", "block_size", "fault") if here[key] != there[key]]
    pairs = [(there, here, ""), (there["one_pass"], here["one_pass"], "one_pass."),
             *((one, other, f"{one['k']}.") for one, other in zip(there["blocks"], here["blocks"], strict=True))]
    for one, other, place in pairs:
        assert one.keys() == other.keys()
        for key, value in one.items():
            if key in ("x", "v", "blocks", "one_pass"):
                continue
            held = float(one.get("l", there["l"]))
            scales = {"o": size * held, "sum_ev": size * held, "ratio": size, "prefix": size, "difference": size}
            scale = scales.get(key, 0)
            values = zip(value, other[key], strict=True) if isinstance(value, list) else [(value, other[key])]
            if not all(same(a, b, scale if math.isfinite(scale) else 0) for a, b in values):
                wrong.append((place + key, value, other[key]))
    return wrong


def test_compute_is_the_snippet(demo):
    cases = [(*one, None) for one in settable(70)] + [(*one, kind) for one in settable(50) for kind in FAULTS]
    assert len(cases) > 300
    inputs = [
        {"x": ["-inf" if one == -math.inf else one for one in x], "v": v, "block_size": size, "fault": kind}
        for x, v, size, kind in cases
    ]
    typed = "{...one, x: m.fields.x.parse(one.x.join(', ')), v: m.fields.v.parse(m.fields.v.show(one.v))}"
    answers = demo().call(f"a.map(one => [m.compute(one), m.compute({typed})])", inputs)
    for given, (answer, typed) in zip(inputs, answers, strict=True):
        assert answer == typed, given
        assert not differences(answer, frame(**given)), given


# --- by mouse, keyboard and touch ------------------------------------------------------------------------------------


def test_a_turn_by_mouse(demo):
    demo = demo()
    button = {name: demo.root.get_by_role("button", name=name, exact=True) for name in ("重来", "上一步", "下一步")}
    assert demo.said.startswith("第 7/7 步") and lit(demo) == ["return o / ℓ"]
    button["重来"].click()
    assert demo.said == "第 1/7 步：第 0 块最大的是 2，尺子由 −∞ 换成 2。"
    assert lit(demo) == ["m_new ← max(m, max(x))"] and not demo.find(".softmax__bar").count()
    for _ in range(4):
        button["下一步"].click()
    assert demo.said == "第 5/7 步：旧的 ℓ 和 o 都乘 0.1353，比例不变。"
    assert lit(demo) == ["c ← exp(m − m_new)"]
    assert demo.find(".softmax__bar").count() == 2 and demo.find(".softmax__bars .demo-ghost").count() == 2
    assert "等第 1 块加完再比" in demo.find("dl").inner_text()
    button["下一步"].click()
    assert len(lit(demo)) == 4 and demo.find(".softmax__bar").count() == 4
    assert "o/ℓ=34.93，一遍算是 34.93。✓" in demo.said
    button["上一步"].click()
    assert demo.said.startswith("第 5/7 步")


def test_faults_tell_what_they_do(demo):
    demo = demo()
    fault(demo, "忘修正").check()
    assert "o/ℓ=27.31，一遍算是 34.93。✗ 差 7.616。" in demo.said
    demo.field("reversed").check()
    assert "o/ℓ=34.93" not in demo.find("tbody tr").first.inner_text() and "✓ 相同" in demo.said
    demo.field("reversed").uncheck()
    fault(demo, "不减最大值").check()
    assert "✓ 相同" in demo.said  # small scores do not overflow
    demo.preset("一千上下")
    fault(demo, "不减最大值").check()
    to_the_end(demo)
    assert "✗ ∞/∞：eˣ 溢出" in demo.said
    demo.preset("整块被掩码")
    fault(demo, "不防 −∞").check()
    to_the_end(demo)
    assert "✗ NaN × 0 仍是 NaN" in demo.said and "✗NaN" in demo.find("[data-part=bars]").text_content()
    fault(demo, "不弄坏").check()
    assert "✓ 相同" in demo.said


def test_by_keyboard_alone(demo):
    demo = demo(reduced_motion="reduce")
    page = demo.page
    demo.find("[data-preset]").focus()
    reached = []
    for _ in range(14):
        reached.append(page.evaluate("(e => e.dataset.do ?? e.dataset.field ?? e.type)(document.activeElement)"))
        page.keyboard.press("Tab")
    wanted = ["block_size", "reversed", "x", "v", "fault", "RESET", "BACK", "STEP", "PLAY", "range"]
    assert [one for one in reached if one in wanted] == wanted
    demo.field("x").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("[4, 3], [2, 1]")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert fault(demo, "忘修正").is_checked() and "✓ 相同" in demo.said
    demo.find("[data-seek]").focus()
    page.keyboard.press("Home")
    assert demo.said.startswith("第 1/7 步")
    page.keyboard.press("ArrowRight")
    assert demo.said.startswith("第 2/7 步")
    assert demo.find("[data-seek]").get_attribute("aria-valuetext") == "第 2 步，共 7 步"
    demo.find("[data-do=STEP]").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    assert demo.said.startswith("第 4/7 步")


def test_by_touch(demo):
    demo = demo(width=360, has_touch=True, is_mobile=True)
    demo.find("[data-do=RESET]").tap()
    demo.find("[data-do=STEP]").tap()
    assert demo.said.startswith("第 2/7 步")
    fault(demo, "忘修正").tap()
    to_the_end(demo)
    assert "✗ 差 7.616" in demo.said
    assert demo.root.evaluate("demo => demo.scrollWidth <= demo.clientWidth")


def test_play_runs_to_the_end_and_can_be_stopped(demo):
    demo = demo("#online-softmax?block_size=4&t=3")
    play = demo.find("[data-do=PLAY]")
    play.click()
    assert play.inner_text() == "暂停" and demo.said.startswith("第 1/4 步")
    play.click()
    expect(demo.find(".demo-say")).not_to_have_text("")  # emptied and filled again, so that it is told
    stopped = demo.said
    demo.page.wait_for_timeout(900)
    assert play.inner_text() == "播放" and demo.said == stopped
    play.click()
    expect(demo.find(".demo-say")).to_contain_text("第 4/4 步", timeout=20_000)
    expect(play).to_have_text("播放")


# --- what a reader may put in ----------------------------------------------------------------------------------------

WRONG = [
    ("x", "", "x 是空的", None, None),
    ("x", " , ;", "x 是空的", None, None),
    ("x", "1, two, 3, 4", "x 的第 2 个“two”不行", None, None),
    ("x", "1, inf, 3, 4", "第 2 个“inf”不行", None, None),
    ("x", "1, NaN, 3, 4", "第 2 个“NaN”不行", None, None),
    ("x", "<b>1</b>", "第 1 个“<b>1</b>”不行", None, None),
    ("x", "1, 1e400, 3, 4", "太大，绝对值最多 10,000", "改成 10000", "1,10000,3,4"),
    ("x", "1, -99999, 3, 4", "太大，绝对值最多 10,000", "改成 -10000", "1,-10000,3,4"),
    ("v", "1, -inf, 3, 4", "v 的第 2 个“-inf”不行", None, None),
    ("v", "1, 2", "x 有 4 个，v 有 2 个，要一样多", "v 补到 4 个", "1, 2, 30, 40"),
    ("v", "1, 2, 3, 4, 5", "x 有 4 个，v 有 5 个，要一样多", "v 只留前 4 个", "1, 2, 3, 4"),
    ("x", "7 " * 65, "x 收到 65 个，最多 64；图仍是上一次的输入", "只留前 64 个", ",".join(["7"] * 64)),
    ("block_size", "0", "每块个数＝0 不行", "改成 1", "1"),
    ("block_size", "-3", "每块个数＝-3 不行", "改成 1", "1"),
    ("block_size", "5", "每块 5 个，但只有 4 个分数", "改成 4", "4"),
    ("block_size", "两个", "不是数", None, None),
]


def test_wrong_input_is_answered_in_place(demo):
    demo = demo()
    before = demo.find("[data-part=bars]").inner_html()
    for name, text, message, label, repaired in WRONG:
        demo.field(name).fill(text)
        told = demo.find(".demo-errors")
        assert message in demo.error, text
        assert demo.find("[data-part=bars]").inner_html() == before, "the picture is the last valid one"
        if label:
            told.get_by_role("button", name=label).click()
            assert demo.find(f"[data-field={name}]").input_value() == repaired
        if name == "x" and repaired and repaired.count(",") == 63:  # 64 scores, still four values
            assert "x 有 64 个，v 有 4 个" in demo.error
            told.get_by_role("button", name="v 补到 64 个").click()
            assert not demo.error
            to_the_end(demo)
            assert demo.find(".softmax__bar").count() == 64
        demo.fill(x="1, 2, 3, 4", v="10, 20, 30, 40", block_size="2")
        to_the_end(demo)  # fewer blocks have fewer steps
        assert not demo.error


def test_extremes_are_drawn(demo):
    demo = demo()
    for x in ("-inf -inf -inf -inf", "10000 -10000 0 1", "1e-9，2、3;4"):
        demo.field("x").fill(x)
        assert ("0/0 无定义，约定取 0" if "inf" in x else "✓ 相同") in demo.said, x
        for label in ("忘修正", "不减最大值", "不防 −∞", "不弄坏"):
            fault(demo, label).check()
            assert demo.said
            drawn = demo.find("[data-part=bars]").evaluate("part => part.innerHTML.replace(/<text.*?<.text>/g, '')")
            assert "NaN" not in drawn and "Infinity" not in drawn


def test_presets(demo):
    demo = demo()
    for name in ("最大值在前", "一千上下", "整块被掩码", "24 个", "手算 [1, 2] [3, 4]"):
        demo.preset(name)
        assert not demo.error
        to_the_end(demo)
        assert "✓ 相同" in demo.said
        assert demo.find("[data-preset] option:checked").inner_text() == name


def test_challenge(demo):
    demo = demo()
    answer, link = demo.guess, demo.find("[data-challenge] output a")
    assert "先选或先填" in answer("")
    assert answer("1 2 3 4").startswith("✗ 不对。忘修正得 27.31，应是 34.93")
    assert "这里只有一块" in answer("4 3") and "“four”不行" in answer("four 3 2")
    assert answer("5 5 5 5").startswith("✓ 对。") and not link.count()
    assert answer("4, 3, 2, 1").startswith("✓ 对。") and "倒过来读，忘修正得" in answer("4, 3, 2, 1")
    link.click()
    expect(demo.find(".demo-say")).to_contain_text("✗ 差")
    assert fault(demo, "忘修正").is_checked() and demo.field("reversed").is_checked()
    assert demo.field("x").input_value() == "4, 3, 2, 1"


def test_address_keeps_the_state(demo, visit):
    first = demo()
    first.field("x").fill("-inf 2.5 1 0")
    fault(first, "不防 −∞").check()
    first.find("[data-seek]").fill("4")
    expect(first.find("[data-link]")).to_have_attribute("href", re.compile("t=4"))
    kept = first.page.evaluate("location.hash")
    assert first.find("[data-link]").get_attribute("href") == kept
    again = demo(kept)
    assert again.field("x").input_value() == "-inf, 2.5, 1, 0" and fault(again, "不防 −∞").is_checked()
    assert again.said == first.said and "第 5/7 步" in again.said
    assert again.find("[data-part=bars]").inner_html() == first.find("[data-part=bars]").inner_html()
