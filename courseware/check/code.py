"""Fences: each Python block has a kind, is valid Python, and is the same to page, runner and pytest-codeblocks."""

from __future__ import annotations

import difflib
import io
import re
import warnings
from collections.abc import Iterator
from functools import cache

from markdown import Markdown
from pygments.lexers import get_all_lexers

from courseware.check.context import Context, blank, code_lines, nearest
from courseware.doctest.blocks import Block, chains, directive, following_fence
from courseware.page import COMMENT, KIND, KIND_LINE, KINDS, Fence, Page
from courseware.problem import Problem

# What Pygments colours as Python, with the names that the installed notebook lexers add.
PYTHON = set(
    "python py python3 py3 python2 py2 pyi pycon python-console sage bazel starlark cython pyx pyrex numpy "
    "ipython ipython2 ipython3 ipythonconsole ipython2console ipython3console".split()
)
SHELLS = {"sh", "bash", "zsh", "shell", "ksh", "fish", "powershell"}
PSEUDO = "伪代码不是 Python 块", "写成 ```pseudo，不要类型行"
KIND_FORMS = "第一行写 # 类型：【Runnable】、【Runnable on CUDA】或【Skeleton】"
EXACTLY = "写成恰好 ```python（三个反引号，后面没有别的字）"
DIALECT = {"pseudo"}  # languages of our own; `text`, `console` and `markdown` are Pygments' too
# What may have been meant: among Pygments' hundreds something odd is always nearer.
MEANT = {"triton": "python", "pseudocode": "pseudo", "plain": "text", "plaintext": "text", "txt": "text"}
USUAL = "python pseudo text console markdown cuda c cpp ptx llvm nasm make cmake bash json yaml toml ini html css javascript sql diff".split()
SOURCE = {"markdown", "md"}  # a fence that shows how something is written
# Rows meant as a fence that are none.
WIDE_TICKS = re.compile(r"[ \t>]*(?=`*｀)[`｀]{2,}(?P<info>[^`｀]*)$")
TWO_TICKS = re.compile(r"[ \t]*``[ \t]*(?P<info>[A-Za-z][\w+-]*)[ \t]*$")
ANY_KIND_LINE = re.compile(r"#\s*类型|【(" + "|".join(KINDS) + ")】")


def is_python(fence: Fence) -> bool:
    return fence.language.lower() in PYTHON


def _has_kind(line: str) -> bool:
    match = KIND_LINE.match(line)
    return bool(match and KIND.match(match["rest"]))


def unclosed(page: Page, context: Context) -> Iterator[Problem]:
    for fence in page.fences:
        if fence.end or fence.commented:
            continue
        wide = next((n for n, line in enumerate(fence.lines, 1) if WIDE_TICKS.match(line)), 0)
        if wide:
            yield Problem(page.path, fence.line + wide, "全角反引号不是代码块的围栏", f"改用半角：{fence.marker}")
        else:
            yield Problem(page.path, fence.line, "代码块没有闭合", f"在它结束的地方单独写一行 {fence.marker}")


def unclosed_comment(page: Page, context: Context) -> Iterator[Problem]:
    for match in re.finditer("<!--", page.prose):
        yield Problem(page.path, page.line_of(match.start()), "HTML 注释没有闭合，后面的内容都不会显示", "加上 -->")


def infos(page: Page, context: Context) -> Iterator[Problem]:
    """What stands after the backticks must be a language and options that superfences knows, else the fence is text."""
    remedy = '只写语言名；另可加 title="…"、hl_lines="1 3-5"、linenums="1"'
    for fence in page.fences:
        if fence.info and not fence.commented and not is_python(fence) and not _understood(fence.info):
            yield Problem(page.path, fence.line, f"看不懂代码块的首行 {fence.marker}{fence.info}，会原样显示", remedy)


@cache
def _understood(info: str) -> bool:
    html = Markdown(extensions=["pymdownx.superfences"]).convert(f"~~~{info}\nx\n~~~")
    return "~~~" not in html


def languages(page: Page, context: Context) -> Iterator[Problem]:
    """A name that Pygments does not know is most likely misspelt, and a block of `pyton` would never run."""
    for fence in page.fences:
        name = fence.language
        if not name or fence.commented or is_python(fence) or _misnamed(fence) or not _understood(fence.info):
            continue
        if name.lower() not in _known_languages():
            meant = MEANT.get(name.lower()) or next(iter(difflib.get_close_matches(name.lower(), USUAL, n=1)), None)
            remedy = f"是不是要写 ```{meant}" if meant else "改成 Pygments 认识的名字"
            yield Problem(page.path, fence.line, f"没有 {name} 这种语言", f"{remedy}；不必着色的写成 ```text")


@cache
def _known_languages() -> set[str]:
    return DIALECT | {alias.lower() for _, aliases, *_ in get_all_lexers() for alias in aliases}


