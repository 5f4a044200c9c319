"""The demos' static figures: well-formed, bare of styles and scripts, every number from snippets and right."""

import ast
import importlib
import json
import re
import xml.etree.ElementTree as etree
from pathlib import Path

import pytest

from courseware.dialect.demo import comma, environment, si, significant
from courseware.evidence import load
from courseware.project import Project
from snippets.block_grid import grid, wasted
from snippets.io_model import elements, fused_forward, naive_forward
from snippets.memory_model import memory_bytes
from snippets.online_softmax import blockwise
from snippets.roofline import GPUS, attainable, decode, prefill, ridge_point
from snippets.softmax_faults import broken
from snippets.tiling import ORDERS, traffic

ROOT = Path(__file__).resolve().parents[2]
DEMOS = Project(ROOT).demos
NAMES = ("attention-io", "online-softmax", "roofline", "tiling", "triton-block")


def data_of(name, **changed):
    """What the runner would keep for the demo, with some arguments changed; through JSON, as in the ledger."""
    demo = DEMOS[name]
    function = getattr(importlib.import_module(demo.module), demo.call.rpartition(".")[2])
    return json.loads(json.dumps(function(**demo.arguments | changed), allow_nan=False))


def figure(name, **changed):
    """The figure as a tree; a fault in its nesting is an error here."""
    data = data_of(name, **changed)
    template = environment(str(ROOT / "docs/assets/demos")).get_template(f"{name}.html.j2")
    return etree.fromstring(f"<figure>{template.render(data, data=data, record=record)}</figure>")


def record(spec):
    """As courseware.dialect.demo.recorded finds it, from the files."""
    name, _, key = spec.partition("#")
    file = load(ROOT / "docs/evidence")[name]
    return file["figures"][key] | {"device": file["environment"]["device"]}


def text(element):
    """All words of an element, spaces as they stand."""
    return "".join(element.itertext())


def values(element):
    """The exact numbers of its <data> elements, in order."""
    return [int(one.get("value")) for one in element.iter("data")]


@pytest.mark.parametrize("name", NAMES)
def test_first_line_names_the_data(name):
    assert DEMOS[name].call.startswith("snippets.") and DEMOS[name].arguments


@pytest.mark.parametrize("name", NAMES)
def test_bare_of_styles_scripts_and_handlers(name):
    for element in figure(name).iter():
        assert element.tag not in ("script", "style", "foreignObject")
        assert not [key for key in element.attrib if key == "style" or key.startswith("on")], element.attrib


@pytest.mark.parametrize("name", NAMES)
def test_complete_for_every_reader(name):
    tree = figure(name)
    ids = [one.get("id") for one in tree.iter() if one.get("id")]
    assert len(ids) == len(set(ids))
    for svg in tree.iter("svg"):
        if svg.get("aria-hidden") != "true":
            assert svg.get("role") == "img"
            assert svg.get("aria-label") or [text(svg.find(one)) for one in ("title", "desc")]
            assert svg.get("aria-label") or set(svg.get("aria-labelledby").split()) <= set(ids)
    drawing = tree.find(".//svg[@role='img'][@viewBox]")
    assert drawing is not None
    for scroller in tree.iterfind(".//div[@class='table-scroll']"):
        assert scroller.get("tabindex") == "0" and scroller.get("role") == "region" and scroller.get("aria-label")
        assert scroller.find("table/caption") is not None
    assert tree.find("details[@class='challenge']/summary") is not None
    assert tree[-1].tag == "figcaption" and DEMOS[name].call in text(tree[-1])


@pytest.mark.parametrize("name", NAMES)
def test_no_number_is_typed(name):
    source = DEMOS[name].template.read_text("utf-8")
    words = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", "", source, flags=re.S)
    words = re.sub(r"<[^>]*>|\b(fp|int)(16|32|64)\b", "", words)
    assert not re.findall(r"\d\d+|\d\.\d", words)


