"""The authors' guide shows what is: each source with its own live result, each message as the checker gives it."""

from __future__ import annotations

import ast
import json
import posixpath
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from markdown import Markdown

from courseware.check import check, check_page
from courseware.check.context import Context
from courseware.dialect.source import CONTAINERS
from courseware.doctest.ledger import Runs, problems
from courseware.page import KINDS, Fence, Page, read, scan
from courseware.evidence import load
from courseware.project import Project
from tests.dialect.conftest import stack

ROOT = Path(__file__).parents[1]
GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
PAGES = {path.stem: read(path, path.relative_to(ROOT).as_posix()) for path in GUIDE}

# The small repository that the examples of messages.md stand in; the page describes it.
FILES = {
    "mkdocs.yml": "nav:\n  - 导读: page.md\n  - io.md\nvalidation:\n  omitted_files: warn\n",
    "docs/io.md": "# 朴素注意力的 I/O\n\n## 读写账 {#traffic}\n",
    "docs/assets/fig.svg": "<svg xmlns='http://www.w3.org/2000/svg'/>",
    "docs/assets/demos/tiling.html.j2": '{# data: snippets.tiling.frame {"S": 4} #}\n<p>{{ S }}</p>\n',
    "docs/assets/pictures/tiling.svg.j2": '{# data: snippets.tiling.frame {"S": 4} #}\n<svg viewBox="0 0 1 1" role="img" '
    'aria-labelledby="tiling-is"><title id="tiling-is">块</title><desc>一块。</desc></svg>\n',
    "docs/evidence/h200.json": '{"environment": {"device": "H200", "date": "2026-01-01"}, "command": "make record", "date": "2026-01-01", '
    '"source": "", "figures": {"copy": {"value": 4281, "unit": "GB/s"}, "ours_512": {"value": 0.5, "unit": "ms"}, '
    '"ours_1024": {"value": 1.5, "unit": "ms"}, "zero_512": {"value": 0, "unit": "ms"}, "zero_1024": {"value": 0, "unit": "ms"}, '
    '"name_512": {"value": "flash"}, "name_1024": {"value": "flash"}}}',
    "snippets/tiling.py": "# --8<-- [start:loop]\ndef frame(S, d=2):\n    return {'S': S}\n# --8<-- [end:loop]\n"
    "# --8<-- [start:rest]\n",
}

BLOCK = "```python\n# 类型：【Runnable】\nx = 1\n```"  # what ▣ stands for in an example
RESULT = "读者看到："  # stands between a source and its result
SPAN = r"(?P<{0}t>`+) ?(?P<{0}>.*?) ?(?P={0}t)"
ROW = re.compile(rf"\| (?:{SPAN.format('file')}(?P<gbk>（GBK 编码）)? \| )?{SPAN.format('example')} \| (?P<line>\d+) \| {SPAN.format('message')} \|$")
RUN_ROW = re.compile(rf"\| {SPAN.format('example')} \| {SPAN.format('message')} \|$")


class Row(NamedTuple):
    """One row of a table of messages: what stands in the file, and what is said about it."""

    place: str  # of the guide
    file: str  # relative to docs/
    example: bytes
    line: int
    message: str


# --- source beside result --------------------------------------------------------------------------------------------


def sources(page: Page) -> list[Fence]:
    return [fence for fence in page.fences if fence.language == "markdown"]


def following(page: Page, fence: Fence) -> list[str]:
    """As many lines as the fence holds, from the first one after the fence and the label below it."""
    after = page.lines[fence.end :]
    while after and after[0].strip() in ("", RESULT):
        del after[0]
    return after[: len(fence.lines)]


SOURCES = [(page, fence) for page in PAGES.values() for fence in sources(page)]


@pytest.mark.parametrize("page,fence", SOURCES, ids=[f"{page.path}:{fence.line}" for page, fence in SOURCES])
def test_a_shown_source_is_followed_by_itself(page, fence):
    """A leading semicolon keeps a listing's mark from being carried out where it is only shown."""
    assert following(page, fence) == [line.replace(";--8<--", "--8<--") for line in fence.lines]