def _misnamed(fence: Fence) -> bool:
    """Does it begin as a Python block does, in another language? An expected output may print such a line."""
    begins = bool(fence.lines) and _has_kind(fence.lines[0])
    return begins and not fence.commented and not is_python(fence) and fence.language not in SOURCE


def shells(page: Page, context: Context) -> Iterator[Problem]:
    for fence in page.fences:
        if fence.language.lower() in SHELLS:
            fault = f"```{fence.language} 代码块" + ("会被当成测试执行" if fence.language in ("sh", "bash") else "不是这里的写法")
            yield Problem(page.path, fence.line, fault, "命令写成 ```console")


def passed_over(page: Page, context: Context) -> Iterator[Problem]:
    """Python to the reader, nothing to pytest-codeblocks."""
    pinned = pinned_lines(page)
    for fence in page.fences:
        if _misnamed(fence) and fence.line not in pinned:
            if fence.label.lower().startswith("pseudo"):
                yield Problem(page.path, fence.line + 1, *PSEUDO)
            else:
                written = f"语言写成了 {fence.info}" if fence.info else "没有写语言"
                yield Problem(page.path, fence.line, f"这个代码块不会被执行：{written}", EXACTLY)
        elif is_python(fence) and not fence.commented and not fence.listing:
            fault = _passed_over(page, fence)
            if fault:
                yield Problem(page.path, fence.line, f"这个 Python 块不会被执行：{fault}", EXACTLY)


def _passed_over(page: Page, fence: Fence) -> str:
    opening = page.lines[fence.line - 1]
    if ">" in fence.prefix:
        return "它在引用块（>）里"
    if fence.marker[0] == "~":
        return "它用 ~ 围起来"
    if len(fence.marker) > 3:
        return "反引号多于三个"
    if fence.info.startswith("{"):
        return f"语言写成了 {fence.info}"
    if fence.language != "python":
        return f"语言写成了 {fence.language}"
    if opening[len(fence.prefix) + len(fence.marker)].isspace():
        return "反引号和 python 之间有空格"
    if fence.info != "python":
        return f"python 后面还有 {fence.info[len('python'):].strip()}"
    return ""


def no_fences(page: Page, context: Context) -> Iterator[Problem]:
    """Outside any fence: ticks that open none, and the first line of a Python block that nothing opened."""
    fenced = code_lines(page)
    text = "\n".join("" if number in fenced else line for number, line in enumerate(page.lines, 1))
    told, inside = False, False  # is what follows explained already; between two rows of full-width ticks?
    for number, line in enumerate(COMMENT.sub(blank, text).split("\n"), 1):
        if match := WIDE_TICKS.match(line):
            if not inside:
                yield Problem(page.path, number, "全角反引号不是代码块的围栏", f"改用半角：```{match['info'].strip()}")
            told, inside = True, not inside
        elif match := two_ticks(page, number, line):
            yield Problem(page.path, number, "两个反引号不是代码块的围栏", f"写三个：```{match['info']}")
            told = True
        elif _has_kind(line) and not told:
            remedy = "在它前面单独写一行 ```python，代码的后面单独写一行 ```"
            yield Problem(page.path, number, "类型行不在代码块里，它下面的代码不会被执行", remedy)
        elif line.strip():
            told = line.lstrip().startswith("```")  # `hidden` speaks of that


def two_ticks(page: Page, number: int, line: str) -> re.Match | None:
    """A row of two ticks and a language, where a block seems to be meant; else it begins a span of code."""
    match = TWO_TICKS.match(line)
    following = page.lines[number] if number < len(page.lines) else ""
    return match if match and (match["info"].lower() in PYTHON or _has_kind(following)) else None


def mistaken_fences(page: Page) -> set[int]:
    """Lines of the rows of two ticks that `no_fences` names, and of those that were to close them."""
    fenced, found, opened = code_lines(page), set(), False
    for number, line in enumerate(page.lines, 1):
        closes = opened and line.strip() == "``"
        if number not in fenced and (closes or two_ticks(page, number, line)):
            found.add(number)
            opened = not closes
    return found


def hidden(page: Page, context: Context) -> Iterator[Problem]:
    """Backtick rows that pytest-codeblocks takes for a fence where the page shows none."""
    remedy = "删去它，或用四个反引号的 ````markdown 来展示源码"
    for fence in page.fences:
        if fence.commented:
            if is_python(fence):
                yield Problem(page.path, fence.line, "HTML 注释里的代码块不会显示，却会被收集执行", "删去它，或移到注释外面")
            continue
        for number, line in enumerate(fence.lines, fence.line + 1):
            if fence.marker[0] == "~" and line.lstrip().startswith("```"):
                yield Problem(page.path, number, "~ 围栏里的代码块不会显示为代码块，却会被收集执行", remedy)
            elif fence.marker[0] == "`" and line.lstrip().startswith(fence.marker):
                remedy_here = f"外层改用 {fence.marker}`（多一个反引号）"
                yield Problem(page.path, number, "代码块里的这一行会被当成它的结尾", remedy_here)
    rendered = code_lines(page) | {fence.line for fence in page.fences}
    for number, line in enumerate(page.lines, 1):
        if number in rendered or not line.lstrip().startswith("```"):
            continue
        if "`" in line.strip().lstrip("`"):
            yield Problem(page.path, number, "行首的 ``` 会被 pytest-codeblocks 当成代码块的开头", "行内代码用一个反引号，或不放在行首")
        else:
            yield Problem(page.path, number, "缩进太深的代码块不会显示为代码块，却会被收集执行", "让它与所在的正文左对齐")


