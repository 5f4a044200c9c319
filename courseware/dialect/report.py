"""The report: a paragraph `[VERIFICATION]` becomes everything that the ledger's "verification" part and the evidence say.

Contract: headings and `<table class="report">`, complete without a script; a status is a word in a cell with
`data-status`. Links are Markdown links from the docs folder's root (`/page.md#block-N`), so that MkDocs resolves and checks them;
each evidence file has the anchor `evidence-FILE`, which `{{record:FILE#KEY}}` links to.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as etree
from collections import Counter
from typing import Any

from markdown import Markdown
from markdown.blockprocessors import BlockProcessor
from markdown.util import AtomicString

from courseware.dialect.code import BADGES, day, seconds
from courseware.dialect.code import STATUSES as SPOKEN
from courseware.dialect.mathml import Converter, MathError, math_ranges, plain
from courseware.dialect.values import anchor, number, quantiles
from courseware.page import VALUE

MARKER = "[VERIFICATION]"
BLOCK_STATUSES = {
    "ran": "✓ 已执行",
    "recorded": "✓ 已记录",
    "stale": "⚠ 已过期",
    "compiled": "✓ 已编译",
    "not-executed": "○ 未执行",
    "failed": "✗ 失败",
}
KERNEL_STATUSES = {"passed": "✓ 通过", "failed": "✗ 失败", "stale": "⚠ 已过期", "not-applicable": "— 不适用"}
STATUSES = BLOCK_STATUSES | KERNEL_STATUSES
VERSIONS = {"python": "Python", "numpy": "NumPy", "torch": "PyTorch", "triton": "Triton", "device": "设备", "date": "时间"}
RESOURCES = {"registers": "寄存器", "shared_bytes": "共享内存", "spill_bytes": "溢出", "instructions": "指令"}


def extend(md: Markdown, course: Any) -> None:
    md.parser.blockprocessors.register(ReportProcessor(md.parser, course), "course_report", 76)  # before tables (75)


class ReportProcessor(BlockProcessor):
    """Puts the report where the marker stands alone."""

    def __init__(self, parser: Any, course: Any):
        super().__init__(parser)
        self.course = course

    def test(self, parent: etree.Element, block: str) -> bool:
        return block.strip() == MARKER

    def run(self, parent: etree.Element, blocks: list[str]) -> None:
        blocks.pop(0)
        write(parent, self.course.ledger)


def write(parent: etree.Element, ledger: dict) -> None:
    """Append the whole report to `parent`."""
    verification = ledger.get("verification") or {}
    blocks = verification.get("blocks", [])
    _counts(parent, blocks)
    _environment(parent, verification.get("environment") or {})
    _blocks(parent, blocks)
    _notebooks(parent, verification.get("notebooks", []))
    _demos(parent, verification.get("demos", []))
    _kernels(parent, verification.get("kernels", []), ledger.get("compiled"))
    _evidence(parent, ledger.get("evidence", {}), ledger.get("unrecorded", []))


# --- sections --------------------------------------------------------------------------------------------------------


def _counts(parent: etree.Element, blocks: list[dict]) -> None:
    heading(parent, "总数")
    counts = Counter((block["kind"], block["status"]) for block in blocks)
    rows = [
        [BADGES[kind], *(str(counts[kind, status]) for status in BLOCK_STATUSES), str(sum(n for (k, _), n in counts.items() if k == kind))]
        for kind in BADGES
    ]
    totals = [str(sum(n for (_, s), n in counts.items() if s == status)) for status in BLOCK_STATUSES]
    rows.append(["合计", *totals, str(len(blocks))])
    table(parent, "代码块：类别与状态", ["类别", *BLOCK_STATUSES.values(), "合计"], rows)


def _environment(parent: etree.Element, environment: dict) -> None:
    heading(parent, "本次执行的环境")
    rows = [[name, str(environment.get(key) or "没有")] for key, name in VERSIONS.items()] if environment else []
    table(parent, "执行环境", ["项目", "值"], rows)


def _blocks(parent: etree.Element, blocks: list[dict]) -> None:
    heading(parent, "代码块")
    rows = []
    for block, position in zip(blocks, _positions(blocks), strict=True):
        page = block["page"]
        rows.append(
            [
                link(f"/{page}#block-{position}", f"{page}，第 {block['line']} 行"),
                heading_text(block.get("heading") or "") or "（无标题）",
                BADGES.get(block["kind"], block["kind"]),
                _status(block["status"]),
                _seconds(block.get("seconds")),
                _place(block.get("environment")),
                _hash(block.get("source")),
            ]
        )
    table(parent, "每个代码块一行", ["位置", "小节", "类别", "状态", "用时", "设备与日期", "源码指纹"], rows)


def _notebooks(parent: etree.Element, notebooks: list[dict]) -> None:
    heading(parent, "笔记本")
    rows = [
        [link(f"/{book['page']}", book["page"]), _status(book["status"]), _seconds(book.get("seconds")), _hash(book.get("source"))]
        for book in notebooks
    ]
    table(parent, "笔记本的执行", ["笔记本", "状态", "用时", "源码指纹"], rows)


def _demos(parent: etree.Element, demos: list[dict]) -> None:
    heading(parent, "演示与图的数据")
    rows = [
        [demo["name"], link(f"/{demo['page']}", demo["page"]), _status(demo["status"]), _hash(demo.get("source"))]
        for demo in demos
    ]
    table(parent, "静态演示和图所用的数据", ["演示或图", "页面", "状态", "源码指纹"], rows)


def _kernels(parent: etree.Element, kernels: list[dict], page: str | None) -> None:
    heading(parent, "内核")
    rows = [
        [kernel["name"], _interpreted(kernel.get("interpreted")), _compiled(kernel.get("compiled")), _recorded(kernel.get("recorded"))]
        for kernel in kernels
    ]
    head = ["内核", "解释执行（CPU，只看语义）", "编译（无需 GPU，只看资源）", "真实硬件上的记录"]
    table(parent, "内核的三级验证，互不替代", head, rows)
    if page:
        paragraph(parent, "每个内核编译成的 TTIR、TTGIR 和 PTX：").append(link(f"/{page}", "编译透视"))


def _evidence(parent: etree.Element, evidence: dict[str, dict], unrecorded: list[str]) -> None:
    heading(parent, "记录文件")
    if not evidence:
        paragraph(parent, "还没有记录文件。")
    if unrecorded:
        paragraph(parent, f"{SPOKEN['not-executed']}：{'、'.join(unrecorded)}。在有 NVIDIA GPU 的机器上用 make record 录下。")
    for name, data in sorted(evidence.items()):
        heading(parent, f"{name}.json", level=3).set("id", anchor(name))
        environment = data.get("environment") or {}
        about = [["命令", code(data.get("command") or "没有")], ["日期", data.get("date") or "没有"]]
        about += [[VERSIONS.get(key, key), str(text)] for key, text in environment.items() if text and key != "date"]
        table(parent, f"{name}：由来", ["项目", "值"], about)
        figures = data.get("figures") or {}
        values = {key: number(figure["value"]) for key, figure in figures.items()}
        spreads = {key: ends for key in figures if figures.keys() >= set(ends := quantiles(key))}
        values |= {key: f"{values[key]}（{values[low]} 至 {values[high]}）" for key, (low, high) in spreads.items()}
        told = {end for ends in spreads.values() for end in ends}  # in their median's row
        rows = [[code(key), f"{values[key]} {figures[key].get('unit') or ''}".strip()] for key in figures if key not in told]
        table(parent, f"{name}：数值", ["名称", "值（20% 至 80% 分位数）" if spreads else "值"], rows)


# --- cells -----------------------------------------------------------------------------------------------------------


def _positions(blocks: list[dict]) -> list[int]:
    """Number of each block on its page: as recorded, else by counting in the order of lines."""
    ordered = sorted(range(len(blocks)), key=lambda index: (blocks[index]["page"], blocks[index]["line"]))
    counts: Counter = Counter()
    found = [0] * len(blocks)
    for index in ordered:
        counts[blocks[index]["page"]] += 1
        found[index] = blocks[index].get("number") or counts[blocks[index]["page"]]
    return found


def heading_text(text: str) -> str:
    """A heading's Markdown as plain text: formulas in one line, links by their words, no emphasis, `…` for values."""
    text = VALUE.sub("…", text)
    for start, end, latex, _ in reversed(math_ranges(text)):
        try:
            text = text[:start] + plain(Converter().convert(latex, block=False)) + text[end:]
        except MathError:
            continue
    return re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("**", "").replace("`", "")


