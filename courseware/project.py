"""A course project on disk: its pages, notebooks and demos, whatever chapter they teach."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from courseware.doctest.blocks import Chain, chains, wanted_values
from courseware.doctest.fingerprint import Sources
from courseware.page import Page, PageError, read

DEMO_DATA = re.compile(r"\{#-?\s*data:\s*(?P<call>[\w.]+)\s*(?P<arguments>\{.*\})?\s*-?#\}")


@dataclass(frozen=True)
class Demo:
    """A demo's static figure, or a picture: the call that computes its data, named in the template's first line."""

    name: str
    template: Path
    call: str  # dotted name of the function, "" when the first line does not say
    arguments: dict | None  # None when they are no JSON object

    @property
    def module(self) -> str:
        return self.call.rpartition(".")[0]

    @property
    def callable(self) -> bool:
        return bool(self.module) and self.arguments is not None


def notebook_fault(path: Path) -> tuple[int, str, str] | None:
    """(line, fault, remedy) of a file that is no notebook of format 4, as far as anyone here relies on it."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except UnicodeDecodeError:
        return 1, "不是 UTF-8 编码", "请另存为 UTF-8"
    except json.JSONDecodeError as error:
        return error.lineno, f"不是有效的 JSON：{error.msg}", "改正这一行，或重新生成文件"
    remedy = "用 Jupyter 另存为第 4 版格式"
    if not (isinstance(data, dict) and isinstance(data.get("cells"), list) and data.get("nbformat") == 4):
        return 1, "不是笔记本（缺少 cells 或 nbformat 不是 4）", remedy
    if not isinstance(data.get("metadata"), dict):
        return 1, "笔记本缺少 metadata", remedy
    for number, cell in enumerate(data["cells"], 1):
        if not _is_cell(cell):
            return 1, f"笔记本的第 {number} 个单元缺少 cell_type、source、metadata 或 outputs", remedy
    return None


def _is_cell(cell: object) -> bool:
    if not isinstance(cell, dict) or cell.get("cell_type") not in ("code", "markdown", "raw"):
        return False
    source = cell.get("source")
    lines = source if isinstance(source, list) else [source]
    outputs = cell["cell_type"] != "code" or isinstance(cell.get("outputs"), list)
    return all(isinstance(line, str) for line in lines) and isinstance(cell.get("metadata"), dict) and outputs


class Project:
    """`root` holds docs/, snippets/ and kernels/. Everything is read once; make a new Project to read again."""

    def __init__(self, root: Path, docs: Path | None = None):
        self.root = root.resolve()
        self.docs = (docs or self.root / "docs").resolve()
        self._sources_of: dict[str, list[str]] = {}  # by the chain's key

    @property
    def state(self) -> Path:
        """Folder of the working ledger; outside docs/, where each write would start another rebuild."""
        return self.root / ".courseware"

    @property
    def executed(self) -> Path:
        """Folder of the executed copies of notebooks, each where its source lies below docs/."""
        return self.state / "notebooks"

    @cached_property
    def sources(self) -> Sources:
        return Sources(self.root)

    def shown(self, path: Path) -> str:
        """The path as messages name it: from the root where it lies below it."""
        return os.path.relpath(path, self.root) if path.is_relative_to(self.root) else str(path)

    def page_name(self, path: str) -> str:
        """`page` of a record, relative to docs/, from a path as messages show it."""
        return Path(os.path.relpath(self.root / path, self.docs)).as_posix()

    def files(self, pattern: str) -> list[Path]:
        """Files of docs/ that match, hidden folders left out."""
        found = sorted(self.docs.rglob(pattern))
        shown = (p for p in found if not any(part.startswith(".") for part in p.relative_to(self.docs).parts))
        return [p for p in shown if p.is_file()]

    @cached_property
    def pages(self) -> list[Page]:
        """Pages that can be read; the checker names the others."""
        found = []
        for path in self.files("*.md"):
            with suppress(PageError):
                found.append(read(path, self.shown(path)))
        return found

    @cached_property
    def chains(self) -> list[tuple[Page, Chain]]:
        return [(page, chain) for page in self.pages for chain in chains(page)]

    @cached_property
    def _wanted(self) -> dict[str, set[str]]:
        asked = {id(page): wanted_values(page) for page in self.pages}
        found: dict[str, set[str]] = {}
        for page, chain in self.chains:
            found.setdefault(chain.key, set()).update(asked[id(page)])
        return found

    def wanted(self, chain: Chain) -> list[str]:
        """Values to take from a chain: what is asked by each page that has it, since they share its record."""
        return sorted(self._wanted.get(chain.key, ()))

    def block_sources(self, chain: Chain) -> list[str]:
        """Source hash of each block of a chain: its code, those it continues, the modules they reach."""
        if chain.key not in self._sources_of:
            codes = chain.codes
            pinned = [block.expected or "" for block in chain.blocks]
            self._sources_of[chain.key] = [
                self.sources.source(*codes[: end + 1], kind=chain.kind + "\0".join(pinned[: end + 1]))
                for end in range(len(codes))
            ]
        return self._sources_of[chain.key]

    @cached_property
    def notebooks(self) -> list[Path]:
        """Notebooks that can be read; the checker names the others."""
        return [path for path in self.files("*.ipynb") if not notebook_fault(path)]

    def notebook_source(self, path: Path) -> str:
        """Hash over the code cells; text cells and old outputs do not make a record stale."""
        cells = json.loads(path.read_text("utf-8"))["cells"]
        codes = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        return self.sources.source(*codes, kind="notebook")

    @cached_property
    def demos(self) -> dict[str, Demo]:
        """By name: NAME of a demo's NAME.html.j2, NAME.svg of a picture's NAME.svg.j2."""
        found, assets = {}, self.docs / "assets"
        for path in sorted([*assets.glob("demos/*.html.j2"), *assets.glob("pictures/*.svg.j2")]):
            with path.open(encoding="utf-8", errors="replace") as lines:
                match = DEMO_DATA.match(lines.readline())
            name = path.name.removesuffix(".j2").removesuffix(".html")
            try:
                arguments = json.loads(match["arguments"] or "{}") if match else {}
            except json.JSONDecodeError:
                arguments = None
            found[name] = Demo(name, path, match["call"] if match else "", arguments)
        return found

    def demo_source(self, demo: Demo) -> str:
        call = f"import {demo.module}\n{demo.call}(**{demo.arguments!r})" if demo.module else ""
        return self.sources.source(call, kind="demo")