DRAWN = [
    *((name, {}) for name in NAMES),
    ("tiling", {"S": 1000, "B_r": 96, "B_c": 80, "step": 100}),
    ("tiling", {"S": 1024, "causal": True, "step": 61}),
    ("tiling", {"S": 131072, "step": 900001}),
    ("tiling", {"S": 16, "d": 8, "B_r": 4, "B_c": 4, "step": 46}),
    ("attention-io", {"d": 256, "S": 8192, "heads": 1}),
    ("online-softmax", {"x": [3.5, 1, 2, 0.25, 7], "v": [1, 2, 3, 4, 5]}),
    ("online-softmax", {"x": list(range(24)), "v": list(range(24)), "block_size": 5}),
    ("roofline", {"S": 131072, "d": 64}),
    ("roofline", {"S": 128, "d": 256, "gpu": "A100 40 GB SXM"}),
    ("roofline", {"dtype_bytes": 4, "B_r": 1, "gpu": "H100 SXM"}),
    ("triton-block", {"n": 1024}),
    ("triton-block", {"n": 1}),
]


@pytest.mark.parametrize("name, changed", DRAWN)
def test_what_is_drawn_has_a_size_and_lies_inside(name, changed):
    for svg in figure(name, **changed).iter("svg"):
        box = [float(one) for one in svg.get("viewBox", "0 0 100 60").split()]
        for part in svg.iter("rect"):
            x, y, w, h = (float(part.get(key, "0").rstrip("%")) for key in ("x", "y", "width", "height"))
            assert min(x, y, w, h) >= -0.01, part.attrib
            assert x + w <= box[2] + 0.01 and y + h <= box[3] + 0.01, part.attrib
        for part in svg.iter("path"):
            assert "nan" not in part.get("d") and "inf" not in part.get("d")


def test_tiling_table_is_the_count_of_both_orders():
    sizes = {key: DEMOS["tiling"].arguments[key] for key in ("S", "d", "B_r", "B_c", "dtype_bytes")}
    S = sizes.pop("S")
    moves = {order: traffic(S, S, order=order, **sizes) for order in ORDERS}
    rows = [
        [n for order in ORDERS for n in (moves[order][name].read_bytes, moves[order][name].write_bytes)]
        for name in "QKVO"
    ]
    read, written = ({o: sum(getattr(m, key) for m in moves[o].values()) for o in ORDERS}
                     for key in ("read_bytes", "write_bytes"))
    rows.append([n for order in ORDERS for n in (read[order], written[order])])
    rows.append([read[order] + written[order] for order in ORDERS])
    table = figure("tiling").find(".//table")
    assert [values(row) for row in table.iter("tr")][2:] == rows


def test_tiling_challenge_is_what_other_tiles_move():
    given = DEMOS["tiling"].arguments

    def total(**changed):
        sizes = {key: given[key] for key in ("d", "B_r", "B_c", "dtype_bytes")} | changed
        moves = traffic(given["S"], given["S"], order="fa2", **sizes)
        return sum(one.read_bytes + one.write_bytes for one in moves.values())

    answer = figure("tiling").find("details")
    assert values(answer) == [total(), total(B_c=2 * given["B_c"]), total(B_r=2 * given["B_r"])]
    assert total() == total(B_c=2 * given["B_c"])


def test_tiling_shows_the_pseudo_code_of_the_page():
    """FA2's loops, then FA1's, without their comments; four spaces are one step of indentation."""
    blocks = re.findall(r"```pseudo\n(.*?)```", (ROOT / "docs/tiling.md").read_text("utf-8"), re.S)
    shown = [
        ["    " * int(line.get("data-indent")) + text(line) for line in code]
        for code in figure("tiling").iterfind(".//div[@class='tiling__code']/ol")
    ]
    assert shown == [[line.partition("  #")[0] for line in block.splitlines()] for block in blocks]


def test_tiling_draws_the_order_that_it_was_made_for():
    data = data_of("tiling")
    assert (data["order"], data["phase"]) == ("fa2", "compute")
    assert data["i"] > 0 and data["j"] > 0 and "S" in [slot["name"] for slot in data["slots"]]


