"""Pictures: an image that is a template becomes a figure; what each one draws is what its data says."""

import importlib
import json
import logging
import re
import xml.etree.ElementTree as etree
from math import log10
from pathlib import Path

import pytest

from courseware.dialect.demo import environment, si, significant
from courseware.project import Project
from snippets.block_grid import wasted
from snippets.online_softmax import blockwise

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/assets/pictures"
CSS = (ROOT / "docs/assets/css/pictures.css").read_text("utf-8")
PICTURES = {name.removesuffix(".svg"): demo for name, demo in Project(ROOT).demos.items() if name.endswith(".svg")}
NAMES = ("loop-orders", "memory-hierarchy", "naive-fused", "program-grid", "state-merge")
DATA = {"demos": {"fig.svg": {"status": "ran", "data": {"n": 3}, "error": None}}}
SVG = '{# data #}\n<svg viewBox="0 0 1 1"><text>{{ n }} *个*</text></svg>\n'


# --- the dialect -----------------------------------------------------------------------------------------------------


@pytest.fixture
def shown(render):
    """`shown(text, template)`: the page's soup, with one picture in the folder."""
    folder = render.folder / "pictures"
    folder.mkdir()

    def show(text, template=SVG, ledger=DATA):
        render.ledger(**ledger)
        (folder / "fig.svg.j2").write_text(template, "utf-8")
        return render.soup(text, pictures=str(folder))

    return show


def test_an_image_becomes_a_figure(shown):
    soup = shown("前文\n\n![三个 *x*](../assets/pictures/fig.svg.j2)\n\n后文")
    figure = soup.select_one("figure.picture")
    assert figure.select_one("div > svg > text").text == "3 *个*"
    assert figure.select_one("figcaption").text == "三个 *x*"
    assert [one.text for one in soup.find_all("p")] == ["前文", "后文"] and not soup.find("img")


def test_inside_containers(shown):
    assert shown(":::note\n![三个](assets/pictures/fig.svg.j2)\n:::").select_one(".note > figure.picture svg")


@pytest.mark.parametrize("text", ["![甲](a.svg)", "字 ![甲](fig.svg.j2)", "`![甲](fig.svg.j2)`"])
def test_other_images_stay(shown, text):
    assert not shown(text).find("figure")


@pytest.mark.parametrize(
    ("text", "template", "ledger", "says"),
    [
        ("![甲](fog.svg.j2)", SVG, DATA, "没有名为 fog.svg.j2 的图；现有：fig.svg.j2"),
        ("![甲](fig.svg.j2)", SVG, {}, "fig.svg 的数据还没有计算（未执行 / NOT EXECUTED）"),
        ("![甲](fig.svg.j2)", "a\n{{ m }}", DATA, "fig.svg.j2:2: 'm' is undefined；请改好模板"),
    ],
)
def test_faults_are_shown_and_logged(shown, caplog, text, template, ledger, says):
    with caplog.at_level(logging.WARNING):
        soup = shown(f"{text}\n\n后文", template, ledger)
    assert says in soup.select_one(".course-problems[role=alert]").text and says in caplog.text
    assert "后文" in soup.text and not soup.find("figure")


# --- the drawings ----------------------------------------------------------------------------------------------------


def data_of(name):
    demo = PICTURES[name]
    function = getattr(importlib.import_module(demo.module), demo.call.rpartition(".")[2])
    return json.loads(json.dumps(function(**demo.arguments), allow_nan=False))


def source(name):
    data = data_of(name)
    return environment(str(FOLDER)).get_template(f"{name}.svg.j2").render(data, data=data)


def drawn(name):
    return etree.fromstring(f"<figure>{source(name)}</figure>")


def words(element):
    return "".join(element.itertext())


def numbers(path):
    return [float(one) for one in re.findall(r"-?[\d.]+", path)]


