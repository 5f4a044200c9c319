"""Comments to pytest-codeblocks: `cont` and `expected-output` in their right places, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator

from courseware.check.code import is_python, pinned_lines
from courseware.check.context import Context, nearest, with_comments
from courseware.doctest.blocks import directive, following_fence
from courseware.page import Comment, Fence, Page
from courseware.problem import Problem

MARK = re.compile(r"<!--[-\s]*(?P<what>pytest-codeblocks:|pytest\.mark\.)(?P<word>[^\n]*?)[- \t]*-->")
ALONE = re.compile(r"[ \t]*<!--(?:(?!-->).)*-->[ \t]*")
ALLOWED = ("cont", "expected-output")
REFUSED = re.compile(r"skip|skipif\b.*|skipfile|xfail|expect-error|expect-exception|importorskip\b.*")
ANY = re.compile(r"<!--[-\s]*pytest\b")
FORM = "<!--pytest-codeblocks:{}-->"


def words(page: Page, context: Context) -> Iterator[Problem]:
    """Marks that hide a failure, that do not exist, or that share their line with text."""
    text = with_comments(page)
    understood = {match.start(): match for match in MARK.finditer(text)}
    for found in ANY.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        match = understood.get(found.start())
        if match is None:
            fault = f"看不懂的标记 {page.lines[line - 1].strip()}"
            yield Problem(page.path, line, fault, f"写成一整行 {' 或 '.join(map(FORM.format, ALLOWED))}")
            continue
        word = match["word"].strip("- ")
        if match["what"] == "pytest.mark." or REFUSED.fullmatch(word):
            shown = ("pytest.mark." if match["what"] == "pytest.mark." else "") + word
            remedy = "删去它；不能在这里运行的块用【Runnable on CUDA】或【Skeleton】"
            yield Problem(page.path, line, f"不能用 {shown} 跳过或放宽代码块", remedy)
        elif word not in ALLOWED:
            yield Problem(page.path, line, f"没有 pytest-codeblocks:{word} 这种标记", nearest(word, ALLOWED, FORM))
        elif not ALONE.fullmatch(page.lines[line - 1]):
            yield Problem(page.path, line, f"标记 {word} 的同一行还有别的文字", f"让 {FORM.format(word)} 单独占一行")
        elif line not in {mark.line for mark in page.comments}:
            fault = f"标记 {word} 在别的注释或 ~ 围栏里，页面看不到它，pytest-codeblocks 却会照办"
            yield Problem(page.path, line, fault, "放到代码块正上方，单独占一行")


def places(page: Page, context: Context) -> Iterator[Problem]:
    """Each mark belongs right before a fence, and the fence before that must be the block that it speaks of."""
    seen: dict[int, str] = {}
    owners: set[int] = set()
    for mark in page.comments:
        word = directive(mark)
        if word not in ALLOWED or not ALONE.fullmatch(page.lines[mark.line - 1]):
            continue
        fence = following_fence(page, mark)
        if fence is None:
            yield Problem(page.path, mark.line, f"{word} 后面紧接着的不是代码块", "把它放到代码块的正上方，中间不要有文字")
        elif fence.line in seen:
            fault = f"{word} 和 {seen[fence.line]} 标在同一个代码块上"
            yield Problem(page.path, mark.line, fault, "一个代码块只能有一个标记")
        else:
            seen[fence.line] = word
            before = _before(page, fence)
            yield from (_cont if word == "cont" else _expected)(page, mark, before, fence, owners)


def _before(page: Page, fence: Fence) -> Fence | None:
    """The fence before this one; an expected output belongs to its block and does not count."""
    pinned = pinned_lines(page)
    earlier = [f for f in page.fences if f.line < fence.line and not f.commented and f.line not in pinned]
    return earlier[-1] if earlier else None


def _cont(page: Page, mark: Comment, before: Fence | None, fence: Fence, _owners: set[int]) -> Iterator[Problem]:
    if not is_python(fence):
        yield Problem(page.path, mark.line, "cont 后面的代码块不是 Python 块", "cont 只用来让一个 Python 块承接上一个")
    elif before is None or not any(f.line < fence.line and is_python(f) and not f.listing for f in page.fences):
        yield Problem(page.path, mark.line, "cont 前面没有可以承接的 Python 块", "删去 cont，或把它移到被承接的块之后")
    elif not is_python(before) or before.listing:
        fault = f"cont 和要承接的 Python 块之间隔着第 {before.line} 行的代码块"
        yield Problem(page.path, mark.line, fault, "把那个代码块移开，让两个 Python 块相邻")
    elif before.kind and fence.kind and before.kind != fence.kind:
        fault = f"cont 承接的块类型不同（上一块是【{before.label}】，这一块是【{fence.label}】）"
        yield Problem(page.path, mark.line, fault, "让两块的类型相同，或删去 cont")


def _expected(page: Page, mark: Comment, before: Fence | None, fence: Fence, owners: set[int]) -> Iterator[Problem]:
    if is_python(fence) or fence.language == "pseudo":
        fault = f"expected-output 后面是 {fence.language} 块，不是输出"
        yield Problem(page.path, mark.line, fault, "后面接 ```text，里面写预期的输出")
    elif before is None or not is_python(before) or before.listing:
        fault = "expected-output 的正前方没有 Python 块"
        yield Problem(page.path, mark.line, fault, "把它和预期输出放在产生输出的块之后，中间不要有别的代码块")
    elif before.kind == "skeleton":
        yield Problem(page.path, mark.line, "expected-output 前面的【Skeleton】只编译不执行，没有输出", "删去预期输出，或改成【Runnable】")
    elif before.line in owners:
        fault = f"第 {before.line} 行的块已经有一个 expected-output"
        yield Problem(page.path, mark.line, fault, "一个块只能有一份预期输出，合成一份")
    elif before:
        owners.add(before.line)


RULES = [words, places]
