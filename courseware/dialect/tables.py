"""Tables: each scrolls inside itself on a narrow screen, and its header cells say what they head.

Contract: a table of the page's Markdown becomes
`<div class="table-scroll" tabindex="0" role="region" aria-label="HEADING，表格">` around it: the heading before it, with a
number where there are several (each region is a landmark), or its caption instead, where it has one. Header cells carry
`scope="col"`; an empty one becomes a plain cell. Tables in raw HTML stay as they are.
"""

from __future__ import annotations

import xml.etree.ElementTree as etree
from collections import Counter
from collections.abc import Iterator
from html import unescape

from markdown import Markdown
from markdown.treeprocessors import Treeprocessor


def extend(md: Markdown, course: object) -> None:
    """Register the wrapper, last among what builds the page, before MkDocs reads it; `course` is not needed."""
    md.treeprocessors.register(TableProcessor(md), "course_tables", 4)


class TableProcessor(Treeprocessor):
    """Wrap every table that is not wrapped yet."""

    def run(self, root: etree.Element) -> None:
        headings = dict(_headings(getattr(self.md, "toc_tokens", [])))
        parents = {child: parent for parent in root.iter() for child in parent}
        heading, tables = "", []
        for element in root.iter():
            if element.get("id") in headings:
                heading = headings[element.get("id")] + "，"
            elif element.tag == "table":
                _scopes(element)
                if parents[element].get("class") != "table-scroll":
                    tables.append((element, _caption(element), f"{heading}表格"))
        several = Counter(name for _, caption, name in tables if not caption)
        numbers = Counter()
        for table, caption, name in tables:
            numbers[name] += not caption
            _wrap(parents[table], table, caption or (f"{name} {numbers[name]}" if several[name] > 1 else name))


def _headings(tokens: list[dict]) -> Iterator[tuple[str, str]]:
    """Anchor and words of each heading, from what `toc` read before."""
    for token in tokens:
        yield token["id"], unescape(token["name"])
        yield from _headings(token["children"])


def _wrap(parent: etree.Element, table: etree.Element, label: str) -> None:
    """Put a scrolling box in the table's place; the text after the table stays after the box."""
    attributes = {"class": "table-scroll", "tabindex": "0", "role": "region", "aria-label": label}
    box = etree.Element("div", attributes)
    box.text, box.tail, table.tail = "\n", table.tail, "\n"
    parent[list(parent).index(table)] = box
    box.append(table)


def _caption(table: etree.Element) -> str:
    caption = table.find("caption")
    return "".join(caption.itertext()).strip() if caption is not None else ""


def _scopes(table: etree.Element) -> None:
    for header in table.iterfind("thead/tr/th"):
        if "".join(header.itertext()).strip() or len(header):
            header.attrib.setdefault("scope", "col")
        else:
            header.tag = "td"
