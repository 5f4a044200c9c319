"""Read one page of the course's Markdown dialect: what stands on which line, nothing executed, nothing rendered.

The checker, the doc-test and the Markdown extensions all see a page through `scan`, so they cannot disagree about
where a fence ends or what a colon row closes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

FENCE = re.compile(r"(?P<prefix>[ \t>]*)(?P<marker>`{3,}|~{3,})(?P<info>.*)$")
CONTAINER = re.compile(r"(?P<colons>:{3,})[ \t]*(?P<name>[^\s:]*)[ \t]*(?P<title>.*?)[ \t]*$")
ITEM = re.compile(r"(?P<marker>[-*+]|\d{1,9}[.)])(?P<gap>[ \t]+)(?=\S)")
HEADING = re.compile(r"(?P<level>#{1,6})[ \t]+(?P<text>.*?)[ \t]*#*[ \t]*$")
RULE = re.compile(r"([-*_])([ \t]*\1){2,}[ \t]*$")
CODE_SPAN = re.compile(r"(?<![\\`])(`+)(?!`)((?:(?!\n[ \t]*\n).)+?)(?<!`)\1(?!`)", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
HIDDEN = re.compile(f"{CODE_SPAN.pattern}|{COMMENT.pattern}", re.DOTALL)  # whichever begins first holds the other
# A line that begins a part of a quiz: an option's letter, or the answer, or the explanation. "A、B 两块" is none.
QUIZ_PART = re.compile(
    r"(?:(?P<letter>[A-ZＡ-Ｚ])(?:[.)](?![A-Za-z])|[．）]|、(?!\s*[A-Z](?![\w^$])))|(?P<word>答案|解析)\s*[:：])[ \t\u3000]*"
)
KIND_LINE = re.compile(r"\s*#\s*类型\s*[：:]\s*(?P<rest>.*)$")
KIND = re.compile(r"【(?P<label>[^】]*)】\s*(?P<note>.*)$")
VALUE = re.compile(r"\{\{\s*(?P<what>value|record)\s*:(?P<spec>[^{}\n]*)\}\}")
PICTURE = re.compile(r"!\[[^\[\]]*\]\((?P<target>[^()\s]*\.svg\.j2)\)")
# MkDocs' own pattern; the block must also be a mapping, else MkDocs leaves a page that begins with a rule as it is.
FRONT_MATTER = re.compile(r"-{3}[ \t]*\n(?P<yaml>(?:[ \t]*(?:#.*)?\n)*[\w\"'][^\n:]*:(?=\s).*?\n)(?:\.{3}|-{3})[ \t]*\n", re.DOTALL)
FORMULA = re.compile(r"(?<!\\)(?:\$\$|\\\[|\\begin\{(?P<env>[a-z]+\*?)\})")
WHOLE_FORMULA = re.compile(r"(?<!\\)(?:\$\$(?:\\.|[^\\])+?\$\$|\\\[.+?\\\]|\\begin\{([a-z]+\*?)\}.*?\\end\{\1\})")
LISTING = re.compile(r"\s*-+8<-+\s+(?P<quote>[\"'])(?P<target>.+?)(?P=quote)\s*$")

PROGRESS = "[PROGRESS]"  # a paragraph that becomes the overview of what was read
COMPILED = "[COMPILED]"  # a paragraph that becomes the tables of what each kernel was compiled to
KINDS = {"Runnable": "runnable", "Runnable on CUDA": "cuda", "Skeleton": "skeleton"}


class PageError(ValueError):
    """A page that cannot be read at all (not UTF-8); the message names file, line and remedy."""


@dataclass
class Fence:
    """A fenced code block; `line` is its opening line, `code` is dedented and ends with a newline unless empty."""

    line: int
    prefix: str
    marker: str
    info: str
    end: int = 0  # closing line, 0 when the fence is never closed
    lines: list[str] = field(default_factory=list)
    depth: int = 0  # list items around it
    level: int = 0  # containers around it
    commented: bool = False
    heading: str = ""

    @property
    def code(self) -> str:
        return "".join(line + "\n" for line in self.lines)

    @property
    def language(self) -> str:
        """The language that is rendered, also from the attribute form `{.python …}`."""
        return re.split(r"[\s,{}]", self.info.strip().lstrip("{").strip().lstrip("."), maxsplit=1)[0]

    @property
    def listing(self) -> str | None:
        """Target of a `--8<--` listing when that is all the fence holds."""
        body = [line for line in self.lines if line.strip()]
        match = LISTING.match(body[0]) if len(body) == 1 else None
        return match["target"] if match else None

    @property
    def kind(self) -> str | None:
        """runnable, cuda, skeleton, pseudo; None for plain text, a listing, or Python without a known kind."""
        if self.language == "pseudo":
            return "pseudo"
        label = self.label
        return KINDS.get(label) if label is not None and self.info.strip() == "python" else None

    @property
    def _kind_line(self) -> re.Match | None:
        return KIND_LINE.match(self.lines[0]) if self.lines else None

    @property
    def label(self) -> str | None:
        """Text between 【 and 】 of the first line, None without a 类型 line."""
        line = self._kind_line
        match = KIND.match(line["rest"]) if line else None
        return match["label"].strip() if match else ("" if line else None)

    @property
    def note(self) -> str:
        line = self._kind_line
        match = KIND.match(line["rest"]) if line else None
        return match["note"].strip() if match else ""


@dataclass
class Container:
    """A `:::name title` container, from its opening to its closing line (`end` 0 when never closed)."""

    line: int
    colons: int
    name: str
    title: str
    depth: int  # list items around it
    level: int  # containers around it
    end: int = 0


@dataclass
class Comment:
    """A directive to pytest-codeblocks (an HTML comment that it would act upon)."""

    line: int
    text: str


@dataclass
class Heading:
    line: int
    level: int
    text: str


@dataclass
class Page:
    """What `scan` found. `out` is the same page in the form that pymdown-extensions reads safely (see `scan`)."""

    path: str
    text: str
    lines: list[str]
    fences: list[Fence] = field(default_factory=list)
    containers: list[Container] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    headings: list[Heading] = field(default_factory=list)
    stray_closers: list[int] = field(default_factory=list)
    out: list[Fence | Container | Closer | Text] = field(default_factory=list)

    @cached_property
    def prose(self) -> str:
        """The text with fences, comments and code spans blanked, every offset and line kept."""
        lines = list(self.lines)
        for fence in self.fences:
            for number in range(fence.line, (fence.end or len(lines)) + 1):
                lines[number - 1] = " " * len(lines[number - 1])
        text = "\n".join(lines)
        return HIDDEN.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)

    def line_of(self, offset: int) -> int:
        """Line number of an offset into `prose`."""
        return self.prose.count("\n", 0, offset) + 1

    @cached_property
    def pictures(self) -> list[tuple[int, str]]:
        """(line, target) of each image that is a picture's template."""
        return [(self.line_of(m.start()), m["target"]) for m in PICTURE.finditer(self.prose)]

    @cached_property
    def values(self) -> list[tuple[int, str, str]]:
        """(line, "value" | "record", spec) of each `{{…}}` reference outside code."""
        return [(self.line_of(m.start()), m["what"], m["spec"].strip()) for m in VALUE.finditer(self.prose)]


