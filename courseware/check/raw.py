"""Marks that Markdown does not take for such and shows as they stand: full-width, apart, or half of a pair."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from courseware.check.context import Context
from courseware.check.links import DEFINITION, without_math
from courseware.page import Page
from courseware.problem import Problem

CHINESE = re.compile("[\u4e00-\u9fff]")
# Not after a letter: `S[i][j]` is an index.
REFERENCE = re.compile(r"(?<![A-Za-z0-9_)\]!\\])!?\[(?P<text>[^\[\]\n^][^\[\]\n]*)\]\[(?P<label>[^\[\]\n^]*)\]")
APART = re.compile(
    r"\[(?P<text>[^\[\]\n]+)\](?P<gap>[ \t]*)(?P<open>[（(])[ \t]*"
    r"(?P<target>https?://[^\s()（）]+|[^\s()（）#]+\.(?:md|ipynb|html|svg|png|svg\.j2)(?:#[^\s()（）]+)?|#[A-Za-z][\w-]*)[ \t]*(?P<close>[）)])"
)
WIDE_MARK = re.compile(r"[ \t]*(?P<mark>＃{2,6}|＃(?=[ \t\u3000])|[－＊＞](?=[ \t\u3000])|＊＊(?=\S)|｜(?=.*｜[ \t]*$))")
WIDE_ANCHOR = re.compile(r"｛\s*#(?P<id>[\w-]+)\s*[}｝]|\{\s*#(?P<half>[\w-]+)\s*｝")
BARE_ANCHOR = re.compile(r"^[ \t]*#{1,6}[ \t][^\n]*[ \t](?P<braces>\{(?P<id>[\w-]+)\})[ \t]*#*[ \t]*$", re.MULTILINE)
# A dollar right before a letter of its own or a command, or right after one: money and $HOME look otherwise.
DOLLAR = re.compile(r"(?<![\\$\w])\$(?=\\[A-Za-z]|[A-Za-z](?![A-Za-z0-9]))|(?<=(?<![A-Za-z\\])[A-Za-z]|(?<![\\])[})])\$(?![\w$]|[ \t]*\d)")


def references(page: Page, context: Context) -> Iterator[Problem]:
    prose = without_math(page.prose)
    defined = {_label(match["text"]) for match in DEFINITION.finditer(prose)}
    for match in REFERENCE.finditer(prose):
        label = match["label"].strip() or match["text"]
        meant = CHINESE.search(match["text"]) and (defined or not CHINESE.search(match["label"]))  # [文件][保存] is a menu
        if meant and _label(label) not in defined:
            remedy = f"写成 [{match['text']}](页面.md)，或在页末加一行 [{label}]: 页面.md"
            yield Problem(page.path, page.line_of(match.start()), f"{match[0]} 没有定义，会原样显示", remedy)


def _label(text: str) -> str:
    return " ".join(text.lower().split())


def links(page: Page, context: Context) -> Iterator[Problem]:
    for match in APART.finditer(without_math(page.prose)):
        wide = "（" in match["open"] or "）" in match["close"]
        if (wide or match["gap"]) and not match["text"].isdecimal():
            fault = "链接的圆括号是全角的" if wide else "链接的方括号和圆括号之间有空格"
            remedy = f"写成 [{match['text']}]({match['target']})"
            yield Problem(page.path, page.line_of(match.start()), f"{fault}，会原样显示", remedy)


def wide_marks(page: Page, context: Context) -> Iterator[Problem]:
    for number, line in enumerate(page.prose.split("\n"), 1):
        if match := WIDE_MARK.match(line):
            half = unicodedata.normalize("NFKC", match["mark"])
            yield Problem(page.path, number, f"行首的 {match['mark']} 是全角的，会原样显示", f"改用半角 {half}")


def anchors(page: Page, context: Context) -> Iterator[Problem]:
    prose = without_math(page.prose)
    for match in WIDE_ANCHOR.finditer(prose):
        remedy = f"改用半角：{{#{match['id'] or match['half']}}}"
        yield Problem(page.path, page.line_of(match.start()), f"{match[0]} 的花括号是全角的，会原样显示", remedy)
    for match in BARE_ANCHOR.finditer(prose):
        fault, remedy = f"标题末尾的 {match['braces']} 不是锚点，也不会显示", f"写成 {{#{match['id']}}}；要显示花括号就放进 ` `"
        yield Problem(page.path, page.line_of(match.start("braces")), fault, remedy)


def dollars(page: Page, context: Context) -> Iterator[Problem]:
    told = 0
    for match in DOLLAR.finditer(without_math(page.prose)):
        line = page.line_of(match.start())
        if line != told:
            yield Problem(page.path, line, "$ 没有配对，会原样显示", "补上另一个，两个 $ 的里侧不留空格；要显示美元符号就写 \\$")
        told = line


RULES = [references, links, wide_marks, anchors, dollars]
