"""The checker: every mistake of every page at once, with its place, its fault and its remedy. No code of a page runs.

Subjects are one file each (`text`, `containers`, `quizzes`, `charts`, `tables`, `code`, `directives`, `listings`, `values`, `links`,
`pictures`, `assets`);
a rule is a generator `rule(page, context)`. Rendering passes many mistakes in silence (an unknown container prints raw,
pytest-codeblocks walks past a fence with a title), so whatever a page may get wrong has to be named here.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from courseware.check import assets, charts, code, containers, directives, links, listings, pictures, quizzes, tables, text, values
from courseware.check.context import Context
from courseware.page import Page, scan
from courseware.problem import Problem
from courseware.project import Project

SUBJECTS = [text, containers, quizzes, charts, tables, code, directives, listings, values, links, pictures]
RULES = [rule for subject in SUBJECTS for rule in subject.RULES]


def check(docs: Path, *, root: Path | None = None) -> list[Problem]:
    """All problems of all pages, templates and notebooks below `docs`, sorted.

    `root` is the folder that `--8<--` paths and the modules of demos start from; the parent of `docs` unless given.
    """
    context = Context(docs, root)
    found = [problem for page in context.pages.values() for problem in check_page(page, context)]
    return sorted({*found, *context.unreadable, *assets.problems(context)})


def check_changed(project: Project) -> list[Problem]:
    """`check`, unless it found nothing last time and no file has changed since: names, sizes and times tell."""
    note, stamp = project.state / "checked", _stamp(project)
    if note.is_file() and note.read_text("utf-8") == stamp:
        return []
    found = check(project.docs, root=project.root)
    if not found:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(stamp, "utf-8")
    return found


def _stamp(project: Project) -> str:
    """Hash over the files that a page can name or a rule can stand in; hidden ones and built pages (`site*`) are neither."""
    beside = [path for path in project.root.iterdir() if not path.name.startswith((".", "site"))]
    digest = hashlib.sha256()
    for top in sorted({*beside, project.docs, Path(__file__).parents[1]}):
        for path in [top, *sorted(top.rglob("*"))]:
            if path.suffix != ".pyc" and path.name != "__pycache__":
                told = path.lstat()
                digest.update(f"{path}\0{told.st_size}\0{told.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def check_page(page: Page | str, context: Context, *, path: str = "") -> list[Problem]:
    """Problems of one page, sorted. Text that is no file yet may be given with the `path` that it would have."""
    if isinstance(page, str):
        page = scan(page, path)
    found = [problem for rule in RULES for problem in rule(page, context)]
    if not found:  # what pytest-codeblocks makes of the page is only worth a word where nothing else explains it
        found += code.agreement(page, context)
    return sorted(set(found))
