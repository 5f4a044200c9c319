"""The code blocks of a page, in the chains that run together, and the values that the page asks of them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

from courseware.page import Comment, Fence, Page

DIRECTIVE = re.compile(r"<!--[-\s]*pytest-codeblocks:(?P<word>.*?)[-\s]*-->")
QUIZ_KEY = re.compile(r"^\s*答案\s*[:：]\s*=\s*(?P<name>\w+)\s*$", re.MULTILINE)


@dataclass
class Block:
    """One fence that has a record: a Python block of a known kind, or pseudo-code."""

    page: str
    heading: str
    fence: Fence
    kind: str
    number: int  # 1-based, counting the blocks of the page
    expected: str | None = None  # what it must print, exactly

    @property
    def line(self) -> int:
        return self.fence.line

    @property
    def code(self) -> str:
        return self.fence.code


@dataclass
class Chain:
    """Blocks that run in one process, each continuing the one before; most chains have one block."""

    blocks: list[Block] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return self.blocks[0].kind

    @property
    def page(self) -> str:
        return self.blocks[0].page

    @property
    def line(self) -> int:
        """Opening line of the first fence: what names the chain in pytest-codeblocks."""
        return self.blocks[0].line

    @property
    def codes(self) -> list[str]:
        return [block.code for block in self.blocks]

    @property
    def key(self) -> str:
        """Identity of the chain by its text alone, so that rendering finds its record without knowing the page."""
        expected = [block.expected for block in self.blocks]
        return hashlib.sha256(repr((self.kind, self.codes, expected)).encode()).hexdigest()


def directive(comment: Comment) -> str:
    """`cont`, `expected-output`, … or the text itself where it is another mark."""
    match = DIRECTIVE.match(comment.text)
    return match["word"].strip("- ") if match else comment.text


def following_fence(page: Page, comment: Comment) -> Fence | None:
    """The fence that a directive stands right before (blank lines and other directives between them allowed)."""
    directives = {other.line for other in page.comments}
    for number in range(comment.line + 1, len(page.lines) + 1):
        for fence in page.fences:
            if fence.line == number and not fence.commented:
                return fence
        if page.lines[number - 1].strip() and number not in directives:
            return None
    return None


def chains(page: Page) -> list[Chain]:
    """The chains of a page in order. Misplaced directives are left out here; the checker names them."""
    continued, pinned = {}, {}
    for comment in page.comments:
        fence = following_fence(page, comment)
        if fence is not None:
            {"cont": continued, "expected-output": pinned}.get(directive(comment), {})[fence.line] = fence
    found: list[Chain] = []
    last: Block | None = None
    number = 0
    for fence in page.fences:
        if fence.line in pinned:
            if last is not None:
                last.expected = fence.code
            continue
        if fence.kind is None or fence.commented:
            continue
        number += 1
        block = Block(page.path, fence.heading, fence, fence.kind, number)
        if fence.line in continued and found and last is not None and last.kind == fence.kind:
            found[-1].blocks.append(block)
        else:
            found.append(Chain([block]))
        last = block
    return found


def wanted_values(page: Page) -> list[str]:
    """`NAME` or `NAME:FORMAT` of each value the page takes from its Runnable chains, quiz keys included."""
    specs = [spec for _, what, spec in page.values if what == "value"]
    return sorted(set(specs) | {match["name"] for match in QUIZ_KEY.finditer(page.prose)})
