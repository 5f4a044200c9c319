"""Keys by which a reader's browser remembers, and the overview of what was read: `docs/assets/js/progress.js` fills it.

Contract: each `<h2>` and each `<form class="quiz">` carries `data-key`, eight hexadecimal digits of a hash over the
text that it stands for: a section down to the next `<h2>`, unless it is empty; a quiz's question, options and right
letters. Markup, white space, states and outputs of blocks leave a key as it is; an edit of the text makes another one,
so that the browser forgets. A paragraph `[PROGRESS]` becomes the overview once all pages are rendered (`hook`), complete
without a script.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from html import escape

from markdown import Markdown
from markdown.postprocessors import Postprocessor

from courseware.page import PROGRESS

MARKER = f"<p>{PROGRESS}</p>"
SECTION = re.compile(
    r'<h2(?P<attributes>[^>]*)>(?P<heading>.*?)</h2>(?P<rest>.*?)(?=<h2\b|<div class="footnote"|\Z)', re.DOTALL
)
QUIZ = re.compile(r'<form class="quiz"(?P<attributes>[^>]*)>.*?</legend>(?P<asked>.*?)</fieldset>', re.DOTALL)
KEY = re.compile(r' data-key="([0-9a-f]{8})"')
ID = re.compile(r'\sid="([^"]*)"')
# What changes with each run or with what stands elsewhere: states and outputs of blocks, numbers of footnotes.
PASSING = re.compile(
    r'<div class="course-code__bar">.*?</div>|<div class="[^"]*\bcourse-output\b.*?</pre>|<sup id="fnref.*?</sup>',
    re.DOTALL,
)
MARKUP = re.compile(r"<(?!/?m)[^>]*>|\s")  # MathML stays: without it x² and x₂ are one
LINK = re.compile(r'<sup id="fnref.*?</sup>|<a class="headerlink".*?</a>|</?a\b[^>]*>', re.DOTALL)


def key(html: str) -> str:
    """Eight hexadecimal digits that stand for the text of a piece of a page."""
    return hashlib.sha256(MARKUP.sub("", PASSING.sub("", html)).encode()).hexdigest()[:8]


def mark(html: str) -> str:
    """A page's HTML with the key of each quiz and each section."""

    def quiz(match: re.Match) -> str:
        return _with_key(match, key(match["attributes"] + match["asked"]), len('<form class="quiz"'))

    def section(match: re.Match) -> str:
        if not MARKUP.sub("", match["rest"]):
            return match[0]  # a heading over footnotes alone
        return _with_key(match, key(match["heading"] + match["rest"]), len("<h2"))

    return SECTION.sub(section, QUIZ.sub(quiz, html))


def _with_key(match: re.Match, digits: str, place: int) -> str:
    return f'{match[0][:place]} data-key="{digits}"{match[0][place:]}'


@dataclass(frozen=True)
class Entry:
    """A page as the overview lists it: title (plain text), address from there, HTML; does it count as reading?"""

    title: str
    address: str
    html: str
    counts: bool


def overview(entries: list[Entry]) -> str:
    """The overview: each page, its sections, the number of its quizzes; what does not count comes last, by title."""
    counted = [(entry, _sections(entry), _quizzes(entry)) for entry in entries if entry.counts]
    pages = [_page(*entry) for entry in counted]
    others = [f"<li>{_link(entry.address, escape(entry.title))}</li>" for entry in entries if not entry.counts]
    total = _count(sum(len(sections) for _, sections, _ in counted), sum(len(quizzes) for *_, quizzes in counted))
    return (
        f'<nav class="progress" aria-label="目录与学习进度" data-search-exclude><p class="progress__total">共 {total}</p>'
        f'<ul>{"".join(pages + others)}</ul><p class="progress__tools"><button type="button">清除本站的学习记录</button> '
        '<span role="status"></span></p></nav>'
    )


def _page(entry: Entry, sections: list[str], quizzes: list[str]) -> str:
    listing = f"<ul>{''.join(sections)}</ul>" if sections else ""
    return (
        f'<li data-quizzes="{" ".join(quizzes)}">{_link(entry.address, escape(entry.title))}'
        f'<span class="progress__count">{_count(len(sections), len(quizzes))}</span>{listing}</li>'
    )


def _sections(entry: Entry) -> list[str]:
    """A list item for each section; its last element is where the script puts the mark."""
    return [
        f'<li data-key="{marked[1]}">{_link(_place(entry, match), LINK.sub("", match["heading"]))} <span></span></li>'
        for match in SECTION.finditer(entry.html)
        if (marked := KEY.search(match["attributes"]))
    ]


def _quizzes(entry: Entry) -> list[str]:
    return [KEY.search(match["attributes"])[1] for match in QUIZ.finditer(entry.html)]


def _count(sections: int, quizzes: int) -> str:
    return f"{sections} 节" + (f"，{quizzes} 道测验" if quizzes else "")


def _place(entry: Entry, section: re.Match) -> str:
    return f"{entry.address}#{ID.search(section['attributes'])[1]}"


def _link(address: str, label: str) -> str:
    return f'<a href="{address}">{label}</a>'


class KeyPostprocessor(Postprocessor):
    def run(self, text: str) -> str:
        return mark(text)


def extend(md: Markdown, course: object) -> None:
    """Register the keys, last of all: they are of the text as readers get it; `course` is not needed."""
    md.postprocessors.register(KeyPostprocessor(md), "course_progress", 1)
