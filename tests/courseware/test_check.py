"""The checker: one row of a table per message, and pages that are right although they look odd.

A row is (name, page text, line, part of the fault, part of the remedy). Each page must give exactly that one problem,
so a rule that also fires elsewhere fails its neighbours' rows.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown import Markdown
from pymdownx.slugs import slugify

from courseware.check import check, check_page
from courseware.check.context import Context
from courseware.check.links import heading_ids
from courseware.page import scan
from courseware.problem import Problem

RUN = "# 类型：【Runnable】\n"
EVIDENCE = {
    "environment": {"device": "NVIDIA H200", "date": "2026-01-01"},
    "command": "make record",
    "date": "2026-01-01",
    "source": "",
    "figures": {
        "copy": {"value": 4281, "unit": "GB/s"},
        **{f"ours_{S}": {"value": S / 1024, "unit": "ms"} for S in (512, 1024)},
        **{f"zero_{S}": {"value": 0, "unit": "ms"} for S in (512, 1024)},
        **{f"bare_{S}": {"value": 2} for S in (512, 1024)},
        **{f"name_{S}": {"value": "FLASH", "unit": ""} for S in (512, 1024)},
    },
}
GOOD_QUIZ = ":::quiz\n问题？\n\nA. 甲\nB. 乙\n\n答案: B\n解析: 因为。\n:::\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A small project: two pages, a notebook, a demo, a module with a section, one evidence file."""
    root = tmp_path_factory.mktemp("project")
    files = {
        "docs/other.md": "# 另一页\n\n## 第 1 节 FlashAttention\n\n## 重复\n\n## 重复\n\n## 名字 {#named}\n",
        "docs/guide/index.md": "# 指南\n",
        "docs/assets/fig.svg": "<svg xmlns='http://www.w3.org/2000/svg'/>",
        "docs/assets/demos/tiling.html.j2": '{# data: snippets.tool.frame {"S": 4} #}\n<p>{{ S }}</p>\n',
        "docs/lab.ipynb": json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}),
        "docs/evidence/h200.json": json.dumps(EVIDENCE),
        "snippets/tool.py": "# --8<-- [start:body]\ndef frame(S, d=2):\n    return {'S': S}\n# --8<-- [end:body]\n"
        "# --8<-- [start:open]\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    return root


@pytest.fixture(scope="module")
def context(root: Path) -> Context:
    return Context(root / "docs")


def python(code: str = "x = 1\n", kind: str = RUN, opening: str = "```python", closing: str = "```") -> str:
    return f"{opening}\n{kind}{code}{closing}\n"


CONT = "<!--pytest-codeblocks:cont-->\n"
EXPECTED = "<!--pytest-codeblocks:expected-output-->\n"
TEXT = "```text\n1\n```\n"

TEXTS = [
    ("control character", "字\x02字\n", 1, "控制字符 U+0002", "删去它"),
    ("line separator", "字\n字\u2028字\n", 2, "控制字符 U+2028", "删去它"),
    *((f"no width, {ord(mark):x}", f"字{mark}字\n", 1, f"控制字符 U+{ord(mark):04X}", "删去它") for mark in "\u200b\u200c\u200d\u2060\ufeff"),
    ("no width at a line's start", "\u200b- 甲\n", 1, "控制字符 U+200B", "删去它"),
    ("two ticks, no block", "字\n\n``foo\n", 3, "`` 没有配对", "补上另一个"),
    ("two ticks alone", "字\n\n``\n\n字\n", 3, "`` 没有配对", "补上另一个"),
    ("odd space before colons", "\u3000- 甲\n", 1, "不认的空白 U+3000", "普通空格"),
    ("metadata", "Note: 字\n\n字\n", 1, "MkDocs 会把它吞掉", "标题开头"),
    ("front matter", "---\ntitle: [\n---\n\n# 字\n", 1, "不是有效的 YAML", "改正它"),
    ("comment within a line", "字 <!-- a\n```text\nx\n```\n-->\n", 1, "HTML 注释从一行的中间开始", "另起一行"),
    ("HTML open", "<div>\n字\n", 1, "<div> 没有闭合", "</div>"),
    ("container in HTML", "<div>\n\n:::note\n字\n:::\n\n</div>\n", 3, "<div> 里的 Markdown 不起作用", "<div markdown>"),
    ("stars in HTML", "<details>\n<summary>字</summary>\n\n**字**\n\n</details>\n", 4, "Markdown 不起作用", "<details markdown>"),
    ("formula in HTML", "<p>\n$x$\n</p>\n", 2, "Markdown 不起作用", "<p markdown>"),
    ("item begins with a container", "- :::note\n", 1, "列表项不能直接以代码块或容器开头", "另起一行"),
    ("star open", "字**字\n\n**字**\n", 1, "** 没有配对", "补上另一个"),
    ("star over items", "- 字\n- **字\n\n字\n", 2, "** 没有配对", "补上另一个"),
    ("tick open", "字 `字\n", 1, "` 没有配对", "补上另一个"),
    ("unknown tag", "Tensor<float> 字\n", 1, "<float> 没有闭合", "&lt;"),
    ("tag never opened", "字</b>\n", 1, "</b> 前面没有 <b>", "删去它"),
    ("block within a line", "字<div>字</div>\n", 1, "<div> 不在行首", "另起一行"),
]

TABLES = [
    ("formula with a bar", "| $|x|$ | 字 |\n|---|---|\n", 1, "表头有 4 格，下面的分隔行有 2 格", "\\vert"),
    ("separator too short", "> | a | b |\n> |---|\n", 1, "表头有 2 格，下面的分隔行有 1 格", "个数相同"),
    ("row too long", "| a | b |\n|---|---|\n| 1 | 2 |\n| 1 | 2 | 3 |\n", 4, "这一行有 3 格，表头只有 2 格", "个数相同"),
    ("no header", "字\n\n|---|---|\n", 3, "分隔行上面没有表头", "表头"),
]

