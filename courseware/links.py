"""Links, anchors and block frames of the built site, checked in its HTML (MkDocs' own warnings miss raw HTML)."""

from __future__ import annotations

import os
import re
from functools import cache
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

from courseware.compiled import unfinished
from courseware.page import Page
from courseware.problem import Problem
from courseware.project import Project

REFERENCE = re.compile(r'<(?P<tag>[a-z][\w-]*)\b(?P<rest>[^>]*?\s(?:href|src|action)="(?P<target>[^"]*)"[^>]*)')
ID = re.compile(r'\sid="([^"]*)"')
ADDRESS = re.compile(r'\brel="?(?:canonical|alternate|next|prev)\b')  # of a `<link>` that a browser does not fetch
FRAME = re.compile(r'<div class="course-code"[^>]*>')
# What must not be published: a fault shown in its place, or a container's row that Markdown did not read.
RAW = re.compile(r'<\w+ [^>]*class="course-(?:problems|error)\b[^>]*>(?P<fault>.{0,200})|^[ \t]*(?:<(?:p|code)>)?/{5,}(?:</p>)?[ \t]*$', re.MULTILINE | re.DOTALL)
LOADED = {"script", "img", "iframe", "source", "video", "audio", "link"}  # tags whose target a browser fetches at once


def check(site: Path, project: Project, blocks: list[dict], base: str = "") -> list[Problem]:
    """Every reference of every page leads somewhere, nothing is fetched from outside, every block has its frame.

    `base` is the path of the site's address, with which links from its root begin.
    """
    sources = {_built(site, project, page): page for page in project.pages}
    notebooks = {_place_of(site, path.relative_to(project.docs)): project.shown(path) for path in project.notebooks}
    found = []
    for path in unfinished(site):  # the others have thousands of links, of which the tests follow every one
        text = path.read_text("utf-8")
        for match in REFERENCE.finditer(text):
            tag = "a" if match["tag"] == "link" and ADDRESS.search(match["rest"]) else match["tag"]
            fault = _fault(site, path, tag, unescape(match["target"]), base)
            if fault:
                shown = notebooks.get(path, f"site/{path.relative_to(site).as_posix()}")
                found.append(_place(shown, sources.get(path), match["target"], fault))
        if path in sources:
            found += _raw(sources[path], text)
    return found + _frames(project, sources, blocks)


def _built(site: Path, project: Project, page: Page) -> Path:
    return _place_of(site, Path(project.page_name(page.path)))


def _place_of(site: Path, source: Path) -> Path:
    """The built page of a file of docs/, with or without `use_directory_urls`."""
    name = source.with_suffix("")
    if name.name in ("index", "README"):
        return site / name.parent / "index.html"
    return site / name / "index.html" if (site / name / "index.html").exists() else site / name.with_suffix(".html")


def _raw(page: Page, text: str) -> list[Problem]:
    found = []
    for match in RAW.finditer(text):
        said = " ".join(re.sub(r"<[^>]*>", " ", match["fault"] or "").split())
        fault = f"页面上会显示一处错误：{said[:80]}" if said else "有容器没有读成容器，会原样显示"
        line = next((container.line for container in page.containers if container.level or container.depth), 1)
        found.append(Problem(page.path, line if not said else 1, fault, "改正它" if said else "让容器和列表少套几层"))
    return sorted(set(found))


def _fault(site: Path, page: Path, tag: str, target: str, base: str = "") -> str | None:
    parts = urlsplit(target)
    if parts.scheme == "data" or target == "":
        return None
    if parts.scheme or parts.netloc:
        return f"页面会从站外加载 {target}" if tag in LOADED and parts.scheme != "mailto" else None
    path = page
    if parts.path:
        inside = parts.path.removeprefix(base.rstrip("/") + "/") if parts.path.startswith("/") else parts.path
        start = site if parts.path.startswith("/") else page.parent
        path = Path(os.path.normpath(start / unquote(inside).lstrip("/")))
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


def _place(shown: str, page: Page | None, target: str, fault: str) -> Problem:
    """The source line that mentions the target's end; what no page mentions comes from the theme, or a notebook."""
    tail = unquote(target).rstrip("/").split("/")[-1].split("#")[-1]
    line = _mention(page, tail, "#" in target) if page and tail else 0
    if line:
        return Problem(page.path, line, fault, "改正链接；要用的文件放进 docs/")
    if shown.endswith(".ipynb"):
        return Problem(shown, 1, fault, "改正笔记本里的链接；要用的文件放进 docs/")
    return Problem(shown, 1, fault, "它不在页面源文件里：改正主题设置或模板")


def _mention(page: Page, tail: str, fragment: bool) -> int:
    """The first line that links there, else the first one that mentions it at all, else 0: `{#c}` is no link to #c."""
    end = re.escape(tail)
    link = rf"\]\([^)\s]*#{end}[)\s]|\]:.*#{end}\s*$|=[\"'][^\"']*#{end}[\"']" if fragment else rf"(?:\]\(|\]:|=[\"']).*{end}"
    for pattern in (link, end):
        for number, text in enumerate(page.lines, 1):
            if re.search(pattern, text):
                return number
    return 0


def _frames(project: Project, sources: dict[Path, Page], blocks: list[dict]) -> list[Problem]:
    """A block that has a record but no frame on its page ran unseen; one with another state says what is not so."""
    found = []
    for path, page in sources.items():
        name = project.page_name(page.path)
        text = path.read_text("utf-8") if path.is_file() else ""
        tags = [dict(re.findall(r'\s([\w-]+)="([^"]*)"', match[0])) for match in FRAME.finditer(text)]
        frames = {tag.get("id"): tag.get("data-status") for tag in tags}
        for block in blocks:
            if block["page"] != name:
                continue
            status = frames.get(f"block-{block['number']}")
            if status is None:
                fault = "这个代码块执行过，却没有显示在页面上"
                found.append(Problem(page.path, block["line"], fault, "检查它的缩进和外层容器"))
            elif status != block["status"]:
                fault = f"页面上这个代码块的状态是 {status}，账本里是 {block['status']}"
                found.append(Problem(page.path, block["line"], fault, "让扩展 courseware.dialect 的 ledger 指向 .courseware/ledger.json"))
    return found
