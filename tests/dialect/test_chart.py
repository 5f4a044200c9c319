"""Charts: what is drawn is what is recorded, to scale; words, table and sources say the same."""

import logging
import re
from pathlib import Path

import pytest

from courseware.dialect.chart import MOST, SHAPES, WIDTH, _labels, ticks_linear, ticks_logarithmic
from courseware.evidence import load

ROOT = Path(__file__).resolve().parents[2]
CSS = (ROOT / "docs/assets/css/charts.css").read_text("utf-8")
MEASURED = {"eager": (2.0, 8.0, 4.0), "ours": (1.0, 3.0, 2.0)}
AMOUNTS = {f"{name}_ms_{S}": ms for name, row in MEASURED.items() for S, ms in zip((512, 1024, 4096), row, strict=True)}
AMOUNTS |= {"ours_ms_512_low": 0.5, "ours_ms_512_high": 1.5, "floor": 0.25}
FIGURES = {key: {"value": ms, "unit": "ms"} for key, ms in AMOUNTS.items()}
ENVIRONMENT = {"python": "3.12.3", "torch": "2.11.0", "device": "NVIDIA H200", "date": "2026-11-29"}
FILE = {"environment": ENVIRONMENT, "command": "make record", "date": "2026-11-29", "figures": FIGURES}
TEXT = """:::chart 时间 $d$ < 2 > 1 与 **快**
横轴: 长度 S = 512, 1024, 4096
纵轴: 时间 ms
曲线: 本章 = a#ours_ms_{S}
对照：朴素 <i> = a#eager_ms_{S}
水平线: 下限 = b.json#floor

看 *哪里*：

- 拉开。
:::
"""


@pytest.fixture
def shown(render):
    """`shown(text, **evidence)`: the page's soup; file `b` was recorded together with `a`."""

    def show(text=TEXT, **evidence):
        render.ledger(evidence={"a": FILE, "b": FILE} | evidence)
        return render.soup(text)

    return show


def at(path: str) -> list[tuple[float, float]]:
    """Corners of a path of absolute commands."""
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)]


def corners(soup, style: str) -> list[tuple[float, float]]:
    return at(soup.select_one(f".chart__drawing > svg .{style} .chart__line")["d"])


def test_parts(shown):
    soup = shown()
    figure = soup.select_one("figure.chart")
    assert [part.name for part in figure.find_all(recursive=False)] == ["figcaption", "div", "div", "details", "p"]
    assert figure.figcaption.find("math") and figure.figcaption.find("strong").text == "快"
    assert [item.text for item in figure.select(".chart__legend li")] == ["本章", "朴素 <i>", "下限"]
    assert (figure.select_one(".chart__y").text, figure.select_one(".chart__x").text) == ("时间（ms）", "长度 S")
    assert figure.select_one(".chart__prose em").text == "哪里"
    assert figure.select_one(".chart__prose li").text.strip() == "拉开。"
    assert "横轴" not in figure.select_one(".chart__prose").text


def test_said_in_words(shown):
    svg = shown().select_one("figure.chart svg[role=img]")
    assert svg["aria-labelledby"].split() == [svg.title["id"], svg.desc["id"]]
    assert svg.title.text == "时间 d < 2 > 1 与 快"
    assert svg.desc.text == (
        "横轴 长度 S，纵轴 时间（ms），线性刻度。本章：512 处 1 ms，1024 处 3 ms（最大），4096 处 2 ms。"
        "朴素 <i>：512 处 2 ms，1024 处 8 ms（最大），4096 处 4 ms。下限：处处 0.25 ms。"
    )


def test_table_and_sources(shown):
    soup = shown()
    rows = [[cell.get_text(" ") for cell in row(["th", "td"])] for row in soup.select("figure.chart table tr")]
    assert rows == [
        ["长度 S", "本章", "朴素 <i>", "下限"],
        ["512", "1 0.5–1.5", "2", "0.25"],
        ["1024", "3", "8", "0.25"],
        ["4096", "2", "4", "0.25"],
    ]
    links = [link["href"] for link in soup.select("tbody tr:first-child a")]
    assert links == [f"/verification.md#evidence-{name}" for name in "aab"]
    assert len(soup.select('tbody th[scope="row"]')) == 3
    (source,) = soup.select(".chart__source")
    about = "Python 3.12.3 · torch 2.11.0 · NVIDIA H200 · 2026-11-29"
    assert source.text == f"{about} · make record · a 的全部记录 · make record · b 的全部记录"
    assert len(shown(b=FILE | {"environment": ENVIRONMENT | {"device": "A100"}}).select(".chart__source")) == 2


