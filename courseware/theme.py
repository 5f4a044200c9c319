"""What a build changes in the files that the theme and the highlighter brought: less to load, and mended bugs.

Material's styles cover every colour and component that any site may use; a reader's first visit pays for all of them.
"""

from __future__ import annotations

import re
from pathlib import Path

import minify_html

from courseware.compiled import unfinished
from courseware.problem import Problem

RULE = re.compile(r"(?P<selectors>[^{}@;]+)\{(?P<body>[^{}]*)\}")
EMPTY = re.compile(r"@(?:media|supports|container)[^{};]*\{\s*\}")
COMMA = re.compile(r",(?![^(]*\))")  # commas between selectors, not those inside :is(…)
CLASS = re.compile(r"\.(-?[A-Za-z_][\w-]*)")
COLOUR = re.compile(r"\[data-md-color-(?:scheme|primary|accent)=(?P<quote>[\"']?)(?P<name>[\w-]+)(?P=quote)\]")
DARK = re.compile(r"\[data-md-color-scheme=\"?slate\"?\]\{(?P<body>[^{}]*)\}")
WITHOUT_SCRIPTS = "assets/css/without-scripts.css"  # overrides/main.html links it
NEGATED = re.compile(r":not\((?:[^()]|\([^()]*\))*\)")
TOKEN = re.compile(r"[\w-]+")
STATE = {"js", "no-js", "focus-visible"}  # classes that scripts give without an `md-` name
KEPT_WHOLE = re.compile(r"(<(?:pre|script|style|textarea)\b.*?</(?:pre|script|style|textarea)>)", re.DOTALL)
NOTE = re.compile(r"^\s*(?://[^\n]*|/\*(?:(?!\*/).)*\*/)\s*$", re.DOTALL | re.MULTILINE)  # a script's line of comment
INDENTED = re.compile(r"\n\s+")

# Material 9.8.2's scripts: (file, what stands there, what should, why). Each text must stand in its file exactly once.
SEARCH, BUNDLE = "assets/javascripts/workers/search.*.js", "assets/javascripts/bundle.*.js"
MENDS = [
    # The last character of a Chinese query is never part of a word: 注意力 is cut to 注意.
    (SEARCH, "for(let o=s+1;o<t.length;o++)t.slice(s,o)in ", "for(let o=s+1;o<=t.length;o++)t.slice(s,o)in ", "中文查询"),
    # Instant navigation takes absolute addresses from sitemap.xml; ours start from the sitemap, wherever the site lies.
    (BUNDLE, "fi(new URL(n.textContent),t)", "fi(new URL(n.textContent,t),t)", "子路径下的即时导航"),
    # It makes every address absolute by assigning it to itself: an element of SVG that links (`use`) has no `href` to
    # assign to, so this throws and the next page never appears; a font is preloaded twice, and the browser complains.
    (BUNDLE, "t[r]=t[r];break", "t instanceof SVGElement||t.rel=='preload'||(t[r]=t[r]);break", "即时导航时改写链接"),
    # Every page adds listeners for the screen's width and a subscription of the table of contents, and with them stays
    # in memory after it was left.
    (
        BUNDLE,
        "ur(r=>t.addListener(()=>r(t.matches)))",
        "ur(r=>{let o=()=>r(t.matches);return t.addListener(o),o},(r,o)=>t.removeListener(o))",
        "离开页面后释放监听器",
    ),
    (BUNDLE, "te(a)).subscribe(([[{prev:c}],p])", "te(a),W(s)).subscribe(([[{prev:c}],p])", "离开页面后释放目录"),
    # The copy button of every code block stands in a <nav> without a name: dozens of landmarks that lead nowhere.
    (BUNDLE, 'x("nav",{class:"md-code__nav"})', 'x("div",{class:"md-code__nav"})', "复制按钮的地标"),
    # A block's code and its output would both get the id of their block.
    (BUNDLE, "p=c?c.id:Za++", "p=Za++", "代码块的标识"),
]


def lighten(site: Path) -> list[Problem]:
    """Rewrite the built site in place; what no longer fits the theme's version is a problem."""
    pages = unfinished(site)
    texts = [squeezed(path.read_text("utf-8")) for path in pages]
    for path, text in zip(pages, texts, strict=True):
        path.write_text(text, "utf-8")
    scripts = "".join(path.read_text("utf-8") for path in site.glob("assets/javascripts/bundle.*.js"))
    used = set(TOKEN.findall("<".join(set("<".join(texts).split("<")))))  # pages repeat most of their tags
    named = {token for token in TOKEN.findall(scripts) if token.startswith("md-")}
    for path in site.glob("assets/stylesheets/*.css"):
        path.write_text(trimmed(path.read_text("utf-8"), used | named | STATE), "utf-8")
    for path in site.glob("assets/css/*.css"):
        path.write_text(minified(path.read_text("utf-8")), "utf-8")
    (site / "assets/css").mkdir(parents=True, exist_ok=True)
    (site / WITHOUT_SCRIPTS).write_text(darkened(site), "utf-8")
    for path in [*site.glob("assets/js/*.js"), *site.glob("assets/demos/**/*.js")]:
        path.write_text(smaller(path.read_text("utf-8"), module="demos" in path.parts), "utf-8")
    return _mend(site)


def darkened(site: Path) -> str:
    """The dark scheme's rules for a reader whose system is dark and who has no script to switch to it."""
    sheets = [*sorted(site.glob("assets/stylesheets/palette.*.css")), *sorted(site.glob("assets/css/*.css"))]
    bodies = [rule["body"].strip(";") for path in sheets for rule in DARK.finditer(path.read_text("utf-8"))]
    return f"@media screen and (prefers-color-scheme:dark){{body[data-md-color-scheme]{{{';'.join(bodies)}}}}}"


def minified(css: str) -> str:
    """A style sheet of ours in fewer bytes."""
    return _alone("style", css, minify_css=True)


def smaller(script: str, *, module: bool) -> str:
    """A script of ours without comments and needless space. The library keeps comments that stand before a statement."""
    return _alone("script", NOTE.sub("", script), ' type="module"' if module else "", minify_js=True)


def _alone(tag: str, text: str, attributes: str = "", **how: bool) -> str:
    """The library reads pages, so it gets one with nothing else."""
    page = f"<{tag}{attributes}>{text}</{tag}>"
    return minify_html.minify(page, **how).partition(">")[2].removesuffix(f"</{tag}>")


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


def _mend(site: Path) -> list[Problem]:
    found = []
    for pattern, old, new, what in MENDS:
        for path in site.glob(pattern):
            text = path.read_text("utf-8")
            if text.count(old) == 1:
                path.write_text(text.replace(old, new), "utf-8")
            else:
                fault = f"主题的脚本和所知的 Material 版本不同，对「{what}」的修补用不上"
                found.append(Problem(path.name, 1, fault, "核对 courseware/theme.py 的 MENDS；Material 已改好就删去那一条"))
    return found