def test_attention_io_table_has_eleven_lengths():
    given, data = DEMOS["attention-io"].arguments, data_of("attention-io")
    unit = given["dtype_bytes"] * given["heads"]
    rows = list(figure("attention-io").find(".//table/tbody"))
    assert len(rows) == 11
    for row in rows:
        S = int(row.get("data-s"))
        naive, fused = elements(*naive_forward(S, given["d"])), elements(fused_forward(S, given["d"], data["B_c"]))
        memory = [memory_bytes(S, given["d"], form, given["dtype_bytes"], given["heads"]) for form in ("naive", "fused")]
        assert values(row) == [naive * unit, fused * unit, *memory]
        cells = [text(cell) for cell in row]
        assert cells[3] == significant(naive / fused)
        assert [("✓" in cell, "✗" in cell) for cell in cells[-2:]] == [
            (one <= given["limit_bytes"], one > given["limit_bytes"]) for one in memory
        ]


def test_attention_io_challenge_compares_two_lengths():
    data = data_of("attention-io")
    ratio = {at["S"]: at["ratio"] for at in data["curve"]}
    answer = text(figure("attention-io").find("details"))
    assert all(significant(one) in answer for one in (ratio[4096], ratio[131072], ratio[131072] / ratio[4096]))
    assert comma(4096) in answer and comma(131072) in answer


def test_attention_io_passes_add_up():
    tree, data = figure("attention-io"), data_of("attention-io")
    pipelines = [values(one) for one in tree.iter("div") if one.get("class", "").startswith("io-pipeline ")]
    assert [total for total, *_ in pipelines] == [data["naive"]["total_bytes"], data["fused"]["total_bytes"]]
    assert all(total == sum(parts) for total, *parts in pipelines)
    assert si(data["naive"]["total_bytes"]) in text(tree)


def test_online_softmax_table_and_sums():
    given, tree = DEMOS["online-softmax"].arguments, figure("online-softmax")
    steps = blockwise(given["x"], given["v"], given["block_size"])
    rows = list(tree.find(".//table/tbody"))
    for row, step in zip(rows, steps, strict=True):
        cells = [text(cell).removesuffix(" ✓") for cell in row]
        numbers = (step.correction, step.l, step.o, *2 * [step.o / step.l])
        assert cells[3:] == [significant(float(one)) for one in numbers]
    assert significant(float(steps[-1].o / steps[-1].l)) in text(tree.find(".//dl"))


def test_online_softmax_shows_the_pseudo_code_of_the_page():
    """All of it, without its comments."""
    page = (ROOT / "docs/online-softmax.md").read_text("utf-8")
    lines = [line.partition("  #")[0] for line in re.search(r"```pseudo\n(.*?)```", page, re.S)[1].splitlines()]
    shown = figure("online-softmax").find(".//ol[@class='softmax__code']")
    assert [text(one.find("code")) for one in shown] == lines


def test_online_softmax_challenge_is_what_the_fault_computes():
    given = DEMOS["online-softmax"].arguments
    wrong = broken(given["x"], given["v"], given["block_size"], "no_correction")[-1]
    answer = text(figure("online-softmax").find("details"))
    assert significant(float(wrong.o / wrong.l)) in answer
    turned = given["x"][::-1], given["v"][::-1], given["block_size"]
    right, unseen = blockwise(*turned)[-1], broken(*turned, "no_correction")[-1]
    assert float(unseen.o / unseen.l) == float(right.o / right.l)
    assert all(step.correction == 1 for step in blockwise(*turned)[1:])


