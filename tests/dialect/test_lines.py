"""Wrapped Chinese lines join without a space; anything else keeps its break."""

import pytest


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("中文\n换行", "中文换行"),
        ("中文，\n“引文”", "中文，“引文”"),
        ("中文 \n换行", "中文换行"),
        ("中文\nEnglish", "中文\nEnglish"),
        ("English\n中文", "English\n中文"),
        ("two\nwords", "two\nwords"),
        ("中文`x`\n换行", "中文x\n换行"),
        ("- 条目\n  续行", "条目续行"),
    ],
)
def test_wrapped_lines(render, source, text):
    assert text in render.soup(source).text


def test_a_hard_break_stays(render):
    assert "<br" in render.html("中文  \n换行")