CONTAINERS = [
    ("colon after the name", ":::note: 标题\n字\n:::\n", 1, "容器名后面多了冒号", ":::note 标题"),
    ("unknown", ":::nota 标题\n字\n:::\n", 1, "没有叫 nota 的容器", ":::note"),
    ("unknown, capital", ":::Note\n字\n:::\n", 1, "没有叫 Note 的容器", ":::note"),
    ("unknown, like none", "::::zzz\n字\n::::\n", 1, "没有叫 zzz 的容器", "::::note、::::warning"),
    ("title stuck", "字\n\n:::note标题\n字\n:::\n", 3, "连在一起：:::note标题", ":::note 标题"),
    ("unclosed", ":::note\n字\n", 1, "容器 :::note 没有闭合", "单独写一行 :::"),
    ("unclosed by count", "::::note\n字\n\n:::key\n字\n::::\n", 4, "容器 :::key 没有闭合", "冒号个数相同"),
    ("stray", "字\n\n:::\n", 3, "::: 没有可闭合的容器", "删去这一行"),
    ("full-width", "：：：note 标题\n", 1, "全角冒号", ":::note 标题"),
    ("full-width, mixed", ":：:note\n", 1, "全角冒号", ":::note"),
    ("slashes", "字\n\n/// note | 标题\n", 3, "/// 不是这里的写法", ":::note 标题"),
    ("two colons", "::note 标题\n", 1, "至少要三个冒号", ":::note"),
    ("too deep", "字\n\n     :::note\n", 3, "缩进太深", "最多比所在位置缩进三格"),
    ("in a quotation", "> :::note\n> 字\n", 1, "引用块", "去掉行首的 >"),
    ("indented body", ":::note\n    open: true\n\n字\n:::\n", 2, "正文第一行缩进了四格以上", "左对齐"),
    ("indented body, later", ":::note\n\n\t字\n:::\n", 3, "正文第一行缩进了四格以上", "左对齐"),
    ("indented body, Tab", ":::note\n\t字\n:::\n", 2, "一个 Tab 算四格", "左对齐"),
    ("no body", ":::unfold 题\n\n<!-- x -->\n:::\n", 1, "容器 unfold 没有正文", "写上正文"),
    ("anchor in a title", ":::warning 题 {#c}\n字\n:::\n", 1, "容器的标题不能带 {#c}", "小标题"),
    ("closer with a word", ":::note\n字\n::: 完\n\n:::note\n字\n:::\n", 3, "关闭行后面不能有字：::: 完", "只写 :::"),
    ("closer with a word, inside", "::::note\n:::key\n字\n:::完\n::::\n", 4, "关闭行后面不能有字：:::完", "只写 :::"),
    ("admonition", "!!! warning\n    字\n", 1, "!!! 不是这里的写法", ":::warning，"),
    ("admonition, title without quotes", "!!! tip 题\n    字\n", 1, "!!! 不是这里的写法", ":::note 题"),
    ("details", '???+ "题"\n    字\n', 1, "???+ 不是这里的写法", ":::unfold 题"),
    ("tab", '=== "甲"\n\n    字\n', 1, "=== 不是这里的写法", ":::unfold 甲"),
    ("alert", "> [!IMPORTANT]\n> 字\n", 1, "[!IMPORTANT] 不是这里的写法", ":::key"),
    ("marker misspelt", "[VERIFICATON]\n", 1, "没有 [VERIFICATON] 这个标记", "[VERIFICATION]"),
    ("marker in lower case", "[progress]\n", 1, "没有 [progress] 这个标记", "[PROGRESS]"),
    ("marker in a sentence", "字 [PROGRESS] 字\n", 1, "没有独占一段", "单独成一行"),
    ("marker below a line", "字\n[COMPILED]\n", 2, "没有独占一段", "前后各空一行"),
    ("demo without name", ":::demo\n看。\n:::\n", 1, "demo 缺少名字", "现有：tiling"),
    ("marker twice", "[COMPILED]\n\n- 字\n\n  [COMPILED]\n", 5, "[COMPILED] 在第 1 行用过了", "只放一次"),
    ("demo twice", ":::demo tiling 分块\n看。\n:::\n\n:::demo tiling 再来\n看。\n:::\n", 5, "demo tiling 在第 1 行用过了", "只放一次"),
    ("demo that is none", ":::demo tilling 分块\n看。\n:::\n", 1, "没有叫 tilling 的 demo", "现有：tiling"),
    ("related, other form", ":::related\n依赖 | 第 7 章\n见第 8 章\n:::\n", 3, "看不懂这一行：见第 8 章", "依赖 | 第 7 章"),
    ("related, other word", ":::related\n参见 | 第 7 章\n:::\n", 2, "看不懂这一行", "用于 |"),
    ("related, title", ":::related 相关\n依赖 | 第 7 章\n:::\n", 1, "related 没有标题", "删去"),
    ("related, empty", ":::related\n:::\n", 1, "related 是空的", "依赖 |"),
    ("related, no chapter", ":::related\n依赖 | ，\n:::\n", 2, "后面没有章名", "依赖 |"),
]

QUIZZES = [
    ("no answer", GOOD_QUIZ.replace("答案: B\n", ""), 1, "缺少“答案:”行", "例如 答案: B"),
    ("no option", GOOD_QUIZ.replace("答案: B", "答案: A, C"), 7, "答案 C 不在选项中", "A、B"),
    ("repeated", GOOD_QUIZ.replace("B. 乙", "B. 乙\nB. 丙"), 6, "选项 B 重复", "应是 C."),
    ("one option", GOOD_QUIZ.replace("A. 甲\nB. 乙", "A. 甲").replace("答案: B", "答案: A"), 1, "只有一个选项", "A. … 和 B. …"),
    ("no options", ":::quiz\n问题？\n\n答案: =x\n:::\n\n" + python(), 1, "没有选项", "A. … 和 B. …"),
    ("no question", GOOD_QUIZ.replace("问题？\n", ""), 1, "没有题目", "题目"),
    ("empty answer", GOOD_QUIZ.replace("答案: B", "答案："), 7, "答案是空的", "例如 答案: B"),
    ("odd answer", GOOD_QUIZ.replace("答案: B", "答案: 乙"), 7, "答案看不懂：乙", "答案: A, C"),
    ("odd name", GOOD_QUIZ.replace("答案: B", "答案: =a b"), 7, "不是变量名", "答案: =变量名"),
    ("two answers", GOOD_QUIZ.replace("答案: B", "答案: B\n答案: A"), 8, "两行“答案:”", "合成一行"),
    ("order", GOOD_QUIZ.replace("B. 乙", "C. 乙").replace("答案: B", "答案: A"), 5, "没有按顺序：这里是 C", "应是 B."),
    ("empty option", GOOD_QUIZ.replace("B. 乙", "B. "), 5, "选项 B 是空的", "选项内容"),
    ("key unbound", GOOD_QUIZ.replace("答案: B", "答案: =right"), 7, "值 right 没有被", "赋值"),
    ("two explanations", GOOD_QUIZ.replace("因为。", "因为。\n解析：又。"), 9, "两行“解析:”", "合成一处"),
    ("answer after the explanation", GOOD_QUIZ.replace("答案: B\n解析: 因为。", "解析: 因为。\n答案: B"), 8, "在“解析:”后面", "前面"),
    ("answer twice in a line", GOOD_QUIZ.replace("答案: B", "答案: B、B"), 7, "答案 B 写了两次", "一次"),
    ("same options", GOOD_QUIZ.replace("B. 乙", "B.  甲"), 5, "选项 B 和 A 相同", "改写"),
    *((f"option as {first}", GOOD_QUIZ.replace("A. 甲\nB. 乙", f"{first}甲\n{second}乙"), 4, f"选项写成了 {first}甲", "A. 甲")
      for first, second in (("- A. ", "- B. "), ("(A) ", "(B) "), ("（A）", "（B）"), ("A：", "B："), ("a. ", "b. "), ("1. ", "2. "))),
    ("second option in another form", GOOD_QUIZ.replace("B. 乙", "B：乙"), 5, "选项写成了 B：乙", "B. 乙"),
    ("stray text", GOOD_QUIZ.replace("解析: 因为。", "因为。"), 8, "不属于任何部分", "解析:"),
]

