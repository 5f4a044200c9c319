"""Quizzes: a question, at least two options in the order of the alphabet, one answer line that names some of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from courseware.check.context import Context
from courseware.dialect.quiz import Quiz, answer_letters, quizzes_of
from courseware.page import Closer, Container, Fence, Page, Text
from courseware.problem import Problem

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# An option in a form that is none: - A. 甲, (A) 甲, A：甲, a. 甲. Numbers are options only where there are no letters.
LIKE_AN_OPTION = re.compile(
    r"(?:[-*+][ \t]+)?[(（]?(?P<letter>[A-Za-zＡ-Ｚ])(?:[)）]|[.．、:：])[ \t]*(?P<rest>\S.*)|(?P<number>\d)[.．、)）][ \t]*(?P<words>\S.*)"
)
LATE_ANSWER = re.compile(r"答案\s*[:：]\s*[=＝A-ZＡ-Ｚ]")
LATE_EXPLANATION = re.compile(r"解析\s*[:：]")


def quizzes(page: Page, context: Context) -> Iterator[Problem]:
    for quiz in quizzes_of(page):
        for rule in (_question, _options, _answer, _explanation):
            for line, fault, remedy in rule(quiz):
                yield Problem(page.path, line, fault, remedy)


def _question(quiz: Quiz) -> Iterator[tuple[int, str, str]]:
    if not any(not isinstance(piece, Text) or piece.text.strip() for piece in quiz.question):
        yield quiz.line, "quiz 没有题目", "在选项前写上题目"
    for line in quiz.stray:
        yield line, "quiz 的“答案:”行后面有不属于任何部分的文字", "写进“解析:”，或移到选项之前"


def _mistaken(quiz: Quiz) -> tuple[int, str, str] | None:
    """(line, text, as it should be) of the first line that was to be an option, where fewer than two are."""
    if len(quiz.options) > 1:
        return None
    pieces = quiz.options[0].pieces[1:] if quiz.options else quiz.question
    likely = [(piece, match) for piece in _lines(pieces) if (match := LIKE_AN_OPTION.fullmatch(piece.text.strip()))]
    if quiz.options:
        likely = [(piece, match) for piece, match in likely if match["letter"]]
    elif len(likely) < 2:  # a question may hold one such line
        return None
    if not likely:
        return None
    piece, match = likely[0]
    letter = unicodedata.normalize("NFKC", match["letter"] or ALPHABET[max(int(match["number"]) - 1, 0)]).upper()
    return piece.line, piece.text.strip(), f"{letter}. {match['rest'] or match['words']}"


def _lines(pieces: list[Fence | Container | Closer | Text]) -> Iterator[Text]:
    """Lines of text that stand in no container inside."""
    level = 0
    for piece in pieces:
        level += isinstance(piece, Container) - isinstance(piece, Closer)
        if isinstance(piece, Text) and not level:
            yield piece


def _said(pieces: list[Fence | Container | Closer | Text]) -> str:
    """What an option says, to be compared; "" where it holds a container."""
    if any(isinstance(piece, (Container, Closer)) for piece in pieces):
        return ""
    return " ".join(" ".join((piece.text if isinstance(piece, Text) else piece.code).split()) for piece in pieces).strip()


def _options(quiz: Quiz) -> Iterator[tuple[int, str, str]]:
    if mistaken := _mistaken(quiz):
        line, text, right = mistaken
        yield line, f"quiz 的选项写成了 {text}", f"选项不放进列表和括号，每行写成 {right}"
    elif len(quiz.options) < 2:
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
    first: dict[str, str] = {}
    for option in quiz.options:
        said = _said(option.pieces)
        if said in first and option.letter not in first.values():
            yield option.line, f"quiz 的选项 {option.letter} 和 {first[said]} 相同", "改写其中一个"
        if said:
            first.setdefault(said, option.letter)


def _explanation(quiz: Quiz) -> Iterator[tuple[int, str, str]]:
    for line in _late(quiz, LATE_EXPLANATION) if not quiz.stray else []:
        yield line, "quiz 有两行“解析:”", "合成一处，解析可以有好几段"
    for line in _late(quiz, LATE_ANSWER) if not quiz.answers else []:
        yield line, "quiz 的“答案:”行在“解析:”后面", "把它移到“解析:”的前面"


def _late(quiz: Quiz, form: re.Pattern) -> list[int]:
    """Lines of a part below the explanation, which goes to the end, so that they are part of it."""
    return [piece.line for piece in _lines((quiz.explanation or [])[1:]) if form.match(piece.text.strip())]


def _answer(quiz: Quiz) -> Iterator[tuple[int, str, str]]:
    letters = "、".join(quiz.letters) or "无"
    if not quiz.answers and not _late(quiz, LATE_ANSWER):
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
        elif twice := sorted({letter for letter in right if _letters(text).count(letter) > 1}):
            yield line, f"quiz 的答案 {'、'.join(twice)} 写了两次", "每个字母写一次"
        elif _mistaken(quiz):
            continue
        elif missing := [letter for letter in right if letter not in quiz.letters]:
            yield line, f"quiz 的答案 {'、'.join(missing)} 不在选项中", f"从已有的选项里选：{letters}"


def _letters(text: str) -> list[str]:
    return re.findall("[A-Z]", unicodedata.normalize("NFKC", text))


def computed_keys(page: Page, values: dict[str, str]) -> Iterator[Problem]:
    """Keys `答案: =NAME` judged by the values that the page's blocks gave them: for after the run."""
    for quiz in quizzes_of(page):
        if quiz.key in values:
            key, quiz.answers = quiz.key, [(quiz.answer_line, values[quiz.key])]
            for line, fault, remedy in _answer(quiz):
                yield Problem(page.path, line, f"{fault} (={key})", remedy)


RULES = [quizzes]
