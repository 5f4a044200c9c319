"""The rewriting of a page: what pymdown-extensions gets to read, and faults shown in place."""

import pytest

from courseware.dialect.course import Course
from courseware.dialect.source import Writer
from courseware.doctest.blocks import chains
from courseware.page import scan


def written(text):
    """Lines that are written, blank ones left out."""
    course = Course({"ledger": "none.json", "demos": "none", "related_base": {}})
    course.read(text)
    return [line for line in Writer(course).write().split("\n") if line.strip()]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (":::note 题\nx\n:::", ["///// note | 题", "x", "/////"]),
        ("::::note\n:::key\nx\n:::\n::::", ["/////// note", "////// key", "x", "//////", "///////"]),
        ("- a\n  :::note\n  x\n  :::", ["- a", "    ///// note", "    x", "    /////"]),
        ("   :::note\n   x\n   :::", ["///// note", "x", "/////"]),
        ("```python\n# 类型：【Runnable】\n1\n```", ['```python block="1"', "# 类型：【Runnable】", "1", "```"]),
        ("  ~~~text\n  :::note\n  ~~~~", ["~~~text", ":::note", "~~~"]),
        ("> ```text\n> x\n> ```", ["> ```text", "> x", "> ```"]),
        ("<!-- a\n```python\n1\n``` -->\nb", ["b"]),
        ("```\nunclosed", ["```", "unclosed", "```"]),
        ("{{value:x}}", ['<span class="course-error">✗ 未解析：x</span>']),
        ("```text\n{{value:x}}\n```", ["```text", "{{value:x}}", "```"]),
    ],
)
def test_written(text, lines):
    assert written(text) == lines


@pytest.mark.parametrize(
    ("text", "says", "kept"),
    [
        (":::tip 题\n正文\n:::", "没有 :::tip 这种容器", "正文"),
        (":::note\n正文", ":::note 没有闭合", "正文"),
        ("::::note\n:::key\n正文\n::::\n后文", ":::key 没有闭合", "后文"),
        (":::quiz\n问\nA. 一\nB. 二\n答案: A", ":::quiz 没有闭合", "二"),
    ],
)
def test_faults_in_place(render, text, says, kept):
    soup = render.soup(text)
    assert says in soup.select_one(".course-problems[role=alert]").text
    assert kept in soup.text and "///" not in soup.text


def test_body_indented_by_four_is_no_option(render):
    assert render.soup(":::note\n    type: x\n:::").select_one(".note pre").text.strip() == "type: x"


PINNED = "```python\n# 类型：【Runnable】\nprint(1)\n```\n\n<!--pytest-codeblocks:expected-output-->\n```text\n1\n```\n"


@pytest.mark.parametrize(("output", "shown"), [("1\n", False), ("2\n", True)])
def test_pinned_output_is_shown_once(render, output, shown):
    block = {"status": "ran", "seconds": 0.1, "output": output, "error": None, "source": "", "environment": {"python": "3.11"}}
    render.ledger(chains={chains(scan(PINNED))[0].key: {"blocks": [block], "values": {}}})
    assert ("应有的输出" in render.html(PINNED)) is shown


def test_no_output_for_fences_in_an_unknown_state(render):
    assert "应有的输出" in render.html(PINNED)