def _status(status: str) -> etree.Element:
    cell = etree.Element("td", {"data-status": status})
    cell.text = AtomicString(STATUSES.get(status, status))
    return cell


def _seconds(duration: float | None) -> str:
    return "" if duration is None else seconds(duration)


def _place(environment: dict | None) -> str:
    environment = environment or {}
    return " · ".join(word for word in (environment.get("device"), day(environment.get("date"))) if word)


def _hash(source: str | None) -> etree.Element | str:
    return code(source[:8]) if source else ""


def _interpreted(level: dict | None) -> etree.Element:
    if not level:
        return _status("not-executed")
    cell = _status(level["status"])
    if level.get("cases") is not None:
        cell.text = AtomicString(f"{cell.text}，{level['cases']} 例")
    return cell


def _compiled(targets: dict[str, dict] | None) -> etree.Element:
    """One line a target: state, registers, shared memory, spills and the instructions that came out."""
    if not targets:
        return _status("not-executed")
    lines = []
    for target, result in targets.items():
        facts = [f"{word} {resource(key, result[key])}" for key, word in RESOURCES.items() if result.get(key) not in (None, "", [], {})]
        lines.append((result["status"], f"{target}：{'，'.join([STATUSES.get(result['status'], result['status']), *facts])}"))
    return _lines(lines)


