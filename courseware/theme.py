"""What a build changes in the files that the theme and the highlighter brought: less to load, and one mended bug.

Material's styles cover every colour and component that any site may use; a reader's first visit pays for all of them.
"""

from __future__ import annotations

import re
from pathlib import Path

from courseware.problem import Problem

RULE = re.compile(r"(?P<selectors>[^{}@;]+)\{(?P<body>[^{}]*)\}")
EMPTY = re.compile(r"@(?:media|supports|container)[^{};]*\{\s*\}")
COMMA = re.compile(r",(?![^(]*\))")  # commas between selectors, not those inside :is(…)
CLASS = re.compile(r"\.(-?[A-Za-z_][\w-]*)")
COLOUR = re.compile(r"\[data-md-color-(?:scheme|primary|accent)=(?P<quote>[\"']?)(?P<name>[\w-]+)(?P=quote)\]")
NEGATED = re.compile(r":not\((?:[^()]|\([^()]*\))*\)")
TOKEN = re.compile(r"[\w-]+")
STATE = {"js", "no-js", "focus-visible"}  # classes that scripts give without an `md-` name
KEPT_WHOLE = re.compile(r"(<(?:pre|script|style|textarea)\b.*?</(?:pre|script|style|textarea)>)", re.DOTALL)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
SPACE = re.compile(r"\s+")
PUNCTUATED = re.compile(r" ?([{};]) ?")
INDENTED = re.compile(r"\n\s+")

# Material 9.8's search never lets the last character of a Chinese query be part of a word: 注意力 is cut to 注意.
SEGMENT = "for(let o=s+1;o<t.length;o++)t.slice(s,o)in "


def lighten(site: Path) -> list[Problem]:
    """Rewrite the built site in place; what no longer fits the theme's version is a problem."""
    pages = sorted(site.rglob("*.html"))
    texts = [squeezed(path.read_text("utf-8")) for path in pages]
    for path, text in zip(pages, texts, strict=True):
        path.write_text(text, "utf-8")
    scripts = "".join(path.read_text("utf-8") for path in site.glob("assets/javascripts/bundle.*.js"))
    used = set(TOKEN.findall("".join(texts)))
    named = {token for token in TOKEN.findall(scripts) if token.startswith("md-")}
    for path in site.glob("assets/stylesheets/*.css"):
        path.write_text(trimmed(path.read_text("utf-8"), used | named | STATE), "utf-8")
    for path in site.glob("assets/css/*.css"):
        path.write_text(minified(path.read_text("utf-8")), "utf-8")
    return _mend_search(site)


def minified(css: str) -> str:
    """A style sheet of ours without comments and without white space that means nothing."""
    return PUNCTUATED.sub(r"\1", SPACE.sub(" ", COMMENT.sub("", css))).strip()


def squeezed(page: str) -> str:
    """A page without the indentation of its templates; what is preformatted stays as it is."""
    parts = KEPT_WHOLE.split(page)
    return "".join(part if n % 2 else INDENTED.sub("\n", part) for n, part in enumerate(parts))


def trimmed(css: str, used: set[str]) -> str:
    """The rules of a minified style sheet that can apply where only the classes and colours `used` occur."""
    css = RULE.sub(lambda rule: _rule(rule, used), css)
    previous = ""
    while css != previous:
        previous, css = css, EMPTY.sub("", css)
    return css


def _rule(rule: re.Match, used: set[str]) -> str:
    kept = [one for one in COMMA.split(rule["selectors"]) if _applies(one, used)]
    return f"{','.join(kept)}{{{rule['body']}}}" if kept else ""


def _applies(selector: str, used: set[str]) -> bool:
    selector = NEGATED.sub("", selector)
    if "[dir=rtl]" in selector:
        return False
    if ":is(" in selector or ":where(" in selector:
        return True  # alternatives: not worth a parser
    names = CLASS.findall(selector) + [match["name"] for match in COLOUR.finditer(selector)]
    return all(name.replace("\\", "") in used for name in names)


def _mend_search(site: Path) -> list[Problem]:
    workers = list(site.glob("assets/javascripts/workers/search.*.js"))
    for path in workers:
        text = path.read_text("utf-8")
        if text.count(SEGMENT) != 1:
            fault = "搜索脚本和所知的 Material 版本不同，中文查询的修补用不上"
            return [Problem(path.name, 1, fault, "核对 courseware/theme.py 的 SEGMENT；Material 已修好就删去它")]
        path.write_text(text.replace(SEGMENT, SEGMENT.replace("o<t.length", "o<=t.length")), "utf-8")
    return []