@dataclass
class Text:
    """A line outside fences; `part` is the letter, 答案 or 解析 where it begins a part of a quiz."""

    line: int  # of the page, 0 for a blank line that the page does not have
    text: str
    part: str = ""


@dataclass
class Closer:
    line: int
    container: Container


def body(out: list[Fence | Container | Closer | Text], index: int) -> list[Fence | Container | Closer | Text]:
    """The pieces inside the container at `out[index]`: up to its closer, or where one around it closes, or the end."""
    inside = {id(out[index])}
    for position in range(index + 1, len(out)):
        piece = out[position]
        if isinstance(piece, Container):
            inside.add(id(piece))
        elif isinstance(piece, Closer) and (piece.container is out[index] or id(piece.container) not in inside):
            return out[index + 1 : position]
    return out[index + 1 :]


def shows(page: Page, marker: str) -> bool:
    """Whether a marker stands alone on a line of the page, outside code."""
    return any(isinstance(piece, Text) and piece.text.strip() == marker for piece in page.out)


def read(path: Path, shown: str | None = None) -> Page:
    """Scan a file. Raises PageError with line and remedy when it is not UTF-8."""
    shown = shown or str(path)
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PageError(f"{shown}:{line}: 不是 UTF-8 编码（字节 0x{data[error.start]:02x}）；请另存为 UTF-8") from None
    return scan(text, shown)