def test_triton_block_shows_at_most_nine_offsets_and_the_waste():
    given, tree = DEMOS["triton-block"].arguments, figure("triton-block")
    data = data_of("triton-block")
    rows = [row for row in tree.find(".//table[@class='demo-table block__offsets']/tbody") if row.get("data-live")]
    assert 0 < len(rows) <= 9
    assert [row.get("data-live") == "true" for row in rows] == [one["live"] for one in data["offsets"]]
    assert [text(row[1]) for row in rows] == [comma(one["offset"]) for one in data["offsets"]]
    big = given["block_size"] ** 2
    answer = text(tree.find("details"))
    lanes = grid(given["n"], big) * big
    assert f"{significant(100 * wasted(given['n'], big) / lanes)}%" in answer and comma(lanes) in answer


def test_roofline_tables_are_the_model_on_every_gpu_and_length():
    given, tree = DEMOS["roofline"].arguments, figure("roofline")
    sizes = {key: given[key] for key in ("d", "dtype_bytes", "B_r")}

    def points(S):
        ends = [decode(S, given["d"], form, given["dtype_bytes"]) for form in ("naive", "fused")]
        return [*prefill(S, **sizes).values(), *ends]

    gpus, lengths = (list(tree.find(f".//tbody[@data-part='{part}']")) for part in ("gpus", "curve"))
    assert [row.get("data-gpu") for row in gpus] == list(GPUS) and len(lengths) == 11
    for row, gpu in zip(gpus, GPUS.values(), strict=True):
        shares = [
            f"{significant(100 * attainable(x, gpu) / gpu.peak, digits)}%"
            for x, digits in zip(points(given["S"]), (3, 3, 3, 2, 2), strict=True)
        ]
        cells = [text(cell) for cell in row]
        assert cells[2:] == [
            significant(gpu.bandwidth / 1e12), significant(ridge_point(gpu)),
            shares[0], f"{shares[1]} 到 {shares[2]}", *shares[3:],
        ]
        assert cells[1] == f"{gpu.peak / 1e12:.0f}"
    for row in lengths:
        naive, fused, least, *one = points(int(row.get("data-s")))
        written = [significant(naive), significant(fused), comma(least), *(significant(x, 5) for x in one)]
        assert [text(cell) for cell in row][1:] == written


def test_roofline_points_lie_on_the_line_and_the_span_bends_at_the_ridge():
    """Read back from the drawing: equal slopes on the slope, equal heights on the roof."""
    tree, data = figure("roofline"), data_of("roofline")

    def corners(which):
        path = tree.find(f".//svg[@role='img']//path{which}").get("d")
        return [tuple(map(float, one)) for one in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)]

    low, top = corners(f"[@data-gpu='{data['gpu']}']")
    at = {key: corners(f"[@data-point='{key}']") for key in ("naive", "fused", "least", "decode_naive", "decode_fused")}
    slope = (top[1] - low[1]) / (top[0] - low[0])
    first, bend, last = at["fused"]
    assert bend == top and last == at["least"][0] and last[1] == top[1] and last[0] > top[0]
    for key in ("naive", "fused", "decode_naive", "decode_fused"):
        x, y = at[key][0]
        assert x < top[0] and abs(y - low[1] - slope * (x - low[0])) < 0.1, key
    assert at["naive"][0][0] < first[0]


def test_roofline_challenge_compares_the_longest_naive_point_with_the_ridge():
    given = DEMOS["roofline"].arguments
    longest, edge = prefill(131072, given["d"])["naive"], ridge_point(GPUS[given["gpu"]])
    answer = text(figure("roofline").find("details"))
    assert longest < edge and "过不了" in answer and significant(longest) in answer and significant(edge) in answer
    assert "过得了：" in text(figure("roofline", d=512).find("details"))


def test_triton_block_shows_the_kernel_of_the_page():
    source = (ROOT / "kernels/vector_add.py").read_text("utf-8")
    kernel = next(one for one in ast.parse(source).body if getattr(one, "name", "") == "add_kernel")
    lines = [ast.get_source_segment(source, statement) for statement in kernel.body]  # comments left out
    shown = figure("triton-block").find(".//ol[@class='block__kernel']")
    assert [text(one.find("code")) for one in shown] == lines
