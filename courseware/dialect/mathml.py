r"""Mathematics: `$…$`, `\(…\)`, `$$…$$`, `\[…\]` and `\begin{…}…\end{…}` become MathML at build time, no script needed.

Contract: pymdownx.arithmatex (generic) finds the formulas; math-core converts them. A display formula is
`<div class="arithmatex math-block" tabindex="0" role="group" aria-label="公式 N">`, one in a line of text is
`<span class="arithmatex math-inline">`. `group` and not `region`: a page has dozens, and each region is a landmark.
What cannot be converted is shown in its place, with its LaTeX; the checker reports the same through `math_errors`.

The conversion keeps one state a page, so that numbered environments count through it.
"""

from __future__ import annotations

import html
import re
import unicodedata
import xml.etree.ElementTree as etree
from collections.abc import Iterator

from markdown import Markdown
from markdown.blockprocessors import BlockProcessor
from markdown.inlinepatterns import InlineProcessor
from markdown.treeprocessors import Treeprocessor
from markdown.util import AtomicString
from math_core import LatexError, LatexToMathML
from pymdownx import arithmatex

from courseware.page import VALUE, Page

PARAGRAPH = re.compile(r"(?:^(?![ \t]*(?::{3}|$)).*\n?)+|^[ \t]*:{3}.*$", re.MULTILINE)
DISPLAY = re.compile(
    rf"(?<!\\)(?:{arithmatex.RE_DOLLAR_BLOCK}|{arithmatex.RE_BRACKET_BLOCK})"
    rf"|^[ \t>]*{arithmatex.RE_TEX_BLOCK}[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
CLOSING = re.compile(r"[，。、；：？！）」』》】”’…,.;:?!)]+")
INLINE = re.compile(f"{arithmatex.RE_SMART_DOLLAR_INLINE}|{arithmatex.RE_BRACKET_INLINE}")
OWN_LINES = re.compile(
    rf"^(?:{arithmatex.RE_DOLLAR_BLOCK}|{arithmatex.RE_BRACKET_BLOCK}|{arithmatex.RE_TEX_BLOCK})[ ]*$",
    re.DOTALL | re.MULTILINE,
)
DISPLAY_IN_LINE = r"(?<!\\)\$\$((?:\\.|[^\\$\x02\x03])+?)\$\$"
STRAY = re.compile(r"(?<!\\)\$\$")
UNKNOWN = re.compile(r'Unknown (?P<what>command|environment) "(?P<name>[^"]+)"')
REMEDY = "改用 math-core 支持的写法"


def extend(md: Markdown, course: object) -> None:
    """Register the parts; `course` is not needed: a formula's values are put in before Markdown sees it."""
    md.parser.blockprocessors.register(OwnLinesProcessor(md.parser), "course_math_lines", 79.95)  # arithmatex: 79.9
    md.inlinePatterns.register(DisplayInLine(DISPLAY_IN_LINE, md), "course_math_display", 189.95)  # arithmatex: 189.9
    md.treeprocessors.register(MathProcessor(md), "course_math", 15)  # after inline (20), before toc (5)


# --- LaTeX to MathML -------------------------------------------------------------------------------------------------


class MathError(ValueError):
    """A formula that math-core refuses; the message says in Chinese what it did not understand."""


class Converter:
    """math-core with the numbering of one page."""

    def __init__(self) -> None:
        self.core = LatexToMathML(fancy_error=False)

    def reset(self) -> None:
        """Begin a page: equation numbers start at 1 again."""
        self.core.reset_global_state()

    def convert(self, latex: str, *, block: bool) -> str:
        """LaTeX source to a `<math>` element. Raises MathError."""
        try:
            return self.core.convert_with_global_state(latex.strip(), displaystyle=block)
        except LatexError as error:
            raise MathError(_explain(str(error))) from None


def _explain(message: str) -> str:
    """math-core's `8: Expected argument …` in words for the author; known faults in Chinese."""
    if unknown := UNKNOWN.search(message):
        return f"不认识{'命令' if unknown['what'] == 'command' else '环境'} {unknown['name']}"
    position, _, text = message.partition(": ")
    return f"第 {int(position) + 1} 个字符处有误（{text.rstrip(chr(46))}）" if position.isdigit() else message


def plain(mathml: str) -> str:
    """A formula in one line of plain text for a table of contents: `O(N^2)`, `a/b`, `√(d_k)`."""
    root = etree.fromstring(mathml.replace("&ApplyFunction;", ""))
    return unicodedata.normalize("NFKC", _plain(root)).strip()


def _plain(node: etree.Element) -> str:
    parts = [_plain(child) for child in node]
    tag = node.tag
    if tag in ("msup", "mover"):
        return "^".join(parts) if tag == "msup" else parts[0]
    if tag in ("msub", "munder"):
        return "_".join(parts)
    if tag in ("msubsup", "munderover"):
        return f"{parts[0]}_{parts[1]}^{parts[2]}"
    if tag == "mfrac":
        return "/".join(parts)
    if tag == "msqrt":
        return f"√({''.join(parts)})"
    return (node.text or "") + "".join(parts)


# --- what the checker reads ------------------------------------------------------------------------------------------


def math_ranges(text: str) -> list[tuple[int, int, str, bool]]:
    """(start, end, LaTeX, is display) of each formula of a text whose code is blanked, in order.

    A formula never runs over a blank line, as Markdown cuts its blocks there.
    """
    found = []
    for paragraph in PARAGRAPH.finditer(text):
        rest = paragraph[0]
        for pattern, block in ((DISPLAY, True), (INLINE, False)):
            for match in pattern.finditer(rest):
                latex = _latex(match)
                if latex is not None:
                    start = paragraph.start()
                    found.append((start + match.start(), start + match.end(), latex, block))
            rest = pattern.sub(lambda m: " " * len(m[0]), rest)
    return sorted(found)


def _latex(match: re.Match) -> str | None:
    """What stands between the delimiters; None where the match only is an escaped backslash."""
    groups = match.groupdict()
    if groups:
        latex = groups["math"] or groups["math3"] or groups["math2"]
        return re.sub(r"^[ \t]*>[ \t]?", "", latex, flags=re.MULTILINE)
    return match[3] or match[6]


def math_spans(page: Page) -> list[tuple[int, str, bool]]:
    """(line, LaTeX, is display) of each formula of a page; references to values are left as written."""
    return [(page.line_of(start), latex, block) for start, _, latex, block in math_ranges(page.prose)]


def math_errors(page: Page) -> list[tuple[int, str]]:
    """(line, what is wrong; what would be right) of each formula that would not be rendered."""
    converter, found, prose = Converter(), [], page.prose
    for start, end, latex, block in math_ranges(prose):
        prose = prose[:start] + re.sub(r"[^\n]", " ", prose[start:end]) + prose[end:]
        try:
            converter.convert(VALUE.sub("0", latex), block=block)
        except MathError as error:
            found.append((page.line_of(start), f"公式 {_short(latex)} {error}；{REMEDY}"))
    for stray in STRAY.finditer(prose):
        found.append((page.line_of(stray.start()), "“$$” 没有配对；补上另一个，公式中不能有空行"))
    return sorted(found)


def _short(latex: str) -> str:
    line = " ".join(latex.split())
    return line if len(line) <= 60 else line[:57] + "…"


# --- rendering -------------------------------------------------------------------------------------------------------


class OwnLinesProcessor(BlockProcessor):
    """Cut a display formula on lines of its own out of the paragraph around it; arithmatex wants it alone."""

    def test(self, parent: etree.Element, block: str) -> bool:
        match = OWN_LINES.search(block)
        return bool(match) and match[0] != block.strip("\n")

    def run(self, parent: etree.Element, blocks: list[str]) -> None:
        block = blocks.pop(0)
        match = OWN_LINES.search(block)
        parts = block[: match.start()], match[0], block[match.end() :]
        blocks[:0] = [part.strip("\n") for part in parts if part.strip()]


class DisplayInLine(InlineProcessor):
    """`$$…$$` inside a line of text: in display style, but in its line."""

    def handleMatch(self, match: re.Match, data: str) -> tuple[etree.Element, int, int]:  # noqa: N802
        element = etree.Element("span", {"class": "arithmatex", "data-display": ""})
        element.text = AtomicString(rf"\({match[1]}\)")
        return element, match.start(0), match.end(0)


class MathProcessor(Treeprocessor):
    """Convert what arithmatex found, and give a heading with a formula a label for the table of contents."""

    def __init__(self, md: Markdown):
        super().__init__(md)
        self.converter = Converter()

    def run(self, root: etree.Element) -> None:
        self.converter.reset()
        labels = [(heading, self._label(heading)) for heading in _headings(root)]
        number = 0
        for element in list(root.iter()):
            if "arithmatex" in (element.get("class") or "").split():
                number += element.tag == "div"
                self._convert(element, number)
        for heading, label in labels:
            if label:
                heading.set("data-toc-label", label)

    def _convert(self, element: etree.Element, number: int) -> None:
        """Replace a formula's LaTeX (still between arithmatex's delimiters) by its MathML, or by what is wrong."""
        block = element.tag == "div"
        latex = _source(element)
        try:
            mathml = self.converter.convert(latex, block=block or "data-display" in element.attrib)
        except MathError as error:
            self._fail(element, latex, str(error))
            return
        element.attrib.pop("data-display", None)
        element.text = self.md.htmlStash.store(mathml)
        element.set("class", f"arithmatex {'math-block' if block else 'math-inline'}")
        if block:
            element.attrib.update({"tabindex": "0", "role": "group", "aria-label": f"公式 {number}"})
        else:
            _keep_punctuation(element)

    def _fail(self, element: etree.Element, latex: str, message: str) -> None:
        element.attrib.clear()
        element.attrib.update({"class": "course-error", "role": "alert"})
        element.text = AtomicString(f"✗ 公式{message}：")
        code = etree.SubElement(element, "code")
        code.text = AtomicString(html.escape(latex.strip(), quote=False))

    def _label(self, heading: etree.Element) -> str | None:
        """The heading as plain text where it holds a formula and names no label itself."""
        formulas = [e for e in heading.iter() if "arithmatex" in (e.get("class") or "").split()]
        if not formulas or "data-toc-label" in heading.attrib:
            return None
        return "".join(self._texts(heading)).strip()

    def _texts(self, element: etree.Element) -> Iterator[str]:
        if "arithmatex" in (element.get("class") or "").split():
            latex = _source(element)
            try:
                yield html.escape(plain(Converter().convert(latex, block=False)))
            except MathError:
                yield html.escape(latex)
        else:
            yield element.text or ""
            for child in element:
                yield from self._texts(child)
                yield child.tail or ""


def _keep_punctuation(element: etree.Element) -> None:
    """Hold a formula and the punctuation after it together: browsers would begin a line with 、 there."""
    match = CLOSING.match(element.tail or "")
    if match:
        formula = etree.Element(element.tag, dict(element.attrib))
        formula.text, formula.tail = element.text, match[0]
        element.attrib.clear()
        element.set("class", "math-keep")
        element.text, element.tail = None, element.tail[match.end() :]
        element.append(formula)


def _headings(root: etree.Element) -> list[etree.Element]:
    return [e for e in root.iter() if isinstance(e.tag, str) and re.fullmatch(r"h[1-6]", e.tag)]


def _source(element: etree.Element) -> str:
    r"""LaTeX between `\(…\)`, or `\[…\]` where arithmatex has escaped it."""
    latex = (element.text or "")[2:-2]
    return html.unescape(latex) if element.tag == "div" else latex