CHART = ":::chart 题\n横轴: S = 512, 1024\n纵轴: 时间 ms\n曲线: 甲 = h200#ours_{S}\n:::\n"


def chart(old: str = "曲线: 甲 = h200#ours_{S}", new: str = "") -> str:
    assert CHART.count(old) == 1
    return CHART.replace(old, new)


CHARTS = [
    ("no title", chart(" 题"), 1, "没有标题", ":::chart 标题"),
    ("no x", chart("横轴: S = 512, 1024\n"), 1, "缺少“横轴:”行", "横轴: S ="),
    ("x empty", chart(" S = 512, 1024"), 1, "缺少“横轴:”行", "横轴: S ="),
    ("no y", chart("纵轴: 时间 ms\n"), 1, "缺少“纵轴:”行", "纵轴: 时间 ms"),
    ("no curve", chart(), 1, "没有曲线", "曲线: 名字 = FILE#KEY_{S}"),
    ("two scales", chart("时间 ms", "时间 ms\n刻度: 线性\n刻度: 对数"), 5, "有两行“刻度:”", "留下一行"),
    ("unknown scale", chart("时间 ms", "时间 ms\n刻度：指数"), 4, "没有“指数”这种刻度", "刻度: 对数"),
    ("one value", chart(", 1024"), 2, "至少两个值", "512, 1024"),
    ("no variable", chart("S = "), 2, "要有名字", "横轴: S ="),
    ("value twice", chart("512, 1024", "512, 1024, 512"), 2, "512 重复", "删去一个"),
    ("groups of three", chart("512, 1024", "10,000,000, 268,435,456"), 2, "逗号", "千分位"),
    ("misspelt between", chart("曲线", "刻渡: 对数\n曲线"), 4, "看不懂这一行：刻渡", "刻度:"),
    ("misspelt at the end", chart("}\n", "}\n对昭: 乙 = h200#zero_{S}\n"), 5, "看不懂这一行：对昭", "对照:"),
    ("prose before", chart("横轴", "字\n横轴"), 2, "看不懂这一行：字", "后面"),
    ("curve, other form", chart(new="曲线: 甲 h200#ours_{S}"), 4, "看不懂这条曲线", "FILE#KEY_{S}"),
    ("same name", chart("}\n", "}\n对照: 甲 = h200#zero_{S}\n"), 5, "与第 4 行同名", "换一个名字"),
    ("too many", chart("}\n", "}\n" + "".join(f"水平线: {n} = h200#ours_512\n" for n in "乙丙丁")), 7, "“水平线”多于 2 条", "两张图"),
    ("no such file", chart("h200", "h20"), 4, "docs/evidence/h20.json 不存在", "h200"),
    ("no such key", chart("ours", "oours"), 4, "没有 oours_512", "ours_512"),
    ("no variable in the key", chart("{S}", "512"), 4, "键里没有 {S}", "水平线:"),
    ("other variable", chart("{S}", "{s}"), 4, "键里没有 {S}", "{S}"),
    ("variable in a level", chart("曲线", "水平线"), 4, "键里有 {S}", "曲线:"),
    ("point without record", chart("1024", "1024, 2048, 4096"), 4, "在 2048、4096 处没有记录", "缺 2048、4096"),
    ("missing, not on the axis", chart("}\n", "} 缺 2048\n"), 4, "2048 不在横轴上", "512、1024"),
    ("missing, but recorded", chart("}\n", "}，缺 512\n"), 4, "在 512 处有记录", "删去 512"),
    ("all missing", chart("ours_{S}", "none_{S}，缺 512、1024"), 4, "一个点也没有", "删去"),
    ("other unit", chart("ms", "µs"), 4, "单位是 ms，纵轴的是 µs", "最后一个词"),
    ("no unit", chart("ours", "bare"), 4, "单位是 空的", "最后一个词"),
    ("no number", chart("ours", "name"), 4, "name_512 不是数：FLASH", "换一个键"),
    ("zero on a logarithmic scale", chart("时间 ms", "时间 ms\n刻度: 对数").replace("ours", "zero"), 5, "zero_512 是 0", "刻度: 线性"),
]

CODE = [
    ("unreadable options", "```text some words\nx\n```\n", 1, "看不懂代码块的首行 ```text some words", "title="),
    ("no kind", python(kind=""), 1, "Python 块没有类型行", "【Runnable】"),
    ("kind unknown", python(kind="# 类型：【Runable】\n"), 2, "没有【Runable】这种类型", "【Runnable】"),
    ("kind unknown, like none", python(kind="# 类型：【可执行】\n"), 2, "没有【可执行】这种类型", "【Runnable on CUDA】、"),
    ("kind without brackets", python(kind="# 类型：Runnable\n"), 2, "类型行里没有【…】", "【Runnable】"),
    ("kind without colon", python(kind="# 类型【Runnable】\n"), 2, "类型行写错了", "# 类型："),
    ("kind later", python(kind="import os\n" + RUN), 3, "不在 Python 块的第一行", "第一行"),
    ("kind pseudo", python(kind="# 类型：【Pseudo-code】\n"), 2, "伪代码不是 Python 块", "```pseudo"),
    ("py", python(opening="```py"), 1, "语言写成了 py", "恰好 ```python"),
    ("Python", python(opening="```Python"), 1, "语言写成了 Python", "恰好 ```python"),
    ("python3", python(opening="```python3"), 1, "语言写成了 python3", "恰好 ```python"),
    ("pycon", "```pycon\n" + RUN + ">>> 1\n```\n", 1, "语言写成了 pycon", "恰好 ```python"),
    ("{.python}", python(opening="```{.python}"), 1, "语言写成了 {.python}", "恰好 ```python"),
    ("title", python(opening='```python title="a"'), 1, '后面还有 title="a"', "恰好 ```python"),
    ("options", python(opening="```python hl_lines=1"), 1, "后面还有 hl_lines=1", "恰好 ```python"),
    ("space", python(opening="``` python"), 1, "反引号和 python 之间有空格", "恰好 ```python"),
    ("tildes", python(opening="~~~python", closing="~~~"), 1, "用 ~ 围起来", "恰好 ```python"),
    ("quoted", "".join(f"> {line}\n" for line in python().splitlines()), 1, "它在引用块（>）里", "恰好 ```python"),
    ("four backticks", python(opening="````python", closing="````"), 1, "反引号多于三个", "恰好 ```python"),
    ("inside tildes", "~~~text\n```python\n~~~\n", 2, "~ 围栏里的代码块", "````markdown"),
    ("inside a comment", "<!--\n" + python() + "-->\n", 2, "HTML 注释里的代码块", "移到注释外面"),
    ("indented code", "字\n\n    ```python\n\n字\n", 3, "缩进太深的代码块", "左对齐"),
    ("span like a fence", "```x``` 是行内代码\n", 1, "行首的 ``` 会被", "一个反引号"),
    ("closes early", "```text\n```python\n```\n", 2, "会被当成它的结尾", "外层改用 ````"),
    *((name or "none", f"```{name}\n{RUN}x = 1\n```\n", 1, f"不会被执行：{f'语言写成了 {name}' if name else '没有写语言'}", "恰好 ```python")
      for name in ("pyton", "", "triton", "text", "pseudo", "yaml")),
    ("pseudo with its kind", "```text\n# 类型：【Pseudo-code】\nx\n```\n", 2, "伪代码不是 Python 块", "```pseudo"),
    *((name, f"```{name}\nx\n```\n", 1, f"没有 {name} 这种语言", remedy) for name, remedy in (
        ("pyhton", "```python"), ("psuedo", "```pseudo"), ("triton", "```python"), ("txt", "```text"), ("mermaid", "Pygments"))),
    ("two backticks", f"``python\n{RUN}x = 1\n``\n", 1, "两个反引号", "```python"),
    ("two backticks, a blank line", f"``py\n{RUN}\nx = 1\n``\n", 1, "两个反引号", "```py"),
    ("full-width backticks", f"｀｀｀python\n{RUN}\nx = 1\n｀｀｀\n", 1, "全角反引号", "```python"),
    ("full-width at the end", f"```python\n{RUN}x = 1\n｀｀｀\n\n字\n", 4, "全角反引号", "```"),
    ("no fence at all", f"字\n\n{RUN}x = 1\n", 3, "类型行不在代码块里", "```python"),
    ("no fence in an item", f"- 字\n\n  {RUN}  x = 1\n", 3, "类型行不在代码块里", "```python"),
    ("sh", "```sh\nls\n```\n", 1, "```sh 代码块会被当成测试执行", "```console"),
    ("bash", "```bash\nls\n```\n", 1, "```bash 代码块会被当成测试执行", "```console"),
    ("zsh", "```zsh\nls\n```\n", 1, "```zsh 代码块", "```console"),
    ("shell", "```shell\nls\n```\n", 1, "```shell 代码块", "```console"),
    ("unclosed", "字\n\n```text\n字\n", 3, "代码块没有闭合", "单独写一行 ```"),
    ("unclosed python", "```python\n" + RUN, 1, "代码块没有闭合", "单独写一行 ```"),
    ("unclosed comment", "字\n\n<!-- 字\n", 3, "HTML 注释没有闭合", "-->"),
    ("syntax", python("x = 1\ny = = 2\n"), 4, "不是有效的 Python", "```pseudo"),
    ("syntax, skeleton", python("return 1\n", "# 类型：【Skeleton】\n"), 3, "不是有效的 Python", "```pseudo"),
    ("syntax, cuda", python("f(\n", "# 类型：【Runnable on CUDA】\n"), 3, "不是有效的 Python", "```pseudo"),
]


