"""Links, images and anchors. A link must reach a file of docs/, an anchor must be on the page that it names."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from markdown import Markdown
from markdown.extensions.toc import unique
from pymdownx.slugs import slugify

from courseware.check.context import Context, nearest
from courseware.dialect import mathml
from courseware.dialect.values import anchor
from courseware.doctest.blocks import chains
from courseware.page import VALUE, Page, Text
from courseware.problem import Problem

TEXT = r"\[(?P<text>(?:[^\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*)\]"
PLACE = r"(?:<(?P<angle>[^<>\n]*)>|(?P<target>(?:[^()\s]|\([^()\s]*\))*))"
TARGET = rf"\([ \t]*{PLACE}(?:\s+(?:\"[^\"]*\"|'[^']*'))?[ \t]*\)"
LINK = re.compile(rf"(?<![!\\]){TEXT}{TARGET}")
IMAGE = re.compile(rf"(?<!\\)!{TEXT}{TARGET}")
DEFINITION = re.compile(rf"^[ ]{{0,3}}\[(?!\^)(?P<text>[^\[\]\n]+)\]:[ \t]*(?=\S){PLACE}", re.MULTILINE)
RAW = re.compile(r"<(?P<tag>[a-z][\w-]*)\b(?P<attributes>(?:[^<>\"']|\"[^\"]*\"|'[^']*')*)>", re.IGNORECASE)
ATTRIBUTE = re.compile(
    r"(?<![\w-])(?P<name>id|name|href|src|alt)\s*=\s*(?P<quote>[\"'])(?P<value>.*?)(?P=quote)", re.DOTALL | re.IGNORECASE
)
ATTR_LIST = re.compile(r"(?<![{\w\\^])\{:?[ ]*(?P<body>[^{}\n]*#[^{}\n]*)\}(?!\})")
ATTR_ID = re.compile(r"(?:^|\s)#(?P<id>[^\s#.{}]+)")
FOOTNOTE = re.compile(r"\[\^(?P<id>[^\]\s]+)\](?P<definition>:)?")
DEFINED_FOOTNOTE = re.compile(r"^[ ]{0,3}(?P<mark>\[\^(?P<id>[^\]\s]+)\]):", re.MULTILINE)
INNER_FOOTNOTE = re.compile(r"(?:[ ]{4,}|[ ]*(?:[-*+]|\d+\.)[ ]+|[ ]*>[ ]?)+\[\^(?P<id>[^\]\s]+)\]:")
ATX = re.compile(r"^[ \t]*(?:>[ \t]*|[-*+][ \t]+|\d+[.)][ \t]+)*(?P<text>#{1,6}[^#\n][^\n]*)$", re.MULTILINE)
SETEXT = re.compile(r"^(?P<text>[^\s#>|*+-][^\n]*)\n(?P<rule>=+|-+)[ \t]*$", re.MULTILINE)
GENERATED = {"verification.json"}  # in the site only
SCHEMES = {"http", "https", "mailto", "tel"}


@dataclass(frozen=True)
class Link:
    line: int
    target: str
    raw: bool = False  # in raw HTML, which MkDocs does not rewrite
    image: bool = False


@lru_cache(maxsize=4)  # four rules in a row ask for the same page
def without_math(prose: str) -> str:
    """A page's prose with formulas and value references blanked: `[` and `(` mean something else there."""
    text = VALUE.sub(lambda m: "0" * len(m[0]), prose)
    for start, end, *_ in mathml.math_ranges(text):
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return text


def links_of(page: Page, prose: str) -> Iterator[Link]:
    for pattern in (LINK, IMAGE, DEFINITION):
        for match in pattern.finditer(prose):
            target = match["angle"] if match["angle"] is not None else match["target"]
            yield Link(page.line_of(match.start()), target, image=pattern is IMAGE)
    for match in RAW.finditer(prose):
        for attribute in ATTRIBUTE.finditer(match["attributes"]):
            if attribute["name"].lower() in ("href", "src"):
                yield Link(page.line_of(match.start()), attribute["value"], raw=True)


def broken(page: Page, context: Context) -> Iterator[Problem]:
    for link in links_of(page, without_math(page.prose)):
        fault, remedy = _broken(link, page, context)
        if fault:
            yield Problem(page.path, link.line, fault, remedy)


def _broken(link: Link, page: Page, context: Context) -> tuple[str, str]:
    target, what = link.target.strip(), "图片" if link.image else "链接"
    if not target:
        return f"{what}没有目标", "在圆括号里写上页面或地址"
    try:
        parts = urlsplit(target)
    except ValueError:
        return f"{what} {target} 不是有效的地址", "改正地址"
    if parts.scheme or parts.netloc:
        known = parts.scheme.lower() in SCHEMES or (parts.netloc and not parts.scheme)
        return ("", "") if known else (f"{what} {target} 的协议不能用", "用 https:// 的地址，或 docs/ 里的文件")
    path, fragment = unquote(parts.path), unquote(parts.fragment)
    name = _resolve(path, link.raw, page, context)
    pictures = context.pictures if link.image else set()
    if name not in context.files | GENERATED | pictures | {context.name(page)}:
        return f"{what} {target} 指向不存在的文件", _suggest(path, name, context)
    if fragment and name.endswith((".md", ".ipynb")):
        known = anchors(name, context, page)
        if fragment not in known:
            where = "本页" if name == context.name(page) else f" {name} "
            remedy = f"改正锚点（{nearest(fragment, sorted(known))}），或在标题后加 {{#{fragment}}}"
            return f"{what} {target} 的锚点 #{fragment} 在{where}里不存在", remedy
    return "", ""


