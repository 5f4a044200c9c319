"""The source of a record changes exactly when the code that it reaches changes."""

import pytest

from courseware.doctest.fingerprint import Sources, libraries

FILES = {
    "snippets/__init__.py": "",
    "snippets/base.py": "BASE = 1\n",
    "snippets/middle.py": "from .base import BASE\n",
    "snippets/top.py": "def f():\n    from snippets import middle\n    return middle\n",
    "snippets/other.py": "import numpy\n",
    "snippets/broken.py": "def (:\n",
    "kernels/__init__.py": "from kernels import one\n",
    "kernels/one.py": "import torch.nn as nn\n",
    "kernels/sub/__init__.py": "",
    "kernels/sub/two.py": "from ..one import x\n",
}


@pytest.fixture
def make(tmp_path):
    def make(**changed):
        for name, text in (FILES | {key.replace("__DOT__", "."): text for key, text in changed.items()}).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Sources(tmp_path)

    return make


@pytest.mark.parametrize(
    ("code", "reached"),
    [
        ("x = 1", set()),
        ("import numpy", set()),
        ("import snippets", {"snippets"}),
        ("import snippets.base", {"snippets", "snippets.base"}),
        ("from snippets import base", {"snippets", "snippets.base"}),
        ("from snippets.base import BASE", {"snippets", "snippets.base"}),
        ("from snippets.middle import BASE", {"snippets", "snippets.middle", "snippets.base"}),
        ("from snippets import top", {"snippets", "snippets.top", "snippets.middle", "snippets.base"}),
        ("def f():\n  import snippets.other as o", {"snippets", "snippets.other"}),
        ("from kernels.sub.two import y", {"kernels", "kernels.sub", "kernels.sub.two", "kernels.one"}),
        ("open('snippets/base.py')", {"snippets", "snippets.base"}),
        ("load('snippets.base')", {"snippets", "snippets.base"}),
        ("print('snippets.base is read')", set()),
        ("import snippets.broken", {"snippets", "snippets.broken"}),
        ("import snippets.missing", {"snippets"}),
        ("this is no python", set()),
        ("from snippets import *", {"snippets"} | {f"snippets.{n}" for n in ("base", "middle", "top", "other", "broken")}),
    ],
)
def test_reached_modules(make, code, reached):
    assert make().reached_by(code) == reached


@pytest.mark.parametrize(
    "code",
    ["import importlib", "__import__('snippets.' + name)", "exec(text)", "open('snippets/' + name)", "open('snippets/data.json')"],
)
def test_imports_by_computed_names_reach_everything(make, code):
    sources = make()
    assert sources.reached_by(code) == set(sources.modules)


@pytest.mark.parametrize("module", ["base", "middle", "top"])
def test_a_change_anywhere_in_the_closure_changes_the_source(make, module):
    before = make().source("from snippets import top")
    name = f"snippets/{module}.py"
    assert make(**{name: FILES[name] + "# changed\n"}).source("from snippets import top") != before


def test_a_change_outside_the_closure_does_not(make):
    before = make().source("from snippets import top")
    assert make(**{"snippets/other.py": "changed = 1\n"}).source("from snippets import top") == before


def test_code_kind_and_order_enter_the_source(make):
    sources = make()
    hashes = {sources.source("a", "b"), sources.source("b", "a"), sources.source("ab"), sources.source("a", "b", kind="cuda")}
    assert len(hashes) == 4


def test_libraries_are_found_through_modules(make):
    assert libraries(["import kernels", "import snippets.other"], make(), ("numpy", "torch", "triton")) == ["numpy", "torch"]
    assert libraries(["x = 1"], make(), ("numpy", "torch")) == []
