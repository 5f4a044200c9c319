"""References to what has been computed or recorded: `{{value:NAME}}`, `{{value:NAME:.4f}}`, `{{record:FILE#KEY}}`.

Contract: resolved in prose before Markdown reads it, never in code. In text a value is written so that Markdown and
HTML see plain characters only; inside a formula it stands bare. A record carries its unit and a link to its
provenance on the report, except where no link can stand: formulas, raw HTML, the text of another link.
What cannot be resolved is shown in its place; the checker and the runner report the same with its line.
"""

from __future__ import annotations

import re
import string
from typing import Any

from markdown import Markdown
from markdown.util import BLOCK_LEVEL_ELEMENTS

from courseware.dialect.mathml import math_ranges
from courseware.page import HIDDEN, VALUE

REPORT = "/verification.md"
TAG = re.compile(r"</?[A-Za-z][^<>]*>")
HTML_OPENING = re.compile(r"^[ ]{0,3}<(?P<tag>[A-Za-z][\w-]*)\b[^<>]*>", re.MULTILINE)
CONTROL = r"[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029]"  # Python-Markdown keeps its own marks between two of them
LINK_TEXT = re.compile(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\](?=[(\[])")


def extend(md: Markdown, course: object) -> None:
    """Nothing to register: `source` calls `resolve` on prose while it writes the page."""


class Unresolved(LookupError):
    """A reference that leads nowhere; the message says in Chinese why."""


def resolve(text: str, course: Any) -> str:
    """Prose (one or many lines, no fences) with its references replaced; code spans and comments are left alone."""
    if not VALUE.search(text):
        return text
    code = [m.span() for m in HIDDEN.finditer(text)]
    blanked = _blank(text, code)
    formulas = [(start, end) for start, end, *_ in math_ranges(blanked)]
    tags = [m.span() for m in TAG.finditer(blanked)]
    markup = [*tags, *((start, end) for start, end, _ in html_blocks(blanked)), *(m.span() for m in LINK_TEXT.finditer(blanked))]

    def write(match: re.Match) -> str:
        place = match.start()
        if _within(place, code):
            return match[0]
        spec, is_record = match["spec"].strip(), match["what"] == "record"
        try:
            shown = record(spec, course) if is_record else value(spec, course)
        except Unresolved:
            return _fault(spec, math=_within(place, formulas), tag=_within(place, tags))
        if _within(place, formulas):
            return shown
        linked = is_record and not _within(place, markup)
        return f"[{plain(shown)}]({REPORT}#{anchor(spec.partition('#')[0])})" if linked else plain(shown)

    return VALUE.sub(write, text)


def _fault(spec: str, *, math: bool, tag: bool) -> str:
    """What stands where a reference leads nowhere: text of a formula, of an attribute, or a marked span."""
    if math:
        return rf"\text{{✗ 未解析：{_letters(spec)}}}"
    shown = f"✗ 未解析：{plain(spec)}"
    return shown if tag else f'<span class="course-error">{shown}</span>'


def value(spec: str, course: Any) -> str:
    """Text of NAME or NAME:FORMAT after the page's Runnable chains ran. Raises Unresolved, also where two chains differ."""
    bound = (course.ledger["chains"].get(chain.key, {}).get("values", {}).get(spec) for chain in course.chains)
    texts = {text for text in bound if text is not None}
    if len(texts) > 1:
        raise Unresolved(f"值 {spec} 在两个代码块里不同（{'、'.join(sorted(texts))}）")
    if not texts:
        raise Unresolved(f"值 {spec} 没有被本页已执行的代码块赋值")
    return texts.pop()


def record(spec: str, course: Any) -> str:
    """Figure and unit of FILE#KEY, such as `4281 GB/s`, marked where its source has changed. Raises Unresolved."""
    name, _, key = spec.partition("#")
    evidence = course.ledger["evidence"].get(stem(name), {})
    figures = evidence.get("figures", {})
    if key not in figures:
        raise Unresolved(f"记录 {spec} 不在 docs/evidence/ 里")
    text = f"{number(figures[key]['value'])} {figures[key].get('unit') or ''}".strip()
    return f"{text}（⚠ 记录已过期）" if evidence.get("stale") else text


def number(figure: float | int | str) -> str:
    """An integer as it is, a float with four significant digits, without an exponent from 1e-4 to 1e15."""
    if not isinstance(figure, float):
        return str(figure)
    short = f"{figure:.4g}"
    return f"{float(short):.0f}" if "e+" in short and abs(figure) < 1e15 else short


def quantiles(key: str) -> tuple[str, str]:
    """Keys of the 20 % and 80 % quantiles that may be recorded beside a median."""
    return f"{key}_low", f"{key}_high"


def stem(name: str) -> str:
    """Name of an evidence file without its ending."""
    return name.strip().removesuffix(".json")


def anchor(name: str) -> str:
    """Anchor of an evidence file on the report."""
    return f"evidence-{stem(name)}"


def plain(text: str) -> str:
    """Text in which neither Markdown nor HTML finds anything to act upon; it keeps to its line."""
    return re.sub(r"[^\w\s.]|_|\n|\.(?!\d)", _entity, re.sub(CONTROL, "\ufffd", text), flags=re.ASCII)


def _entity(match: re.Match) -> str:
    character = match[0]
    return f"&#{ord(character)};" if character in string.punctuation or character == "\n" else character


def _letters(spec: str) -> str:
    """A reference's name as a formula's text can hold it."""
    return re.sub(r"[^\w.:]", " ", spec).replace("_", r"\_")


def _within(place: int, ranges: list[tuple[int, int]]) -> bool:
    return any(start <= place < end for start, end in ranges)


def _blank(text: str, ranges: list[tuple[int, int]]) -> str:
    for start, end in ranges:
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return text


def html_blocks(text: str) -> list[tuple[int, int, str]]:
    """(start, end, tag) of each raw HTML block, from a block-level tag at a line's start to the tag that closes it.

    `text` has its code blanked. A block with a `markdown` attribute is read as Markdown and does not count.
    """
    found, done = [], 0
    for match in HTML_OPENING.finditer(text):
        tag = match["tag"].lower()
        raw = tag in BLOCK_LEVEL_ELEMENTS and tag != "hr" and not match[0].endswith("/>")
        if match.start() < done or not raw or re.search(r"\smarkdown\b", match[0]):
            continue
        done = _closing(text, tag, match.start())
        found.append((match.start(), done, tag))
    return found


def _closing(text: str, tag: str, start: int) -> int:
    """Offset after the tag that closes the element beginning at `start`; the end of the text where none does."""
    depth = 0
    for match in re.finditer(rf"<(/?){tag}\b[^<>]*>", text[start:], re.IGNORECASE):
        depth += -1 if match[1] else 1
        if depth == 0:
            return start + match.end()
    return len(text)
