"""The course's Markdown dialect as one Python-Markdown extension: `courseware.dialect`.

`source` rewrites a page first (it is the only part that reads `:::`), everything else renders what it wrote.
Each part exposes `extend(md, course)`; `course` is refreshed for every page. Nothing here runs code or knows MkDocs.
"""

from __future__ import annotations

from importlib import import_module

from markdown import Extension, Markdown

from courseware.dialect.course import Course

PARTS = (
    "source",
    "admonitions",
    "unfold",
    "demo",
    "picture",
    "chart",
    "quiz",
    "related",
    "code",
    "values",
    "mathml",
    "tables",
    "lines",
    "report",
    "compiled",
    "progress",
)


class DialectExtension(Extension):
    """Options are those of `Course`."""

    def __init__(self, **kwargs):
        self.config = {
            "ledger": [".courseware/ledger.json", "the working ledger that the runner writes"],
            "related_base": [{}, "address of other chapters: {7: URL, …}, or one address with {n}; empty: plain text"],
            "demos": ["docs/assets/demos", "folder of the demos' templates, NAME.html.j2"],
            "pictures": ["docs/assets/pictures", "folder of the pictures' templates, NAME.svg.j2"],
        }
        super().__init__(**kwargs)

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (Python-Markdown's name)
        md.course = course = Course(self.getConfigs())
        for part in PARTS:
            import_module(f"courseware.dialect.{part}").extend(md, course)


def makeExtension(**kwargs) -> DialectExtension:  # noqa: N802 (Python-Markdown's name)
    return DialectExtension(**kwargs)
