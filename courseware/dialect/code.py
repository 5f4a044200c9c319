"""Code: a block's frame with its kind, its state and its output; listings of tested files.

Contract: a fence that `source` marked `block="N"` becomes

    <div class="course-code" id="block-N" data-kind="runnable|cuda|skeleton|pseudo"
         data-status="ran|recorded|stale|compiled|not-executed|failed">
      <div class="course-code__bar"><span class="course-badge">…</span> … <span class="course-code__status">…</span></div>
      <div class="highlight">…</div> <div class="course-output">…</div> <div class="course-error" role="alert">…</div>
    </div>

without its 类型 line, which is the badge now: what is copied is the code alone. State and output come from the ledger;
nothing runs here. A `--8<--` listing with a title becomes `<div class="course-listing">`. Other fences stay as they are.

Superfences calls the formatter while it reads the lines, so the frame is raw HTML at first. Frames that stand on their
own (nearly all) are made elements of the tree afterwards: only there does MkDocs see the anchor `block-N`.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as etree
from functools import partial
from html import escape
from typing import Any

from markdown import Markdown
from markdown.postprocessors import Postprocessor
from markdown.preprocessors import Preprocessor
from markdown.treeprocessors import Treeprocessor
from markdown.util import HTML_PLACEHOLDER_RE
from pymdownx.superfences import SuperFencesCodeExtension, highlight_validator

from courseware.page import Fence

BADGES = {
    "runnable": "可运行 · Runnable",
    "cuda": "需要 GPU · Runnable on CUDA",
    "skeleton": "骨架 · Skeleton",
    "pseudo": "伪代码 · Pseudo-code",
}
STATUSES = {
    "ran": "✓ 已执行",
    "recorded": "✓ 已在 GPU 上执行并记录",
    "stale": "⚠ 记录已过期（代码改过，尚未重录）",
    "compiled": "✓ 已编译，未执行",
    "not-executed": "○ 未执行 / NOT EXECUTED",
    "failed": "✗ 执行失败",
}
LIBRARIES = ("numpy", "torch", "triton")
PLAIN_TOKEN = re.compile(r'<span class="(?:n|o|p|w)">([^<]*)</span>')
PREFIXED_STRING = re.compile(r'<span class="sa">(\w+)</span><span class="(s\w)">')  # f"…" is one string
TESTED = ("snippets/", "kernels/", "courseware/")
TITLE = re.compile(r"""\btitle=(?P<quote>["'])(?P<title>.*?)(?P=quote)""")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
LONG_OUTPUT = 14  # lines that show without scrolling (max-height in code.css)
WIDE_OUTPUT = 40  # characters that fit on a phone


def extend(md: Markdown, course: Any) -> None:
    """Superfences may be loaded after the dialect: its formatters are extended when the first page is read."""
    md.preprocessors.register(FenceSetup(md, course), "course_code_setup", 39)  # after source (40), before fences (25)
    md.treeprocessors.register(FrameProcessor(md), "course_code_frames", 16)  # after inline (20), before toc (5)
    md.postprocessors.register(PlainTokens(md), "course_plain_tokens", 1)


class PlainTokens(Postprocessor):
    """Drop the highlighter's marks on names, operators, brackets and spaces: a quarter of a page's weight, no colour."""

    def run(self, text: str) -> str:
        return without_plain_tokens(text)


def without_plain_tokens(html: str) -> str:
    return PREFIXED_STRING.sub(r'<span class="\2">\1', PLAIN_TOKEN.sub(r"\1", html))


class FenceSetup(Preprocessor):
    """Put our formatter in front of superfences' own, once; the lines pass through unchanged."""

    def __init__(self, md: Markdown, course: Any):
        super().__init__(md)
        self.course, self.done = course, False

    def run(self, lines: list[str]) -> list[str]:
        if not self.done:
            self.done = True
            superfences = next(e for e in self.md.registeredExtensions if isinstance(e, SuperFencesCodeExtension))
            superfences.extend_super_fences("*", partial(format_fence, self.course), validate, None)
        return lines


def validate(language: str, inputs: dict, options: dict, attrs: dict, md: Markdown) -> bool:
    """Superfences' own options, and `block`."""
    md.preprocessors["fenced_code_block"].get_hl_settings()
    rest = {key: text for key, text in inputs.items() if key != "block"}
    if "block" in inputs:
        options["block"] = int(inputs["block"])
    return highlight_validator(language, rest, options, attrs, md)


def format_fence(course: Any, src: str, language: str, options: dict, md: Markdown, **kwargs: Any) -> str:
    """HTML of any fence: a frame for a block, a listing for a `--8<--` fence with a title, else plain."""
    options = dict(options)
    highlight = partial(md.preprocessors["fenced_code_block"].highlight, language=language, options=options, md=md, **kwargs)
    record = course.records.get(options.pop("block", None))
    if record is not None:
        return frame(record, highlight(src=shown_code(record.block.fence)))
    target = _listings(course).get(options.get("title"))
    if target is not None:
        options["title"] = listing_title(target)
        return f'<div class="course-listing">{highlight(src=src)}</div>'
    return highlight(src=src)


# --- listings --------------------------------------------------------------------------------------------------------


def _listings(course: Any) -> dict[str, str]:
    """Title -> target of the page's listings; the fence itself no longer says that it was one."""
    titles = ((TITLE.search(fence.info), fence.listing) for fence in course.page.fences if fence.listing)
    return {match["title"]: target for match, target in titles if match}


def listing_title(target: str) -> str:
    """Words above a listing of `path`, `path:section` or `path:first:last`."""
    path = target.split(":")[0]
    return f"清单 · 文件 {path}{'（已测试的源文件）' if path.startswith(TESTED) else ''}"


# --- blocks ----------------------------------------------------------------------------------------------------------


def shown_code(fence: Fence) -> str:
    """A block's code without its 类型 line, tabs and all, as it ran."""
    lines = fence.lines[1:] if fence.label is not None else fence.lines
    return "\n".join(lines)


def frame(record: Any, highlighted: str) -> str:
    """The whole frame of a block, from its record."""
    block, result = record.block, record.result
    status = result["status"]
    parts = [_bar(record), highlighted]
    if (result.get("output") or "").strip("\n"):
        parts.append(_output(block.number, status, result))
    if status == "failed":
        parts.append(_error(block.number, result.get("error") or "没有错误信息"))
    return (
        f'<div class="course-code" id="block-{block.number}" data-kind="{block.kind}" data-status="{escape(status)}">'
        f"{''.join(parts)}</div>"
    )


def _bar(record: Any) -> str:
    block, result = record.block, record.result
    parts = [f'<span class="course-badge">{BADGES[block.kind]}</span>']
    if block.fence.note:
        parts.append(f'<span class="course-code__note">{escape(block.fence.note)}</span>')
    if record.continues:
        parts.append(f'<a class="course-code__continues" href="#block-{block.number - 1}">承接上一块</a>')
    details = escape(versions(result.get("environment") or {}))
    title = f' title="{details}"' if details else ""
    parts.append(f'<span class="course-code__status"{title}>{escape(status_line(block.kind, result, block.code))}</span>')
    return f'<div class="course-code__bar">{"".join(parts)}</div>'


def status_line(kind: str, result: dict, code: str = "") -> str:
    """A record in a line of words: state, where and with what (the libraries that `code` imports), how long, when."""
    environment = result.get("environment") or {}
    status = result["status"]
    words = [STATUSES.get(status, status)]
    if status == "not-executed":
        reason = {"pseudo": "伪代码不执行", "cuda": "需要 NVIDIA GPU"}.get(kind) or (result.get("error") or "")
        return " · ".join([*words, *reason.splitlines()[:1]])
    if status in ("recorded", "stale"):
        words += [environment.get("device"), _version(environment, "torch"), _version(environment, "triton")]
    else:
        imported = [name for name in LIBRARIES if re.search(rf"^\s*(?:import|from)\s+{name}\b", code, re.MULTILINE)]
        words += [_version(environment, name) for name in ("python", *(imported or ["numpy"]))]
    if result.get("seconds") is not None:
        words.append(seconds(result["seconds"]))
    words.append(day(environment.get("date")))
    return " · ".join(word for word in words if word)


def versions(environment: dict) -> str:
    """All that is known of the place where a block ran, in one line."""
    names = [_version(environment, name) for name in ("python", *LIBRARIES)]
    return " · ".join(text for text in [*names, environment.get("device"), environment.get("date")] if text)


def _version(environment: dict, name: str) -> str:
    version = environment.get(name)
    return f"{'Python' if name == 'python' else name} {version}" if version else ""


def seconds(duration: float) -> str:
    """A duration in seconds, two decimals; `< 0.01 s` below that."""
    return f"{duration:.2f} s" if duration >= 0.01 else "< 0.01 s"


def day(date: str | None) -> str:
    """The day of an ISO date and time."""
    return (date or "")[:10]


def _output(number: int, status: str, result: dict) -> str:
    """What the block printed; a long output scrolls inside itself and takes the focus for that."""
    text = visible(result["output"]).rstrip("\n")
    device = (result.get("environment") or {}).get("device") or "GPU"
    label = {"recorded": f"输出（记录于 {device}）", "stale": f"输出（旧记录，{device}）"}.get(status, "输出")
    wide = text.count("\n") >= LONG_OUTPUT or max(map(len, text.split("\n"))) > WIDE_OUTPUT
    scrolls = _scrolls(f"代码块 {number} 的输出") if wide else ""
    return (
        f'<div class="course-output no-copy"><div class="course-output__label">{escape(label)}</div>'
        f"<pre><code{scrolls}>{escape(text, quote=False)}\n</code></pre></div>"
    )


def visible(text: str) -> str:
    """Output as text alone: terminal colours left out, other control characters by their codes (`\\x08`)."""
    return CONTROL.sub(lambda m: f"\\x{ord(m[0]):02x}", COLOUR.sub("", text))


def _error(number: int, error: str) -> str:
    return (
        '<div class="course-error no-copy" role="alert">'
        f'<pre><code{_scrolls(f"代码块 {number} 的错误")}>{escape(visible(error).strip(), quote=False)}\n</code></pre></div>'
    )


def _scrolls(label: str) -> str:
    """Attributes of `<code>`, which is what scrolls: the keyboard must reach it without Material's script too."""
    return f' tabindex="0" role="region" aria-label="{escape(label)}"'


class FrameProcessor(Treeprocessor):
    """Turn a paragraph that holds one frame only into that frame's element, with what it contains still raw."""

    OPENING = re.compile(r'<div class="course-code" id="(?P<id>[^"]+)" data-kind="(?P<kind>[^"]+)" data-status="(?P<status>[^"]+)">')

    def run(self, root: etree.Element) -> None:
        for element in root.iter("p"):
            placeholder = HTML_PLACEHOLDER_RE.fullmatch((element.text or "").strip())
            if placeholder is None or len(element):
                continue
            index = int(placeholder[1])
            raw = self.md.htmlStash.rawHtmlBlocks[index]
            opening = self.OPENING.match(raw) if isinstance(raw, str) else None
            if opening:
                element.tag = "div"
                element.attrib.clear()
                element.attrib.update(
                    {"class": "course-code", "id": opening["id"], "data-kind": opening["kind"], "data-status": opening["status"]}
                )
                self.md.htmlStash.rawHtmlBlocks[index] = raw[opening.end() : -len("</div>")]
