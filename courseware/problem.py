"""A mistake as it is told to an author: its place, what is wrong there, and what would be right."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Problem:
    """One mistake. `path` is as the author types it (docs/page.md); sorting goes by page, then line.

    `detail` is what a block said when it failed: its traceback, or expected against actual output.
    """

    path: str
    line: int
    fault: str
    remedy: str
    detail: str = ""

    def __str__(self) -> str:
        first = f"{self.path}:{self.line}: {self.fault}；{self.remedy}"
        return first + ("\n" + textwrap.indent(self.detail.rstrip(), "    ") if self.detail else "")
