"""Colon rows and markers: a container that is unknown, open to the end or closed twice, what may stand once a page."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from courseware.check.context import Context, code_lines, nearest
from courseware.dialect.demo import split_title
from courseware.dialect.related import parse_related
from courseware.dialect.report import MARKER as VERIFICATION
from courseware.dialect.source import CONTAINERS
from courseware.page import COMPILED, PROGRESS, Container, Page, Text, body
from courseware.problem import Problem

FULL_WIDTH = re.compile(r"[ \t]*(?=[:：]*：)[:：]{3,}[ \t]*(?P<rest>.*?)[ \t]*$")
COLONS = re.compile(r"[ \t]*:{2,}[ \t]*(?P<name>[\w-]*)")
QUOTED = re.compile(r"[ \t]*>[ \t>]*:{3,}")
ADMONITION = re.compile(
    r"[ \t]*(?P<mark>!{3}|\?{3}\+?)[ \t]*(?P<type>[A-Za-z][\w-]*)?[ \t]*(?P<quote>[\"“])?(?P<title>[^\"”]*)[\"”]?[ \t]*$"
)
TAB = re.compile(r"[ \t]*={3}[!+]*[ \t]+[\"“](?P<title>[^\"”]*)[\"”][ \t]*$")
ALERT = re.compile(r"[ \t]*>[ \t]*\[!(?P<type>[A-Za-z]+)\]")
# The names that Material for MkDocs and GitHub give their boxes, by the container that is nearest.
BOXES = {
    "note": "note info tip hint abstract summary tldr success check done question help faq example quote cite seealso todo",
    "warning": "warning caution attention danger error bug failure fail missing",
    "key": "important",
}
BOX = {name: container for container, names in BOXES.items() for name in names.split()}
ALONE = re.compile(r"\[(?P<word>[A-Za-z]+)\]")
MARKERS = (PROGRESS, COMPILED, VERIFICATION)
MARKER = re.compile(rf"(?<![!\\\w])(?:{'|'.join(map(re.escape, MARKERS))})(?![\[(:])")
NEEDS_BODY = ("note", "warning", "key", "math", "unfold")
SLASHES = re.compile(r"[ \t]*/{3,}[ \t]*(?P<rest>.*?)[ \t]*$")


def unknown(page: Page, context: Context) -> Iterator[Problem]:
    written = closers_with_words(page)
    for container in page.containers:
        name, row = container.name, ":" * container.colons
        if container.line in written:
            shown = page.lines[container.line - 1].strip()
            yield Problem(page.path, container.line, f"关闭行后面不能有字：{shown}", f"只写 {row}")
            continue
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


def closers_with_words(page: Page) -> dict[int, int]:
    """Line of each row like `::: 完`, and of the container that it was to close: neither is closed by anything else."""
    found: dict[int, int] = {}
    left: list[Container] = []  # known ones that are open to the end
    for container in page.containers:
        if container.end:
            continue
        name = container.name.lower()
        if any(name.startswith(known) for known in CONTAINERS) or difflib.get_close_matches(name, CONTAINERS, cutoff=0.6):
            left.append(container)
        elif left and left[-1].colons == container.colons:
            found[container.line] = left.pop().line
    return found


def unclosed(page: Page, context: Context) -> Iterator[Problem]:
    written = closers_with_words(page)
    explained = {*written, *written.values()}
    for container in page.containers:
        if not container.end and container.line not in explained:
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
    if match := ADMONITION.match(line):
        if match["quote"] or match["type"] and match["type"].lower() in BOX:
            name = "unfold" if match["mark"][0] == "?" else BOX.get((match["type"] or "").lower(), "note")
            row = f":::{name} {match['title']}".strip()
            return f"{match['mark']} 不是这里的写法，会原样显示", f"改用冒号：{row}，末尾单独写一行 :::，正文不缩进"
    if match := TAB.match(line):
        return "=== 不是这里的写法，会原样显示；这里没有标签页", f"各写成一个小节，或 :::unfold {match['title']}".strip()
    if match := ALERT.match(line):
        row = f":::{BOX.get(match['type'].lower(), 'note')}"
        return f"[!{match['type']}] 不是这里的写法，会原样显示", f"改用冒号：{row}，末尾单独写一行 :::，去掉行首的 >"
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
            tab = "（一个 Tab 算四格）" if "\t" in re.match(r"\s*", page.lines[line - 1])[0] else ""
            fault = f"容器 {container.name} 的正文第一行缩进了四格以上{tab}，会变成选项或代码"
            yield Problem(page.path, line, fault, "正文与冒号行左对齐")


def empty(page: Page, context: Context) -> Iterator[Problem]:
    for index, piece in enumerate(page.out):
        if isinstance(piece, Container) and piece.name in NEEDS_BODY and piece.end:
            if not any(not isinstance(inner, Text) or inner.text.strip() for inner in body(page.out, index)):
                yield Problem(page.path, piece.line, f"容器 {piece.name} 没有正文", "在两行冒号之间写上正文，或删去它")


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
    yield from _markers_in_text(page)
    for marker in (PROGRESS, COMPILED):
        first, *others = [p.line for p in page.out if isinstance(p, Text) and p.text.strip() == marker] or [0]
        for line in others:
            yield Problem(page.path, line, f"{marker} 在第 {first} 行用过了", "一页里只放一次")


def _markers_in_text(page: Page) -> Iterator[Problem]:
    """A marker that is misspelt or no paragraph of its own is shown as it stands."""
    lines = [line.strip() for line in ["", *page.prose.split("\n"), ""]]
    for number, line in enumerate(lines):
        match = ALONE.fullmatch(line)
        if match and line not in MARKERS and re.search(rf"^\s*{re.escape(line)}:", page.text, re.MULTILINE) is None:
            if close := difflib.get_close_matches(line.upper(), MARKERS, n=1, cutoff=0.75):
                yield Problem(page.path, number, f"没有 {line} 这个标记，会原样显示", f"是不是要写 {close[0]}")
        for match in MARKER.finditer(line):
            around = [*lines[number - 1 : number], *lines[number + 1 : number + 2]] if line == match[0] else [line]
            if any(beside and not beside.startswith((":", "#")) for beside in around):
                yield Problem(page.path, number, f"{match[0]} 没有独占一段，会原样显示", "让它单独成一行，前后各空一行")


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


RULES = [unknown, unclosed, stray_closers, odd_rows, indented_body, empty, demos, markers, related]
