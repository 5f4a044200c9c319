"""A course project in a temporary folder, for tests of the machinery: any chapter, not ours."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CONFIG = f"""\
site_name: 测试
strict: true
theme: {{name: mkdocs, highlightjs: false}}
plugins: []
markdown_extensions:
  - pymdownx.arithmatex: {{generic: true}}
  - pymdownx.highlight
  - pymdownx.snippets: {{base_path: [.], check_paths: true}}
  - pymdownx.superfences
  - tables
  - courseware.dialect
hooks: [{ROOT / "courseware" / "hook.py"}]
watch: [snippets, kernels]
"""


class Course:
    """`write` files, `build` the site, `doctest` the blocks, all in a folder of its own."""

    def __init__(self, root: Path):
        self.root = root
        self.site = root / "site"
        self.write("mkdocs.yml", CONFIG)
        self.write("snippets/__init__.py", "")
        self.write("kernels/__init__.py", "")
        self.write("pytest.ini", "[pytest]\n")

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), "utf-8")
        return path

    def page(self, text: str, name: str = "index.md") -> Path:
        return self.write(f"docs/{name}", text)

    def run(self, *command: str, seconds: float = 120) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-m", *command],
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
        )

    def build(self, *options: str) -> subprocess.CompletedProcess:
        return self.run("mkdocs", "build", *options)

    def doctest(self, *options: str) -> subprocess.CompletedProcess:
        """The blocks through pytest, as a reader would run them."""
        return self.run("pytest", "--codeblocks", "docs", "-q", *options)

    def files(self) -> dict[str, bytes]:
        """Every file of the built site, by its path."""
        found = sorted(p for p in self.site.rglob("*") if p.is_file())
        return {p.relative_to(self.site).as_posix(): p.read_bytes() for p in found}


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return Course(tmp_path)


def python(code: str, kind: str = "Runnable") -> str:
    """A Python fence of a kind."""
    return f"```python\n# 类型：【{kind}】\n{textwrap.dedent(code).strip()}\n```\n"
