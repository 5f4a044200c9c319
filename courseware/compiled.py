"""What the compiler made of a kernel, as pages: its source beside TTIR, TTGIR and PTX, lines linked both ways.

One page for a kernel function on a target, `FUNCTION/TARGET.html`, written when the kernel is proved and kept with the
proof: a build only copies it. It is an HTML document of its own, without the theme, since its texts are long and the
theme would add as much again; it works without scripts, and carries its policy already. `BACK` in it stands for the
address of the page that shows the marker, which the build fills in.

Instructions are grouped in runs of one place in the source. A place is read from `.loc` (PTX) or from the table of
locations (TTIR, TTGIR); of a call that was inlined every frame in our own files counts, the innermost first. Comments,
locations and debug sections are left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

FOLDER = PurePosixPath("compiled")  # of the pages, in the site
BACK = "@BACK@"
POLICY = "default-src 'self'; img-src data:; object-src 'none'; base-uri 'none'; form-action 'none'"
STAGES = {"ttir": "TTIR", "ttgir": "TTGIR", "ptx": "PTX"}
INSTRUCTIONS = {  # in PTX: tensor-core products, copies that run beside the computation, accesses of 16 bytes
    "wgmma": r"wgmma\.mma_async",
    "tcgen05.mma": r"tcgen05\.mma",
    "mma": r"(?<!wgmma\.)(?<!tcgen05\.)\bmma\.sync",
    "cp.async": r"cp\.async\.c[ag]",
    "tma": r"cp\.async\.bulk\.tensor",
    "ld.global.v4": r"ld\.global\S*\.v4",
    "st.global.v4": r"st\.global\S*\.v4",
}
MARKED = re.compile("|".join(rf"{pattern}[\w.:]*" for pattern in INSTRUCTIONS.values()))

OURS = re.compile(r"(?:^|/)(kernels/[^\"]+\.py)$")  # compiled texts may come from a cache that another checkout filled
LOCATION = re.compile(r"#(loc\d*) = loc\((.*)\)$")
ATTACHED = re.compile(r" ?loc\((?P<what>(?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)")
LOC = re.compile(r"\s*\.loc\s+(?P<file>\d+) (?P<line>\d+) \d+[^/]*(?://(?P<said>.*))?")
FRAME = re.compile(r"([^\s\[\]/]+\.py):(\d+)")
FILE = re.compile(r'^\s*\.file\s+(\d+) "([^"]*)"', re.MULTILINE)
DEBUG = re.compile(r"^\s*\.(?:file|section)\b", re.MULTILINE)
INTERNAL = re.compile(r"\$L__(?:tmp|func)")  # labels that only debug sections use
PLAIN = re.compile(r'<span class="(?:n|o|p|w|nb|bp)">([^<]*)</span>')


class Place(NamedTuple):
    """A line of a source file, named from the project's root."""

    path: str
    line: int


Frames = tuple[Place, ...]  # innermost first; empty where no line of ours is named


@dataclass
class Compiled:
    """A kernel function compiled for a target. texts: by stage; facts: what `compile_variant` found."""

    function: str
    place: Place  # of its definition
    variant: str
    settings: str
    texts: dict[str, str]
    facts: dict


# --- reading ---------------------------------------------------------------------------------------------------------


def _ours(path: str) -> str | None:
    match = OURS.search(path)
    return match[1] if match else None


def read_mlir(text: str) -> list[tuple[Frames, str]]:
    """Lines of TTIR or TTGIR with their places; the line that opens a region has the place that its end names."""
    table = dict(match.groups() for line in text.split("\n") if (match := LOCATION.match(line)))
    known: dict[str, Frames] = {}

    def frames(what: str) -> Frames:
        if what not in known:
            known[what] = _frames(what, lambda name: frames(table.get(name, "unknown")))
        return known[what]

    found: list[tuple[Frames, str]] = []
    opened: list[list[int]] = []  # lines that wait for the end of their region
    for line in text.split("\n"):
        if not line.strip() or LOCATION.match(line):
            continue
        attached = list(ATTACHED.finditer(line))
        named = bool(attached) and attached[-1].end() == len(line)
        place = frames(attached[-1]["what"]) if named else ()
        bare = ATTACHED.sub("", line)
        closes, opens = bare.lstrip().startswith("}"), bare.endswith("{")
        waiting = opened.pop() if closes and opened else []
        if opens:
            opened.append([*waiting, len(found)])
        elif closes:
            for index in waiting:
                found[index] = place, found[index][1]
        elif not named and opened:
            opened[-1].append(len(found))
        found.append((place, bare))
    return found


