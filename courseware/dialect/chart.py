"""`:::chart 标题`: curves of recorded figures, drawn at build, with the table of the exact figures behind them.

Contract: lines `横轴: S = 512, 1024`, `纵轴: 时间 ms`, `曲线: 名字 = FILE#KEY_{S}` and perhaps `刻度: 对数`; colons and commas
may be full-width. The last word before `=` is the variable, the last word of 纵轴 is the unit, which every figure has.
`对照:` is a baseline (grey, dashed), `水平线:` a figure that stays the same over the axis. A curve ends with `缺 16384`
where a point has no record. What follows is prose. Values that are all powers of two stand as far apart as their
logarithms, others are categories. Spread is drawn where KEY_low and KEY_high are recorded too. It becomes a
`<figure class="chart">`: title, legend and drawing, prose, `<details>` with the table, a line on where it was measured.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as etree
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

from markdown import Markdown
from markdown.util import AtomicString
from pymdownx.blocks.block import Block

from courseware.dialect.code import versions
from courseware.dialect.course import LOG, Course, register
from courseware.dialect.demo import Fault, plain
from courseware.dialect.values import REPORT, anchor, number, quantiles, resolve, stem
from courseware.page import Closer, Container, Page, Text, body

X, Y, SCALE, CURVE, BASELINE, LEVEL = "横轴", "纵轴", "刻度", "曲线", "对照", "水平线"
SCALES = {"线性": False, "对数": True}
MOST = {CURVE: 6, BASELINE: 2, LEVEL: 2}  # as many as charts.css can tell apart
SETTING = re.compile(rf"\s*(?P<word>{'|'.join((X, Y, SCALE, *MOST))})\s*[:：]\s*(?P<rest>.*?)\s*$")
KEYS = re.compile(
    r"(?P<name>.+?)\s*[=＝]\s*(?P<file>[^\s#=＝]+)#(?P<key>\S+?)(?:\s*[,，、;；]?\s*缺\s*[:：]?\s*(?P<missing>.+))?$"
)
COMMA = re.compile(r"\s*[,，、;；]\s*")


@dataclass
class Curve:
    """One line of figures; `key` holds `{variable}`, `missing` the values of the axis that have no record."""

    line: int
    word: str
    name: str
    file: str
    key: str
    missing: list[str] = field(default_factory=list)


@dataclass
class Chart:
    """What a chart container holds, right or wrong: nothing is judged here."""

    line: int
    title: str
    settings: dict[str, list[tuple[int, str]]] = field(default_factory=dict)  # word -> (line, text) of X, Y, SCALE
    curves: list[Curve] = field(default_factory=list)
    unread: list[tuple[int, str]] = field(default_factory=list)  # lines of curves in another form
    prose: list = field(default_factory=list)

    def setting(self, word: str) -> str:
        """Text of the first line with this word, "" without one."""
        return self.settings[word][0][1] if word in self.settings else ""

    @property
    def x_label(self) -> str:
        return re.split("[=＝]", self.setting(X))[0].strip()

    @property
    def variable(self) -> str:
        return (self.x_label.split() or [""])[-1]

    @property
    def values(self) -> list[str]:
        return [value for value in COMMA.split(re.split("[=＝]", self.setting(X) + "=")[1].strip()) if value]

    @property
    def unit(self) -> str:
        return (self.setting(Y).split() or [""])[-1]

    @property
    def y_label(self) -> str:
        words = self.setting(Y).split()
        return f"{' '.join(words[:-1])}（{words[-1]}）" if len(words) > 1 else self.unit

    @property
    def logarithmic(self) -> bool:
        return SCALES.get(self.setting(SCALE), False)

    def key(self, curve: Curve, value: str) -> str:
        """Key of a curve's figure at a value of the axis."""
        return curve.key.replace(f"{{{self.variable}}}", value)


def charts_of(page: Page) -> Iterator[Chart]:
    """Every chart of a page that is closed; for the checker, before anything is rendered."""
    for index, piece in enumerate(page.out):
        if isinstance(piece, Container) and piece.name == "chart" and piece.end:
            yield parse(piece, body(page.out, index))


