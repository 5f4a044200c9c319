"""Tables: a header, its separator and the rows must have the same number of cells, else no table appears or cells vanish."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markdown import Markdown
from markdown.extensions.tables import TableProcessor

from courseware.check.context import Context, code_lines
from courseware.dialect.mathml import math_ranges
from courseware.page import Page
from courseware.problem import Problem

MARGIN = re.compile(r"[ \t>]*")
SEPARATOR = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")


def cells(page: Page, context: Context) -> Iterator[Problem]:
    """Python-Markdown prints such a table raw, or drops the cells that a row has too many."""
    processor = TableProcessor(Markdown().parser, {})
    prose, fenced = page.prose.split("\n"), code_lines(page)
    for number in range(len(page.lines)):
        separator = MARGIN.sub("", prose[number], count=1)
        if number in fenced or "|" not in separator or not SEPARATOR.fullmatch(separator):
            continue
        if not number or "|" not in prose[number - 1]:
            yield Problem(page.path, number + 1, "表格的分隔行上面没有表头", "在它的上一行写表头，格数相同")
            continue
        header = _row(page, number)
        processor.border = 1 if header.startswith("|") or header.endswith("|") else 0
        count = len(processor._split_row(header))
        marks = len(processor._split_row(_row(page, number + 1)))
        if count != marks:
            fault = f"表头有 {count} 格，下面的分隔行有 {marks} 格，不会成为表格"
            yield Problem(page.path, number, fault, _remedy(prose[number - 1]))
            continue
        for below in range(number + 2, len(page.lines) + 1):
            row = _row(page, below)
            if "|" not in prose[below - 1] or below in fenced:
                break
            if (found := len(processor._split_row(row))) > count:
                fault = f"表格这一行有 {found} 格，表头只有 {count} 格，多出的不会显示"
                yield Problem(page.path, below, fault, _remedy(prose[below - 1]))


def _row(page: Page, number: int) -> str:
    return MARGIN.sub("", page.lines[number - 1], count=1).rstrip()


def _remedy(row: str) -> str:
    inside = any("|" in latex for _, _, latex, _ in math_ranges(row))
    return "公式里的竖线写成 \\vert 或 \\mid" if inside else "让每一行的 | 个数相同；文字里的竖线写成 &#124;"


RULES = [cells]