def _resolve(path: str, raw: bool, page: Page, context: Context) -> str:
    """The file of docs/ that a target means; a raw HTML target is relative to the page's address in the site."""
    name = context.name(page)
    if not path:
        return name
    if path.startswith("/"):
        return posixpath.normpath(path.lstrip("/"))
    if not raw:
        return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
    joined = posixpath.normpath(posixpath.join(_address(name), path))
    return next((n for n in sorted(context.files) if joined in _served(n)), joined)


def _served(name: str) -> set[str]:
    """Addresses in the site of a page; a notebook's page has the notebook itself beside it, to download."""
    if not name.endswith((".md", ".ipynb")):
        return set()
    address = _address(name)
    return {address, posixpath.join(address, posixpath.basename(name))} if name.endswith(".ipynb") else {address}


def _address(name: str) -> str:
    """Folder of a page in the site, as MkDocs' directory addresses have it: io.md is io/."""
    folder, file = posixpath.split(name)
    stem = posixpath.splitext(file)[0]
    return posixpath.normpath(folder if stem in ("index", "README") else posixpath.join(folder, stem))


def _suggest(path: str, name: str, context: Context) -> str:
    if f"{name}.j2" in context.pictures:
        return f"它由模板画成：写 ![说明]({path}.j2)，独占一段"
    for candidate in (f"{name}.md", f"{name}/index.md", posixpath.splitext(name)[0] + ".md"):
        if candidate in context.files:
            return f"链接到源文件：{candidate}"
    ending, known = posixpath.splitext(name)[1] or ".md", context.files | context.pictures
    alike = sorted(n for n in known if posixpath.splitext(n)[1] == ending)
    return f"改正路径（{nearest(name, alike)}）"


def anchors(name: str, context: Context, page: Page | None = None) -> set[str]:
    """Every anchor of a page or notebook of docs/; `page` is the page in hand, which need not be a file yet."""
    if page is None or context.name(page) != name:
        page = context.pages.get(name)
        if page is None and name.endswith(".md"):
            return set()
    key = page.text if page else name
    if key not in context.anchors:
        context.anchors[key] = _page_anchors(page, context) if page else _notebook_anchors(name, context)
    return context.anchors[key]


def _page_anchors(page: Page, context: Context) -> set[str]:
    found = {id_ for _, id_ in explicit_ids(page)} | set(heading_ids(page))
    found |= {f"block-{number}" for number in range(1, sum(len(chain.blocks) for chain in chains(page)) + 1)}
    if re.search(r"^[ ]{0,3}\[VERIFICATION\][ \t]*$", page.prose, re.MULTILINE):
        found |= {anchor(name) for name in context.figures}
    for match in FOOTNOTE.finditer(page.prose):
        found |= {f"fn:{match['id']}", f"fnref:{match['id']}"}
    return found


def heading_ids(page: Page) -> list[str]:
    """Ids as the table of contents gives them: Python-Markdown itself renders the headings, and nothing else."""
    lines = [line for _, line in sorted(_headings(page)) if not VALUE.search(line) or ATTR_LIST.search(line)]
    if not lines:
        return []
    config = {"toc": {"slugify": slugify(case="lower")}, "pymdownx.arithmatex": {"generic": True}}
    md = Markdown(extensions=["attr_list", "toc", "pymdownx.arithmatex"], extension_configs=config)
    mathml.extend(md, None)
    md.convert("\n\n".join(lines))
    return list(_ids(md.toc_tokens))


def _headings(page: Page) -> Iterator[tuple[int, str]]:
    """(line, heading in `#` form) of everything that Python-Markdown takes for one, inside lists and quotations too."""
    for pattern in (ATX, SETEXT):
        for match in pattern.finditer(page.prose):
            text = page.text[match.start("text") : match.end("text")]  # with its code spans, which `prose` blanks
            yield page.line_of(match.start("text")), ("# " if pattern is SETEXT else "") + FOOTNOTE.sub("", text)


def _ids(tokens: list[dict]) -> Iterator[str]:
    for token in tokens:
        yield token["id"]
        yield from _ids(token["children"])


