"""Rendering for the dialect's tests: the site's own extension stack, and HTML that can be compared and asked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import markdown
import pytest
from bs4 import BeautifulSoup
from mkdocs.utils import yaml_load

ROOT = Path(__file__).parents[2]


def stack() -> tuple[list[str], dict[str, dict]]:
    """Extensions and their options as mkdocs.yml has them, `toc` and `tables` included."""
    entries = yaml_load((ROOT / "mkdocs.yml").read_text("utf-8"))["markdown_extensions"]
    configs = {}
    for entry in entries:
        configs |= entry if isinstance(entry, dict) else {entry: {}}
    return list(configs), {name: options or {} for name, options in configs.items()}


def squeeze(html: str) -> str:
    """HTML without white space around tags, so that expected HTML may be laid out for reading."""
    return re.sub(r"\s+", " ", re.sub(r"\s*(<[^>]+>)\s*", r"\1", html)).strip()


class Renderer:
    """Renders Markdown with the full stack; `ledger` is what the runner would have written."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.demos = folder / "demos"
        self.demos.mkdir()
        self.options = {"ledger": str(folder / "ledger.json"), "demos": str(self.demos), "related_base": {}}

    def ledger(self, **parts) -> None:
        empty = {"verification": {}, "chains": {}, "demos": {}, "evidence": {}}
        (self.folder / "ledger.json").write_text(json.dumps(empty | parts), "utf-8")

    def html(self, text: str, **options) -> str:
        extensions, configs = stack()
        configs["courseware.dialect"] = self.options | options
        return markdown.Markdown(extensions=extensions, extension_configs=configs).convert(text)

    def soup(self, text: str, **options) -> BeautifulSoup:
        return BeautifulSoup(self.html(text, **options), "html.parser")


@pytest.fixture
def render(tmp_path) -> Renderer:
    return Renderer(tmp_path)
