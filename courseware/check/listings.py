"""`--8<--` listings: alone in a fence whose title is the path of an existing file of the repository."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from courseware.check.context import Context, nearest
from courseware.page import Fence, Page
from courseware.problem import Problem

SCISSORS = re.compile(r"-+8<-+")
LINE = re.compile(r"[ \t]*-+8<-+(?:[ \t]+(?P<quote>[\"']).*(?P=quote))?[ \t]*$")
TARGET = re.compile(r"(?P<path>.+?)(?::(?P<section>[A-Za-z][\w-]*)|(?P<lines>(?::-?\d*){1,2}(?:,-?\d*(?::-?\d*)?)*))?")
TITLE = re.compile(r"\btitle=(?P<quote>[\"'])(?P<title>.*?)(?P=quote)")
SECTION = re.compile(r"-+8<-+[ \t]+\[[ \t]*(?P<type>start|end)[ \t]*:[ \t]*(?P<name>[\w-]+)[ \t]*\]", re.IGNORECASE)
FORM = '写成独占一个代码块的 --8<-- "文件"，首行为 ```python title="文件"'


def misplaced(page: Page, context: Context) -> Iterator[Problem]:
    for number, line in enumerate(page.prose.split("\n"), 1):
        if SCISSORS.search(line):
            yield Problem(page.path, number, "--8<-- 不在代码块里", FORM)
    for fence in page.fences:
        for number, line in enumerate(fence.lines, fence.line + 1):
            if not fence.listing and not fence.commented and LINE.match(line):
                fault = "--8<-- 所在的代码块还有别的内容，或没有写文件名"
                yield Problem(page.path, number, fault, f"{FORM}；只想展示这一行就写 ;--8<--")


def titles(page: Page, context: Context) -> Iterator[Problem]:
    for fence in page.fences:
        if fence.listing:
            path = TARGET.fullmatch(fence.listing)["path"]
            match = TITLE.search(fence.info)
            form = f'首行写成 ```{fence.language or "python"} title="{path}"'
            if not match:
                yield Problem(page.path, fence.line, f"清单 {path} 没有标题", form)
            elif match["title"] != path:
                yield Problem(page.path, fence.line, f"清单的标题 {match['title']} 不是它的路径 {path}", form)


def targets(page: Page, context: Context) -> Iterator[Problem]:
    for fence in page.fences:
        if fence.listing:
            fault, remedy = _target(fence, context.root)
            if fault:
                yield Problem(page.path, _line(fence), fault, remedy)


def _line(fence: Fence) -> int:
    return fence.line + 1 + next(n for n, line in enumerate(fence.lines) if line.strip())


def _target(fence: Fence, root: Path) -> tuple[str, str]:
    match = TARGET.fullmatch(fence.listing)
    name, section = match["path"], match["section"]
    path = (root / name).resolve()
    if not path.is_relative_to(root) or Path(name).is_absolute() or ".." in Path(name).parts:
        return f"清单的文件 {name} 在仓库之外", "写仓库里的文件，路径从仓库根目录起"
    if not path.is_file():
        siblings = sorted(p.relative_to(root).as_posix() for p in path.parent.glob("*") if p.is_file())
        return f"清单的文件 {name} 不存在", f"{nearest(name, siblings)}（路径从仓库根目录起）"
    text = path.read_text("utf-8", errors="replace")
    if section:
        marks = [(m["type"].lower(), m["name"]) for m in SECTION.finditer(text)]
        if ("start", section) not in marks:
            found = [name for kind, name in marks if kind == "start"]
            return f"文件 {name} 里没有名为 {section} 的段落", f"{nearest(section, found)}，或在文件里加 # --8<-- [start:{section}]"
        if ("end", section) not in marks:
            return f"文件 {name} 的段落 {section} 没有结尾", f"在文件里加 # --8<-- [end:{section}]"
    numbers = [int(number) for number in re.findall(r"\d+", match["lines"] or "")]
    count = text.count("\n") + 1
    if any(number > count for number in numbers):
        return f"文件 {name} 只有 {count} 行，没有第 {max(numbers)} 行", "改正行号，或改用 [start:…] 段落"
    return "", ""


RULES = [misplaced, titles, targets]