def kinds(page: Page, context: Context) -> Iterator[Problem]:
    pinned = pinned_lines(page)
    for fence in page.fences:
        if fence.commented or not is_python(fence) or fence.listing or fence.kind or fence.line in pinned:
            continue
        if fence.label in KINDS:
            continue  # the fence itself is at fault: `passed_over` says so
        yield Problem(page.path, *_kind(fence))


def _kind(fence: Fence) -> tuple[int, str, str]:
    """(line, fault, remedy) of a Python block whose kind is missing or unknown."""
    if fence.label is None:
        later = next((n for n, line in enumerate(fence.lines, 1) if n > 1 and KIND_LINE.match(line)), None)
        if later:
            return fence.line + later, "类型行不在 Python 块的第一行", "把它移到代码块的第一行"
        if fence.lines and ANY_KIND_LINE.search(fence.lines[0]):
            return fence.line + 1, f"类型行写错了：{fence.lines[0].strip()}", KIND_FORMS
        return fence.line, "Python 块没有类型行", KIND_FORMS
    if not fence.label:
        return fence.line + 1, "类型行里没有【…】", KIND_FORMS
    if fence.label.lower().startswith("pseudo"):
        return fence.line + 1, *PSEUDO
    return fence.line + 1, f"没有【{fence.label}】这种类型", nearest(fence.label, KINDS, "【{}】")


def syntax(page: Page, context: Context) -> Iterator[Problem]:
    """Invalid Python is allowed in pseudo-code only; a Skeleton is compiled too."""
    for chain in chains(page):
        for block in chain.blocks if chain.kind != "pseudo" else []:
            error = _syntax_error(block)
            if error and block.fence.end:  # what runs on to the page's end is no Python
                line = block.line + min(max(error.lineno or 1, 1), max(len(block.fence.lines), 1))
                remedy = "改正语法；不打算成为 Python 的写成 ```pseudo"
                yield Problem(page.path, line, f"不是有效的 Python：{error.msg}", remedy)


def _syntax_error(block: Block) -> SyntaxError | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(block.code, block.page or "page", "exec", dont_inherit=True)
    except SyntaxError as error:
        return error
    except ValueError as error:  # a null byte
        return SyntaxError(str(error))
    return None


def pinned_lines(page: Page) -> set[int]:
    """Opening lines of the fences that hold an expected output."""
    marks = [mark for mark in page.comments if directive(mark) == "expected-output"]
    return {fence.line for mark in marks if (fence := following_fence(page, mark))}


def agreement(page: Page, context: Context) -> Iterator[Problem]:
    """pytest-codeblocks must find the same Python, in the same places. Blank lines do not count: it drops those of
    indented fences. Pinned outputs are taken out first, since it allows one a chain and we allow one a fence."""
    from pytest_codeblocks.main import extract_from_buffer  # with it comes pytest, which an unchanged project does not need

    remedy = "让这个代码块与正文左对齐，围栏写成单独一行的 ```python 和 ```"
    try:
        theirs = {block.lineno: block.code for block in extract_from_buffer(io.StringIO(_unpinned(page)), 10**6)
                  if block.syntax == "python"}
    except RuntimeError as error:
        yield Problem(page.path, 1, f"pytest-codeblocks 读不了这一页：{error}", "检查代码块的围栏和 pytest-codeblocks 注释")
        return
    ours = {chain.line: "".join(chain.codes) for chain in chains(page) if chain.kind != "pseudo"}
    for line in sorted(ours.keys() | theirs.keys()):
        if _filled(ours.get(line)) != _filled(theirs.get(line)):
            yield Problem(page.path, line, "pytest-codeblocks 对这个代码块的理解不同", remedy)


def _filled(code: str | None) -> list[str] | None:
    return None if code is None else [line.rstrip() for line in code.split("\n") if line.strip()]


def _unpinned(page: Page) -> str:
    lines = list(page.lines)
    pinned = pinned_lines(page)
    for fence in page.fences:
        if fence.line in pinned:
            lines[fence.line - 1 : fence.end] = [""] * (fence.end - fence.line + 1)
    for mark in page.comments:
        if directive(mark) == "expected-output":
            lines[mark.line - 1] = ""
    return "\n".join(lines)


RULES = [unclosed, unclosed_comment, infos, languages, shells, passed_over, no_fences, hidden, kinds, syntax]
