"""The first preprocessor: a page in the dialect becomes Markdown that pymdown-extensions reads without surprises.

Contract: `:::name 标题` becomes `/// name | 标题` with blank lines around it and a count of slashes of its own for
each nesting level (outer longer), so that a closing row can only close its own block and a body is never taken for
options. Lists stand four columns a level. A fence gets a clean prefix and, where it has a record, `block="N"`
(`Block.number`), which `code` reads; one that pins an output is shown only where no run has printed it. Comments render
nothing. A container that is unknown or never closed is shown as a fault in its place; nothing is dropped.
"""

from __future__ import annotations

import xml.etree.ElementTree as etree

from markdown import Markdown
from markdown.preprocessors import Preprocessor
from markdown.util import AtomicString
from pymdownx.blocks.block import Block

from courseware.dialect import chart, quiz, related
from courseware.dialect.course import Course, register
from courseware.dialect.values import resolve
from courseware.doctest.blocks import directive, following_fence
from courseware.page import Container, Fence, Text, body

CONTAINERS = ("note", "warning", "key", "math", "unfold", "demo", "chart", "quiz", "related")
PRIORITY = 40  # before snippets (32), whitespace (30), fences (25) and raw HTML (20)


def extend(md: Markdown, course: Course) -> None:
    md.preprocessors.register(SourcePreprocessor(md, course), "course_source", PRIORITY)
    register(md, FaultBlock)


class FaultBlock(Block):
    """A fault shown where it stands. Argument: what is wrong, as plain text."""

    NAME = "course-fault"
    ARGUMENT = True

    def on_create(self, parent: etree.Element) -> etree.Element:
        box = etree.SubElement(parent, "div", {"class": "course-problems", "role": "alert"})
        etree.SubElement(box, "p").text = AtomicString(f"✗ {self.argument}")
        return box


class SourcePreprocessor(Preprocessor):
    """Scans the page into `md.course` and hands on the rewritten text."""

    def __init__(self, md: Markdown, course: Course):
        super().__init__(md)
        self.course = course

    def run(self, lines: list[str]) -> list[str]:
        self.course.read("\n".join(lines))
        return Writer(self.course).write().split("\n")


class Writer:
    """Writes `Page.out` as text. Code and prose are kept apart until the end: values are put into prose only."""

    def __init__(self, course: Course):
        self.course, self.page = course, course.page
        self.chunks: list[tuple[bool, list[str]]] = []  # (is code, lines)
        levels = 1 + max((container.level for container in self.page.containers), default=0)
        self.slashes = 3 + 2 * levels  # of the outermost block; a quiz takes two levels, itself and its parts
        self.records = {record.block.line: record for record in course.records.values()}
        pins = (comment for comment in self.page.comments if directive(comment) == "expected-output")
        self.pinned = {fence.line for pin in pins if (fence := following_fence(self.page, pin))}

    def write(self) -> str:
        self._pieces(self.page.out)
        return "\n".join("\n".join(lines) if code else resolve("\n".join(lines), self.course) for code, lines in self.chunks)

    def _pieces(self, pieces: list) -> None:
        index = 0
        while index < len(pieces):
            piece = pieces[index]
            index += 1
            if isinstance(piece, Container):
                inner = body(pieces, index - 1)
                index += len(inner)
                self._container(piece, inner)
            elif isinstance(piece, Fence):
                self._fence(piece)
            elif isinstance(piece, Text):
                self._put(piece.text)

    def _put(self, *lines: str, code: bool = False) -> None:
        if not self.chunks or self.chunks[-1][0] != code:
            self.chunks.append((code, []))
        self.chunks[-1][1].extend(lines)

    def _block(self, indent: str, head: str, pieces: list) -> None:
        """One `///` block; inside it, blocks have fewer slashes."""
        row = indent + "/" * self.slashes
        self._put("", f"{row} {head}".rstrip(), "")
        self.slashes -= 1
        self._pieces(pieces)
        self.slashes += 1
        self._put("", row, "")

    def _container(self, container: Container, pieces: list) -> None:
        indent = " " * 4 * container.depth
        name, title = container.name, f" | {container.title}" if container.title else ""
        if name not in CONTAINERS:
            names = "、".join(CONTAINERS)
            self._block(indent, f"course-fault | 没有 :::{name} 这种容器；可用的是 {names}", [])
            self._pieces(pieces)
            return
        if not container.end:
            self._block(indent, f"course-fault | :::{name} 没有闭合；请在它的末尾另起一行写 {':' * container.colons}", [])
        if name == "quiz":
            self._quiz(indent, container, pieces)
        elif name == "related":
            self.course.related.append(related.parse(pieces))
            self._block(indent, f"related | {len(self.course.related) - 1}", [])
        elif name == "chart":
            self.course.charts.append(chart.parse(container, pieces))
            self._block(indent, f"chart | {len(self.course.charts) - 1}", self.course.charts[-1].prose)
        else:
            self._block(indent, name + title, pieces)

    def _quiz(self, indent: str, container: Container, pieces: list) -> None:
        parsed = quiz.parse(container, pieces)
        self.course.quizzes.append(parsed)
        row = indent + "/" * self.slashes
        self._put("", f"{row} quiz | {len(self.course.quizzes) - 1}", "")
        self.slashes -= 1
        self._block(indent, "quiz-question", parsed.question)
        for option in parsed.options:
            self._block(indent, f"quiz-option | {option.letter}", option.pieces)
        if parsed.explanation is not None:
            self._block(indent, "quiz-explanation", parsed.explanation)
        self.slashes += 1
        self._put("", row, "")

    def _fence(self, fence: Fence) -> None:
        if fence.commented:
            return
        indent = " " * 4 * fence.depth + "> " * fence.prefix.count(">")
        record = self.records.get(fence.line)
        if fence.line in self.pinned:
            if self._printed(fence):
                return
            self._put("", f"{indent}应有的输出：")
        info = fence.info
        if record is not None:
            info = f'{info} block="{record.block.number}"'
        self._put("", f"{indent}{fence.marker}{info}", code=True)
        self._put(*(f"{indent}{line}" if line.strip() else indent.rstrip() for line in fence.lines), code=True)
        self._put(f"{indent}{fence.marker}", "", code=True)

    def _printed(self, fence: Fence) -> bool:
        """Has a run printed exactly what this fence pins? Then the output stands under its block already."""
        before = [record for line, record in self.records.items() if line < fence.line]
        return bool(before) and before[-1].result["output"] == fence.code and fence.code != ""
