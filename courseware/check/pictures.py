"""Pictures: an image alone in its paragraph, once a page; its template a well-formed drawing, described, no number typed.

The templates are looked at as XML with their Jinja blanked, so that a fault has its line before anything is drawn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from xml.parsers import expat

from courseware.check.context import Context
from courseware.page import PICTURE, Page
from courseware.problem import Problem

JINJA = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
TYPED = re.compile(r"\d\d+|\d\.\d")  # a single digit may be a name's: FA1, program 0
ELEMENTS = {
    "figure", "svg", "title", "desc", "defs", "pattern", "g", "text", "tspan",
    "path", "rect", "circle", "line", "polyline", "polygon",
}  # fmt: skip
REFUSED = re.compile(r"style|on\w+|(xlink:)?href|src|font-size")


def places(page: Page, context: Context) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for match in PICTURE.finditer(page.prose):
        line, name = page.line_of(match.start()), PurePosixPath(match["target"]).name
        around = [*page.lines[max(0, line - 2) : line - 1], *page.lines[line : line + 1]]
        alone = page.lines[line - 1].strip() == page.text[match.start() : match.end()]
        if not alone or any(one.strip() and not one.lstrip().startswith(":::") for one in around):
            yield Problem(page.path, line, f"图 {name} 没有独占一段", "让它单独成一行，前后各空一行")
        if name in seen:
            yield Problem(page.path, line, f"图 {name} 在第 {seen[name]} 行用过了", "一页里同一张图只放一次")
        seen.setdefault(name, line)


def drawing(shown: str, text: str) -> Iterator[Problem]:
    """Faults of a template's drawing; `shown` is its path, whose file name says how its ids begin."""
    found: list[Problem] = []
    reader = _Reader(PurePosixPath(shown).name.partition(".")[0], found, shown)
    try:
        reader.read(JINJA.sub(lambda m: "\n" * m[0].count("\n"), text))
    except expat.ExpatError as error:
        fault = f"图不是完整的 XML：{expat.ErrorString(error.code)}"
        found.append(Problem(shown, error.lineno, fault, "改正这一行或它前面的标签"))
    yield from found


class _Reader:
    """Walks the drawing; the parser's line is that of the template."""

    def __init__(self, name: str, found: list[Problem], shown: str):
        self.name, self.found, self.shown = name, found, shown
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler, self.parser.EndElementHandler = self._start, self._end
        self.parser.CharacterDataHandler = self._words
        self.children: set[str] = set()  # of the svg going on
        self.attributes: dict[str, str] = {}

    def read(self, text: str) -> None:
        self.parser.Parse(f"<figure>{text}</figure>", True)

    def _say(self, fault: str, remedy: str) -> None:
        self.found.append(Problem(self.shown, self.parser.CurrentLineNumber, fault, remedy))

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        refused = [name for name in attributes if REFUSED.fullmatch(name)]
        if tag not in ELEMENTS or refused:
            self._say(f"图里不能用 {' '.join([f'<{tag}>', *refused])}", "只用形状和文字，样子写进 docs/assets/css/pictures.css 的类")
        if "id" in attributes and not attributes["id"].startswith(f"{self.name}-"):
            self._say(f"id {attributes['id']} 可能和别的图重复", f"以 {self.name}- 开头")
        if tag == "svg":
            self.children, self.attributes = set(), attributes
        self.children.add(tag)

    def _end(self, tag: str) -> None:
        named = {"title", "desc"} <= self.children and {"viewBox", "aria-labelledby"} <= self.attributes.keys()
        if tag == "svg" and not (named and self.attributes.get("role") == "img"):
            remedy = '写成 <svg viewBox="…" role="img" aria-labelledby="…">，里面先写 <title> 和 <desc>，说出看图的人能看到什么'
            self._say("看不到图的人不知道图里有什么", remedy)

    def _words(self, words: str) -> None:
        for number in TYPED.findall(words):
            self._say(f"数 {number} 是手写的", "换成数据里的键，例如 {{ n }}")


RULES = [places]