@lru_cache(maxsize=64)  # checker and runner look at the same pages; nobody changes one that was scanned
def scan(text: str, path: str = "") -> Page:
    """Split a page into fences, containers and text.

    Lists are followed as CommonMark has them (content starts where the item's text starts); `Page.out` re-indents them
    by four columns a level, which is what Python-Markdown needs, and gives each fence and container its own clean lines.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    page = Page(path, text, text.split("\n"))
    _Scanner(page).run()
    return page


def _columns(line: str) -> tuple[int, str]:
    """Leading columns of a line (a tab reaches the next multiple of four) and the rest."""
    stripped = line.lstrip(" \t")
    return len(line[: len(line) - len(stripped)].expandtabs(4)), stripped


@dataclass
class _Item:
    """An open list item: columns of its marker and of its text."""

    marker: int
    content: int
    ordered: bool


@dataclass
class _Open:
    """An open container, with what to return to when it closes."""

    container: Container
    items: list[_Item]  # list items around it
    base: int  # column of the container around it
    column: int  # its own
    part: str = ""  # quiz: the part going on
    indented: bool = False  # quiz: may the next line set how far this part's body is indented?


class _Scanner:
    """One pass over the lines, with the open list items and containers as its stack."""

    def __init__(self, page: Page):
        self.page = page
        self.items: list[_Item] = []  # open in the innermost container
        self.open: list[_Open] = []
        self.base = 0  # column at which the innermost container's text starts
        self.heading = ""
        self.blank = True  # was the line before blank?
        self.code = False  # was it indented code?
        self.paragraph: int | None = None  # list depth of the paragraph going on; -1 in an item's own text

    def run(self) -> None:
        index = self._front_matter()
        while index < len(self.page.lines):
            index = self._line(index)

    @property
    def depth(self) -> int:
        return sum(len(level.items) for level in self.open) + len(self.items)

    def _front_matter(self) -> int:
        match = FRONT_MATTER.match(self.page.text)
        count = len(match[0].rstrip("\n").split("\n")) if match else 0
        self.page.out += [Text(n + 1, self.page.lines[n]) for n in range(count)]
        return count

    def _line(self, index: int) -> int:
        """Handle the line at `index`; return the index of the next one."""
        line = self.page.lines[index]
        if not line.strip():
            self._emit(index, "")
            self.blank, self.paragraph = True, None
            return index + 1
        if line.lstrip().startswith("<!--"):
            return self._comment(index)
        columns, rest = _columns(line)
        code_before, self.code = self.code, False
        if following := self._quiz_part(index, columns, rest):
            return following
        fence = FENCE.match(line)
        if fence and "`" in fence["marker"] and "`" in fence["info"]:
            fence = None  # a code span, not a fence
        item = None if RULE.match(rest) else ITEM.match(rest)
        opener = CONTAINER.match(rest)
        starts = fence or item or opener or HEADING.match(rest)
        if starts or self.paragraph is None:  # otherwise a lazy continuation: stays in its item
            self._leave_items(columns, item)
        inside = columns - (self.items[-1].content if self.items else self.base)  # columns beyond the item's content
        quoted = fence and ">" in fence["prefix"]
        if rest.startswith(">") and not fence and inside < 4:
            return self._quote(index)
        if fence and (inside < 4 or quoted):
            return self._fence(index, fence)
        if opener and inside < 4:
            return self._container(index, columns, opener)
        following = index + 1
        if item and (inside < 4 or not (self.blank or code_before)):
            rest, following = self._whole_formula(index, rest)
            self._item(index, columns, rest, item)
        elif inside >= 4 and self.paragraph is None:
            code = columns - 4 * self.depth  # as Python-Markdown counts, where that still makes it code
            self._emit(index, " " * (code if code >= 4 else inside) + rest)
            self.code = True
        else:
            rest, following = self._whole_formula(index, rest)
            self._plain(index, rest)
        self.blank = False
        return following

    def _whole_formula(self, index: int, rest: str) -> tuple[str, int]:
        """A line that begins a formula, joined with the formula's other lines, and the index of the line after.

        In LaTeX a line break is a space, while Markdown would take `- b` or `# b` at a line's start for its own. A
        formula ends with its paragraph at the latest, or it is none.
        """
        lines, joined = self.page.lines, [re.sub(r"(?<!\\)%.*", "", rest)]
        opening = next(FORMULA.finditer(WHOLE_FORMULA.sub("", CODE_SPAN.sub("", rest))), None)
        if not opening:
            return rest, index + 1
        closing = {"$$": "$$", "\\[": "\\]"}.get(opening[0]) or f"\\end{{{opening['env']}}}"
        for number in range(index + 1, len(lines)):
            text = lines[number].strip()
            if not text or CONTAINER.match(text):
                break
            if closing in text:
                return " ".join([*joined, text]), number + 1
            joined.append(re.sub(r"(?<!\\)%.*", "", text))
        return rest, index + 1

    def _quiz_part(self, index: int, columns: int, rest: str) -> int | None:
        """Begin a part of a quiz if this line does, and return the index of the line after; otherwise let the line
        say how far the part's body is indented."""
        level = self.open[-1] if self.open else None
        if level is None or level.container.name != "quiz":
            return None
        part = QUIZ_PART.match(rest)
        if part and columns - level.column < 4 and level.part != "解析":
            self.items, self.base = [], level.column
            level.part, level.indented = part["letter"] or part["word"], True
            rest, following = self._whole_formula(index, rest)
            self.page.out.append(Text(index + 1, " " * 4 * self.depth + rest, level.part))
            self.blank, self.paragraph = False, 0
            return following
        if level.indented and columns > level.column:
            self.base, level.indented = min(columns, level.column + 4), False
        return None

    def _leave_items(self, columns: int, item: re.Match | None) -> None:
        """Close the items that a line at this column has left, leaving a blank line where another kind of list begins.

        Two columns are enough for bullets under `1.`, or numbers under a bullet, although CommonMark wants three.
        """
        ordered = bool(item) and item["marker"][0].isdigit()
        left = None
        while self.items and columns < self.items[-1].content:
            if item and ordered != self.items[-1].ordered and columns >= self.items[-1].marker + 2:
                break
            left = self.items.pop()
        if item and left and left.ordered != ordered and not self.blank:
            self._emit(-1, "")

    def _emit(self, index: int, text: str) -> None:
        self.page.out.append(Text(index + 1, " " * 4 * self.depth + text if text else ""))

    def _plain(self, index: int, rest: str) -> None:
        heading = HEADING.match(rest) if self.depth == 0 else None
        if heading:
            self.heading = re.sub(r"\s*\{[^{}]*\}\s*$", "", heading["text"])
            self.page.headings.append(Heading(index + 1, len(heading["level"]), self.heading))
        elif not self.blank and self._starts_table(index, rest):
            self._emit(index, "")
            self.paragraph = None
        self._emit(index, rest)
        if heading or rest.startswith(("|", "<")):
            self.paragraph = None
        elif self.paragraph is None:
            self.paragraph = len(self.items)

    def _quote(self, index: int) -> int:
        """Quoted lines, up to a fence among them: read like a page of their own, so that lists work there too."""
        lines, start = self.page.lines, index
        while index < len(lines) and lines[index].lstrip().startswith(">") and (index == start or not FENCE.match(lines[index])):
            index += 1
        inner = Page("", "", [re.sub(r"^\s*>[ \t]?", "", line) for line in lines[start:index]])
        _Scanner(inner).run()
        if not self.blank:
            self._emit(start, "")
        for piece in inner.out:
            text = piece.text if isinstance(piece, Text) else inner.lines[piece.line - 1]
            self._emit(start + piece.line - 1, f"> {text}".rstrip())
        self.blank, self.paragraph = False, None
        return index

    def _starts_table(self, index: int, rest: str) -> bool:
        following = self.page.lines[index + 1] if index + 1 < len(self.page.lines) else ""
        return "|" in rest and "|" in following and bool(re.fullmatch(r"\s*\|?[\s:|-]*-[\s:|-]*", following))

    def _item(self, index: int, columns: int, rest: str, item: re.Match) -> None:
        """A list item. Python-Markdown wants a blank line before it, except after another item's own text."""
        if self.paragraph == len(self.items) and item["marker"][0].isdigit() and len(item["marker"]) > 3:
            self._plain(index, rest)  # "2023. …" in the middle of a sentence
            return
        if not self.blank and self.paragraph != -1:
            self._emit(index, "")
        marker = columns + len(item["marker"])
        gap = len((" " * marker + item["gap"]).expandtabs(4)) - marker  # a tab reaches the next multiple of four
        self._emit(index, f"{item['marker'].replace(')', '.')} {rest[item.end():]}")
        content = columns + len(item["marker"]) + (gap if gap <= 4 else 1)
        self.items.append(_Item(columns, content, item["marker"][0].isdigit()))
        self.paragraph = -1

    def _comment(self, index: int) -> int:
        """An HTML comment, to its end. It renders nothing, and a fence inside is noted as one that nothing renders."""
        lines, end = self.page.lines, index
        while "-->" not in lines[end] and end + 1 < len(lines):
            end += 1
        if re.match(r"\s*<!--[-\s]*(pytest-codeblocks:|pytest\.mark\.)", lines[index]):
            self.page.comments.append(Comment(index + 1, lines[index].strip()))
        for number in range(index, end + 1):
            if match := FENCE.match(lines[number]):
                self.page.fences.append(
                    Fence(number + 1, "", match["marker"], match["info"].strip(), end=number + 1, commented=True)
                )
        after = lines[end].partition("-->")[2].strip()
        if after:
            self._plain(end, after)
            self.blank = False
        return end + 1

    def _fence(self, index: int, match: re.Match) -> int:
        lines, quoted = self.page.lines, ">" in match["prefix"]
        fence = Fence(index + 1, match["prefix"], match["marker"], match["info"].strip(), heading=self.heading)
        fence.depth, fence.level = self.depth, len(self.open)
        width = 0 if quoted else len(match["prefix"].expandtabs(4))
        index += 1
        while index < len(lines) and not (quoted and not lines[index].lstrip().startswith(">")):
            content = re.sub(r"^[ \t]*(>[ \t]?)+", "", lines[index]) if quoted else lines[index]
            index += 1
            stripped = content.strip()
            if len(stripped) >= len(fence.marker) and set(stripped) == {fence.marker[0]}:
                fence.end = index
                break
            columns, rest = _columns(content)
            fence.lines.append(" " * max(0, columns - width) + rest if width and columns else content)
        self.page.fences.append(fence)
        self.page.out.append(fence)
        self.blank, self.paragraph = False, None
        return index

    def _container(self, index: int, columns: int, match: re.Match) -> int:
        colons, name = len(match["colons"]), match["name"]
        if not name:
            self._close(index, colons)
        else:
            container = Container(index + 1, colons, name, match["title"], self.depth, len(self.open))
            self.page.containers.append(container)
            self.page.out.append(container)
            self.open.append(_Open(container, self.items, self.base, columns))
            self.items, self.base = [], columns
        self.blank, self.paragraph = True, None
        return index + 1

    def _close(self, index: int, colons: int) -> None:
        for position in range(len(self.open) - 1, -1, -1):
            level = self.open[position]
            if level.container.colons == colons:
                level.container.end = index + 1
                del self.open[position:]
                self.items, self.base = level.items, level.base
                self.page.out.append(Closer(index + 1, level.container))
                return
        self.page.stray_closers.append(index + 1)
        self._emit(index, self.page.lines[index].strip())