def mark(word: str) -> str:
    return f"<!--pytest-codeblocks:{word}-->\n{python()}"


DIRECTIVES = [
    *((word, mark(word), 1, f"不能用 {word} 跳过", "删去它") for word in (
        "skip", "skipif(True)", "xfail", "expect-error", "expect-exception", "importorskip(torch)", "skipfile")),
    ("pytest.mark", "<!--pytest.mark.skip(reason='x')-->\n" + python(), 1, "不能用 pytest.mark.skip", "删去它"),
    ("unknown", mark("contt"), 1, "没有 pytest-codeblocks:contt", "<!--pytest-codeblocks:cont-->"),
    ("unknown, near none", mark("zzz"), 1, "没有 pytest-codeblocks:zzz", "expected-output"),
    ("ignore-whitespace", mark("expected-output-ignore-whitespace"), 1, "没有 pytest-codeblocks:expected-output-ig", "expected-output"),
    ("text after", python() + CONT[:-1] + " 字\n" + python(), 5, "cont 的同一行还有别的文字", "单独占一行"),
    ("text before", python() + "字 " + CONT + python(), 5, "cont 的同一行还有别的文字", "单独占一行"),
    ("inside a comment", python() + "<!--\n" + CONT + "\n字\n", 6, "页面看不到它", "单独占一行"),
    ("inside tildes", python() + "~~~text\n" + CONT + "~~~\n", 6, "页面看不到它", "单独占一行"),
    ("skip inside tildes", "~~~text\n<!--pytest.mark.skip-->\n~~~\n" + python(), 2, "不能用 pytest.mark.skip", "删去它"),
    ("misspelt", python() + "<!--pytest-codeblock:cont-->\n" + python(), 5, "看不懂的标记 <!--pytest-codeblock:cont-->", "codeblocks:cont"),
    ("over two lines", python() + "<!--pytest-codeblocks:cont\n-->\n" + python(), 5, "看不懂的标记", "一整行"),
    ("cont, first", CONT + python(), 1, "cont 前面没有可以承接的 Python 块", "删去 cont"),
    ("cont, no Python before", TEXT + CONT + python(), 4, "cont 前面没有可以承接的 Python 块", "删去 cont"),
    ("cont, other kind", python() + CONT + python(kind="# 类型：【Skeleton】\n"), 5, "类型不同", "类型相同"),
    ("cont, not before a fence", python() + CONT + "字\n\n" + python(), 5, "cont 后面紧接着的不是代码块", "正上方"),
    ("cont, at the end", python() + CONT, 5, "cont 后面紧接着的不是代码块", "正上方"),
    ("cont, text between", python() + TEXT + CONT + python(), 8, "隔着第 5 行的代码块", "相邻"),
    ("cont, before text", python() + CONT + TEXT, 5, "不是 Python 块", "承接"),
    ("two marks", python() + CONT + CONT + python(), 6, "cont 和 cont 标在同一个代码块上", "只能有一个"),
    ("expected, first", EXPECTED + TEXT, 1, "正前方没有 Python 块", "产生输出的块之后"),
    ("expected, text between", python() + TEXT + EXPECTED + TEXT, 8, "正前方没有 Python 块", "产生输出的块之后"),
    ("expected, second", python() + (EXPECTED + TEXT) * 2, 9, "第 1 行的块已经有一个 expected-output", "合成一份"),
    ("expected, before Python", python() + EXPECTED + python(), 5, "后面是 python 块", "```text"),
    ("expected, before prose", python() + EXPECTED + "字\n", 5, "紧接着的不是代码块", "正上方"),
    ("expected, skeleton", python(kind="# 类型：【Skeleton】\n") + EXPECTED + TEXT, 5, "只编译不执行", "【Runnable】"),
]


def listing(target: str, title: str | None = "snippets/tool.py") -> str:
    return "```python" + (f' title="{title}"' if title else "") + f'\n--8<-- "{target}"\n```\n'


