"""docs/lab-notebook.ipynb is what scripts/make_notebook.py makes of snippets/, and runs where there is only numpy."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from .scripts import load

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def maker():
    return load("make_notebook")


@pytest.fixture(scope="module")
def cells(maker):
    return maker.notebook()["cells"]


def source(cell):
    return "".join(cell["source"])


def test_the_committed_file_is_the_generated_one(maker):
    assert maker.TARGET.read_text("utf-8") == maker.text(), "run scripts/make_notebook.py"


def test_it_is_a_valid_notebook_without_outputs(maker):
    parsed = nbformat.reads(maker.text(), as_version=4)
    nbformat.validate(parsed)
    assert (parsed.nbformat, parsed.nbformat_minor, parsed.metadata.kernelspec.name) == (4, 5, "python3")
    assert parsed.metadata.generator == "scripts/make_notebook.py"
    code = [cell for cell in parsed.cells if cell.cell_type == "code"]
    assert code and all(cell.execution_count is None and not cell.outputs for cell in code)


def test_ids_are_distinct_and_named(cells):
    ids = [cell["id"] for cell in cells]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[a-z-]+", name) for name in ids)


def test_headings_start_with_the_only_title_and_skip_no_level(cells):
    text = "\n".join(source(cell) for cell in cells if cell["cell_type"] == "markdown")
    levels = [len(marks) for marks in re.findall(r"^(#+) ", text, re.MULTILINE)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:]))


def test_text_needs_no_script_to_read(cells):
    """Formulas in $…$ would need MathJax on the site: the texts write them in plain characters."""
    assert not any("$" in source(cell) or "<" in source(cell) for cell in cells if cell["cell_type"] == "markdown")


def test_it_imports_only_numpy_and_the_standard_library(cells):
    tree = ast.parse("\n".join(source(cell) for cell in cells if cell["cell_type"] == "code"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= {"numpy", *sys.stdlib_module_names}


@pytest.mark.parametrize("name", ["checks", "online_softmax", "attention", "lab"])
def test_a_module_is_taken_over_whole(maker, name):
    """Its syntax tree is the module's own, apart from the docstring and what the cells before provide."""
    original = ast.parse((ROOT / "snippets" / f"{name}.py").read_text("utf-8")).body[1:]
    kept = [node for node in original if not (isinstance(node, ast.ImportFrom) and node.module.startswith("snippets"))]
    assert [ast.dump(node) for node in ast.parse(maker.module(name)).body] == [ast.dump(node) for node in kept]
    assert "8<" not in maker.module(name)


def test_no_name_is_defined_twice_with_different_meanings(maker):
    """All cells share one namespace, so a second `def` of a name would change what the first module calls."""
    seen = {}
    for name in ("checks", "online_softmax", "attention", "lab"):
        for node in ast.parse(maker.module(name)).body:
            for defined in _defined(node):
                assert defined not in seen, f"{defined}: {seen.get(defined)} and {name}"
                seen[defined] = name


def _defined(node):
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    return [target.id for target in node.targets if isinstance(target, ast.Name)] if isinstance(node, ast.Assign) else []


@pytest.mark.parametrize(
    "line", ["import snippets.attention", "from snippets import attention", "from snippets.checks import positive as p",
             "from snippets.checks import *", "from .checks import positive"]
)
def test_an_import_that_cannot_be_unfolded_is_refused(maker, monkeypatch, tmp_path, line):
    (tmp_path / "snippets").mkdir()
    (tmp_path / "snippets" / "x.py").write_text(f'"""X."""\n\n{line}\n', "utf-8")
    monkeypatch.setattr(maker, "ROOT", tmp_path)
    with pytest.raises(ValueError, match="第 3 行：笔记本只能展开"):
        maker.module("x")


def test_it_runs_alone(maker, tmp_path):
    """All code cells in one namespace, in a folder where nothing of the project lies; every exercise is still to do."""
    code = "\n\n".join(source(cell) for cell in maker.notebook()["cells"] if cell["cell_type"] == "code")
    (tmp_path / "cells.py").write_text(code, "utf-8")
    blocked = "import sys; sys.modules['snippets'] = sys.modules['torch'] = None; exec(open('cells.py', encoding='utf-8').read())"
    done = subprocess.run([sys.executable, "-c", blocked], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("还没写") == 4 and "通过" not in done.stdout


def test_the_file_is_plain_json_in_utf8(maker):
    data = maker.TARGET.read_bytes()
    assert data.endswith(b"\n") and b"\\u" not in data and b"\r" not in data
    json.loads(data)