def test_no_label_without_a_source():
    for page in PAGES.values():
        labels = sum(line.strip() == RESULT for line in page.prose.split("\n"))
        assert labels == len(sources(page)), page.path


def test_every_container_and_every_kind_is_shown():
    containers = {c.name for page, fence in SOURCES for c in read_source(fence).containers}
    kinds = {f.kind for page, fence in SOURCES for f in read_source(fence).fences if f.kind}
    assert containers == set(CONTAINERS)
    assert kinds == {*KINDS.values(), "pseudo"}


def read_source(fence: Fence) -> Page:
    return scan(fence.code)


# --- messages --------------------------------------------------------------------------------------------------------


def rows() -> Iterator[Row]:
    page = PAGES["messages"]
    for number, line in enumerate(page.lines, 1):
        match = ROW.match(line)
        if match:
            text = match["example"].replace("⏎", "\n").replace("␣", " ").replace("⇥", "\t").replace("▣", BLOCK).replace("␂", "\x02") + "\n"
            data = text.encode("gbk" if match["gbk"] else "utf-8")
            yield Row(f"{page.path}:{number}", match["file"] or "page.md", data, int(match["line"]), match["message"])


ROWS = list(rows())


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return repository(tmp_path_factory.mktemp("messages"))


def repository(root: Path) -> Path:
    """FILES below `root`."""
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    return root


def said(root: Path, file: str, data: bytes) -> list[tuple[int, str]]:
    """(line, "fault；remedy") of each problem of a file with this content."""
    if file == "page.md" and (text := decoded(data)) is not None:
        problems = check_page(text, Context(root / "docs"), path="docs/page.md")
    else:
        path = root / "docs" / file
        old = path.read_bytes() if path.exists() else None
        path.write_bytes(data)
        problems = check(root / "docs", root=root)
        path.write_bytes(old) if old is not None else path.unlink()
    shown = posixpath.normpath(f"docs/{file}")
    return [(p.line, f"{p.fault}；{p.remedy}") for p in problems if p.path == shown]


