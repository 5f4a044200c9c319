"""The checker: every mistake of every page at once, with its place, its fault and its remedy. No code of a page runs.

Subjects are one file each (`text`, `containers`, `quizzes`, `charts`, `tables`, `code`, `directives`, `listings`, `values`, `links`,
`pictures`, `raw`; beside the pages `assets` and `navigation`);
a rule is a generator `rule(page, context)`. Rendering passes many mistakes in silence (an unknown container prints raw,
pytest-codeblocks walks past a fence with a title), so whatever a page may get wrong has to be named here.
"""

from __future__ import annotations

from pathlib import Path

from courseware.check import (
    assets, charts, code, containers, directives, links, listings, navigation, pictures, quizzes, raw, tables, text, values,
)
from courseware.check.context import Context
from courseware.page import Page, scan
from courseware.problem import Problem

SUBJECTS = [text, containers, quizzes, charts, tables, code, directives, listings, values, links, pictures, raw]
RULES = [rule for subject in SUBJECTS for rule in subject.RULES]


def check(docs: Path, *, root: Path | None = None) -> list[Problem]:
    """All problems of all pages, templates and notebooks below `docs`, sorted.

    `root` is the folder that `--8<--` paths and the modules of demos start from; the parent of `docs` unless given.
    """
    context = Context(docs, root)
    found = [problem for page in context.pages.values() for problem in check_page(page, context)]
    return sorted({*found, *context.unreadable, *assets.problems(context), *navigation.problems(context)})


def check_page(page: Page | str, context: Context, *, path: str = "") -> list[Problem]:
    """Problems of one page, sorted. Text that is no file yet may be given with the `path` that it would have."""
    if isinstance(page, str):
        page = scan(page, path)
    found = [problem for rule in RULES for problem in rule(page, context)]
    if not found:  # what pytest-codeblocks makes of the page is only worth a word where nothing else explains it
        found += code.agreement(page, context)
    return sorted(set(found))