def _frames(what: str, of: Callable[[str], Frames]) -> Frames:
    """Frames of one location's text; `of` gives those of a `#locN`."""
    if match := re.match(r'"([^"]*)":(\d+):', what):
        path = _ours(match[1])
        return (Place(path, int(match[2])),) if path else ()
    parts = [of(name) for name in re.findall(r"#(loc\d*)", what)]
    if what.startswith("callsite"):
        return sum(parts, ())
    return next(filter(None, parts), ())  # a name, or what was fused: the first that is known


def read_ptx(text: str) -> list[tuple[Frames, str]]:
    """Lines of PTX with their places. LLVM names the calls that were inlined in a comment after `.loc`."""
    paths = {number: path for number, name in FILE.findall(text) if (path := _ours(name))}
    names = {path.rpartition("/")[2]: path for path in paths.values()}
    end = DEBUG.search(text)
    found, labels, place = [], [], ()
    for line in text[: end.start() if end else None].split("\n"):
        if match := LOC.match(line):
            said = FRAME.findall(match["said"] or "")
            frames = [(names.get(name), int(number)) for name, number in said]
            frames = frames or [(paths.get(match["file"]), int(match["line"]))]
            place = tuple(Place(path, number) for path, number in frames if path and number)
            continue
        code = line.partition("//")[0].rstrip()
        if not code.strip() or INTERNAL.match(code.strip()):
            continue
        code = re.sub(r"(?<=\S)[ \t]+", " ", code)
        if code.endswith(":"):
            labels.append(code)  # stands before its instruction, whose place comes in between
            continue
        found += [(place, one) for one in (*labels, code)]
        labels = []
    return found


READERS = {"ttir": read_mlir, "ttgir": read_mlir, "ptx": read_ptx}


def unfinished(site: Path) -> list[Path]:
    """The pages of a built site but for these, which were finished when they were written."""
    return [path for path in sorted(site.rglob("*.html")) if not path.relative_to(site).match(f"{FOLDER}/*/sm_*.html")]


# --- writing ---------------------------------------------------------------------------------------------------------


def write(root: Path, folder: Path, compiled: dict[str, list[Compiled]]) -> None:
    """Write the pages of a kernel into `folder`; compiled: its functions, by target."""
    folder.mkdir(parents=True, exist_ok=True)
    for target, functions in compiled.items():
        for one in functions:
            others = {other: one.function in {each.function for each in rest} for other, rest in compiled.items()}
            path = folder / one.function / f"{target}.html"
            path.parent.mkdir(exist_ok=True)
            path.write_text(page(root, one, target, others), "utf-8")


def page(root: Path, one: Compiled, target: str, others: dict[str, bool]) -> str:
    """One page. others: all targets, and whether this function has a page for them."""
    stages = {stage: _runs(READERS[stage](one.texts[stage])) for stage in STAGES if one.texts.get(stage)}
    places = {place for runs in stages.values() for frames, _ in runs for place in frames}
    sources = _sources(root, one.place, places)
    ids = {place: _id(place, one.place.path) for lines in sources.values() for place in lines}
    words = {place: word for lines in sources.values() for place, word in lines.items()}
    title = f"{one.function}，{target}"
    sections = [
        _resources(one, target, stages.get("ptx", [])),
        _source(sources, ids, stages),
        *(_stage(stage, runs, ids, words) for stage, runs in stages.items()),
    ]
    current = ' aria-current="page"'
    targets = " ".join(
        f'<a href="{other}.html"{current if other == target else ""}>{other}</a>' if there else f"<span>{other} 不适用</span>"
        for other, there in others.items()
    )
    parts = {"source": "源码", **{stage: STAGES[stage] for stage in stages}}
    tabs = " ".join(f'<a href="#{part}">{word}</a>' for part, word in parts.items())
    return f"""<!doctype html>
<html lang="zh">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{title} - 编译透视</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="../../assets/css/compiled.css">
<script src="../../assets/js/compiled.js"></script>
</head>
<body>
<a class="skip" href="#source">跳到源码</a>
<header>
<nav aria-label="目标"><a href="{BACK}">编译透视</a> {targets}</nav>
<h1><code>{one.function}</code> <span>{target}</span></h1>
</header>
<nav class="stages" aria-label="本页">{tabs}</nav>
<main>
{chr(10).join(sections)}
</main>
</body>
</html>
"""


def _runs(lines: list[tuple[Frames, str]]) -> list[tuple[Frames, list[str]]]:
    return [(frames, [line for _, line in run]) for frames, run in groupby(lines, key=lambda line: line[0])]