def resource(key: str, amount: Any) -> str:
    if key.endswith("_bytes"):
        return f"{amount} B"
    if isinstance(amount, dict):
        return "、".join(f"{name} × {count}" for name, count in amount.items())
    return "、".join(map(str, amount)) if isinstance(amount, list) else str(amount)


def _recorded(runs: list[dict] | None) -> etree.Element:
    """One line a recorded run, linked to its evidence file."""
    if not runs:
        return _status("not-executed")
    cell = _lines([(run["status"], f"{STATUSES.get(run['status'], run['status'])}，{run['device']}，{day(run['date'])}") for run in runs])
    for line, run in zip(cell.iter("li"), runs, strict=True):
        if run.get("evidence"):
            line.text = AtomicString(f"{line.text}，")
            line.append(link(f"#{anchor(_file(run['evidence']))}", "记录"))
    return cell


def _file(evidence: str) -> str:
    return evidence.rpartition("/")[2]


def _lines(lines: list[tuple[str, str]]) -> etree.Element:
    cell = etree.Element("td")
    listing = etree.SubElement(cell, "ul")
    for status, text in lines:
        etree.SubElement(listing, "li", {"data-status": status}).text = AtomicString(text)
    return cell


# --- elements --------------------------------------------------------------------------------------------------------


def heading(parent: etree.Element, text: str, level: int = 2) -> etree.Element:
    element = etree.SubElement(parent, f"h{level}")
    element.text = AtomicString(text)
    return element


def paragraph(parent: etree.Element, text: str) -> etree.Element:
    element = etree.SubElement(parent, "p")
    element.text = AtomicString(text)
    return element


def link(address: str, text: str) -> etree.Element:
    element = etree.Element("a", {"href": address})
    element.text = AtomicString(text)
    return element


def code(text: str) -> etree.Element:
    element = etree.Element("code")
    element.text = AtomicString(text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))
    return element


def table(parent: etree.Element, caption: str, head: list[str], rows: list[list[etree.Element | str]]) -> None:
    """A table with a caption; a cell is text, a `<td>`, or an element to put into one. Without rows: a sentence."""
    if not rows:
        paragraph(parent, f"{caption}：没有记录。")
        return
    element = etree.SubElement(parent, "table", {"class": "report"})
    etree.SubElement(element, "caption").text = AtomicString(caption)
    line = etree.SubElement(etree.SubElement(element, "thead"), "tr")
    for text in head:
        etree.SubElement(line, "th").text = AtomicString(text)
    body = etree.SubElement(element, "tbody")
    for row in rows:
        line = etree.SubElement(body, "tr")
        for content in row:
            _cell(line, content)


def _cell(line: etree.Element, content: etree.Element | str) -> None:
    if isinstance(content, etree.Element) and content.tag == "td":
        line.append(content)
        return
    cell = etree.SubElement(line, "td")
    if isinstance(content, etree.Element):
        cell.append(content)
    else:
        cell.text = AtomicString(content)
