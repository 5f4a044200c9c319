"""The Content-Security-Policy of the built pages: they load from their own site and run only what the build put there.

Contract: every page has the same `<meta http-equiv="Content-Security-Policy">`, ahead of all that it governs. Scripts
and styles come from the site's own files; those that stand in a page are allowed by their hashes, all pages' together,
since under instant navigation the first page's policy stays in force on the next ones. A `style` attribute, which no
hash allows, becomes a class and a rule. What the policy would silence is a problem: an `onclick`, a `javascript:` link.
"""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html import unescape
from pathlib import Path

from courseware.compiled import unfinished
from courseware.problem import Problem

POLICY = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'"
# A comment, an element whose text is no markup, or a start tag.
PIECE = re.compile(
    r"""<!--.*?-->|<(?P<raw>script|style|textarea)\b(?P<attributes>[^>]*)>(?P<text>.*?)</(?P=raw)\s*>"""
    r"""|<[a-z](?:[^<>"']++|"[^"]*"|'[^']*')*+>""",
    re.DOTALL | re.IGNORECASE,
)
ATTRIBUTE = re.compile(r"""\s+(?P<name>[^\s"'<>/=]+)(?:\s*=\s*(?P<value>"[^"]*"|'[^']*'|[^\s"'<>]+))?""")
HANDLER = re.compile(r"on[a-z]{3,}")
TOLD = re.compile(r"\s(?:style|on|action|formaction)|javascript:", re.IGNORECASE)  # in no other tag is anything to do
QUOTED = re.compile(r"""(["'])(?:(?!\1)[^\\\n])*\1""")  # a string of CSS
OPEN = re.compile(r"""["'{}\\]|/\*""")  # what may reach beyond the declarations, outside a string
SCRIPT_TYPES = {"", "module", "text/javascript", "application/javascript"}  # of a <script> that runs; others are data
HEAD = re.compile(r"<head\b[^>]*>(?:\s*<meta charset=[^>]*>)?", re.IGNORECASE)


def protect(site: Path) -> list[Problem]:
    """Write the policy into every page of the built site; what it would silence is a problem."""
    pages = {path: Page(f"site/{path.relative_to(site).as_posix()}", path.read_text("utf-8")) for path in unfinished(site)}
    rules = "".join(sorted({rule for page in pages.values() for rule in page.rules}))
    scripts = {source for page in pages.values() for source in page.scripts}
    styles = {source for page in pages.values() for source in page.styles} | ({rules} if rules else set())
    policy = f"{POLICY}; script-src {_sources(scripts)}; style-src {_sources(styles)}"
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">' + (f"<style>{rules}</style>" if rules else "")
    for path, page in pages.items():
        path.write_text(HEAD.sub(lambda match: f"{match[0]}\n{head}", page.text, count=1), "utf-8")
    return [problem for page in pages.values() for problem in page.problems]


def _sources(texts: set[str]) -> str:
    hashes = (b64encode(sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(["'self'", *sorted(f"'sha256-{one}'" for one in hashes)])


class Page:
    """A built page without `style` attributes, and what stands in it: scripts that run, styles, rules, problems."""

    def __init__(self, shown: str, text: str):
        self.shown = shown
        self.scripts: set[str] = set()
        self.styles: set[str] = set()
        self.rules: set[str] = set()
        self.problems: list[Problem] = []
        if not HEAD.search(text):
            self._problem("没有 <head>，放不进内容安全策略", "写成完整的 HTML 页面，或从 docs/ 移走")
        self.text = PIECE.sub(self._piece, text)

    def _piece(self, match: re.Match) -> str:
        if not match["raw"]:
            return self._tag(match[0]) if TOLD.search(match[0]) and not match[0].startswith("<!") else match[0]
        attributes = _attributes(match["attributes"])
        if match["raw"].lower() == "style":
            self.styles.add(match["text"])
        elif match["raw"].lower() == "script" and "src" not in attributes and attributes.get("type", "").lower() in SCRIPT_TYPES:
            self.scripts.add(match["text"])
        return match[0]

    def _tag(self, tag: str) -> str:
        attributes = _attributes(tag)
        for name, value in attributes.items():
            if HANDLER.fullmatch(name) or name in ("href", "src") and value.strip().lower().startswith("javascript:"):
                self._problem(f"属性 {name}=\"{value[:60]}\" 里的脚本会被内容安全策略拦下", "改用 extra_javascript 里的脚本文件")
            elif name in ("action", "formaction"):
                self._problem(f"属性 {name}=\"{value[:60]}\" 提交的表单会被内容安全策略拦下", "改成链接，或由脚本处理的表单")
        if not (style := unescape(attributes.get("style", "")).strip()):
            return tag
        bare = QUOTED.sub("", style)
        if OPEN.search(bare) or bare.count("(") != bare.count(")") or "<" in style:
            self._problem(f"style=\"{style[:60]}\" 没有写完整，会打乱所有页面的样式", "把引号和括号配成对，里面不要有 { } < 和注释")
            return tag
        name = "style-" + sha256(style.encode()).hexdigest()[:8]
        self.rules.add(f".{name}:not(#_){{{style}}}")  # the id lifts it above any rule of the theme, as the attribute was
        names = f"{attributes.get('class', '')} {name}".strip()
        kept = ATTRIBUTE.sub(lambda match: "" if match["name"].lower() in ("style", "class") else match[0], tag)
        return re.sub(r"^<[^\s/>]+", lambda start: f'{start[0]} class="{names}"', kept)

    def _problem(self, fault: str, remedy: str) -> None:
        self.problems.append(Problem(self.shown, 1, fault, remedy))


def _attributes(tag: str) -> dict[str, str]:
    """Names, in lower case, and values as they stand in a start tag, without their quotes."""
    found = {}
    for match in ATTRIBUTE.finditer(tag):
        value = match["value"] or ""
        found.setdefault(match["name"].lower(), value[1:-1] if value[:1] in ('"', "'") else value)
    return found
