"""`:::quiz`: a question, its options, the answer and an explanation, as a form that is complete before any script.

Contract: the question (any Markdown); lines `A. …` to at least `B. …` (`A、` `A．` `A)` too; an option may hold several
lines, lists, fences, mathematics); `答案: B` or `答案: A, C` (half- or full-width colon; `,` `，` `、` or nothing between),
or `答案: =NAME`, the value of NAME after the page's Runnable chains ran; `解析: …` to the end. One right answer gives
radio buttons, several give check boxes. The right letters stand in `data-answer` and in the closed `<details>`, never in
the list; `progress` adds `data-key`. `docs/assets/js/quiz.js` brings the form to life.
"""

from __future__ import annotations

import re
import unicodedata
import xml.etree.ElementTree as etree
from collections.abc import Iterator
from dataclasses import dataclass, field

from markdown import Markdown
from markdown.util import AtomicString
from pymdownx.blocks.block import Block

from courseware.dialect import values
from courseware.dialect.course import Course, register
from courseware.page import QUIZ_PART, Closer, Container, Fence, Page, Text, body

KEY = re.compile(r"=\s*(?P<name>\w+)\s*$")


@dataclass
class Option:
    """`letter` is half-width; `pieces` are parts of `Page.out`, the first one without its letter."""

    letter: str
    line: int
    pieces: list[Fence | Container | Closer | Text]


@dataclass
class Quiz:
    """What a quiz container holds, right or wrong: nothing is judged here."""

    line: int
    title: str
    question: list = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    answers: list[tuple[int, str]] = field(default_factory=list)  # (line, text) of each 答案 line; should be one
    explanation: list | None = None
    stray: list[int] = field(default_factory=list)  # lines with text after 答案 that belong nowhere

    @property
    def letters(self) -> list[str]:
        return [option.letter for option in self.options]

    @property
    def answer(self) -> str | None:
        """Text of the first 答案 line, None without one."""
        return self.answers[0][1] if self.answers else None

    @property
    def answer_line(self) -> int | None:
        return self.answers[0][0] if self.answers else None

    @property
    def key(self) -> str | None:
        """NAME of `答案: =NAME`."""
        match = KEY.match(self.answer or "")
        return match["name"] if match else None


def quizzes_of(page: Page) -> Iterator[Quiz]:
    """Every quiz of a page that is closed; for the checker, before anything is rendered."""
    for container in page.containers:
        if container.name == "quiz" and container.end:
            yield parse_quiz(page, container)


def parse_quiz(page: Page, container: Container) -> Quiz:
    """Read a quiz container; never raises, so that the checker can name what is wrong with what is there."""
    index = next(position for position, piece in enumerate(page.out) if piece is container)
    return parse(container, body(page.out, index))


def parse(container: Container, pieces: list) -> Quiz:
    """The same from the pieces inside the container."""
    quiz = Quiz(container.line, container.title)
    current = quiz.question
    for piece in pieces:
        part = piece.part if isinstance(piece, Text) and piece.part else ""
        if part == "答案":
            quiz.answers.append((piece.line, unicodedata.normalize("NFKC", _after(piece).text).strip()))
            current = None
        elif part == "解析":
            current = quiz.explanation = [*(quiz.explanation or []), _after(piece)]
        elif part:
            current = [_after(piece)]
            quiz.options.append(Option(unicodedata.normalize("NFKC", part), piece.line, current))
        elif current is not None:
            current.append(piece)
        elif not isinstance(piece, Text) or piece.text.strip():
            quiz.stray.append(piece.line)
            current = quiz.explanation = [piece]
    return quiz


def _after(piece: Text) -> Text:
    """The line without its letter or word, indented as before."""
    rest = piece.text.lstrip(" ")
    indent = " " * (len(piece.text) - len(rest))
    return Text(piece.line, indent + rest[QUIZ_PART.match(rest).end() :])


def answer_letters(text: str) -> list[str] | None:
    """Letters of `B`, `A, C`, `A，C`, `A、C`, `A C` or `AC`, in alphabetical order; None for anything else."""
    plain = unicodedata.normalize("NFKC", text).strip().rstrip("。.")
    if not re.fullmatch(r"[A-Z](?:[\s,、;/和与]*[A-Z])*", plain):
        return None
    return sorted(set(re.findall("[A-Z]", plain)))


