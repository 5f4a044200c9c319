"""Charts: two axes, curves of recorded numbers in the unit of the axis, no point lost in silence."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from courseware.check.context import Context, nearest
from courseware.dialect.chart import BASELINE, CURVE, LEVEL, MOST, SCALE, SCALES, X, Y, Chart, Curve, charts_of, drawable
from courseware.page import Page, Text
from courseware.problem import Problem

FORM = "写成 曲线: 名字 = FILE#KEY_{S}，没有记录的点写在末尾：缺 16384"
AXIS = "写成 横轴: S = 512, 1024, 2048"
GROUPED = re.compile(r"(?<![\d,.])\d{1,3}(?:,\d{3})+(?!\d)")  # 10,000,000: to an axis three values
LIKE_A_SETTING = re.compile(r"\s*(?P<word>\w{1,4})\s*[:：]\s*(?P<rest>.*)")
WORDS = (X, Y, SCALE, CURVE, BASELINE, LEVEL)


def charts(page: Page, context: Context) -> Iterator[Problem]:
    for chart in charts_of(page):
        if line := _grouped(chart):
            yield Problem(page.path, line, "chart 的横轴上，数里的逗号会把它拆成几个值", "数里不要写千分位逗号")
            continue
        for rule in (_parts, _axis, _stray, _curves):
            for line, fault, remedy in rule(chart):
                yield Problem(page.path, line, fault, remedy)
        for curve in chart.curves:
            for fault, remedy in _figures(chart, curve, context):
                yield Problem(page.path, curve.line, fault, remedy)


def _parts(chart: Chart) -> Iterator[tuple[int, str, str]]:
    if not chart.title:
        yield chart.line, "chart 没有标题", "写成 :::chart 标题，说出量的是什么、在什么形状上"
    for word, example in ((X, "横轴: S = 512, 1024, 2048"), (Y, "纵轴: 时间 ms")):
        if not chart.setting(word):
            yield chart.line, f"chart 缺少“{word}:”行", f"例如 {example}"
    if not chart.curves and not chart.unread:
        yield chart.line, "chart 没有曲线", FORM
    for word, lines in chart.settings.items():
        for line, _ in lines[1:]:
            yield line, f"chart 有两行“{word}:”", "留下一行"
    for line, text in chart.settings.get(SCALE, []):
        if text not in SCALES:
            yield line, f"chart 没有“{text}”这种刻度", "写成 刻度: 线性 或 刻度: 对数；不写就是线性，从 0 开始"


def _grouped(chart: Chart) -> int:
    """Line of an axis with commas within its numbers, 0 where `128,256` may be two values."""
    line, text = chart.settings.get(X, [(0, "")])[0]
    values = chart.values
    odd = len(set(values)) < len(values) or any(len(value) == 3 and value.isdecimal() and value[0] == "0" for value in values)
    return line if odd and GROUPED.search(text) else 0


def _axis(chart: Chart) -> Iterator[tuple[int, str, str]]:
    values = chart.values
    for line, text in chart.settings.get(X, [])[:1]:
        if not text:
            continue
        if not chart.variable or len(values) < 2:
            yield line, "chart 的横轴要有名字和至少两个值", AXIS
        for value in dict.fromkeys(value for value in values if values.count(value) > 1):
            yield line, f"chart 的横轴上 {value} 重复", "删去一个"


def _stray(chart: Chart) -> Iterator[tuple[int, str, str]]:
    """Lines that are taken for prose and can hardly be meant so."""
    settings = [line for lines in chart.settings.values() for line, _ in lines]
    last = max([*settings, *(curve.line for curve in chart.curves), *(line for line, _ in chart.unread)], default=0)
    for piece in chart.prose:
        text = piece.text.strip() if isinstance(piece, Text) else ""
        match = LIKE_A_SETTING.match(text)
        meant = match and ("#" in match["rest"] or difflib.get_close_matches(match["word"], WORDS, cutoff=0.5))
        if text and (piece.line < last or meant):
            word = match["word"] if match else text[:8]
            yield piece.line, f"chart 里看不懂这一行：{text}", f"{nearest(word, WORDS, '{}:')}；图下的话写在这些行的后面"


def _curves(chart: Chart) -> Iterator[tuple[int, str, str]]:
    for line, text in chart.unread:
        yield line, f"chart 里看不懂这条曲线：{text}", FORM
    seen: dict[str, int] = {}
    count = dict.fromkeys(MOST, 0)
    for curve in chart.curves:
        if curve.name in seen:
            yield curve.line, f"曲线 {curve.name} 与第 {seen[curve.name]} 行同名", "换一个名字"
        seen.setdefault(curve.name, curve.line)
        count[curve.word] += 1
        if count[curve.word] == MOST[curve.word] + 1:
            yield curve.line, f"chart 里“{curve.word}”多于 {MOST[curve.word]} 条，分不清", "分成两张图"


def _figures(chart: Chart, curve: Curve, context: Context) -> Iterator[tuple[str, str]]:
    """What is wrong with a curve's figures: the first fault of each kind."""
    path, values = f"docs/evidence/{curve.file}.json", chart.values
    if curve.file not in context.figures:
        yield f"{path} 不存在", f"改正名字（{nearest(curve.file, context.figures)}），或用 make record 生成它"
        return
    hole = f"{{{chart.variable}}}"
    if not chart.variable or len(values) < 2:  # `_axis` says so
        return
    if (hole in curve.key) == (curve.word == LEVEL):
        if curve.word == LEVEL:
            yield f"水平线 {curve.name} 的键里有 {hole}", f"去掉 {hole}，或写成 曲线:"
        else:
            yield f"曲线 {curve.name} 的键里没有 {hole}", f"随横轴变化的部分写成 {hole}；处处相同的数写成 水平线:"
        return
    figures = context.figures[curve.file]
    keys = {value: chart.key(curve, value) for value in values}
    for value in curve.missing:
        if value not in keys:
            yield f"曲线 {curve.name} 缺的 {value} 不在横轴上", f"横轴上有 {'、'.join(values)}"
        elif keys[value] in figures:
            yield f"曲线 {curve.name} 在 {value} 处有记录，却写着缺", f"从“缺”里删去 {value}"
    absent = [value for value in keys if keys[value] not in figures and value not in curve.missing]
    if absent and len(absent) == len(keys):
        key = keys[absent[0]]
        yield f"{path} 的 figures 里没有 {key}", f"改正名字（{nearest(key, figures)}）"
    elif absent:
        listed = "、".join(absent)
        yield f"曲线 {curve.name} 在 {listed} 处没有记录", f"用 make record 补上，或在这一行末尾写明：缺 {listed}"
    elif keys and set(keys) <= set(curve.missing):
        yield f"曲线 {curve.name} 一个点也没有", "删去这条曲线"
    for key in (key for key in keys.values() if key in figures):
        value, unit = figures[key].get("value"), figures[key].get("unit") or ""
        if not drawable(value, False):
            yield f"{path} 的 {key} 不是数：{value}", "换一个键，曲线只画数"
            return
        if not drawable(value, chart.logarithmic):
            yield f"{path} 的 {key} 是 {value}，对数刻度画不出来", "改成 刻度: 线性"
            return
        if chart.unit and unit != chart.unit:
            yield f"曲线 {curve.name} 的单位是 {unit or '空的'}，纵轴的是 {chart.unit}", "纵轴的最后一个词写单位，所有曲线都用这个单位"
            return


RULES = [charts]
