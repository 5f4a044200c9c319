"""What became of each kernel: a paragraph `[COMPILED]` becomes a table for each kernel function, one row a target.

Contract: each function has a heading and a `<table class="report">` from the ledger's proofs, complete without a script;
its rows link to the pages that the proof wrote (`courseware.compiled`), from the docs folder's root, so that MkDocs
resolves and checks them. Without a compilation a sentence says why there is none.
"""

from __future__ import annotations

import xml.etree.ElementTree as etree
from typing import Any

from markdown import Markdown
from markdown.blockprocessors import BlockProcessor
from markdown.util import AtomicString

from courseware.compiled import FOLDER
from courseware.dialect.report import code, heading, link, paragraph, resource, table
from courseware.page import COMPILED

NONE = "没有编译过的内核：这里的表来自内核的验证，它需要 kernels/proof 里的内核，和 Triton（只有 Linux 有安装包）。"


def extend(md: Markdown, course: Any) -> None:
    md.parser.blockprocessors.register(CompiledProcessor(md.parser, course), "course_compiled", 76)  # before tables (75)


class CompiledProcessor(BlockProcessor):
    """Puts the tables where the marker stands alone."""

    def __init__(self, parser: Any, course: Any):
        super().__init__(parser)
        self.course = course

    def test(self, parent: etree.Element, block: str) -> bool:
        return block.strip() == COMPILED

    def run(self, parent: etree.Element, blocks: list[str]) -> None:
        blocks.pop(0)
        kernels = (self.course.ledger.get("verification") or {}).get("kernels", [])
        found = [(kernel, function) for kernel in kernels for function in functions(kernel)]
        for kernel, function in found:
            _write(parent, kernel, function)
        if not found:
            paragraph(parent, NONE)


def functions(kernel: dict) -> list[str]:
    """Kernel functions of a proof, in the order of its variants."""
    variants = (v for target in kernel.get("compiled", {}).values() for v in target.get("variants", {}).values())
    return list(dict.fromkeys(v["function"] for v in variants if "function" in v))


def _write(parent: etree.Element, kernel: dict, function: str) -> None:
    rows = []
    for target, result in kernel["compiled"].items():
        variants = ((name, v) for name, v in result.get("variants", {}).items() if v.get("function") == function)
        name, one = next(variants, ("", None))
        if one is None:
            rows.append([target, "— 不适用", "", "", "", ""])
            continue
        amounts = [resource(key, one[key]) for key in ("registers", "shared_bytes", "spill_bytes", "instructions")]
        cell = etree.Element("td", {"class": "report__name"})
        cell.append(link(f"/{FOLDER}/{function}/{target}.html", target))
        rows.append([cell, code(name), *amounts])
    title = heading(parent, "", level=3)
    title.append(code(function))
    title.set("id", function)
    place = f"kernels/{kernel['name']}.py"
    table(parent, f"{function}（{place}）编译成了什么", ["目标", "变体", "寄存器", "共享内存", "溢出", "指令"], rows)
    title[0].text = AtomicString(function)