def test_every_picture_is_known_and_shown():
    assert tuple(PICTURES) == NAMES
    pages = (page for page in Project(ROOT).pages if "guide" not in page.path)
    assert {Path(target).name for page in pages for _, target in page.pictures} == {f"{name}.svg.j2" for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_described_for_those_who_do_not_see_it(name):
    tree = drawn(name)
    ids = [one.get("id") for one in tree.iter() if one.get("id")]
    assert len(ids) == len(set(ids)) and all(one.startswith(f"{name}-") for one in ids)
    for svg in tree:
        assert svg.tag == "svg" and svg.get("role") == "img"
        title, desc = svg[0], svg[1]
        assert (title.tag, desc.tag) == ("title", "desc")
        assert svg.get("aria-labelledby").split() == [title.get("id"), desc.get("id")]
        assert len(words(title)) > 5 and len(words(desc)) > 40
    assert set(re.findall(r"url\(#([^)]+)\)", source(name))) <= set(ids)


@pytest.mark.parametrize("name", NAMES)
def test_small_and_drawn_with_the_styles_that_exist(name):
    assert len(source(name).encode()) <= 6 * 1024
    used = {word for one in drawn(name).iter() for word in one.get("class", "").split()}
    assert used <= set(re.findall(r"\.([a-z]+)", CSS))


@pytest.mark.parametrize("name", NAMES)
def test_words_are_legible_and_inside(name):
    """320 units are at least 320 px on a phone of 360, so 12.5 units are more than 12 px; the length of words is a guess."""
    assert re.search(r"\.picture text \{[^}]*font: 12\.5px", CSS)
    for svg in drawn(name):
        _, _, width, height = numbers(svg.get("viewBox"))
        assert width == 320
        groups = (group for group in svg.iter("g") if "mid" in group.get("class", ""))
        middle = {id(text) for group in groups for text in group.iter("text")}
        for text in svg.iter("text"):
            long = sum(6.6 if one.isascii() else 12.5 for one in words(text))
            at, kinds = float(text.get("x")), text.get("class", "").split()
            start = at - long / 2 if "mid" in kinds or id(text) in middle else at - long if "end" in kinds else at
            assert start >= -1 and start + long <= width + 4, (words(text), start, long)
            assert 10 < float(text.get("y")) <= height


def test_memory_axes_have_decades_of_one_size():
    data, svg = data_of("memory-hierarchy"), drawn("memory-hierarchy")[0]
    (x0, y0), (x1, y1) = ([float(one.get(key)) for key in ("cx", "cy")] for one in svg.findall("circle")[::2])
    sram, hbm = data["sram"], data["hbm"]
    right = (x1 - x0) / log10(hbm["bytes"] / sram["bytes"])
    down = (y1 - y0) / log10(sram["bandwidth"] / hbm["bandwidth"])
    assert right == pytest.approx(down, rel=0.01) and right == pytest.approx(65, rel=0.01)
    assert f"容量 {significant(data['smaller'])} 倍" in words(svg) and si(hbm["bytes"]) == "80.00 GB"


def test_arrows_are_as_wide_as_what_they_carry():
    data = data_of("naive-fused")
    three, one = drawn("naive-fused")

    def widths(svg):
        """Of the shaft of each arrow, from its first corner to the vertical line of the other side."""
        paths = [p.get("d") for p in svg.iter("path") if p.get("d").endswith("Z")]
        xs = [(numbers(d)[0], [float(x) for x in re.findall(r"L([\d.]+)", d)][0]) for d in paths]
        return sorted(round(2 * (tip - left), 1) for left, tip in xs)

    def expected(steps):
        largest = data["naive"]["steps"][0]["writes"]["S"]
        moved = [n for step in steps for side in (step["reads"], step["writes"]) for n in side.values()]
        return sorted(30 * n / largest for n in moved)

    assert widths(three) == pytest.approx(expected(data["naive"]["steps"]), abs=0.11)
    assert widths(one) == pytest.approx(expected(data["fused"]["steps"]), abs=0.11)
    assert si(data["naive"]["total_bytes"]) in words(three) and si(data["fused"]["total_bytes"]) in words(one)


def test_loop_orders_say_how_often_each_tile_moves():
    data, (fa1, fa2) = data_of("loop-orders"), drawn("loop-orders")
    T_r, T_c = data["T_r"], data["T_c"]
    says = (f"Q：每块读 {T_c} 次", "K、V：每块读 1 次", f"O：每块读 {T_c} 次、写 {T_c} 次")
    assert all(one in words(fa1) for one in says)
    assert all(one in words(fa2) for one in ("Q：每块读 1 次", f"K、V：每块读 {T_r} 次", "O：每块写 1 次"))
    for svg in (fa1, fa2):
        (done,) = [path.get("d") for path in svg.iter("path") if path.get("fill")]
        (now,) = [rect for rect in svg.iter("rect") if "thick" in rect.get("class")]
        assert done.count("z") == data["step"] and f"M{now.get('x')} {now.get('y')}h" in done


def test_merged_bar_is_the_sum_of_both_parts():
    bars = [float(rect.get("height")) for rect in drawn("state-merge")[0].iter("rect")]
    a, b, kept, shrunk, ghost = bars
    last = blockwise([1, 2, 3, 4], [10, 20, 30, 40], 2)[-1]
    assert ghost == a and kept == b
    assert (kept + shrunk) / b == pytest.approx(float(last.l) / data_of("state-merge")["b"]["l"], abs=0.01)
    assert significant(float(last.o / last.l)) in words(drawn("state-merge")[0])


def test_masked_lanes_have_no_arrows():
    given, svg = PICTURES["program-grid"].arguments, drawn("program-grid")[0]
    marks = [words(text) for text in svg.iter("text") if words(text) in "✓✗"]
    assert (marks.count("✓"), marks.count("✗")) == (given["n"], wasted(given["n"], given["block_size"]))
    arrows = [path.get("d").count("M") for path in svg.iter("path") if "flow" in path.get("class", "")]
    assert arrows == [given["n"]] * 2
