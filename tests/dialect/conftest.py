"""Rendering for the dialect's tests: the site's own extension stack, and HTML that can be compared and asked."""

from __future__ import annotations

import json
import re

import markdown
import pytest
from bs4 import BeautifulSoup
from pymdownx.slugs import slugify

EXTENSIONS = [
    "tables",
    "attr_list",
    "md_in_html",
    "def_list",
    "footnotes",
    "toc",
    "sane_lists",
    "pymdownx.superfences",
    "pymdownx.highlight",
    "pymdownx.betterem",
    "pymdownx.arithmatex",
    "pymdownx.snippets",
    "courseware.dialect",
]
CONFIGS = {
    "toc": {"permalink": True, "slugify": slugify(case="lower")},
    "pymdownx.highlight": {"use_pygments": True, "pygments_lang_class": True},
    "pymdownx.betterem": {"smart_enable": "all", "punctuation": False},
    "pymdownx.arithmatex": {"generic": True},
    "pymdownx.snippets": {"base_path": ["."], "check_paths": True},
}


def squeeze(html: str) -> str:
    """HTML with the white space between tags and at their edges taken out, so that tests may be laid out for reading."""
    return re.sub(r"\s+", " ", re.sub(r"\s*(<[^>]+>)\s*", r"\1", html)).strip()


class Renderer:
    """Renders Markdown with the full stack; `ledger` is what the runner would have written."""

    def __init__(self, folder):
        self.folder = folder
        self.demos = folder / "demos"
        self.demos.mkdir()
        self.options = {"ledger": str(folder / "ledger.json"), "demos": str(self.demos)}

    def ledger(self, **parts) -> None:
        empty = {"verification": {}, "chains": {}, "demos": {}, "evidence": {}}
        (self.folder / "ledger.json").write_text(json.dumps(empty | parts), "utf-8")

    def html(self, text: str, **options) -> str:
        configs = CONFIGS | {"courseware.dialect": self.options | options}
        return markdown.Markdown(extensions=EXTENSIONS, extension_configs=configs).convert(text)

    def soup(self, text: str, **options) -> BeautifulSoup:
        return BeautifulSoup(self.html(text, **options), "html.parser")


@pytest.fixture
def render(tmp_path) -> Renderer:
    return Renderer(tmp_path)