def decoded(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


@pytest.mark.parametrize("row", ROWS, ids=[row.place for row in ROWS])
def test_an_example_gives_its_message(root, row):
    assert said(root, row.file, row.example) == [(row.line, row.message)], f"{row.place}: 请把这一行改成实际的消息"


DRAWN = [row for row in ROWS if row.file == "page.md" and decoded(row.example) is not None]


@pytest.mark.parametrize("row", DRAWN, ids=[row.place for row in DRAWN])
def test_an_example_can_be_rendered(root, row):
    """Under `mkdocs serve` a page is rendered whatever is wrong with it; what cannot be drawn is said in its place."""
    ledger = {"verification": {}, "chains": {}, "demos": {}, "evidence": load(root / "docs/evidence")}
    (root / "ledger.json").write_text(json.dumps(ledger), "utf-8")
    extensions, configs = stack()
    configs["courseware.dialect"] = {"ledger": str(root / "ledger.json"), "demos": str(root / "docs/assets/demos")}
    configs["courseware.dialect"]["pictures"] = str(root / "docs/assets/pictures")
    configs["pymdownx.snippets"] = {"base_path": [str(root)], "check_paths": False}
    Markdown(extensions=extensions, extension_configs=configs).convert(decoded(row.example))


# `code.agreement` speaks only where nothing else explains a difference, so no example can be had; the page says so.
UNSHOWN = {
    "里的数太长，或括号嵌套太深",  # no row is as long
    "断开的符号链接",  # no file that a row could hold
    "删去它，或让它指向存在的文件",
    "pytest-codeblocks 读不了这一页：",
    "检查代码块的围栏和 pytest-codeblocks 注释",
    "pytest-codeblocks 对这个代码块的理解不同",
    "让这个代码块与正文左对齐，围栏写成单独一行的 ```python 和 ```",
}


SILENT = {"compile", "fullmatch", "match", "search"}  # what these are given is a pattern


def _name(call: ast.Call) -> str:
    return getattr(call.func, "attr", "")


def literals(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line, fixed pieces) of each string with Chinese in it that a checker's file may print."""
    tree = ast.parse(path.read_text("utf-8"))
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    inside |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    patterns = [arg for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node) in SILENT for arg in node.args]
    inside |= {id(part) for pattern in patterns for part in ast.walk(pattern)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces = [part.value for part in node.values if isinstance(part, ast.Constant)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            pieces = [node.value]
        else:
            continue
        if re.search("[\u4e00-\u9fff]", "".join(pieces)):
            yield node.lineno, pieces


def test_every_message_of_the_checker_has_a_row():
    """Whatever the rules can say is said by some example: a message that is added needs a row in the guide."""
    shown = "\n".join(row.message for row in ROWS)
    missing = []
    for path in sorted((ROOT / "courseware" / "check").glob("*.py")):
        for line, pieces in literals(path):
            pattern = "[^\n]*?".join(re.escape(piece) for piece in pieces)
            known = "".join(pieces) in UNSHOWN or path.name == "__main__.py"  # what the command says of itself
            if not known and not re.search(pattern, shown):
                missing.append(f"courseware/check/{path.name}:{line}: {'…'.join(pieces)}")
    assert missing == []


# --- what a block says when it fails ---------------------------------------------------------------------------------

RUN_ROWS = [match for line in PAGES["code"].lines if (match := RUN_ROW.match(line))]
SECONDS = 3  # instead of 60, so that the block that hangs does not hold up the tests


def test_a_failing_block_says_what_the_guide_says(tmp_path):
    """Each example on a page of its own, all in one run."""
    assert RUN_ROWS
    for number, match in enumerate(RUN_ROWS):
        text = match["example"].replace("⏎", "\n").replace("␣", " ") + "\n"
        if not text.startswith("```"):
            text = f"```python\n# 类型：【Runnable】\n{text}```\n"
        path = tmp_path / "docs" / f"{number}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    command = [sys.executable, "-m", "courseware.doctest", str(tmp_path), f"--block-seconds={SECONDS}"]
    subprocess.run(command, cwd=ROOT, timeout=120, stdout=subprocess.DEVNULL)
    project = Project(tmp_path)
    found = {p.path: f"{p.fault}；{p.remedy}" for p in problems(project, Runs.of(project))}
    said = [found.get(f"docs/{number}.md", "").replace(f"超过 {SECONDS} 秒", "超过 60 秒") for number in range(len(RUN_ROWS))]
    assert said == [match["message"] for match in RUN_ROWS]


# --- terms -----------------------------------------------------------------------------------------------------------

TERM = re.compile(r"\| (?P<chinese>[^|]+?) \| (?P<english>[^|]+?) \| (?P<meaning>[^|]+?) \|$")


def test_terms_are_complete_and_unique():
    found = [match for line in PAGES["terms"].lines if (match := TERM.match(line)) and set(match["english"]) - set("- :")]
    assert len(found) > 40
    for column in ("chinese", "english"):
        words = [match[column] for match in found if match["english"] != "English"]
        assert len(words) == len({word.casefold() for word in words}), column


# --- commands and paths ----------------------------------------------------------------------------------------------


def test_commands_are_targets_of_the_makefile():
    """`make record` comes with the recording machine; until then the guide says 编写中 beside it."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for page in PAGES.values():
        if page is not PAGES["messages"]:  # which quotes the checker
            for name, after in re.findall(r"\bmake ([a-z]+)\b`?(（编写中）)?", page.text):
                assert name in targets or after, f"{page.path}: make {name}"


def test_paths_of_the_map_exist():
    paths = [match[1] for line in PAGES["index"].lines if (match := re.match(r"\| `([\w./]+)` \|", line))]
    assert len(paths) >= 10
    assert [path for path in paths if not (ROOT / path).exists()] == []