def parse(container: Container, pieces: list) -> Chart:
    """A chart from the pieces inside its container; lines of containers and lists in it are prose."""
    chart, level = Chart(container.line, container.title), 0
    for piece in pieces:
        level += isinstance(piece, Container) - isinstance(piece, Closer)
        match = SETTING.match(piece.text) if isinstance(piece, Text) and not level else None
        if not match:
            chart.prose.append(piece)
        elif match["word"] not in MOST:
            chart.settings.setdefault(match["word"], []).append((piece.line, match["rest"]))
        elif keys := KEYS.match(match["rest"]):
            missing = [value for value in COMMA.split(keys["missing"] or "") if value]
            curve = Curve(piece.line, match["word"], keys["name"].strip(), stem(keys["file"]), keys["key"], missing)
            chart.curves.append(curve)
        else:
            chart.unread.append((piece.line, match["rest"]))
    return chart


# --- figures ---------------------------------------------------------------------------------------------------------


@dataclass
class Series:
    """A curve with its figures: `points` by the position of their value on the axis, `spread` where it is recorded."""

    curve: Curve
    label: str
    style: str  # as charts.css names it
    points: dict[int, float]
    spread: dict[int, tuple[float, float]]


def series_of(chart: Chart, evidence: dict[str, dict]) -> list[Series]:
    """All curves with figures. Raises Fault where one is not recorded, no number or one too many, or a part is lacking."""
    if not (chart.title and len(chart.values) > 1 and chart.unit and chart.curves) or chart.unread:
        raise Fault("chart 要有标题、横轴、纵轴和至少一条曲线，各行的写法见作者指南")
    found, count = [], dict.fromkeys(MOST, 0)
    for curve in chart.curves:
        file = evidence.get(curve.file, {})
        figures = {key: figure["value"] for key, figure in file.get("figures", {}).items()}
        points, spreads = {}, {}
        for position, value in enumerate(chart.values):
            if value in curve.missing:
                continue
            key = chart.key(curve, value)
            if not drawable(figures.get(key), chart.logarithmic):
                raise Fault(f"记录 {curve.file}#{key} 不在 docs/evidence/ 里，或者画不出来")
            points[position] = figures[key]
            ends = [figures.get(end) for end in quantiles(key)]
            if all(drawable(end, chart.logarithmic) for end in ends):
                spreads[position] = tuple(ends)
        if not points:
            raise Fault(f"曲线 {curve.name} 一个点也没有")
        count[curve.word] += 1
        if count[curve.word] > MOST[curve.word]:  # it would have neither colour nor mark
            raise Fault(f"“{curve.word}”多于 {MOST[curve.word]} 条，分不清")
        label = curve.name + ("（⚠ 记录已过期）" if file.get("stale") else "")
        style = {CURVE: "curve", BASELINE: "baseline", LEVEL: "level"}[curve.word] + f"-{count[curve.word]}"
        found.append(Series(curve, label, style, points, spreads))
    return found


def drawable(figure: float | str | None, logarithmic: bool) -> bool:
    """Is it a number that a scale can be made for, above zero where that is logarithmic?"""
    known = isinstance(figure, (int, float)) and (figure == 0 or 1e-100 < abs(figure) < 1e100)
    return known and (figure > 0 or not logarithmic)


# --- drawing: 320 units wide, one unit a pixel on a phone ------------------------------------------------------------

WIDTH, HEIGHT, TOP = 320, 170, 9  # HEIGHT of the field between the axes
DIGIT, LINE = 7.8, 18  # width of a digit, height of a line of text, where it is largest
SHAPES = {
    "curve-1": "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
    "curve-2": "m-3.2-3.2h6.4v6.4h-6.4z",
    "curve-3": "m0-4.6l4.2 7.4h-8.4z",
    "curve-4": "m0-4.8l4.8 4.8l-4.8 4.8l-4.8-4.8z",
    "curve-5": "m0 4.6l4.2-7.4h-8.4z",
    "curve-6": "m-5-1.6h3.4v-3.4h3.2v3.4h3.4v3.2h-3.4v3.4h-3.2v-3.4h-3.4z",
    "baseline-1": "m-3.6-3.6l7.2 7.2m0-7.2l-7.2 7.2",
    "baseline-2": "m-4.4 0h8.8m-4.4-4.4v8.8",
}


