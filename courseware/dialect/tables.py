"""Tables: each scrolls inside itself on a narrow screen, and its header cells say what they head.

Contract: a table of the page's Markdown becomes
`<div class="table-scroll" tabindex="0" role="region" aria-label="表格 N">` around it (its caption instead, where it has
one; the names differ, as each region is a landmark). Header cells carry `scope="col"`; an empty one becomes a plain
cell. Tables in raw HTML stay as they are.
"""

from __future__ import annotations

import xml.etree.ElementTree as etree

from markdown import Markdown
from markdown.treeprocessors import Treeprocessor


def extend(md: Markdown, course: object) -> None:
    """Register the wrapper, last among what builds the page, before MkDocs reads it; `course` is not needed."""
    md.treeprocessors.register(TableProcessor(md), "course_tables", 4)


class TableProcessor(Treeprocessor):
    """Wrap every table that is not wrapped yet."""

    def run(self, root: etree.Element) -> None:
        tables = [(parent, child) for parent in root.iter() for child in parent if child.tag == "table"]
        number = 0
        for parent, table in tables:
            _scopes(table)
            if parent.get("class") != "table-scroll":
                caption = _caption(table)
                number += not caption
                _wrap(parent, table, caption or f"表格 {number}")


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
