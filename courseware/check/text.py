"""The text itself: characters that nobody sees, and places where Markdown stops being read or is taken for something else."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml
from markdown.util import BLOCK_LEVEL_ELEMENTS

from courseware.check.code import mistaken_fences
from courseware.check.context import Context, code_lines
from courseware.check.links import without_math
from courseware.dialect.mathml import math_ranges
from courseware.dialect.values import html_blocks
from courseware.page import CONTAINER, FENCE, FRONT_MATTER, HIDDEN, ITEM, RULE, Page
from courseware.problem import Problem

# A joiner (U+200D, U+200C) belongs between the parts of a pictograph.
CONTROL = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x85\u200b\u2028\u2029\u2060\ufeff\ufffe\uffff]"
    r"|(?<![\u2600-\u27bf\ufe0f\U0001f000-\U0001faff])[\u200c\u200d]"
)
# White space that Markdown does not take for such, right before something that counts at a line's start only.
ODD_MARGIN = re.compile(r"[ \t]*(?P<odd>[^\S \t\n]|[\u200e\u200f])\s*(?=:{3}|`{3}|~{3}|[-*+] |\d+[.)] |#{1,6} |\||>)")
METADATA = re.compile(r"[ ]{0,3}[A-Za-z0-9_-]+:")  # MkDocs' own pattern
MARKDOWN = re.compile(r"(?<!\\)\*\*(?=\S)[^*\n]+\*\*|(?<!\\)\]\([^)\n]*\)")
BEGINS = re.compile(r":{3}|[-*+][ \t]|\d+[.)][ \t]|#{1,6}[ \t]")
TAG = re.compile(r"<(?P<slash>/?)(?P<tag>[A-Za-z][\w-]*)(?P<end>(?![\w:@.-])(?:[^<>\"']|\"[^\"]*\"|'[^']*')*)>")
VOID = set("area base br col embed hr img input link meta source track wbr".split())
BLOCK_LEVEL = set(BLOCK_LEVEL_ELEMENTS)
LITERAL = {"script", "style", "pre", "textarea"}


def characters(page: Page, context: Context) -> Iterator[Problem]:
    for number, line in enumerate(page.lines, 1):
        if match := CONTROL.search(line):
            yield Problem(page.path, number, f"看不见的控制字符 U+{ord(match[0]):04X}", "删去它（多半是从别处粘贴来的）")


def margins(page: Page, context: Context) -> Iterator[Problem]:
    fenced = code_lines(page)
    for number, line in enumerate(page.lines, 1):
        if number not in fenced and (match := ODD_MARGIN.match(line)):
            code = f"U+{ord(match['odd']):04X}"
            yield Problem(page.path, number, f"行首有 Markdown 不认的空白 {code}，后面的标记会原样显示", "改用普通空格，或删去它")


def metadata(page: Page, context: Context) -> Iterator[Problem]:
    """MkDocs takes leading `key: value` lines away, and leaves a `---` block that is no mapping as text."""
    if METADATA.match(page.lines[0]):
        yield Problem(page.path, 1, "第一行像元数据（名字: 值），MkDocs 会把它吞掉", "页面以标题开头，或在它前面空一行")
    if match := FRONT_MATTER.match(page.text):
        try:
            good = isinstance(yaml.safe_load(match["yaml"]), dict)
        except yaml.YAMLError:
            good = False
        if not good:
            yield Problem(page.path, 1, "页首 --- 之间不是有效的 YAML，会原样显示", "改正它；要分隔线就在 --- 前面空一行")


def comments(page: Page, context: Context) -> Iterator[Problem]:
    """A comment that begins within a line is part of its paragraph: it cannot hold a fence, a list or a blank line."""
    lines = list(page.lines)
    for number in code_lines(page):
        lines[number - 1] = ""
    text = "\n".join(lines)
    for match in HIDDEN.finditer(text):
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        if match[0].startswith("<!--") and "\n" in match[0] and before.strip():
            line = text.count("\n", 0, match.start()) + 1
            yield Problem(page.path, line, "跨行的 HTML 注释从一行的中间开始，其中的内容仍会显示", "让 <!-- 另起一行")


def raw_html(page: Page, context: Context) -> Iterator[Problem]:
    """Inside a raw HTML block Markdown is plain text, up to the tag that closes it."""
    prose = page.prose
    for start, end, tag in html_blocks(prose):
        if not re.search(rf"</{tag}\s*>$", prose[:end], re.IGNORECASE):
            remedy = f"加上 </{tag}>，或去掉 <{tag}>"
            yield Problem(page.path, page.line_of(start), f"<{tag}> 没有闭合，后面的内容都会原样显示", remedy)
            continue
        offset = _markdown(page, prose, start, end, tag)
        if offset is not None:
            remedy = f"写成 <{tag} markdown>，或改用 HTML 的写法" if tag not in LITERAL else f"把容器移到 <{tag}> 外面"
            yield Problem(page.path, page.line_of(offset), f"<{tag}> 里的 Markdown 不起作用，会原样显示", remedy)


def _markdown(page: Page, prose: str, start: int, end: int, tag: str) -> int | None:
    """Offset of the first piece of Markdown in a raw block."""
    rows = {container.line for container in page.containers}
    found, offset = [], prose.rfind("\n", 0, start) + 1
    for line in prose[offset:end].split("\n"):
        if CONTAINER.match(line.strip()) and prose.count("\n", 0, offset) + 1 in rows:
            found.append(offset)
        offset += len(line) + 1
    if tag not in LITERAL:
        found += [match.start() for match in MARKDOWN.finditer(prose, start, end)]
        found += [start + begin for begin, *_ in math_ranges(prose[start:end])]
    return min(found, default=None)


def items(page: Page, context: Context) -> Iterator[Problem]:
    fenced = code_lines(page)
    for number, line in enumerate(page.lines, 1):
        rest = line.strip()
        match = None if number in fenced or RULE.match(rest) else ITEM.match(rest)
        first = rest[match.end() :] if match else ""
        fence = FENCE.match(first)
        if fence and "`" not in fence["info"] or (CONTAINER.match(first)):
            yield Problem(page.path, number, "列表项不能直接以代码块或容器开头", "先写一句话，代码块或容器另起一行，与文字对齐")


def _read(page: Page) -> str:
    """What Markdown reads as text: prose without formulas and raw HTML."""
    text = without_math(page.prose)
    for start, end, _ in html_blocks(page.prose):
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return text


def stars(page: Page, context: Context) -> Iterator[Problem]:
    """`**` without its other half, in one paragraph, item, heading or cell, is shown as it stands."""
    open_since = 0
    for number, line in enumerate([*_read(page).split("\n"), ""], 1):
        for part in re.split(r"(?<!\\)\|", line):
            rest = part.strip(" \t>")
            if open_since and (BEGINS.match(rest) or not rest or "|" in line):
                yield Problem(page.path, open_since, "** 没有配对，会原样显示", "补上另一个；要显示星号就写 \\*\\* 或放进 ` `")
                open_since = 0
            if "**" not in rest or RULE.match(rest):
                continue
            for match in re.finditer(r"(?P<before>\S?)\*{2,}", re.sub(r"\\.", "x", re.sub(r"<[^<>]*>", "", rest))):
                if not open_since:
                    open_since = number
                elif match["before"] or not match.start():  # after a space it can only open
                    open_since = 0


def ticks(page: Page, context: Context) -> Iterator[Problem]:
    named = mistaken_fences(page)
    for match in re.finditer(r"(?<!\\)`+", _read(page)):
        line = page.line_of(match.start())
        if not FENCE.match(page.lines[line - 1]) and line not in named:  # a fence that nobody sees: `code.hidden`
            yield Problem(page.path, line, f"{match[0]} 没有配对，会原样显示", "补上另一个；要显示反引号就写 \\`")


def tags(page: Page, context: Context) -> Iterator[Problem]:
    """A browser takes an unknown tag such as the `<float>` of `Tensor<float>` out of the text, and an open one goes on."""
    prose = without_math(page.prose)
    blocks = html_blocks(page.prose)
    open_tags: list[re.Match] = []
    for match in TAG.finditer(prose):
        tag = match["tag"].lower()
        if tag in VOID or match["end"].endswith("/"):
            continue
        if not match["slash"]:
            open_tags.append(match)
            if tag in BLOCK_LEVEL and not any(start <= match.start() < end for start, end, _ in blocks):
                if prose[prose.rfind("\n", 0, match.start()) + 1 : match.start()].strip():
                    fault = f"<{tag}> 不在行首，会把段落拆开"
                    yield Problem(page.path, page.line_of(match.start()), fault, "让它另起一行，前面空一行")
            continue
        opened = next((n for n in range(len(open_tags) - 1, -1, -1) if open_tags[n]["tag"].lower() == tag), None)
        if opened is None:
            yield Problem(page.path, page.line_of(match.start()), f"</{tag}> 前面没有 <{tag}>", "删去它，或补上开头")
        else:
            yield from (_left_open(page, match) for match in open_tags[opened + 1 :])
            del open_tags[opened:]
    starts = {start for start, _, _ in blocks}  # `raw_html` speaks of those
    yield from (_left_open(page, match) for match in open_tags if match.start() not in starts)


def _left_open(page: Page, match: re.Match) -> Problem:
    remedy = f"加上 </{match['tag']}>；要显示尖括号就写 &lt; 或放进 ` `"
    return Problem(page.path, page.line_of(match.start()), f"<{match['tag']}> 没有闭合，会被浏览器当成标签", remedy)


RULES = [characters, margins, metadata, comments, raw_html, items, stars, ticks, tags]
