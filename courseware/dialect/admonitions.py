"""`:::note`, `:::warning`, `:::key`, `:::math`: four admonitions, each with its own look.

Contract: an optional title, inline Markdown (mathematics, code, values); without one the kind's own word stands there.
The body is any Markdown.
"""

from __future__ import annotations

import xml.etree.ElementTree as etree

from markdown import Markdown
from pymdownx.blocks.block import Block

from courseware.dialect.course import Course, register

TITLES = {"note": "说明", "warning": "注意", "key": "要点", "math": "数学"}


class Admonition(Block):
    """`<div class="admonition NAME"><p class="admonition-title">…</p>…</div>`"""

    ARGUMENT = None  # optional

    def on_create(self, parent: etree.Element) -> etree.Element:
        box = etree.SubElement(parent, "div", {"class": f"admonition {self.NAME}"})
        etree.SubElement(box, "p", {"class": "admonition-title"}).text = self.argument or TITLES[self.NAME]
        return box


class Note(Admonition):
    NAME = "note"


class Warning(Admonition):  # noqa: A001 (the container's name)
    NAME = "warning"


class Key(Admonition):
    NAME = "key"


class Math(Admonition):
    NAME = "math"


def extend(md: Markdown, course: Course) -> None:
    register(md, Note, Warning, Key, Math)
