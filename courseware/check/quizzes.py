"""Quizzes: a question, at least two options in the order of the alphabet, one answer line that names some of them."""

from __future__ import annotations

from collections.abc import Iterator

from courseware.check.context import Context
from courseware.dialect.quiz import Quiz, answer_letters, quizzes_of
from courseware.page import Page, Text
from courseware.problem import Problem

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def quizzes(page: Page, context: Context) -> Iterator[Problem]:
    for quiz in quizzes_of(page):
        for rule in (_question, _options, _answer):
            for line, fault, remedy in rule(quiz):
                yield Problem(page.path, line, fault, remedy)


def _question(quiz: Quiz) -> Iterator[tuple[int, str, str]]:
    if not any(not isinstance(piece, Text) or piece.text.strip() for piece in quiz.question):
        yield quiz.line, "quiz 没有题目", "在选项前写上题目"
    for line in quiz.stray:
        yield line, "quiz 的“答案:”行后面有不属于任何部分的文字", "写进“解析:”，或移到选项之前"


def _options(quiz: Quiz) -> Iterator[tuple[int, str, str]]:
    if len(quiz.options) < 2:
        count = "没有选项" if not quiz.options else "只有一个选项"
        yield quiz.line, f"quiz {count}", "至少写两行：A. … 和 B. …"
    seen: set[str] = set()
    for option in quiz.options:
        expected = ALPHABET[len(seen)]
        if option.letter in seen:
            yield option.line, f"quiz 的选项 {option.letter} 重复", f"选项依次写成 A. B. C. …，这里应是 {expected}."
        elif option.letter != expected:
            yield option.line, f"quiz 的选项没有按顺序：这里是 {option.letter}", f"应是 {expected}."
        if not any(not isinstance(piece, Text) or piece.text.strip() for piece in option.pieces):
            yield option.line, f"quiz 的选项 {option.letter} 是空的", f"写成 {option.letter}. 选项内容"
        seen.add(option.letter)


def _answer(quiz: Quiz) -> Iterator[tuple[int, str, str]]:
    letters = "、".join(quiz.letters) or "无"
    if not quiz.answers:
        yield quiz.line, "quiz 缺少“答案:”行", "例如 答案: B"
    for line, _ in quiz.answers[1:]:
        yield line, "quiz 有两行“答案:”", "合成一行，例如 答案: A, C"
    for line, text in quiz.answers[:1]:
        right = answer_letters(text)
        if not text:
            yield line, "quiz 的答案是空的", "例如 答案: B，或 答案: =变量名"
        elif text.startswith("="):
            if not quiz.key:
                yield line, f"quiz 的答案 {text} 不是变量名", "写成 答案: =变量名"
        elif right is None:
            yield line, f"quiz 的答案看不懂：{text}", "写选项的字母，例如 答案: B 或 答案: A, C"
        elif missing := [letter for letter in right if letter not in quiz.letters]:
            yield line, f"quiz 的答案 {'、'.join(missing)} 不在选项中", f"从已有的选项里选：{letters}"


def computed_keys(page: Page, values: dict[str, str]) -> Iterator[Problem]:
    """Keys `答案: =NAME` judged by the values that the page's blocks gave them: for after the run."""
    for quiz in quizzes_of(page):
        if quiz.key in values:
            key, quiz.answers = quiz.key, [(quiz.answer_line, values[quiz.key])]
            for line, fault, remedy in _answer(quiz):
                yield Problem(page.path, line, f"{fault} (={key})", remedy)


RULES = [quizzes]
