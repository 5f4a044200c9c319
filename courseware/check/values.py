"""`{{value:NAME}}`, `{{record:FILE#KEY}}`, `答案: =NAME`: each must be able to resolve, by the look of the page's code.

Formulas too: math-core must know all their macros.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from courseware.check.context import Context, nearest
from courseware.dialect.mathml import math_errors, math_ranges
from courseware.dialect.quiz import quizzes_of
from courseware.dialect.values import stem
from courseware.doctest.blocks import chains
from courseware.doctest.fingerprint import parse
from courseware.page import VALUE, Page
from courseware.problem import Problem

BRACES = re.compile(r"\{\{[^{}\n]*(?:\}\}?)?")
ONE_BRACE = re.compile(r"(?<!\{)\{\s*(?:value|record)\s*[:：][^{}\n]*\}(?!\})")
WIDE_BRACES = re.compile(r"[{｛]*｛\s*(?:value|record)\s*[:：][^{}｛｝\n]*[}｝]*")
FORM = "写成 {{value:NAME}}、{{value:NAME:.4f}} 或 {{record:FILE#KEY}}"
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def forms(page: Page, context: Context) -> Iterator[Problem]:
    """Double braces that are no reference; inside a formula only those that look like one, as LaTeX has them too."""
    formulas = math_ranges(page.prose)
    for pattern in (BRACES, ONE_BRACE, WIDE_BRACES):
        for match in pattern.finditer(page.prose):
            text = match[0]
            in_formula = any(start <= match.start() < end for start, end, *_ in formulas)
            meant = re.match(r"[{｛]+\s*(val|rec)", text)
            if not VALUE.fullmatch(text) and (meant or not in_formula):
                yield Problem(page.path, page.line_of(match.start()), f"看不懂的引用 {text}", FORM)


def values(page: Page, context: Context) -> Iterator[Problem]:
    bound = _bound(page)
    for line, what, spec in page.values:
        if what == "value":
            name, _, form = spec.partition(":")
            yield from _name(page, line, name.strip(), bound)
            if form and not _formats(form.strip()):
                yield Problem(page.path, line, f"值 {name} 的格式 {form} 无效", "用 Python 的格式说明，例如 .4f、,d 或 .3g")
    for quiz in quizzes_of(page):
        if quiz.key:
            yield from _name(page, quiz.answer_line, quiz.key, bound)


def _name(page: Page, line: int, name: str, bound: set[str]) -> Iterator[Problem]:
    if not name.isidentifier():
        yield Problem(page.path, line, f"{name or '空的名字'} 不是变量名", FORM)
    elif name not in bound and "*" not in bound:
        remedy = f"在本页的【Runnable】块里给它赋值，或改正名字（{nearest(name, sorted(bound))}）"
        yield Problem(page.path, line, f"值 {name} 没有被本页的任何可运行代码块赋值", remedy)


def _formats(form: str) -> bool:
    for sample in (1, 1.5, "x"):
        try:
            format(sample, form)
            return True
        except ValueError:
            continue
    return False


def _bound(page: Page) -> set[str]:
    """Names that the page's Runnable code binds at its top level; "*" among them where a star import may bind more."""
    found: set[str] = set()
    for chain in chains(page):
        for block in chain.blocks if chain.kind == "runnable" else []:
            try:
                found |= set(_names(parse(block.code)))
            except (SyntaxError, ValueError):
                found.add("*")  # `code.syntax` reports it; which names it would have bound nobody can say
    return found


def _names(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            yield child.id
        elif isinstance(child, (ast.Import, ast.ImportFrom)):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in child.names)
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield child.name
        elif isinstance(child, (ast.MatchAs, ast.MatchStar)) and child.name:
            yield child.name
        if isinstance(child, SCOPES):
            yield from (name for inner in ast.walk(child) if isinstance(inner, ast.Global) for name in inner.names)
        elif isinstance(child, COMPREHENSIONS):  # its own variables stay inside, those of `:=` come out
            yield from (n.target.id for n in ast.walk(child) if isinstance(n, ast.NamedExpr))
        else:
            yield from _names(child)


def records(page: Page, context: Context) -> Iterator[Problem]:
    for line, what, spec in page.values:
        if what != "record":
            continue
        file, hash_, key = spec.partition("#")
        file = stem(file)
        if not (file and hash_ and key):
            yield Problem(page.path, line, f"看不懂的引用 record:{spec}", "写成 {{record:FILE#KEY}}")
        elif file not in context.figures:
            remedy = f"改正名字（{nearest(file, context.figures)}），或用 make record 生成它"
            yield Problem(page.path, line, f"docs/evidence/{file}.json 不存在", remedy)
        elif key not in context.figures[file]:
            remedy = f"改正名字（{nearest(key, context.figures[file])}）"
            yield Problem(page.path, line, f"docs/evidence/{file}.json 的 figures 里没有 {key}", remedy)


def formulas(page: Page, context: Context) -> Iterator[Problem]:
    for line, message in math_errors(page):
        fault, _, remedy = message.rpartition("；")
        yield Problem(page.path, line, fault, remedy)


RULES = [forms, values, records, formulas]
