"""Links, anchors and block frames of the built site, checked in its HTML (MkDocs' own warnings miss raw HTML)."""

from __future__ import annotations

import re
from functools import cache
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

from courseware.page import Page
from courseware.problem import Problem
from courseware.project import Project

REFERENCE = re.compile(r'<(?P<tag>[a-z][\w-]*)\b[^>]*?\s(?P<name>href|src|action)="(?P<target>[^"]*)"')
ID = re.compile(r'\sid="([^"]*)"')
LOADED = {"script", "img", "iframe", "source", "video", "audio", "link"}  # tags whose target a browser fetches at once


def check(site: Path, project: Project, blocks: list[dict]) -> list[Problem]:
    """Every reference of every page leads somewhere, nothing is fetched from outside, every block has its frame."""
    sources = {_built(site, project, page): page for page in project.pages}
    found = []
    for path in sorted(site.rglob("*.html")):
        text = path.read_text("utf-8")
        for match in REFERENCE.finditer(text):
            fault = _fault(site, path, match["tag"], unescape(match["target"]))
            if fault:
                found.append(_place(project, path, sources.get(path), match["target"], fault))
    return found + _frames(project, sources, blocks)


def _built(site: Path, project: Project, page: Page) -> Path:
    name = Path(project.page_name(page.path)).with_suffix("")
    return site / (name.parent / "index.html" if name.name == "index" else name / "index.html")


def _fault(site: Path, page: Path, tag: str, target: str) -> str | None:
    parts = urlsplit(target)
    if parts.scheme == "data" or target == "":
        return None
    if parts.scheme or parts.netloc:
        return f"页面会从站外加载 {target}" if tag in LOADED and parts.scheme != "mailto" else None
    path = page
    if parts.path:
        base = site if parts.path.startswith("/") else page.parent
        path = (base / unquote(parts.path).lstrip("/")).resolve()
        path = path / "index.html" if path.is_dir() else path
    if not path.is_file():
        return f"链接 {target} 指向不存在的文件"
    fragment = unquote(parts.fragment)
    if fragment and path.suffix == ".html" and fragment not in _ids(path) and not fragment.startswith("__"):
        return f"链接 {target} 的锚点不存在"
    return None


@cache
def _ids(path: Path) -> frozenset[str]:
    return frozenset(unescape(name) for name in ID.findall(path.read_text("utf-8")))


def _place(project: Project, path: Path, page: Page | None, target: str, fault: str) -> Problem:
    """The source line that mentions the target's end; what no page mentions comes from the theme."""
    tail = unquote(target).rstrip("/").split("/")[-1].split("#")[-1]
    line = next((n for n, text in enumerate(page.lines, 1) if tail and tail in text), 0) if page else 0
    if line:
        return Problem(page.path, line, fault, "改正链接；要用的文件放进 docs/")
    return Problem(project.shown(path), 1, fault, "它不在页面源文件里：改正主题设置或模板")


def _frames(project: Project, sources: dict[Path, Page], blocks: list[dict]) -> list[Problem]:
    """A block that has a record but no frame on its page ran unseen."""
    found = []
    for path, page in sources.items():
        ids = _ids(path) if path.is_file() else frozenset()
        for block in blocks:
            if block["page"] == project.page_name(page.path) and f"block-{block['number']}" not in ids:
                fault = "这个代码块执行过，却没有显示在页面上"
                found.append(Problem(page.path, block["line"], fault, "检查它的缩进和外层容器"))
    return found