LISTINGS = [
    ("missing file", listing("snippets/tol.py", "snippets/tol.py"), 2, "snippets/tol.py 不存在", "snippets/tool.py"),
    ("missing section", listing("snippets/tool.py:boddy"), 2, "没有名为 boddy 的段落", "body"),
    ("section without end", listing("snippets/tool.py:open"), 2, "段落 open 没有结尾", "[end:open]"),
    ("lines beyond", listing("snippets/tool.py:3:99"), 2, "没有第 99 行", "行号"),
    ("outside a fence", '字\n\n--8<-- "snippets/tool.py"\n', 3, "--8<-- 不在代码块里", '--8<-- "文件"'),
    ("not alone", '```text\n--8<-- "snippets/tool.py"\n字\n```\n', 2, "还有别的内容", ";--8<--"),
    ("no title", listing("snippets/tool.py", None), 1, "清单 snippets/tool.py 没有标题", 'title="snippets/tool.py"'),
    ("other title", listing("snippets/tool.py", "tool"), 1, "标题 tool 不是它的路径", 'title="snippets/tool.py"'),
    ("outside", listing("../x.py", "../x.py"), 2, "在仓库之外", "从仓库根目录起"),
    ("absolute", listing("/etc/hosts", "/etc/hosts"), 2, "在仓库之外", "从仓库根目录起"),
]

VALUES = [
    ("unbound", python("total = 1\n") + "\n{{value:totl}}\n", 6, "值 totl 没有被", "total"),
    ("bound in CUDA only", python("y = 1\n", "# 类型：【Runnable on CUDA】\n") + "\n{{value:y}}\n", 6, "值 y 没有被", "【Runnable】"),
    ("local only", python("def f():\n    z = 1\n") + "\n{{value:z}}\n", 7, "值 z 没有被", "赋值"),
    ("in a table", python() + "\n| a |\n| - |\n| {{value:q}} |\n", 8, "值 q 没有被", "赋值"),
    ("in a formula", python() + "\n$S = {{value:q}}$\n", 6, "值 q 没有被", "赋值"),
    ("format", python() + "\n{{value:x:.4q}}\n", 6, "格式 .4q 无效", ".4f"),
    ("no name", "{{value:1a}}\n", 1, "1a 不是变量名", "{{value:NAME}}"),
    ("space for colon", "{{value x}}\n", 1, "看不懂的引用 {{value x}}", "{{value:NAME}}"),
    ("short word", "{{val:x}}\n", 1, "看不懂的引用 {{val:x}}", "{{value:NAME}}"),
    ("full-width braces", "｛｛value:x}}\n", 1, "看不懂的引用 ｛｛value:x}}", "{{value:NAME}}"),
    ("full-width colon", "{{value：x}}\n", 1, "看不懂的引用", "{{value:NAME}}"),
    ("one brace", "{value:x}\n", 1, "看不懂的引用 {value:x}", "{{value:NAME}}"),
    ("not closed", "{{value:x\n", 1, "看不懂的引用 {{value:x", "{{value:NAME}}"),
    ("in a formula, short word", "$a + {{val:x}}$\n", 1, "看不懂的引用", "{{value:NAME}}"),
    ("record, no key", "{{record:h200}}\n", 1, "看不懂的引用 record:h200", "FILE#KEY"),
    ("record, no file", "{{record:h100#copy}}\n", 1, "docs/evidence/h100.json 不存在", "h200"),
    ("record, no such key", "{{record:h200#coppy}}\n", 1, "没有 coppy", "copy"),
    ("unknown macro", "字\n\n$\\fooo x$\n", 3, "fooo", "math-core"),
]

LINKS = [
    ("page", "[字](othr.md)\n", 1, "链接 othr.md 指向不存在的文件", "other.md"),
    ("page without ending", "[字](other)\n", 1, "指向不存在的文件", "链接到源文件：other.md"),
    ("page as in the site", "[字](other/)\n", 1, "指向不存在的文件", "链接到源文件：other.md"),
    ("absolute page", "[字](/nowhere.md)\n", 1, "链接 /nowhere.md 指向不存在", "改正路径"),
    ("outside docs", "[字](../snippets/tool.py)\n", 1, "指向不存在的文件", "改正路径"),
    ("case", "[字](Other.md)\n", 1, "指向不存在的文件", "other.md"),
    ("definition", "[字][a]\n\n[a]: nowhere.md\n", 3, "链接 nowhere.md 指向不存在", "改正路径"),
    ("image", "![图](assets/fog.svg)\n", 1, "图片 assets/fog.svg 指向不存在", "assets/fig.svg"),
    ("image in a link", "[![图](assets/fog.svg)](other.md)\n", 1, "图片 assets/fog.svg 指向不存在", "assets/fig.svg"),
    ("raw HTML", '<a href="other.md">字</a>\n', 1, "链接 other.md 指向不存在", "改正路径"),
    ("empty", "[字]()\n", 1, "链接没有目标", "圆括号"),
    ("scheme", "[字](file:///etc/hosts)\n", 1, "协议不能用", "https://"),
    ("anchor here", "# 甲\n\n[字](#乙)\n", 3, "锚点 #乙 在本页里不存在", "{#乙}"),
    ("anchor there", "[字](other.md#name)\n", 1, "锚点 #name 在 other.md 里不存在", "named"),
    ("anchor of a third", "[字](other.md#重复_2)\n", 1, "锚点 #重复_2", "重复_1"),
    ("block", python() + "\n[字](#block-2)\n", 6, "锚点 #block-2", "block-1"),
    ("no alternative", "![](assets/fig.svg)\n", 1, "图片没有替代文字", "![说明]"),
    ("no alternative, raw", '<img src="../assets/fig.svg">\n', 1, "图片没有替代文字", 'alt="说明"'),
    ("twice", "# 甲 {#a}\n\n# 乙 {#a}\n", 3, "锚点 a 与第 1 行的重复", "换一个"),
    ("twice, raw", '# 甲 {#a}\n\n<div id="a"></div>\n', 3, "锚点 a 与第 1 行的重复", "换一个"),
    ("block's name", "# 甲 {#block-1}\n", 1, "与代码块的编号冲突", "换一个名字"),
    ("footnote", "字[^1]\n", 1, "脚注 [^1] 没有定义", "[^1]: 说明"),
    ("footnote twice", "字[^1]\n\n[^1]: 甲\n\n[^1]: 乙\n", 5, "脚注 [^1] 在第 3 行定义过了", "换一个名字"),
    ("footnote unused", "字 `[^1]`\n\n[^1]: 甲\n", 3, "脚注 [^1] 没有用到", "[^1]"),
    ("no words", "[](other.md)\n", 1, "链接没有文字", "方括号"),
    ("footnote in an item", "字[^1][^2]\n\n[^1]: 甲\n[^2]: 乙\n\n- [^2]: 丙\n", 6, "脚注 [^2] 的定义不在行首", "顶格写"),
]