def right_letters(quiz: Quiz, course: Course) -> tuple[list[str], str | None]:
    """Right letters, and the fault in words where they cannot be told."""
    text = quiz.answer
    if quiz.key:
        try:
            text = values.value(quiz.key, course)
        except values.Unresolved as fault:
            return [], f"答案 ={quiz.key} 没有解析出来：{fault}"
    if not text:
        return [], "quiz 缺少“答案:”行；例如 答案: B"
    letters = answer_letters(text)
    if letters is None:
        return [], f"答案 {text} 不是选项字母；例如 答案: B 或 答案: A, C"
    unknown = [letter for letter in letters if letter not in quiz.letters]
    return letters, f"答案 {'、'.join(unknown)} 不在选项里" if unknown else None


def extend(md: Markdown, course: Course) -> None:
    register(md, QuizBlock, QuestionBlock, OptionBlock, ExplanationBlock)


class QuizBlock(Block):
    """The form. Argument: the quiz's index in `course.quizzes`; its parts arrive as blocks of their own."""

    NAME = "quiz"
    ARGUMENT = True

    def on_create(self, parent: etree.Element) -> etree.Element:
        self.quiz: Quiz = self.md.course.quizzes[int(self.argument)]
        self.letters, self.fault = right_letters(self.quiz, self.md.course)
        several = len(self.letters) > 1
        form = etree.SubElement(parent, "form", {"class": "quiz", "data-answer": ",".join(self.letters)})
        self.fieldset = etree.SubElement(form, "fieldset", {"aria-describedby": f"quiz-{self.argument}-question"})
        legend = etree.SubElement(self.fieldset, "legend")
        legend.text = ("多选题" if several else "单选题") + (f" · {self.quiz.title}" if self.quiz.title else "")
        self.tracker["input"] = {"type": "checkbox" if several else "radio", "name": f"quiz-{self.argument}"}
        self.tracker["question"] = f"quiz-{self.argument}-question"
        return form

    def on_add(self, block: etree.Element) -> etree.Element:
        return self.fieldset

    def on_end(self, block: etree.Element) -> None:
        """Finish the form only now: while parts arrive, each must be the last child of the fieldset, and no `ul` may
        stand there, or a quiz in a list item is read as that list's.
        """
        options = etree.SubElement(self.fieldset, "ul", {"class": "quiz__options"})
        for item in self.fieldset.findall("div[@class='quiz__option']"):
            self.fieldset.remove(item)
            options.append(item)
            item.tag, item.attrib = "li", {}
        explanation = self.fieldset.find("div[@class='quiz__explanation']")
        etree.SubElement(block, "button", {"type": "submit"}).text = "提交"
        etree.SubElement(block, "div", {"class": "quiz__feedback", "role": "status", "aria-live": "polite"})
        details = etree.SubElement(block, "details", {"class": "quiz__answer"})
        etree.SubElement(details, "summary").text = "答案与解析"
        answer = etree.SubElement(details, "p")
        answer.text = "答案：" + ("、".join(self.letters) or "—")
        if self.fault:
            fault = etree.SubElement(block, "div", {"class": "course-problems", "role": "alert"})
            etree.SubElement(fault, "p").text = AtomicString("✗ " + self.fault)
        if explanation is not None:
            self.fieldset.remove(explanation)
            details.append(explanation)


class QuestionBlock(Block):
    NAME = "quiz-question"

    def on_create(self, parent: etree.Element) -> etree.Element:
        return etree.SubElement(parent, "div", {"class": "quiz__question", "id": self._block_mgr.trackers["quiz"]["question"]})


class OptionBlock(Block):
    """One option. Argument: its letter."""

    NAME = "quiz-option"
    ARGUMENT = True

    def on_create(self, parent: etree.Element) -> etree.Element:
        item = etree.SubElement(parent, "div", {"class": "quiz__option"})
        label = etree.SubElement(item, "label")
        attributes = self._block_mgr.trackers["quiz"]["input"]
        etree.SubElement(label, "input", {**attributes, "value": self.argument})
        etree.SubElement(label, "span", {"class": "quiz__letter"}).text = self.argument
        self.text = etree.SubElement(label, "div", {"class": "quiz__text"})
        return item

    def on_add(self, block: etree.Element) -> etree.Element:
        return self.text


class ExplanationBlock(Block):
    NAME = "quiz-explanation"

    def on_create(self, parent: etree.Element) -> etree.Element:
        return etree.SubElement(parent, "div", {"class": "quiz__explanation"})
