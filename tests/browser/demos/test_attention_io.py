"""The demo attention-io: the same numbers as snippets.io_model_frame, by mouse, keyboard and touch."""

import json
import random

import pytest
from snippets.io_model_frame import LENGTHS, frame

from .conftest import assert_same

NAME = "attention-io"


def cases():
    """Edges, then random settings over all that the reader can choose."""
    edges = [(128, 32, 1, 1, 16, 1), (131072, 256, 4, 1024, 512, 1000), (131072, 32, 4, 1024, 16, 1), (128, 256, 4, 1, 16, 141)]
    choose = random.Random(19)
    rows = edges + [
        (choose.choice(LENGTHS), choose.choice([32, 64, 128, 256]), choose.choice([1, 2, 4]), choose.randint(1, 1024),
         choose.randint(16, 512), choose.choice([40, 80, 141, choose.randint(1, 1000)]))
        for _ in range(330)
    ]  # fmt: skip
    names = ("S", "d", "dtype_bytes", "heads", "sram_bytes", "limit_bytes")
    return [dict(zip(names, (*row[:4], row[4] * 1024, row[5] * 10**9))) for row in rows]


def chosen(case):
    """A case's settings as the reader's controls hold them."""
    own = {"sram_kib": case["sram_bytes"] // 1024, "gpu": "自己填", "own_gb": case["limit_bytes"] // 10**9}
    return {key: case[key] for key in ("S", "d", "dtype_bytes", "heads")} | own


def test_numbers_are_those_of_snippets(live):
    inputs = cases()
    for one, got in zip(inputs, live(NAME).compute(inputs), strict=True):
        assert_same(got, json.loads(json.dumps(frame(**one))), str(one))


def test_every_step_in_turn(live):
    demo = live(NAME)
    demo.button("RESET").click()
    told = []
    for _ in range(6):
        told.append(demo.said)
        demo.button("STEP").click()
    assert told[0].startswith("①S = QKᵀ：读 Q 2.097 MB、K 2.097 MB，写 S 33.55 MB；累计")
    assert told[1].startswith("②P = softmax(S)：读 S 33.55 MB，写 P 33.55 MB")
    assert told[3].startswith("融合第 1/3 趟")
    assert told[5] == demo.said and "累计 23.07 MB" in told[5] and "6.182 倍" in told[5]


def test_fused_turns_add_up(live):
    """The last step shows the whole of the fused kernel's traffic, whatever the setting."""
    demo = live(NAME)
    for one in cases()[:60]:
        moved = demo.call("m.view(a, m.steps(a) - 1).turns.reduce((all, t) => all + t.read_bytes + t.write_bytes, 0)", chosen(one))
        assert moved == frame(**one)["fused"]["total_bytes"], one


def test_traffic_saturates_and_memory_does_not(live):
    """The discovery."""
    demo = live(NAME)
    demo.preset("长上下文")
    facts = demo.find("[data-part=facts]").inner_text()
    assert "7.973 倍" in facts and "1,009 倍" in facts
    assert "✗ 不能" in demo.find("[data-part=curve] tr").last.inner_text()


def test_the_slider_is_the_axis(live):
    demo = live(NAME)
    demo.find(".io-axis").evaluate("e => { e.value = 17; e.dispatchEvent(new Event('input', {bubbles: true})); }")
    assert demo.field("S").input_value() == "131072"
    demo.find(".io-axis").press("ArrowLeft")
    assert demo.field("S").input_value() == "65536"


def test_fusing_may_move_more(live):
    demo = live(NAME)
    demo.preset("d=256")
    assert "融合反而多搬" in demo.said


def test_both_lines_climb_all_the_way(live):
    """None leaves the plane, even where fusing moves fifty times as much; the words stand apart from one another."""
    for asked in ("d=256&dtype_bytes=4&sram_kib=16", "d=32&dtype_bytes=1&sram_kib=512", "S=4096", "S=8192", "S=16384", "S=32768"):
        demo = live(NAME, hash=f"#{NAME}?{asked}&t=0", width=360)
        for line in demo.find("[data-part=line]").evaluate_all("all => all.map(e => e.getAttribute('d'))"):
            heights = [float(point.split()[1]) for point in line[1:].split("L")]
            assert heights == sorted(heights, reverse=True) and len(set(heights)) == 11, asked
        boxes = [one.bounding_box() for one in demo.find("[data-part=label], [data-part=times]").all()]
        for k, one in enumerate(boxes):
            for other in boxes[:k]:
                aside = one["x"] >= other["x"] + other["width"] or other["x"] >= one["x"] + one["width"]
                assert aside or abs(one["y"] - other["y"]) > 11, asked


def test_ones_own_memory(live):
    demo = live(NAME)
    demo.field("gpu").select_option("自己填")
    assert "24 GB" in demo.find("[data-part=limit]").inner_text()
    demo.fill(own_gb="8")
    assert demo.find("[data-part=limit]").inner_text() == "8 GB"


WRONG = [
    ({"S": "1000"}, "2 的幂"),
    ({"S": "64"}, "128 到"),
    ({"heads": "0"}, "1 到"),
    ({"heads": "−3"}, "1 到"),
    ({"sram_kib": "1e9"}, "16 到 512"),
    ({"own_gb": ""}, "是空的"),
    ({"own_gb": "NaN"}, "不是数"),
]


@pytest.mark.parametrize(("texts", "told"), WRONG, ids=[str(texts) for texts, _ in WRONG])
def test_wrong_input_is_answered_in_place(live, texts, told):
    demo = live(NAME)
    before = demo.find("[data-part=map]").inner_html()
    demo.fill(**texts)
    assert told in demo.error
    assert demo.find("[data-part=map]").inner_html() == before


# --- the challenge ---


def growth(**inputs):
    """What is asked for: times that the ratio of traffic grows from 4,096 to 131,072."""
    ratio = {at["S"]: at["ratio"] for at in frame(**inputs)["curve"]}
    return ratio[131072] / ratio[4096]


def place(demo, value):
    """Move the slider of the guess to a place, a power of two, as a pointer would."""
    demo.find("[name=guess]").evaluate("(e, value) => { e.value = value; e.dispatchEvent(new Event('input', {bubbles: true})); }", value)


def check(demo):
    """Press 核对; what is answered."""
    demo.find("[data-challenge] button").click()
    return demo.find("[data-challenge] output").inner_text()


def drawn(demo):
    """Shapes and words of the answer in the chart: the guess's two paths, the truth's, two texts."""
    paths = demo.find("[data-part=guess], [data-part=truth]").evaluate_all("all => all.map(e => e.getAttribute('d'))")
    return paths, demo.find("[data-part=answer]").all_text_contents()


NOTHING = (["", "", ""], ["", ""])


def test_the_guess_by_keyboard(live):
    demo = live(NAME)
    slider = demo.find("[name=guess]")
    slider.focus()
    told = {}
    for key in ("Home", "ArrowRight", "ArrowUp", "PageUp", "End", "ArrowLeft", "ArrowDown", "PageDown"):
        slider.press(key)
        told[key] = slider.get_attribute("aria-valuetext")
        assert demo.find("[data-part=guessed]").inner_text() == told[key]
    assert told == {
        "Home": "×1.0", "ArrowRight": "×1.1", "ArrowUp": "×1.2", "PageUp": "×1.7",
        "End": "×32", "ArrowLeft": "×29", "ArrowDown": "×27", "PageDown": "×19",
    }  # fmt: skip
    place(demo, 2)
    assert slider.get_attribute("aria-valuetext") == "×4.0"
    slider.press("Enter")
    assert demo.find("[data-challenge] output").inner_text().startswith("✗ 不对。你猜 ×4.0，实际 ×1.073")


def test_every_place_of_the_slider_reads_differently(live):
    demo = live(NAME)
    told = []
    for k in range(41):
        place(demo, k / 8)
        told.append(demo.find("[name=guess]").get_attribute("aria-valuetext"))
    assert len(set(told)) == 41


def test_challenge(live):
    """Nothing is shown before a check; a wrong guess is answered and drawn, another try is possible."""
    demo = live(NAME)
    place(demo, 3)
    assert demo.find("[data-challenge] output").inner_text() == "" and drawn(demo) == NOTHING
    answer = check(demo)
    assert answer.startswith("✗") and all(one in answer for one in ("×8.0", "×1.073", "7.429", "7.973", "1,009"))
    wrong, words = drawn(demo)
    assert words == ["你猜 ×8.0", "实际 ×1.073"] and all(wrong)
    place(demo, 0.125)
    assert demo.find("[data-challenge] output").inner_text() == "" and drawn(demo) == NOTHING
    assert check(demo).startswith("✓")
    right, words = drawn(demo)
    assert words == ["你猜 ×1.1", "实际 ×1.073"]
    assert right[:2] != wrong[:2] and right[2] == wrong[2]  # the truth stays where it is
    demo.button("BACK").click()
    assert drawn(demo) == (right, words)  # a step changes neither


def test_an_untouched_slider_is_a_guess(live):
    demo = live(NAME)
    assert "你猜 ×5.7" in check(demo)


def test_guess_and_truth_stand_where_they_belong(live):
    """On the line of the longest S: the truth around the fused point, the guess where the ratio would be the guessed one.
    Their shapes differ, not their colours alone."""
    demo = live(NAME)
    place(demo, 5)
    check(demo)
    (line, guess, truth), _ = drawn(demo)
    point = {at["S"]: at for at in frame()["curve"]}
    low, high = 6, 13  # decades of the chart
    bytes_at = lambda y: 10 ** (low + (high - low) * (176 - y) / 162)  # noqa: E731
    x, y = map(float, truth[1:].split("m")[0].split())
    assert x == 296 and bytes_at(y) == pytest.approx(point[131072]["fused_bytes"], rel=1e-3)
    x, y = map(float, guess[1:].split("m")[0].split())
    assert x == 296 and point[131072]["naive_bytes"] / bytes_at(y) == pytest.approx(32 * point[4096]["ratio"], rel=1e-3)
    assert line.endswith(f"V{y:g}") and f"L296 {y:g}M" in line
    assert "a" in truth and "a" not in guess and "l" in guess
    boxes = [demo.find("[data-part=answer]").nth(k).bounding_box() for k in (0, 1)]
    assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"] + 4


def test_another_truth_is_asked_anew(live):
    demo = live(NAME)
    place(demo, 0)
    check(demo)
    shown = drawn(demo)
    demo.preset("长上下文")
    assert drawn(demo) == shown and demo.find("[data-challenge] output").inner_text().startswith("✓")
    demo.preset("d=256")
    assert drawn(demo) == NOTHING and demo.find("[data-challenge] output").inner_text() == ""
    assert "×0.9642" in check(demo) and drawn(demo)[1] == ["你猜 ×1.0", "实际 ×0.9642"]
    demo.field("d").select_option("128")
    assert drawn(demo) == NOTHING and demo.find("[data-challenge] output").inner_text() == ""


def test_challenge_is_that_of_snippets(live):
    """Whatever the setting: the truth, and which guesses are within a tenth of it; one of the slider's always is."""
    demo = live(NAME)
    for one in cases()[:60]:
        got = demo.call("Array.from({length: 41}, (_, k) => m.challenge(a, String(k / 8)))", chosen(one))
        truth = growth(**one)
        assert all(verdict["truth"] == pytest.approx(truth, rel=1e-12) for verdict in got)
        assert [verdict["right"] for verdict in got] == [abs(float(f"{2 ** (k / 8):.2g}") - truth) <= truth / 10 for k in range(41)]
        assert any(verdict["right"] for verdict in got)


@pytest.mark.parametrize("width", [360, 1440])
def test_the_answer_moves_nothing(live, width):
    demo = live(NAME, width=width)
    below = lambda: demo.find("[data-challenge], .demo-transport").evaluate_all("all => all.map(e => [e.offsetTop, e.offsetHeight])")  # noqa: E731
    before = below()
    for k in (0, 2, 5):
        place(demo, k)
        assert below() == before
        check(demo)
        assert below() == before
    assert demo.page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_answer_in_forced_colours_and_print(live):
    demo = live(NAME, forced_colors="active")
    place(demo, 3)
    check(demo)
    for media in ("screen", "print"):
        demo.page.emulate_media(media=media)
        strokes = demo.find("[data-part=guess], [data-part=truth]").evaluate_all("all => all.map(e => getComputedStyle(e).stroke)")
        assert "none" not in strokes
        assert all(one.is_visible() for one in demo.find("[data-part=answer]").all())
    assert not demo.find("[data-challenge]").is_visible()
