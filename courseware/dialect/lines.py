"""A line break between two Chinese characters is no space: authors may wrap their paragraphs where they like."""

from __future__ import annotations

from markdown import Markdown
from markdown.inlinepatterns import InlineProcessor

from courseware.dialect.course import Course

# CJK punctuation, kana, ideographs, full-width forms, and the curly quotes that Chinese shares with English
WIDE = r"[\u2018-\u201d\u2026\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff60\U00020000-\U0003ffff]"


def extend(md: Markdown, course: Course) -> None:
    md.inlinePatterns.register(WrappedLine(rf"(?<={WIDE})[ ]?\n[ ]*(?={WIDE})", md), "course_lines", 200)


class WrappedLine(InlineProcessor):
    def handleMatch(self, m, data):  # noqa: N802 (Python-Markdown's name)
        return "", m.start(0), m.end(0)