def ticks_linear(low: float, high: float) -> list[float]:
    """Round values from the one below `low` to the one above `high`, zero among them, about five steps."""
    low, high = min(0.0, low), max(0.0, high)
    rough = (high - low or 1) / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [n * step for n in range(first, max(last, first + 1) + 1)]


def ticks_logarithmic(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten round `low` to `high`, or powers of ten alone where those are too many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for factors in ((1, 2, 5), (1,)):
        every = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
        start = max(n for n, tick in enumerate(every) if tick <= low * 1.0001)
        end = min(n for n, tick in enumerate(every) if tick >= high * 0.9999)
        ticks = every[start : max(end, start + 1) + 1]
        if len(ticks) <= 10:
            break
    return ticks


def shown(value: str) -> str:
    """A value of the axis as it is read: 4096x1024 becomes 4096×1024."""
    return re.sub(r"(?<=\d)x(?=\d)", "×", value)


def _places(values: list[str], left: float, right: float) -> list[float]:
    """x of each value."""
    numbers = [int(value) if value.isdecimal() else 0 for value in values]
    powers = all(n > 0 and n & (n - 1) == 0 for n in numbers) and numbers == sorted(numbers)
    steps = [math.log2(n) for n in numbers] if powers else list(range(len(values)))
    scale = (right - left) / ((steps[-1] - steps[0]) or 1)
    return [left + scale * (step - steps[0]) for step in steps]


def _words(text: str) -> float:
    return sum(DIGIT if ord(letter) < 0x2E80 else 13 for letter in text)


def _labels(values: list[str], places: list[float]) -> list[tuple[float, int, str]]:
    """(x, row, text) of the axis's labels: one row where they fit, else shapes broken after ×, others staggered."""
    texts = [shown(value) for value in values]
    widest, slot = max(map(_words, texts)), min(b - a for a, b in zip(places, places[1:], strict=False))
    if widest + 4 > slot and all("×" in text for text in texts):
        broken = [re.split("(?<=×)", text) for text in texts]
        return [(x, row, part) for x, parts in zip(places, broken, strict=True) for row, part in enumerate(parts)]
    ends: list[float] = []  # right end of each row so far
    found = []
    for x, text in zip(places, texts, strict=True):
        start = x - _words(text) / 2
        row = next((n for n, end in enumerate(ends) if start >= end + 4), len(ends))
        ends[row:row + 1] = [start + _words(text)]
        found.append((x, row, text))
    return found


def draw(chart: Chart, series: list[Series], number_on_page: int) -> str:
    """The chart as SVG, without scripts and styles."""
    amounts = [amount for one in series for amount in one.points.values()]
    amounts += [end for one in series for pair in one.spread.values() for end in pair]
    ticks = (ticks_logarithmic if chart.logarithmic else ticks_linear)(min(amounts), max(amounts))
    tick_words = [f"{tick:,.10g}" for tick in ticks]
    left = max(map(_words, tick_words)) + 6
    wide = [min(_words(shown(value)), 60) / 2 for value in (chart.values[0], chart.values[-1])]
    places = _places(chart.values, left + max(10, wide[0] - 10), WIDTH - max(10, wide[1]))
    labels = _labels(chart.values, places)
    rows = 1 + max(row for _, row, _ in labels)
    place = math.log if chart.logarithmic else float
    bottom, top = place(ticks[0]), place(ticks[-1])

    def y(amount: float) -> float:
        return round(TOP + HEIGHT * (top - place(amount)) / (top - bottom), 1)

    xs, down = [round(x, 1) for x in places], TOP + HEIGHT
    grid = "".join(f"M{left:.1f} {y(tick)}H{WIDTH}" for tick in ticks)
    base = y(0) if not chart.logarithmic else down
    parts = [
        f'<path class="chart__grid" d="{grid}"/>',
        f'<path class="chart__axis" d="M{left:.1f} {base}H{WIDTH}{"".join(f"M{x} {down}v4" for x in xs)}"/>',
        *(_text("tick", left - 6, y(tick), 0, word) for tick, word in zip(ticks, tick_words, strict=True)),
        *(_text("value", x, down + 4, 1.2 * (row + 1), text) for x, row, text in labels),
        *(_curve(one, xs, y, left) for one in reversed(series)),
    ]
    name = f"chart-{number_on_page}"
    return (
        f'<svg viewBox="0 0 {WIDTH} {down + 10 + LINE * rows}" role="img" aria-labelledby="{name}-title {name}-desc"'
        f' data-search-exclude><title id="{name}-title">{escape(plain(chart.title))}</title>'
        f'<desc id="{name}-desc">{escape(describe(chart, series))}</desc>{"".join(parts)}</svg>'
    )


def _text(kind: str, x: float, y: float, lines: float, words: str) -> str:
    """Words `lines` of their own height below y."""
    down = f' dy="{lines:.1f}em"' if lines else ""
    return f'<text class="chart__{kind}" x="{x:.1f}" y="{y}"{down}>{escape(words)}</text>'


def _curve(one: Series, xs: list[float], y, left: float) -> str:
    """A curve's line, broken where a point is missing, its spread and its marks."""
    if one.curve.word == LEVEL:
        return f'<path class="chart__line {one.style}" d="M{left:.1f} {y(one.points[min(one.points)])}H{WIDTH}"/>'
    line = "".join(f"{'L' if at - 1 in one.points else 'M'}{xs[at]} {y(amount)}" for at, amount in one.points.items())
    spread = "".join(f"M{xs[at]} {y(low)}V{y(high)}" for at, (low, high) in one.spread.items())
    marks = "".join(f'<path d="M{xs[at]} {y(amount)}{SHAPES[one.style]}"/>' for at, amount in one.points.items())
    whiskers = f'<path class="chart__spread" d="{spread}"/>' if spread else ""
    parts = f'<path class="chart__line" d="{line}"/>{whiskers}<g class="chart__marks">{marks}</g>'
    return f'<g class="{one.style}">{parts}</g>'


def describe(chart: Chart, series: list[Series]) -> str:
    """The chart in words: of each curve the first, the last and the largest figure."""
    said = [f"横轴 {chart.x_label}，纵轴 {chart.y_label}，{'对数' if chart.logarithmic else '线性'}刻度。"]
    for one in series:
        at = list(one.points)
        largest = max(at, key=one.points.get)
        told = [at[0]] if one.curve.word == LEVEL else sorted({at[0], at[-1], largest})
        words = [
            f"{'处处' if one.curve.word == LEVEL else shown(chart.values[n]) + ' 处'} {number(one.points[n])} {chart.unit}"
            f"{'（最大）' if n == largest and len(told) > 1 else ''}"
            for n in told
        ]
        said.append(f"{one.label}：{'，'.join(words)}。")
    return "".join(said)


def legend(series: list[Series]) -> str:
    """Names beside samples of their lines."""
    items = []
    for one in series:
        mark = f'<g class="chart__marks"><path d="M17 7{SHAPES[one.style]}"/></g>' if one.style in SHAPES else ""
        sample = f'<g class="{one.style}"><path class="chart__line" d="M0 7H34"/>{mark}</g>'
        items.append(f'<li><svg viewBox="0 0 34 14" aria-hidden="true">{sample}</svg><span>{escape(one.label)}</span></li>')
    return f'<ul class="chart__legend" data-search-exclude>{"".join(items)}</ul>'


# --- the page --------------------------------------------------------------------------------------------------------


def extend(md: Markdown, course: Course) -> None:
    register(md, ChartBlock)


class ChartBlock(Block):
    """Argument: index in `course.charts`. Its content is the prose."""

    NAME = "chart"
    ARGUMENT = True

    def on_create(self, parent: etree.Element) -> etree.Element:
        course: Course = self.md.course
        self.chart: Chart = course.charts[int(self.argument)]
        figure = etree.SubElement(parent, "figure", {"class": "chart"})
        etree.SubElement(figure, "figcaption").text = resolve(self.chart.title, course)
        self.series = []
        try:
            self.series = series_of(self.chart, course.ledger["evidence"])
        except Fault as fault:
            LOG.warning("图表 %s：%s", self.chart.title, fault)
            box = etree.SubElement(figure, "div", {"class": "course-problems", "role": "alert"})
            etree.SubElement(box, "p").text = AtomicString(f"✗ {fault}")
        else:
            axis = '<p class="chart__{}" data-search-exclude>{}</p>'
            y, x = axis.format("y", escape(self.chart.y_label)), axis.format("x", escape(self.chart.x_label))
            drawing = legend(self.series) + y + draw(self.chart, self.series, int(self.argument) + 1) + x
            box = etree.SubElement(figure, "div", {"class": "chart__drawing"})
            box.text = AtomicString(self.md.htmlStash.store(drawing))
        self.prose = etree.SubElement(figure, "div", {"class": "chart__prose"})
        return figure

    def on_add(self, block: etree.Element) -> etree.Element:
        return self.prose

    def on_end(self, block: etree.Element) -> None:
        if not len(self.prose):
            block.remove(self.prose)
        if self.series:
            details = etree.SubElement(block, "details")
            etree.SubElement(details, "summary").text = "每一点的数与出处"
            _table(details, self.chart, self.series)
            _sources(block, self.series, self.md.course.ledger["evidence"])


def _table(parent: etree.Element, chart: Chart, series: list[Series]) -> None:
    table = etree.SubElement(parent, "table")
    spread = "；小字是 20% 到 80% 分位" if any(one.spread for one in series) else ""
    caption = etree.SubElement(table, "caption", {"data-search-exclude": ""})
    caption = etree.SubElement(caption, "span")  # stays in sight while the table scrolls
    caption.text = AtomicString(f"{plain(chart.title)}：{chart.y_label}{spread}")
    head = etree.SubElement(etree.SubElement(table, "thead"), "tr")
    for text in (chart.x_label, *(one.label for one in series)):
        etree.SubElement(head, "th").text = AtomicString(text)
    rows = etree.SubElement(table, "tbody")
    for position, value in enumerate(chart.values):
        row = etree.SubElement(rows, "tr")
        etree.SubElement(row, "th", {"scope": "row"}).text = AtomicString(shown(value))
        for one in series:
            cell = etree.SubElement(row, "td")
            if position not in one.points:
                cell.text = "缺"
                continue
            link = etree.SubElement(cell, "a", {"href": f"{REPORT}#{anchor(one.curve.file)}"})
            link.text = AtomicString(number(one.points[position]))
            if position in one.spread:
                low, high = map(number, one.spread[position])
                etree.SubElement(cell, "small").text = AtomicString(f"{low}–{high}")


def _sources(parent: etree.Element, series: list[Series], evidence: dict[str, dict]) -> None:
    """A line for each environment: where, when and with what it was measured; the command and the link of each file."""
    lines: dict[str, etree.Element] = {}
    for name in dict.fromkeys(one.curve.file for one in series):
        file = evidence[name]
        about = ("⚠ 记录已过期 · " if file.get("stale") else "") + versions(file["environment"])
        if about not in lines:
            lines[about] = etree.SubElement(parent, "p", {"class": "chart__source", "data-search-exclude": ""})
            lines[about].text = AtomicString(f"{about} · ")
        else:
            lines[about][-1].tail = " · "
        command = etree.SubElement(lines[about], "code")
        command.text, command.tail = AtomicString(file["command"]), " · "
        link = etree.SubElement(lines[about], "a", {"href": f"{REPORT}#{anchor(name)}"})
        link.text = AtomicString(f"{name} 的全部记录")
