"""`:::demo`: the template's figure, filters, and every way it can fail."""

import logging

import pytest

from courseware.dialect.demo import comma, demo_names, kib, si, significant

DATA = {"demos": {"tiling": {"status": "ran", "data": {"n": 16777216, "names": ["<Q>", "K"]}, "error": None}}}


def test_figure(render):
    render.ledger(**DATA)
    template = '{# data #}\n<svg viewBox="0 0 1 1">{% for x in names %}<text>{{ x }}</text>{% endfor %}</svg>\n\n<p>{{ n|si }} *a* {{ data.n }}</p>'
    (render.demos / "tiling.html.j2").write_text(template, "utf-8")
    soup = render.soup(":::demo tiling 分块 $B_c$ `x`\n看**这里**。\n:::")
    demo = soup.select_one("div.demo")
    assert [child.name for child in demo.find_all(recursive=False)] == ["p", "p", "course-demo"]
    assert demo.select_one("p strong").text == "这里"
    figure = demo.select_one('course-demo[name="tiling"] > figure')
    assert figure["aria-label"] == "分块 B_c x"
    assert [t.text for t in figure.select("svg > text")] == ["<Q>", "K"]
    assert figure.select_one("p").text == "16.78 MB *a* 16777216"


@pytest.mark.parametrize(
    ("template", "ledger", "says"),
    [
        (None, DATA, "没有名为 tiling 的演示；现有：other"),
        ("ok", {}, "还没有计算（未执行 / NOT EXECUTED）"),
        ("ok", {"demos": {"tiling": {"status": "failed", "data": {}, "error": "ZeroDivisionError"}}}, "没有算出来：ZeroDivisionError"),
        ("a\n{{ missing }}", DATA, "tiling.html.j2:2: 'missing' is undefined"),
        ("a\nb\n{% if %}", DATA, "tiling.html.j2:3:"),
    ],
)
def test_faults_are_shown_and_logged(render, caplog, template, ledger, says):
    render.ledger(**ledger)
    (render.demos / "other.html.j2").write_text("x", "utf-8")
    if template is not None:
        (render.demos / "tiling.html.j2").write_text(template, "utf-8")
    with caplog.at_level(logging.WARNING):
        soup = render.soup(":::demo tiling 题\n正文\n:::\n后文")
    assert says in soup.select_one(".demo > .course-problems[role=alert]").text
    assert says in caplog.text
    assert "后文" in soup.text and "正文" in soup.text and not soup.select("course-demo")


def test_demo_names(tmp_path):
    for name in ("b.html.j2", "a.html.j2", "_shared.html.j2", "c.js"):
        (tmp_path / name).touch()
    assert demo_names(tmp_path) == ["a", "b"]
    assert demo_names(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("function", "value", "text"),
    [
        (si, 0, "0 B"),
        (si, 999, "999 B"),
        (si, 1000, "1.000 kB"),
        (si, 999999, "1.000 MB"),
        (si, 16777216, "16.78 MB"),
        (si, 137438953472, "137.4 GB"),
        (kib, 221696, "216.5 KiB"),
        (kib, 196608, "192 KiB"),
        (significant, 0.000384, "0.0003840"),
        (significant, 9.99996, "10.00"),
        (significant, 0, "0"),
        (significant, "NaN", "NaN"),
        (significant, "-inf", "−∞"),
        (significant, -1.5, "−1.500"),
        (comma, 10000000, "10,000,000"),
    ],
)
def test_filters(function, value, text):
    assert function(value) == text
