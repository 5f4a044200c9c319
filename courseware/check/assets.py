"""What lies beside the pages: templates (whose first line names their data), notebooks and evidence files."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from jinja2 import TemplateSyntaxError

from courseware import evidence
from courseware.check.context import Context, nearest
from courseware.check.pictures import drawing
from courseware.dialect.demo import environment
from courseware.problem import Problem
from courseware.project import DEMO_DATA, notebook_fault

OTHER_PAGES = (".markdown", ".mdown", ".mkdn", ".mkd")
FIRST_LINE = '第一行写成 {# data: snippets.模块.函数 {"参数": 值} #}'


def problems(context: Context) -> Iterator[Problem]:
    for name in context.demos:
        yield from _template(context, context.docs / "assets" / "demos" / f"{name}.html.j2")
    for name in sorted(context.pictures):
        yield from _template(context, context.docs / name)
    for name in sorted(context.files):
        if name.endswith(".ipynb"):
            yield from _notebook(context, context.docs / name)
        elif name.startswith("evidence/") and name.endswith(".json"):
            yield from _evidence(context, context.docs / name)
        elif name.endswith(OTHER_PAGES):
            fault = "MkDocs 把它当成页面，检查器和执行器只看 .md"
            yield Problem(context.shown(context.docs / name), 1, fault, "把扩展名改成 .md")
    for path in sorted(context.docs.rglob("*")):
        if path.is_symlink() and not path.exists():
            yield Problem(context.shown(path), 1, "断开的符号链接", "删去它，或让它指向存在的文件")


def _template(context: Context, path: Path) -> Iterator[Problem]:
    shown = context.shown(path)
    try:
        text = path.read_text("utf-8")
        environment(str(path.parent)).get_template(path.name)  # compiled once: the page is drawn from the same
    except UnicodeDecodeError:
        yield Problem(shown, 1, "不是 UTF-8 编码", "请另存为 UTF-8")
        return
    except TemplateSyntaxError as error:
        yield Problem(shown, error.lineno, f"模板语法错误：{error.message}", "改正这一行的 Jinja 写法")
    else:
        if path.name.endswith(".svg.j2"):
            yield from drawing(shown, text)
    match = DEMO_DATA.match(text.partition("\n")[0])
    if not match:
        yield Problem(shown, 1, "第一行没有写明数据来自哪个函数", FIRST_LINE)
        return
    fault, remedy = _call(context.root, match["call"], match["arguments"] or "{}")
    if fault:
        yield Problem(shown, 1, fault, remedy)


def _call(root: Path, call: str, arguments: str) -> tuple[str, str]:
    try:
        given = json.loads(arguments)
    except ValueError as error:
        return f"数据的参数不是有效的 JSON：{error}", FIRST_LINE
    module, _, name = call.rpartition(".")
    path = root.joinpath(*module.split(".")).with_suffix(".py")
    if not module or not path.is_file():
        return f"模块 {module or call} 不存在", f"{FIRST_LINE}，模块是仓库里的文件"
    functions = _functions(path)
    if name not in functions:
        return f"模块 {module} 里没有函数 {name}", nearest(name, functions)
    return _fit(call, functions[name], set(given))


def _fit(call: str, arguments: ast.arguments, given: set[str]) -> tuple[str, str]:
    positional = [a.arg for a in arguments.posonlyargs + arguments.args]
    keyword = {a.arg: default for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults)}
    needed = positional[: len(positional) - len(arguments.defaults)]
    needed += [name for name, default in keyword.items() if default is None]
    unknown = sorted(given - {*positional, *keyword}) if not arguments.kwarg else []
    missing = [name for name in needed if name not in given]
    if unknown:
        return f"{call} 没有参数 {'、'.join(unknown)}", f"它的参数是 {'、'.join([*positional, *keyword]) or '无'}"
    if missing:
        return f"{call} 缺少参数 {'、'.join(missing)}", "在第一行的 JSON 里给出"
    return "", ""


@lru_cache(maxsize=64)
def _parse(path: Path, _stamp: int) -> dict[str, ast.arguments]:
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name: node.args for node in tree.body if isinstance(node, ast.FunctionDef)}


def _functions(path: Path) -> dict[str, ast.arguments]:
    """Functions of a module by name; none where it is no valid Python, which its own tests will say."""
    try:
        return _parse(path, path.stat().st_mtime_ns)
    except (SyntaxError, ValueError):
        return {}


def _json(context: Context, path: Path) -> tuple[object, list[Problem]]:
    try:
        return json.loads(path.read_text("utf-8")), []
    except UnicodeDecodeError:
        return None, [Problem(context.shown(path), 1, "不是 UTF-8 编码", "请另存为 UTF-8")]
    except json.JSONDecodeError as error:
        return None, [Problem(context.shown(path), error.lineno, f"不是有效的 JSON：{error.msg}", "改正这一行，或重新生成文件")]
    except (ValueError, RecursionError):
        return None, [Problem(context.shown(path), 1, "里的数太长，或括号嵌套太深", "重新生成文件")]


def _notebook(context: Context, path: Path) -> Iterator[Problem]:
    if found := notebook_fault(path):
        yield Problem(context.shown(path), *found)


def _evidence(context: Context, path: Path) -> Iterator[Problem]:
    data, found = _json(context, path)
    yield from found
    if not found and (fault := evidence.fault(data)):
        yield Problem(context.shown(path), 1, f"证据文件{fault}", "用 make record 重新生成")


