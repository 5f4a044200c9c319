"""The lab's table sets NumPy beside the Triton kernel: every line that it quotes stands in the source it names."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/lab.md").read_text("utf-8")
NUMPY = "".join((ROOT / f"snippets/{name}.py").read_text("utf-8") for name in ("attention", "online_softmax"))
KERNEL = (ROOT / "kernels/flash_attention.py").read_text("utf-8")


def rows():
    """(what, NumPy cell, Triton cell) of the table."""
    table = PAGE.split("| 做什么 | NumPy | Triton |\n| --- | --- | --- |\n")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]


def test_the_table_is_whole():
    assert len(rows()) >= 12 and all(len(row) == 3 for row in rows())


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_quoted_lines_exist(row):
    what, numpy, triton = row
    assert numpy == "同上" or re.findall("`(.+?)`", numpy)
    for source, cell in ((NUMPY, numpy), (KERNEL, triton)):
        for code in re.findall("`(.+?)`", cell):
            assert code in source, f"{what}：源码里没有 {code}"