def test_linear_from_zero(shown):
    soup = shown()
    ticks = {float(text.text): float(text["y"]) for text in soup.select(".chart__tick")}
    unit = (ticks[0] - ticks[8]) / 8
    for style, measured in (("curve-1", MEASURED["ours"]), ("baseline-1", MEASURED["eager"])):
        assert [y for _, y in corners(soup, style)] == pytest.approx([ticks[0] - unit * ms for ms in measured], abs=0.11)
    level = soup.select_one(".chart__drawing > svg > .level-1")["d"]
    assert at(level)[0][1] == pytest.approx(ticks[0] - unit * 0.25, abs=0.11) and level.endswith(f"H{WIDTH}")
    whisker = re.fullmatch(r"M[\d.]+ ([\d.]+)V([\d.]+)", soup.select_one(".curve-1 .chart__spread")["d"])
    assert [*map(float, whisker.groups())] == pytest.approx([ticks[0] - unit * ms for ms in (0.5, 1.5)], abs=0.11)
    assert len(soup.select(".chart__drawing > svg .chart__marks path")) == 6


def test_logarithmic(shown):
    soup = shown(TEXT.replace("纵轴", "刻度：对数\n纵轴"))
    (_, one), (_, eight), (_, four) = corners(soup, "baseline-1")  # 2, 8 and 4 ms
    assert one - four == pytest.approx(four - eight, abs=0.11)
    assert "对数刻度" in soup.desc.text


def test_powers_of_two_stand_by_their_logarithm(shown):
    (a, _), (b, _), (c, _) = corners(shown(), "curve-1")
    assert c - b == pytest.approx(2 * (b - a), abs=0.2)


@pytest.mark.parametrize("values", ["512, 1024, 3000", "4x512, 4x1024, 2x4096", "4096, 512, 1024"])
def test_other_values_are_categories(shown, values):
    names = values.split(", ")
    figures = {f"k_{name}": {"value": 1.0, "unit": "ms"} for name in names}
    text = TEXT.replace("512, 1024, 4096", values).replace("a#ours_ms", "c#k").replace("a#eager_ms", "c#k")
    soup = shown(text, c=FILE | {"figures": figures})
    (a, _), (b, _), (c, _) = corners(soup, "curve-1")
    assert c - b == pytest.approx(b - a, abs=0.2)
    assert [row.text for row in soup.select("tbody th")] == [name.replace("x", "×") for name in names]
    assert "".join(text.text for text in soup.select(".chart__value")) == "".join(names).replace("x", "×")


def test_a_point_that_is_missing_leaves_a_gap(shown):
    soup = shown(TEXT.replace("ours_ms_{S}", "ours_ms_{S}，缺 1024"))
    assert len(soup.select(".chart__drawing > svg .curve-1 .chart__marks path")) == 2
    assert soup.select_one(".chart__drawing > svg .curve-1 .chart__line")["d"].count("M") == 2
    assert [row.td.get_text(" ") for row in soup.select("tbody tr")] == ["1 0.5–1.5", "缺", "2"]


def test_stale_records_are_marked(shown):
    soup = shown(a=FILE | {"stale": True})
    names = [item.text for item in soup.select(".chart__legend li")]
    assert names == ["本章（⚠ 记录已过期）", "朴素 <i>（⚠ 记录已过期）", "下限"]
    assert "本章（⚠ 记录已过期）：" in soup.desc.text
    assert [p.text.startswith("⚠ 记录已过期") for p in soup.select(".chart__source")] == [True, False]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("ours_ms", "our_ms", "记录 a#our_ms_512 不在"),
        ("a#ours", "z#ours", "记录 z#ours_ms_512 不在"),
        ("ours_ms_{S}", "ours_ms_{S} 缺 512, 1024, 4096", "本章 一个点也没有"),
        ("纵轴: 时间 ms\n", "", "chart 要有标题、横轴、纵轴"),
        ("a#ours_ms_{S}", "ours", "chart 要有标题、横轴、纵轴"),
        ("曲线: 本章 = a#ours_ms_{S}\n", "".join(f"曲线: {n} = a#ours_ms_{{S}}\n" for n in range(7)), "“曲线”多于 6 条"),
    ],
)
def test_a_fault_is_said_in_place(shown, caplog, old, new, fault):
    with caplog.at_level(logging.WARNING):
        soup = shown(TEXT.replace(old, new) + "\n" + TEXT)
    first, second = soup.select("figure.chart")
    assert second.svg and not second.select(".course-problems")
    assert fault in first.select_one(".course-problems").text and not first.find(["svg", "table"])
    assert fault in caplog.messages[0]


