"""What the rules know beyond the page in hand: the other pages, the files of docs/, demos and evidence."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import yaml
from pathspec.gitignore import GitIgnoreSpec

from courseware import evidence
from courseware.dialect.demo import demo_names
from courseware.dialect.picture import picture_names
from courseware.page import CODE_SPAN, Page, PageError, read
from courseware.problem import Problem

UNREADABLE = re.compile(r"(?P<path>.*?):(?P<line>\d+): (?P<fault>.*?)；(?P<remedy>.*)", re.DOTALL)
EXCLUDED = [".*", "/templates/"]  # what MkDocs leaves out by itself


class Context:
    """A docs folder read once. Paths of `files` and keys of `pages` are relative to it, with slashes."""

    def __init__(self, docs: Path, root: Path | None = None):
        self.docs = docs.resolve()
        self.root = (root or self.docs.parent).resolve()
        self.unreadable: list[Problem] = []

    def shown(self, path: Path) -> str:
        """A path as messages name it: from the root."""
        return Path(os.path.relpath(path, self.root)).as_posix()

    def name(self, page: Page) -> str:
        """The page's path relative to docs/, as in `pages`."""
        return Path(os.path.relpath(self.root / page.path, self.docs)).as_posix()

    @cached_property
    def files(self) -> set[str]:
        """Every file that the site takes up. The exact spelling counts, also on file systems that ignore case."""
        excluded = GitIgnoreSpec.from_lines([*EXCLUDED, *str(self.settings.get("exclude_docs") or "").splitlines()])
        found = (path.relative_to(self.docs).as_posix() for path in self.docs.rglob("*") if path.is_file())
        return {name for name in found if not excluded.match_file(name)}

    @cached_property
    def settings(self) -> dict:
        """mkdocs.yml, empty where there is none or it is no YAML, which `navigation` reports."""
        path = self.root / "mkdocs.yml"
        try:
            data = yaml.load(path.read_text("utf-8"), Loader) if path.is_file() else None
        except yaml.YAMLError:
            data = None
        return data if isinstance(data, dict) else {}

    @cached_property
    def pages(self) -> dict[str, Page]:
        """The pages that can be read; the others are in `unreadable`."""
        found = {}
        for name in sorted(self.files):
            if name.endswith(".md"):
                try:
                    found[name] = read(self.docs / name, self.shown(self.docs / name))
                except PageError as error:
                    match = UNREADABLE.fullmatch(str(error))
                    self.unreadable.append(Problem(match["path"], int(match["line"]), match["fault"], match["remedy"]))
        return found

    @cached_property
    def demos(self) -> list[str]:
        """Names of the demos that have a template."""
        return demo_names(self.docs / "assets" / "demos")

    @cached_property
    def pictures(self) -> set[str]:
        """Templates of pictures, as paths relative to docs/: images may name them, the site does not hold them."""
        return {f"assets/pictures/{name}" for name in picture_names(self.docs / "assets" / "pictures")}

    @cached_property
    def figures(self) -> dict[str, dict[str, dict]]:
        """Figures of each evidence file by key, by its stem; none for a file that is damaged, which `assets` reports."""
        folder = self.docs / "evidence"
        loaded = evidence.load(folder)
        return {path.stem: loaded[path.stem]["figures"] if path.stem in loaded else {} for path in sorted(folder.glob("*.json"))}

    @cached_property
    def anchors(self) -> dict[str, set[str]]:
        """The anchors of a page or notebook, filled by `links` as they are asked for."""
        return {}


class Loader(yaml.SafeLoader):
    """mkdocs.yml may hold `!ENV` and `!!python/…` tags; their values do not matter here."""


Loader.add_multi_constructor("", lambda loader, suffix, node: None)


def nearest(word: str, known: Iterable[str], form: str = "{}", most: int = 8) -> str:
    """`是不是要写 X` for the known word that looks most like `word`, else a list of them, `most` at the most."""
    names = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.5)
    if close:
        return f"是不是要写 {form.format(names[close[0]])}"
    shown = [form.format(name) for name in names.values()]
    if not shown:
        return "现在一个也没有"
    return f"可以写 {'、'.join(shown[:most])}{' …' if len(shown) > most else ''}"


def code_lines(page: Page, markers: str = "`~") -> set[int]:
    """Lines that belong to a rendered fence with one of these markers, its own two marker lines included."""
    lines: set[int] = set()
    for fence in page.fences:
        if not fence.commented and fence.marker[0] in markers:
            lines.update(range(fence.line, (fence.end or len(page.lines)) + 1))
    return lines


def with_comments(page: Page) -> str:
    """The text as pytest-codeblocks looks for its marks: backtick fences and code spans blanked, comments kept (and
    tilde fences, which it does not know). Offsets and lines as in the page."""
    inside = code_lines(page, "`")
    lines = [" " * len(line) if number in inside else line for number, line in enumerate(page.lines, 1)]
    return CODE_SPAN.sub(blank, "\n".join(lines))


def blank(match: re.Match) -> str:
    """The match as spaces, lines kept."""
    return re.sub(r"[^\n]", " ", match[0])