def _notebook_anchors(name: str, context: Context) -> set[str]:
    """Anchors as `notebook_page` makes them: the headings' words."""
    try:
        cells = json.loads((context.docs / name).read_text("utf-8"))["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    except (ValueError, KeyError, TypeError):
        return set()
    headings = re.findall(r"^#{1,6}[ \t]+(.+?)[ \t]*$", text, re.MULTILINE)
    slug, ids = slugify(case="lower"), set()
    for heading in headings:
        unique(slug(heading, "-"), ids)
    return ids


def explicit_ids(page: Page) -> list[tuple[int, str]]:
    """(line, id) of each `{#id}`, `id="…"` and `<a name="…">`, in order."""
    prose, found = without_math(page.prose), []
    for match in RAW.finditer(prose):
        for attribute in ATTRIBUTE.finditer(match["attributes"]):
            if attribute["name"].lower() == "id" or (attribute["name"].lower(), match["tag"].lower()) == ("name", "a"):
                found.append((page.line_of(match.start("attributes") + attribute.start()), attribute["value"]))
    for match in ATTR_LIST.finditer(prose):
        if _in_title(page, match):
            continue
        for identifier in ATTR_ID.finditer(match["body"]):
            found.append((page.line_of(match.start()), identifier["id"]))
    return sorted(found)


def _in_title(page: Page, match: re.Match) -> bool:
    """Does an attribute list stand in a container's title, where it belongs to nothing and is shown?"""
    line, before = page.line_of(match.start()), page.text[match.start() - 1 : match.start()]
    return before not in ("*", "`", ")", "]") and any(container.line == line for container in page.containers)


def titles(page: Page, context: Context) -> Iterator[Problem]:
    for match in ATTR_LIST.finditer(without_math(page.prose)):
        if _in_title(page, match):
            remedy = f"删去它；要链接到这里，就在前面加一个带 {match[0]} 的小标题"
            yield Problem(page.path, page.line_of(match.start()), f"容器的标题不能带 {match[0]}，会原样显示", remedy)


def duplicate_ids(page: Page, context: Context) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for line, identifier in explicit_ids(page):
        if identifier in seen:
            yield Problem(page.path, line, f"锚点 {identifier} 与第 {seen[identifier]} 行的重复", "换一个本页没有用过的名字")
        elif re.fullmatch(r"block-\d+", identifier):
            yield Problem(page.path, line, f"锚点 {identifier} 与代码块的编号冲突", "换一个名字，block-数字 留给代码块")
        seen.setdefault(identifier, line)


def texts(page: Page, context: Context) -> Iterator[Problem]:
    for match in LINK.finditer(without_math(page.prose)):
        if not page.text[match.start("text") : match.end("text")].strip() and (match["angle"] or match["target"]):
            yield Problem(page.path, page.line_of(match.start()), "链接没有文字，读者看不到它", "在方括号里写上文字")


def alt_texts(page: Page, context: Context) -> Iterator[Problem]:
    remedy = "用一句话写出图里有什么；纯装饰的图在 HTML 里写 alt=\"\""
    prose = without_math(page.prose)
    for match in IMAGE.finditer(prose):
        if not page.text[match.start("text") : match.end("text")].strip():
            yield Problem(page.path, page.line_of(match.start()), "图片没有替代文字", f"写成 ![说明](…)，{remedy}")
    for match in RAW.finditer(prose):
        names = {attribute["name"].lower() for attribute in ATTRIBUTE.finditer(match["attributes"])}
        if match["tag"].lower() == "img" and "alt" not in names:
            yield Problem(page.path, page.line_of(match.start()), "图片没有替代文字", f'加上 alt="说明"，{remedy}')


def footnotes(page: Page, context: Context) -> Iterator[Problem]:
    prose = without_math(page.prose)
    defined: dict[str, int] = {}
    definitions = list(DEFINED_FOOTNOTE.finditer(prose))
    starts = {match.start("mark") for match in definitions}
    used = {match["id"] for match in FOOTNOTE.finditer(prose) if match.start() not in starts}
    for match in definitions:
        name, line = match["id"], page.line_of(match.start("mark"))
        if name in defined:
            yield Problem(page.path, line, f"脚注 [^{name}] 在第 {defined[name]} 行定义过了，只有一处会显示", "换一个名字，或合成一处")
        elif name not in used:
            yield Problem(page.path, line, f"脚注 [^{name}] 没有用到", f"在正文里写上 [^{name}]，或删去这一行")
        defined.setdefault(name, line)
    for match in FOOTNOTE.finditer(prose):
        if not match["definition"] and match["id"] not in defined:
            fault = f"脚注 [^{match['id']}] 没有定义"
            yield Problem(page.path, page.line_of(match.start()), fault, f"在页末加一行 [^{match['id']}]: 说明")
    for piece in page.out:  # Python-Markdown may even stumble over one definition inside another
        if isinstance(piece, Text) and (match := INNER_FOOTNOTE.match(piece.text)):
            yield Problem(page.path, piece.line, f"脚注 [^{match['id']}] 的定义不在行首", "定义顶格写，不放进列表、引用或别的脚注")


RULES = [broken, titles, duplicate_ids, texts, alt_texts, footnotes]