def _sources(root: Path, first: Place, places: set[Place]) -> dict[Place, dict[Place, str]]:
    """Highlighted lines of the kernel, then of every other function that a place lies in, by where each begins."""
    found: dict[Place, dict[Place, str]] = {}
    for path in sorted({first.path, *(place.path for place in places)}, key=lambda path: (path != first.path, path)):
        text = (root / path).read_text("utf-8")
        html = highlight(text, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True))
        lines = PLAIN.sub(r"\1", html).split("\n")
        wanted = {place.line for place in (*places, first) if place.path == path}
        functions = {}
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                numbers = range(min(each.lineno for each in (node, *node.decorator_list)), node.end_lineno + 1)
                if wanted & set(numbers):
                    functions[Place(path, numbers[0])] = {Place(path, line): lines[line - 1] for line in numbers}
        found |= dict(sorted(functions.items(), key=lambda one: (one[0] != first, one[0])))
    return found


def _id(place: Place, own: str) -> str:
    return f"L{place.line}" if place.path == own else f"{Path(place.path).stem}-L{place.line}"


def _resources(one: Compiled, target: str, ptx: list[tuple[Frames, list[str]]]) -> str:
    facts = one.facts
    rows = [
        ("寄存器（每线程）", facts["registers"]),
        ("共享内存（每线程块）", f"{facts['shared_bytes']} B"),
        ("溢出（每线程）", f"{facts['spill_bytes']} B"),
    ]
    for name, count in facts["instructions"].items():
        pattern = re.compile(INSTRUCTIONS[name])
        first = next(n for n, (_, lines) in enumerate(ptx) if any(map(pattern.search, lines)))
        rows.append((f"<code>{name}</code> 指令", f'<a href="#ptx-{first}">{count}，看第一处</a>'))
    cells = "".join(f'<tr><th scope="row">{name}</th><td>{value}</td></tr>' for name, value in rows)
    return (
        f'<section id="resources"><table><caption>{target} 上的资源与指令（PTX 里的条数）</caption>{cells}</table>\n'
        f"<p>编译的是变体 <code>{escape(one.variant)}</code>：<code>{escape(one.settings)}</code>。没有用 GPU，也没有执行。"
        "下面的文本略去了注释、位置表和调试段，其余是编译器的原文。</p></section>"
    )


def _source(sources: dict[Place, dict[Place, str]], ids: dict[Place, str], stages: dict) -> str:
    """The tested source; beside each line, how many lines of each stage it became, linked to the first."""
    first: dict[tuple[str, Place], tuple[int, int]] = {}  # (stage, place) -> (number of the first run, lines)
    for stage, runs in stages.items():
        for number, (frames, lines) in enumerate(runs):
            for place in set(frames):
                run, count = first.get((stage, place), (number, 0))
                first[stage, place] = run, count + len(lines)

    def cell(stage: str, place: Place) -> str:
        if (stage, place) not in first:
            return "<i></i>"
        run, count = first[stage, place]
        label = f"第 {place.line} 行的 {STAGES[stage]}，{count} 行"
        return f'<i><a href="#{stage}-{run}" aria-label="{label}">{count}</a></i>'

    head = "".join(f"<i>{STAGES[stage]}</i>" for stage in stages)
    shown = []
    for start, lines in sources.items():
        body = "".join(
            f'<span id="{ids[place]}"><i>{place.line}</i>{"".join(cell(stage, place) for stage in stages)} {code}</span>'
            for place, code in lines.items()
        )
        label = f"{start.path} 第 {start.line} 行起"
        shown.append(
            f"<h3>{start.path}（已测试的源文件）</h3>\n"
            f'<pre tabindex="0" role="region" aria-label="{label}"><b><i>行</i>{head}</b>{body}</pre>'
        )
    return f'<section id="source"><h2>源码</h2>\n{"".join(shown)}</section>'


def _stage(stage: str, runs: list[tuple[Frames, list[str]]], ids: dict[Place, str], words: dict[Place, str]) -> str:
    """The stage's text; each run under the source it stands for, with a link to the next run of the innermost line."""
    following: dict[Place, int] = {}
    written = []
    for number, (frames, lines) in reversed(list(enumerate(runs))):
        linked = [place for place in frames if place in ids]
        head = " ← ".join(f'<a href="#{ids[place]}">{ids[place]}</a>' for place in linked) or "没有源码行"
        if linked:
            head += f" <i>{words[linked[0]].strip()}</i>"
            if linked[0] in following:
                head += f' <a href="#{stage}-{following[linked[0]]}">下一段</a>'
            following[linked[0]] = number
        text = escape("\n".join(lines), quote=False)
        if stage == "ptx":
            text = MARKED.sub(r"<mark>\g<0></mark>", text)
        written.append(f'<b id="{stage}-{number}">{head}</b>{text}\n')
    body = "".join(reversed(written))
    word = STAGES[stage]
    return (
        f'<section id="{stage}"><h2>{word}</h2>\n'
        f'<pre tabindex="0" role="region" aria-label="{word}">{body}</pre></section>'
    )
