"""`:::related`: what a chapter depends on and where it is used.

Contract: lines `依赖 | 第 7 章 Attention, 第 15 章 …` and `用于 | …`; full-width `｜ ， 、 ；` do too. A chapter becomes a link
where the option `related_base` has an address for it (`{7: URL}`, `{"第 7 章": URL}`, or one address with `{n}`), else
it stays plain text.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as etree
from dataclasses import dataclass, field

from markdown import Markdown
from markdown.util import AtomicString
from pymdownx.blocks.block import Block

from courseware.dialect.course import Course, register
from courseware.dialect.values import resolve
from courseware.page import Container, Fence, Page, Text, body

WORDS = ("依赖", "用于")
ROW = re.compile(r"\s*(?:[-*+]\s+)?(?P<word>[^\s|｜]+)\s*[|｜]\s*(?P<chapters>.+?)\s*[|｜]?\s*$")
CHAPTER = re.compile(r"第\s*(?P<number>\d+)\s*章")


@dataclass
class Related:
    """`rows`: (word, line, chapters); `other`: (line, text) of lines of another form."""

    rows: list[tuple[str, int, list[str]]] = field(default_factory=list)
    other: list[tuple[int, str]] = field(default_factory=list)


def parse_related(page: Page, container: Container) -> Related:
    """Read a related container; never raises."""
    index = next(position for position, piece in enumerate(page.out) if piece is container)
    return parse(body(page.out, index))


def parse(pieces: list) -> Related:
    """The same from the pieces inside the container."""
    found = Related()
    for piece in pieces:
        text = piece.text if isinstance(piece, Text) else _foreign(piece)
        match = ROW.match(text) if isinstance(piece, Text) else None
        if match and match["word"] in WORDS:
            found.rows.append((match["word"], piece.line, _chapters(match["chapters"])))
        elif text.strip():
            found.other.append((piece.line, text.strip()))
    return found


def _foreign(piece) -> str:
    """What to call a fence, container or closer that has no business here."""
    return piece.code or piece.marker if isinstance(piece, Fence) else f":::{getattr(piece, 'name', '')}"


def _chapters(text: str) -> list[str]:
    """Split at commas outside brackets: a chapter's title may hold some in them."""
    parts = re.split(r"\s*[,，、;；]\s*(?![^(（]*[)）])", text)
    return [part for part in parts if part]


def address(chapter: str, base: dict | str | None) -> str | None:
    """URL of a chapter, None where the option names none."""
    number = CHAPTER.search(chapter)
    if isinstance(base, str):
        return base.replace("{n}", number["number"]) if base and number else None
    names = {re.sub(r"\s", "", str(name)): url for name, url in (base or {}).items()}
    keys = [number["number"], f"第{number['number']}章"] if number else []
    return next((names[key] for key in [*keys, re.sub(r"\s", "", chapter)] if key in names), None)


def extend(md: Markdown, course: Course) -> None:
    register(md, RelatedBlock)


class RelatedBlock(Block):
    """Argument: index in `course.related`. The chapters' names are inline Markdown."""

    NAME = "related"
    ARGUMENT = True

    def on_create(self, parent: etree.Element) -> etree.Element:
        course: Course = self.md.course
        related: Related = course.related[int(self.argument)]
        nav = etree.SubElement(parent, "nav", {"class": "related", "aria-label": "相关章节"})
        table = etree.SubElement(nav, "dl")
        for word, _, chapters in related.rows:
            etree.SubElement(table, "dt").text = word
            for chapter in chapters:
                entry = etree.SubElement(table, "dd")
                url = address(chapter, course.options["related_base"])
                target = entry if url is None else etree.SubElement(entry, "a", {"href": url})
                target.text = resolve(chapter, course)
        for _, text in related.other:
            fault = etree.SubElement(nav, "p", {"class": "course-error", "role": "alert"})
            fault.text = AtomicString(f"✗ 看不懂这一行：{text}")
        return nav
