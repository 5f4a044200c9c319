"""Colon rows and markers: a container that is unknown, open to the end or closed twice, what may stand once a page."""

from __future__ import annotations

import re
from collections.abc import Iterator

from courseware.check.context import Context, code_lines, nearest
from courseware.dialect.demo import split_title
from courseware.dialect.related import parse_related
from courseware.dialect.source import CONTAINERS
from courseware.page import COMPILED, PROGRESS, Container, Page, Text
from courseware.problem import Problem

FULL_WIDTH = re.compile(r"[ \t]*(?=[:：]*：)[:：]{3,}[ \t]*(?P<rest>.*?)[ \t]*$")
COLONS = re.compile(r"[ \t]*:{2,}[ \t]*(?P<name>[\w-]*)")
QUOTED = re.compile(r"[ \t]*>[ \t>]*:{3,}")
SLASHES = re.compile(r"[ \t]*/{3,}[ \t]*(?P<rest>.*?)[ \t]*$")


def unknown(page: Page, context: Context) -> Iterator[Problem]:
    for container in page.containers:
        name, row = container.name, ":" * container.colons
        if name in CONTAINERS:
            if container.title.startswith((":", "：")):
                remedy = f"写成 {row}{name} {container.title.lstrip(' :：')}".rstrip()
                yield Problem(page.path, container.line, f"容器名后面多了冒号：{row}{name}{container.title[0]}", remedy)
            continue
        stuck = next((known for known in CONTAINERS if name.startswith(known)), None)
        if stuck:
            rest = f"{name[len(stuck):]} {container.title}".strip(" :：")
            yield Problem(page.path, container.line, f"容器名和标题连在一起：{row}{name}", f"加一个空格：{row}{stuck} {rest}")
        else:
            yield Problem(page.path, container.line, f"没有叫 {name} 的容器", nearest(name, CONTAINERS, row + "{}", len(CONTAINERS)))


def unclosed(page: Page, context: Context) -> Iterator[Problem]:
    for container in page.containers:
        if not container.end:
            row = ":" * container.colons
            fault = f"容器 {row}{container.name} 没有闭合"
            yield Problem(page.path, container.line, fault, f"在它结束的地方单独写一行 {row}（冒号个数相同）")


def stray_closers(page: Page, context: Context) -> Iterator[Problem]:
    for line in page.stray_closers:
        row = page.lines[line - 1].strip()
        remedy = "删去这一行，或让冒号个数与要闭合的容器相同"
        yield Problem(page.path, line, f"{row} 没有可闭合的容器", remedy)


def odd_rows(page: Page, context: Context) -> Iterator[Problem]:
    """Rows meant as a container that the dialect does not take for one."""
    known = {number for c in page.containers for number in (c.line, c.end)} | {*page.stray_closers, *code_lines(page)}
    for number, line in enumerate(page.prose.split("\n"), 1):
        if number in known:
            continue
        fault, remedy = _odd_row(line)
        if fault:
            yield Problem(page.path, number, fault, remedy)


def _odd_row(line: str) -> tuple[str, str]:
    if match := FULL_WIDTH.match(line):
        return "全角冒号不是容器的标记", f"改用半角冒号：:::{match['rest']}"
    if match := SLASHES.match(line):
        return "/// 不是这里的写法，会原样显示或被当成别的块", f"改用冒号：:::{match['rest'].replace('| ', '')}"
    if QUOTED.match(line):
        return "引用块（>）里不能放容器", "去掉行首的 >"
    match = COLONS.match(line)
    colons = line.count(":", 0, match.end()) if match else 0
    if colons >= 3:
        return "冒号行缩进太深，会当成代码原样显示", "最多比所在位置缩进三格；要展示源码就放进代码块"
    if colons == 2 and match["name"] in CONTAINERS:
        return "容器至少要三个冒号", f"写成 :::{match['name']}"
    return "", ""


def indented_body(page: Page, context: Context) -> Iterator[Problem]:
    """pymdown-extensions takes such a body for options, Markdown takes it for code."""
    for container in page.containers:
        line = next((n for n in range(container.line + 1, len(page.lines) + 1) if page.lines[n - 1].strip()), None)
        if line and _column(page.lines[line - 1]) - _column(page.lines[container.line - 1]) >= 4:
            fault = f"容器 {container.name} 的正文第一行缩进了四格以上，会变成选项或代码"
            yield Problem(page.path, line, fault, "正文与冒号行左对齐")


def _column(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())


def demos(page: Page, context: Context) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for container in page.containers:
        if container.name != "demo":
            continue
        name, _ = split_title(container.title)
        known = f"现有：{'、'.join(context.demos) or '无'}"
        if not name:
            yield Problem(page.path, container.line, "demo 缺少名字", f"写成 :::demo 名字 标题；{known}")
        elif name not in context.demos:
            remedy = f"改正名字，或添加 docs/assets/demos/{name}.html.j2；{known}"
            yield Problem(page.path, container.line, f"没有叫 {name} 的 demo", remedy)
        elif name in seen:
            yield Problem(page.path, container.line, f"demo {name} 在第 {seen[name]} 行用过了", "一页里同一个演示只放一次")
        seen.setdefault(name, container.line)


def markers(page: Page, context: Context) -> Iterator[Problem]:
    """Their parts have ids, and the script fills one overview."""
    for marker in (PROGRESS, COMPILED):
        first, *others = [p.line for p in page.out if isinstance(p, Text) and p.text.strip() == marker] or [0]
        for line in others:
            yield Problem(page.path, line, f"{marker} 在第 {first} 行用过了", "一页里只放一次")


def related(page: Page, context: Context) -> Iterator[Problem]:
    for container in page.containers:
        if container.name == "related" and container.end:
            yield from _related(page, container)


def _related(page: Page, container: Container) -> Iterator[Problem]:
    if container.title:
        yield Problem(page.path, container.line, "related 没有标题，这里的字不会显示", "删去 :::related 后面的字")
    remedy = "每行写成 依赖 | 第 7 章 Attention, 第 15 章 … 或 用于 | …"
    found = parse_related(page, container)
    if not found.rows and not found.other:
        yield Problem(page.path, container.line, "related 是空的", remedy)
    for line, text in found.other:
        yield Problem(page.path, line, f"related 里看不懂这一行：{text.partition(chr(10))[0]}", remedy)
    for word, line, chapters in found.rows:
        if not chapters:
            yield Problem(page.path, line, f"related 的“{word}”后面没有章名", remedy)


RULES = [unknown, unclosed, stray_closers, odd_rows, indented_body, demos, markers, related]
