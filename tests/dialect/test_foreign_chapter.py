"""A chapter written by other habits renders with nothing raw left and with its nesting right."""

import re
from pathlib import Path

import pytest

FOREIGN = Path(__file__).with_name("foreign.md")
RAW = (":::", "///", "答案:", "答案：Ａ", "解析：先", "```", "~~~", "**", "|---", "--|", "{{", "<!--", "\\frac", "$$", "- 甲", "* ")


@pytest.fixture(params=["lf", "crlf-bom"])
def soup(request, render):
    text = FOREIGN.read_text("utf-8")
    return render.soup("\ufeff" + text.replace("\n", "\r\n") if request.param == "crlf-bom" else text)


def test_nothing_raw_outside_code(soup):
    for code in soup(["code", "math"]):
        code.extract()
    text = soup.get_text()
    assert [raw for raw in RAW if raw in text] == []
    assert not re.search(r"^\s*(\d+[.)]|[-+*>#|]) ", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("selector", "count"),
    [
        ("ul, ol", 25),
        ("table", 6),
        ("form.quiz", 2),
        ("div.admonition", 6),
        ("details.unfold", 2),
        ("nav.related", 1),
        ("div.course-code", 2),
        ("blockquote", 1),
        ("dl", 2),
        (".course-problems", 0),
        ("p > div, p > pre, p > ul, p > table", 0),
    ],
)
def test_counts(soup, selector, count):
    assert len(soup.select(selector)) == count


@pytest.mark.parametrize(
    "selector",
    [
        "div.admonition.key > ul > li > ul > li > ul > li",
        "ol > li > ul > li > ol > li",
        "ol > li > div.course-code",
        "ol > li table",
        "ol > li > div.admonition.note > ul",
        "ol > li > div.admonition.note pre",
        "ul > li > details.unfold table",
        "ul > li > details.unfold > div.warning > div.math math",
        "ul > li > details.unfold > ul > li > ul > li pre",
        "blockquote > ul > li > ul > li",
        "blockquote > div.highlight",
        "form.quiz .quiz__question div.course-code",
        "form.quiz .quiz__question table",
        "form.quiz ul.quiz__options > li:nth-child(1) ul > li",
        "form.quiz ul.quiz__options > li:nth-child(2) math",
        "form.quiz ul.quiz__options > li:nth-child(2) pre",
        "form.quiz ul.quiz__options > li:nth-child(4) ul > li",
        "form.quiz details.quiz__answer ol > li > ul > li",
        "ul > li > form.quiz",
        "ul > li > details.unfold > div.admonition.note",
        "div.admonition.note > ul > li > ul > li",
    ],
)
def test_nesting(soup, selector):
    assert soup.select(selector), selector


def test_texts(soup):
    first, second = soup.select("form.quiz")
    assert first["data-answer"] == "A,C" and second["data-answer"] == "B"
    assert {i["type"] for i in first.select("input")} == {"checkbox"}
    assert {i["type"] for i in second.select("input")} == {"radio"}
    assert [strong.text for strong in soup.select("p > strong")][:3] == ["「重点」", "“引号”，", "注意："]
    assert [dd.text for dd in soup.select("nav.related dd")] == [
        "第 7 章 Attention",
        "第 15 章 GPU 基础（roofline，带宽）",
        "长上下文训练",
    ]
    assert "x = [1,\n\n     2]" in soup.select_one("div.course-code code").text
    assert soup.find_all(string=lambda s: s and "作者的备注" in s) == []
