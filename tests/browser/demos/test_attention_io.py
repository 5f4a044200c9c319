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
        inputs = {key: one[key] for key in ("S", "d", "dtype_bytes", "heads")}
        inputs |= {"sram_kib": one["sram_bytes"] // 1024, "gpu": "自己填", "own_gb": one["limit_bytes"] // 10**9}
        moved = demo.call("m.view(a, m.steps(a) - 1).turns.reduce((all, t) => all + t.read_bytes + t.write_bytes, 0)", inputs)
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


def test_challenge(live):
    demo = live(NAME)
    assert demo.guess("32").startswith("✗") and "7.973" in demo.guess("32")
    assert demo.guess("1").startswith("✓")