def test_static_and_found_once_in_a_search(shown):
    soup = shown(TEXT + "\n" + TEXT)
    assert not soup.find(["script", "style"]) and not soup.select("[style], [onclick]")
    for part in soup.select(".chart__drawing > *, figure.chart caption, .chart__source"):
        assert part.has_attr("data-search-exclude")
    ids = [part["id"] for part in soup.select("[id]")]
    assert len(ids) == 4 == len(set(ids))
    assert not soup.select("figure.chart .headerlink")


def test_in_a_list_and_in_other_containers(shown):
    inner = TEXT.replace(":::", "::::", 1)[: -len(":::\n")] + "::::\n"
    listed = "1. 项\n\n" + "".join(f"   {line}\n" for line in TEXT.splitlines())
    assert shown(listed).select_one("ol > li > figure.chart svg")
    assert shown(":::note\n" + inner + ":::\n").select_one(".note > figure.chart svg")


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (1, 8, [0, 2, 4, 6, 8]),
        (90, 650, [0, 200, 400, 600, 800]),
        (-1, 1, [-1, -0.5, 0, 0.5, 1]),
        (0, 0, [0, 0.2]),
        (0.02, 0.11, [0, 0.025, 0.05, 0.075, 0.1, 0.125]),
    ],
)
def test_linear_ticks(low, high, ticks):
    assert ticks_linear(low, high) == pytest.approx(ticks)


@pytest.mark.parametrize("figure", [float("nan"), float("inf"), 1.7e308, 10**400, 5e-324, "FLASH"])
def test_a_figure_that_no_scale_holds_is_said_in_place(shown, figure):
    soup = shown(a=FILE | {"figures": FIGURES | {"ours_ms_512": {"value": figure, "unit": "ms"}}})
    assert "a#ours_ms_512" in soup.select_one("figure .course-problems").text and not soup.select("svg")


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.13, 16, [0.1, 0.2, 0.5, 1, 2, 5, 10, 20]),
        (1, 10, [1, 2, 5, 10]),
        (3, 3, [2, 5]),
        (10, 10, [10, 20]),
        (0.5, 30_000, [0.1, 1, 10, 100, 1000, 10_000, 100_000]),
    ],
)
def test_logarithmic_ticks(low, high, ticks):
    assert ticks_logarithmic(low, high) == pytest.approx(ticks)


def test_labels_that_do_not_fit_are_broken_or_staggered():
    shapes = ["4096x1024", "4096x4096", "2048x131072"]
    assert [(row, text) for _, row, text in _labels(shapes, [40, 100, 160])][:2] == [(0, "4096×"), (1, "1024")]
    assert [row for _, row, _ in _labels(["65536", "131072", "262144"], [40, 60, 80])] == [0, 1, 2]
    assert {row for _, row, _ in _labels(["512", "1024", "2048"], [40, 100, 160])} == {0}


def test_curves_differ_in_colour_dash_and_mark():
    """As many as a chart may have; the first one is solid."""
    curves = [f"curve-{n}" for n in range(1, MOST["曲线"] + 1)]
    assert len(set(SHAPES.values())) == len(SHAPES) == MOST["曲线"] + MOST["对照"]
    assert len({re.search(rf"\.{curve} {{ --chart-ink: (.+?);", CSS)[1] for curve in curves}) == len(curves)
    assert len({re.search(rf"\.{curve} \S+ {{ stroke-dasharray: (.+?);", CSS)[1] for curve in curves[1:]}) == len(curves) - 1


def test_the_chapter_draws_what_is_recorded(render):
    """Every chart of the pages, from the evidence as it stands."""
    render.ledger(evidence=load(ROOT / "docs/evidence"))
    count = 0
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for text in re.findall(r"(?<!`\n)^:::chart .*?^:::$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            soup = render.soup(text)
            assert soup.select_one("svg[role=img]") and not soup.select(".course-problems"), f"{page}: {text}"
            count += 1
    assert count >= 5
