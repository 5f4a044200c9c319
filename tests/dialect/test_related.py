"""`:::related`: rows, separators, links, and lines of another form."""

import pytest

from courseware.dialect.related import address, parse_related
from courseware.page import scan

TEXT = ":::related\n依赖 | 第 7 章 Attention, 第 15 章 GPU\n用于｜长上下文\n:::"


@pytest.mark.parametrize(
    ("base", "hrefs"),
    [
        ({}, []),
        ("", []),
        ({7: "/c7/"}, ["/c7/"]),
        ({"7": "/c7/", "第 15 章": "/c15/"}, ["/c7/", "/c15/"]),
        ({"长上下文": "/long/"}, ["/long/"]),
        ("https://course.example/{n}/", ["https://course.example/7/", "https://course.example/15/"]),
    ],
)
def test_links(render, base, hrefs):
    soup = render.soup(TEXT, related_base=base)
    assert [a["href"] for a in soup.select("nav.related[aria-label=相关章节] dl a")] == hrefs
    assert [dd.text for dd in soup.select("dd")] == ["第 7 章 Attention", "第 15 章 GPU", "长上下文"]


@pytest.mark.parametrize(
    ("body", "rows", "other"),
    [
        ("依赖 | a，b、c；d", [("依赖", 2, ["a", "b", "c", "d"])], []),
        ("- 用于 | a（x，y）", [("用于", 2, ["a（x，y）"])], []),
        ("参见 | a", [], [(2, "参见 | a")]),
        ("依赖：a", [], [(2, "依赖：a")]),
        ("```\nx\n```", [], [(2, "x")]),
    ],
)
def test_parse(body, rows, other):
    page = scan(f":::related\n{body}\n:::")
    found = parse_related(page, page.containers[0])
    assert (found.rows, found.other) == (rows, other)


def test_other_lines_are_shown(render):
    assert "看不懂这一行：参见 | a" in render.soup(":::related\n参见 | a\n:::").select_one(".course-error[role=alert]").text


def test_address_needs_a_number_for_a_base():
    assert address("附录", "https://course.example/{n}") is None