RAWS = [
    ("reference", "[字][nix]\n\n[nx]: other.md\n", 1, "[字][nix] 没有定义", "[nix]: "),
    ("reference, short", "[字][]\n", 1, "[字][] 没有定义", "[字]: "),
    ("link, full-width", "[字]（other.md#named）\n", 1, "圆括号是全角的", "[字](other.md#named)"),
    ("link, half of it", "[字](other.md）\n", 1, "圆括号是全角的", "[字](other.md)"),
    ("link, apart", "[字] (https://a.example/b)\n", 1, "之间有空格", "[字](https://a.example/b)"),
    *((f"mark {text}", f"字\n\n{text}\n", 3, "是全角的", half) for text, half in (
        ("＃ 甲", "#"), ("＃＃甲", "##"), ("－ 甲", "-"), ("＊ 甲", "*"), ("＊＊甲＊＊", "**"), ("｜ 甲 ｜", "|"), ("＞ 甲", ">"))),
    ("anchor, full-width", "# 甲 {#a｝\n", 1, "花括号是全角的", "{#a}"),
    ("anchor without #", "字\n\n## 甲 {tiling-2} ##\n", 3, "{tiling-2} 不是锚点", "{#tiling-2}"),
    ("dollar opens", "长 $S_q，宽 $d$\n", 1, "$ 没有配对", "\\$"),
    ("dollar, a space", "长 $S $ 大\n", 1, "$ 没有配对", "里侧不留空格"),
    ("dollar closes", "长 S$ 大\n", 1, "$ 没有配对", "\\$"),
]

TABLE = [(group, *row) for group, rows in {
    "text": TEXTS, "table": TABLES, "container": CONTAINERS, "quiz": QUIZZES, "chart": CHARTS, "code": CODE, "directive": DIRECTIVES,
    "listing": LISTINGS, "value": VALUES, "link": LINKS, "raw": RAWS,
}.items() for row in rows]


@pytest.mark.parametrize("text,line,fault,remedy", [row[2:] for row in TABLE], ids=[f"{r[0]}: {r[1]}" for r in TABLE])
def test_refused(context, text, line, fault, remedy):
    problems = check_page(text, context, path="docs/page.md")
    assert len(problems) == 1, [str(problem) for problem in problems]
    problem = problems[0]
    assert (problem.path, problem.line) == ("docs/page.md", line)
    assert fault in problem.fault
    assert remedy in problem.remedy
    assert str(problem) == f"docs/page.md:{line}: {problem.fault}；{problem.remedy}"


