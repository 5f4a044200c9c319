"""Keys of sections, and the overview: what makes a reader's browser forget, what is listed and counted."""

import pytest
from bs4 import BeautifulSoup

from courseware.dialect.progress import Entry, mark, overview
from courseware.doctest.blocks import chains
from courseware.page import scan

PAGE = "# 页\n\n引子\n\n## 甲 {#a}\n\n文 $x^2$[^1]\n\n### 小\n\n细\n\n## 乙 {#b}\n\n尾[^2]\n\n[^1]: 注一\n[^2]: 注二\n"


def keys(soup) -> list[str | None]:
    return [heading.get("data-key") for heading in soup.select("h2")]


def test_each_section_has_its_key(render):
    first, second = keys(render.soup(PAGE))
    assert first != second and {len(first), len(second)} == {8} and int(first + second, 16)


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("引子", "另一个引子", []),
        ("文", "*文*", []),
        ("细", "- 细", []),
        ("{#a}", "{#other}", []),
        ("引子", "引子[^2]", []),  # the footnotes of the sections are numbered anew
        ("注一", "改过的注", []),
        ("细", "粗", [0]),
        ("小", "大", [0]),
        ("甲", "丙", [0]),
        ("x^2", "x_2", [0]),
        ("尾", "头", [1]),
    ],
)
def test_an_edit_changes_the_key_of_its_section(render, old, new, changed):
    before, after = keys(render.soup(PAGE)), keys(render.soup(PAGE.replace(old, new)))
    assert [n for n in (0, 1) if before[n] != after[n]] == changed


@pytest.mark.parametrize(("code", "forgets"), [("print(1)", False), ("print(2)", True)])
def test_another_run_of_the_same_code_is_the_same_text(render, code, forgets):
    def section(line: str, output: str, seconds: float) -> str:
        text = f"## 甲\n\n```python\n# 类型：【Runnable】\n{line}\n```\n"
        block = {"status": "ran", "output": output, "seconds": seconds, "error": None, "environment": None}
        render.ledger(chains={chains(scan(text))[0].key: {"blocks": [block], "values": {}}})
        return keys(render.soup(text))[0]

    assert (section("print(1)", "1\n", 0.5) != section(code, "1.0\n", 1.5)) == forgets


def test_a_heading_over_footnotes_alone_is_no_section(render):
    assert keys(render.soup("## 甲\n\n文[^1]\n\n## 出处\n\n[^1]: 注\n"))[1] is None


def test_overview(render):
    quiz = ":::quiz\n问？\nA. 一\nB. 二\n答案: B\n:::\n"
    page = render.html(f"# 页\n\n## 甲 `x` {{#a}}\n\n{quiz}\n## [乙](https://a.example) {{#b}}\n\n文\n\n## 出处 {{#c}}\n")
    parsed = BeautifulSoup(page, "html.parser")
    entries = [
        Entry("附", "../x/", page, counts=False),
        Entry("页 <1>", "../p/", page, counts=True),
        Entry("空", "../e/", "<p>文</p>", counts=True),
    ]
    soup = BeautifulSoup(overview(entries), "html.parser")
    assert soup.select_one(".progress__total").text == "共 2 节，1 道测验"
    first, empty, other = soup.select("nav > ul > li")
    assert first["data-quizzes"] == parsed.form["data-key"]
    assert [item["data-key"] for item in first.select("li")] == keys(parsed)[:2]
    assert [(a["href"], a.text) for a in soup.select("a")] == [
        ("../p/", "页 <1>"),
        ("../p/#a", "甲 x"),
        ("../p/#b", "乙"),
        ("../e/", "空"),
        ("../x/", "附"),
    ]
    assert [span.text for span in soup.select(".progress__count")] == ["2 节，1 道测验", "0 节"]
    assert not other.get("data-quizzes") and not empty.select("ul")


def test_a_notebook_is_marked_the_same_way():
    html = '<h2 id="a">甲</h2><div class="highlight"><pre><code>x</code></pre></div>'
    output = '<div class="jp-RenderedText course-output" data-mime-type="text/plain"><pre><code>{}</code></pre></div>'
    first, second = (keys(BeautifulSoup(mark(html + output.format(n)), "html.parser")) for n in (1, 2))
    assert first == second != keys(BeautifulSoup(mark(html.replace("x", "y")), "html.parser"))
