"""`:::unfold 标题`: a part that is open at first, may be folded away, and is printed open.

Contract: an optional title, inline Markdown; the body is any Markdown.
"""

from __future__ import annotations

import xml.etree.ElementTree as etree

from markdown import Markdown
from pymdownx.blocks.block import Block

from courseware.dialect.course import Course, register


class Unfold(Block):
    """`<details class="unfold" open><summary>…</summary>…</details>`"""

    NAME = "unfold"
    ARGUMENT = None  # optional

    def on_create(self, parent: etree.Element) -> etree.Element:
        details = etree.SubElement(parent, "details", {"class": "unfold", "open": "open"})
        etree.SubElement(details, "summary").text = self.argument or "展开"
        return details


def extend(md: Markdown, course: Course) -> None:
    register(md, Unfold)