GOOD = {
    "containers": "::::note 标题\n字\n\n:::key\n字\n:::\n::::\n\n- 项\n\n    :::math\n    $x$\n    :::\n\n   :::unfold 先懂直觉\n   字\n   :::\n",
    "inside a fence": "````markdown\n:::nota\n```python\nx\n```\n```sh\nls\n```\n/// x\n{{value:x}}\n[字](nowhere.md)\n````\n",
    "inside a code span": "`:::note`，`{{value:x}}`，`[字](nowhere.md)`，`<!--pytest-codeblocks:skip-->`，`--8<-- \"x\"`\n",
    "demo": ":::demo tiling 分块\n看。\n:::\n",
    "chart": CHART.replace(":", "：").replace("：：：", ":::") + chart("1024", "1024，2048").replace("}", "}，缺 2048")
    + chart("}\n", "}\n水平线: 乙 = h200.json#ours_512\n\n比 512: 大。\n\n- 曲线: 不是\n\n```text\n曲线: 也不是\n```\n"),
    "related": ":::related\n依赖｜第 7 章 Attention，第 15 章\n用于 | 第 20 章\n:::\n",
    "quiz": GOOD_QUIZ,
    "quiz, several": GOOD_QUIZ.replace("答案: B", "答案：A、B"),
    "quiz, computed": python("right = 'B'\n") + GOOD_QUIZ.replace("答案: B", "答案: =right"),
    "quiz with a fence": ":::quiz\n```text\nA. 不是选项\n```\nA. 甲\nB. 乙\n答案: A\n:::\n",
    "kinds": "".join(python(kind=f"# 类型：【{kind}】说明\n") for kind in ("Runnable", "Runnable on CUDA", "Skeleton")),
    "plain": "```pseudo\nfor each tile\n```\n\n```\nx\n```\n\n```console\n$ ls\n```\n\n~~~text\nx\n~~~\n",
    "cont": python() + "\n字\n\n" + CONT + python("y = x\n") + "\n" + CONT + "\n" + python("z = y\n"),
    "expected": python() + EXPECTED + TEXT + CONT + python("print(x)\n") + EXPECTED + TEXT,
    "fence in a list": "1. 项\n\n    ```python\n    " + RUN + "    x = 1\n\n    y = 2\n    ```\n",
    "closing longer": "```python\n" + RUN + "x = 1\n  `````\n",
    "listing": listing("snippets/tool.py") + "\n" + listing("snippets/tool.py:body") + listing("snippets/tool.py:1:3"),
    "values": python(
        "import os.path as p\nfrom math import pi\nfor i in range(3):\n    with open(p) as f:\n        (a, b), *c = 1\nif (w := 1):\n"
        "    pass\ndef g():\n    global h\n    h = 1\nk: int = 1\n"
    ) + "\n" + " ".join(f"{{{{value:{name}}}}}" for name in "p pi i f a b c w g h k".split()) + " {{ value:pi:.4f }} $ {{value:i}} $\n",
    "star import": python("from math import *\n") + "\n{{value:pi:,d}}\n",
    "record": "{{record:h200#copy}} {{record:h200.json#copy}}\n",
    "braces in a formula": "$\\frac{{a}}{{b}}$ 和 $f[x](y)$\n",
    "links": "[a](other.md) [b](other.md#第-1-节-flashattention) [c](/other.md#重复_1) [d](other.md#named 'x') [e](lab.ipynb)\n"
    "[f](https://example.org/a_(b)) [g](mailto:a@example.org) [h](guide/index.md) [i](verification.json) <https://example.org>\n"
    "[![图](assets/fig.svg)](other.md) [j](<other.md>) [k](#block-1) [l](#here)[^n]\n\n"
    '<a id="here"></a> <a href="../other/#named">x</a> <img src="../assets/fig.svg" alt="">\n\n[^n]: 注\n\n' + python(),
    "emphasis and HTML": "**字**字，***字***，\\*\\*，`**`，$a**b$ <br> <b>字</b> <https://a.example> <a@b.example>\n\n***\n\n"
    '<div markdown>\n**字**\n</div>\n\n<p class="x">字</p>\n\n<hr>\n\n<pre>\n**\n</pre>\n',
    "rules, not front matter": "---\n字\n\n:::note\n字\n:::\n\n---\n",
    "tables": "| a | `|` \\| |\n|:--|--:|\n| 1 |\n\na | b\n--|--\n1 | 2\n字\n",
    "formula over lines": "$$\na\n- b\n= c\n$$\n\n- 字\n\n  $$\n  a\n  + b\n  $$\n",
    "list from tabs": "-\ta\n\t-\tb\n\n\t\t```text\n\t\tx\n\t\t```\n",
    "options of a fence": '```text title="a" hl_lines="1"\nx\n```\n\n```{.text #named}\nx\n```\n',
    "looks raw": "x[i][j]，[0, 1][2]，[字][io]，[字][]，[1] (https://a.example)，[字]（见下），花了 $200、US$ 3、$HOME，\\$S\n\n"
    "＃1 号，－－作者，!!! wow\n\n??? 什么\n\n👩\u200d💻 `[字] (x.md)` {a}\n\n## 集合 `{a}` 与 $S_{a}$\n\n[io]: other.md\n[字]: other.md\n",
    "a marker": "## 甲\n[PROGRESS]\n\n`[PROGRES]` `字 [PROGRESS]`\n\n[TODO]\n",
    "anchor in a title's span": ":::note **题**{#c}\n字 [甲](#c)\n:::\n",
    "shows a kind": f"````markdown\n{RUN}````\n\n" + python("print('# 类型：【Runnable】')\n") + EXPECTED + f"```text\n{RUN}```\n",
    "axis with narrow commas": chart("512, 1024", "512,1024"),
    "own headings": "# 用 `BLOCK_SIZE` 与 [链接](other.md)\n\n[a](#用-block_size-与-链接) [b](#二级)\n\n二级\n---\n",
    "alternative is code": "![`x`](assets/fig.svg)\n",
    "CRLF and BOM": "\ufeff" + python().replace("\n", "\r\n"),
    "front matter": "---\ntitle: 字\n---\n\n# 字\n",
    "value in a link's page": "# 共 {{value:x}} 个 {#count}\n\n[a](#count)\n\n" + python(),
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_accepted(context, text):
    assert [str(problem) for problem in check_page(text, context, path="docs/page.md")] == []


def test_pytest_codeblocks_must_read_the_same(context, monkeypatch):
    """Should its reading change under us, each block where it differs is named."""
    monkeypatch.setattr("pytest_codeblocks.main.extract_from_buffer", lambda *_: [])
    (problem,) = check_page("字\n\n" + python(), context, path="docs/page.md")
    assert problem.line == 3 and "pytest-codeblocks" in problem.fault


def test_all_mistakes_of_all_pages_at_once(root, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text(":::nota\n:::\n\n" + python(kind=""), "utf-8")
    (docs / "b.md").write_text("{{value:x}}\n\n```sh\nls\n```\n", "utf-8")
    (docs / "c.md").write_bytes("# 标题\n\n中文".encode("gbk"))
    (docs / "d.md").write_text("# 好\n", "utf-8")
    problems = check(docs, root=tmp_path)
    assert [(p.path, p.line) for p in problems] == [
        ("docs/a.md", 1), ("docs/a.md", 4), ("docs/b.md", 1), ("docs/b.md", 3), ("docs/c.md", 1),
    ]
    assert "UTF-8" in str(problems[-1])
    run = subprocess.run([sys.executable, "-m", "courseware.check", "docs"], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stdout.splitlines() == [str(problem) for problem in problems]


def test_command_ends_well(root):
    run = subprocess.run([sys.executable, "-m", "courseware.check"], cwd=root, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, ""), run.stdout + run.stderr


def test_command_without_the_folder(tmp_path):
    run = subprocess.run([sys.executable, "-m", "courseware.check"], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 2 and "没有这个文件夹" in run.stderr


NAV = "nav:\n  - 首页: index.md\n  - 一节:\n      - a.md\n      - https://a.example\n  - 空:\n"
STRICT = "validation:\n  omitted_files: warn\n"
NAVIGATIONS = [
    ("all there", "nav: [index.md, a.md, sub/b.md]\n" + STRICT, []),
    ("one left out", NAV + STRICT, ["docs/sub/b.md:1: 不在 mkdocs.yml 的 nav 里；加一行 - 标题: sub/b.md"]),
    ("for the navigation alone", NAV + "validation: {nav: {omitted_files: warn}}\n", ["docs/sub/b.md:1: 不在 mkdocs.yml 的 nav 里；加一行 - 标题: sub/b.md"]),
    ("MkDocs would not mind", NAV, []),
    ("meant so", NAV + STRICT + "not_in_nav: |\n  sub/\n", []),
    ("a draft", NAV + STRICT + "draft_docs: b.md\n", []),
    ("excluded", NAV + STRICT + "exclude_docs: |\n  sub/\n", []),
    ("no navigation", STRICT, []),
    ("another folder's", "docs_dir: pages\n" + NAV + STRICT, []),
    ("misspelt", "x: !ENV A\nnav:\n  - 首页: index.md\n  - a.md\n  - 二: sub/c.md\n", ["mkdocs.yml:5: nav 里的 sub/c.md 不存在；是不是要写 sub/b.md"]),
    ("MkDocs would not mind that", "nav: [c.md]\nvalidation: {nav: {not_found: ignore}}\n", []),
]


@pytest.mark.parametrize("text,said", [row[1:] for row in NAVIGATIONS], ids=[row[0] for row in NAVIGATIONS])
def test_navigation(tmp_path, text, said):
    for name in ("index.md", "a.md", "sub/b.md"):
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text("# 字\n", "utf-8")
    (tmp_path / "mkdocs.yml").write_text(text, "utf-8")
    assert [str(problem) for problem in check(tmp_path / "docs")] == said


def test_mkdocs_yml_that_is_no_yaml(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "mkdocs.yml").write_text("site_name: 字\nnav: [\n", "utf-8")
    (problem,) = check(tmp_path / "docs")
    assert (problem.path, problem.line) == ("mkdocs.yml", 2) and "不是有效的 YAML" in problem.fault


def test_excluded_pages_are_not_read(tmp_path):
    docs = tmp_path / "docs"
    (docs / "drafts").mkdir(parents=True)
    (docs / ".hidden").mkdir()
    for name in ("drafts/a.md", ".hidden/b.md"):
        (docs / name).write_text(":::nota\n", "utf-8")
    (docs / "c.md").write_text("[字](drafts/a.md)\n", "utf-8")
    (tmp_path / "mkdocs.yml").write_text("exclude_docs: |\n  drafts/\nx: !ENV [A, b]\ny: !!python/name:os.path\n", "utf-8")
    assert [(p.path, p.fault) for p in check(docs)] == [("docs/c.md", "链接 drafts/a.md 指向不存在的文件")]


ASSETS = [
    ("assets/demos/x.html.j2", "<p></p>\n", 1, "没有写明数据", "{# data:"),
    ("assets/demos/x.html.j2", '{# data: snippets.tool.frame {"S": } #}\n', 1, "不是有效的 JSON", "{# data:"),
    ("assets/demos/x.html.j2", "{# data: snippets.toll.frame {} #}\n", 1, "模块 snippets.toll 不存在", "仓库里的文件"),
    ("assets/demos/x.html.j2", "{# data: snippets.tool.fram {} #}\n", 1, "没有函数 fram", "frame"),
    ("assets/demos/x.html.j2", '{# data: snippets.tool.frame {"S": 1, "q": 2} #}\n', 1, "没有参数 q", "S、d"),
    ("assets/demos/x.html.j2", "{# data: snippets.tool.frame {} #}\n", 1, "缺少参数 S", "JSON"),
    ("assets/demos/x.html.j2", '{# data: snippets.tool.frame {"S": 1} #}\n\n{% if %}\n', 3, "模板语法错误", "Jinja"),
    ("assets/demos/x.html.j2", '{# data: snippets.tool.frame {"S": 1} #}\n{{ S|nofilter }}\n', 2, "模板语法错误", "Jinja"),
    ("a.ipynb", "{\n'cells': []}", 2, "不是有效的 JSON", "改正这一行"),
    ("a.ipynb", "{}", 1, "不是笔记本", "第 4 版"),
    ("evidence/a.json", "{", 1, "不是有效的 JSON", "重新生成"),
    ("evidence/a.json", "{}", 1, "没有 figures", "make record"),
    ("evidence/a.json", json.dumps(EVIDENCE | {"environment": {}}), 1, "缺少 device 或 date", "make record"),
    ("evidence/a.json", json.dumps(EVIDENCE | {"figures": {"a": 1}}), 1, "数值 a 没有 value", "make record"),
    ("evidence/a.json", json.dumps(EVIDENCE | {"blocks": [{"page": "a.md"}]}), 1, "blocks 第 1 条缺少 heading", "make record"),
    ("evidence/a.json", json.dumps(EVIDENCE | {"kernels": [{"name": "k", "source": "", "status": 5, "cases": "x"}]}), 1,
     "kernels 第 1 条类型不对：status、cases", "make record"),
    *(("evidence/a.json", json.dumps(EVIDENCE | {"figures": {"a": {"value": value}}}), 1, "a 没有 value，或它不是有限的数", "make record")
      for value in (float("nan"), float("-inf"), True, None)),
    *(("evidence/a.json", text, 1, "数太长，或括号嵌套太深", "重新生成") for text in ("[" * 200_000, "1" * 5000)),
    ("a.ipynb", '{"cells": [], "nbformat": 4}', 1, "缺少 metadata", "Jupyter"),
    ("a.ipynb", '{"cells": [{"cell_type": "code"}], "nbformat": 4, "metadata": {}}', 1, "第 1 个单元缺少", "Jupyter"),
    ("a.markdown", "# 字\n", 1, "只看 .md", ".md"),
]


@pytest.mark.parametrize("name,text,line,fault,remedy", ASSETS)
def test_files_beside_the_pages(tmp_path, name, text, line, fault, remedy):
    path = tmp_path / "docs" / name
    path.parent.mkdir(parents=True)
    path.write_text(text, "utf-8")
    (tmp_path / "snippets").mkdir()
    (tmp_path / "snippets" / "tool.py").write_text("def frame(S, d=2):\n    return {}\n", "utf-8")
    problems = check(tmp_path / "docs")
    assert len(problems) == 1, [str(problem) for problem in problems]
    assert (problems[0].path, problems[0].line) == (f"docs/{name}", line)
    assert fault in problems[0].fault and remedy in problems[0].remedy


def test_a_chapter_is_read_in_under_two_seconds(root, tmp_path):
    """Thirty pages with everything on them; the process's own start is part of the promise.

    Processor time, so that other work on the machine does not decide.
    """
    docs = tmp_path / "docs"
    docs.mkdir()
    (tmp_path / "snippets").mkdir()
    (tmp_path / "snippets" / "tool.py").write_text((root / "snippets" / "tool.py").read_text("utf-8"), "utf-8")
    page = "\n\n".join(GOOD[name] for name in ("containers", "quiz", "kinds", "cont", "listing", "values", "own headings"))
    page = page.replace("(other.md)", "(page0.md)").replace("own headings", "")
    for number in range(30):
        (docs / f"page{number}.md").write_text(page + "\n\n正文 $x^2$，讲了很多。\n" * 100, "utf-8")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run([sys.executable, "-m", "courseware.check"], cwd=tmp_path, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert run.returncode == 0, run.stdout
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2


def test_problems_sort_by_page_then_line():
    problems = [Problem("docs/b.md", 1, "", ""), Problem("docs/a.md", 10, "", ""), Problem("docs/a.md", 9, "", "")]
    assert [(p.path, p.line) for p in sorted(problems)] == [("docs/a.md", 9), ("docs/a.md", 10), ("docs/b.md", 1)]


HEADINGS = r"""# 用 `BLOCK_SIZE` 与 [链接](other.md)

## 19.5 在线 softmax：最难的一步

## $O(N^2)$ 的代价与 `$x$`

## **「重点」**文字 _a_ *b* snake_case_name

## 重复

## 重复

## A & B &amp; C < D

## “引号” — 破折号… (x)  两格

### 有名字 {#named .c}

## 结尾 ##

二级
---

:::note 标题
## 容器里
:::

##没有空格

> ## 引用里

- ## 列表里

## 脚注[^1]

[^1]: 注
"""


def test_anchors_are_those_of_the_site():
    """What the checker takes for a heading's anchor is what the whole extension stack writes."""
    names = ["attr_list", "def_list", "footnotes", "md_in_html", "sane_lists", "tables", "toc", "pymdownx.arithmatex"]
    names += ["pymdownx.betterem", "pymdownx.superfences", "courseware.dialect"]
    config = {"toc": {"slugify": slugify(case="lower")}, "pymdownx.arithmatex": {"generic": True}}
    html = Markdown(extensions=names, extension_configs=config | {"pymdownx.betterem": {"punctuation": False}}).convert(HEADINGS)
    assert sorted(heading_ids(scan(HEADINGS))) == sorted(re.findall(r'<h[1-6]\b[^>]*\bid="([^"]*)"', html))


PIECES = [
    ":::note", ":::quiz 题", "::::demo tiling", ":::", "::::", "：：：", "```python", "```", "````", "~~~", "~~~python", "> ```python",
    "    ```python", "- 项", "    - 项", "1. 项", "# 类型：【Runnable】", "# 类型：【x】", "x = 1", "f(", "A. 甲", "B. 乙", "答案: A", "答案: =x",
    "解析: 字", "<!--pytest-codeblocks:cont-->", "<!--pytest-codeblocks:expected-output-->", "<!--", "-->", "{{value:x}}", "{{value:", "{{record:a#b}}",
    ":::chart 题", "横轴: S = 1, 2", "横轴: =", "纵轴: ms", "刻度: 对数", "曲线: 甲 = a#b_{S}", "对照：乙 = h200#copy 缺 1", "水平线: 甲",
    "｀｀｀python", "``python", "```pyton", "::: 完", '!!! note "题"', "[PROGRES]", "[字][x]", "＃ 甲", "a. 甲", "- A. 甲", "[^1]: 甲", ":::note 题 {#a}",
    "$x$", "$$", "[字](x.md)", "![](", "[^1]", "`", "``", "| a |", "|---|", '--8<-- "a"', "# 标题 {#a}", "", "", "字", "\t字", "---", '<a href="x" id="a">',
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=16).map("\n".join))
def test_never_raises_and_names_lines_of_the_page(text):
    """Whatever stands on a page, in whatever order: problems come out, each on a line that there is."""
    for problem in check_page(text, Context(Path(__file__).parent / "no-such-docs"), path="docs/page.md"):
        assert 1 <= problem.line <= text.count("\n") + 1
        assert problem.fault and problem.remedy
