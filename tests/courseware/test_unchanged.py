"""The last ledger is taken over exactly while nothing that it was made from has changed."""

import os
import shutil

import pytest

from courseware import unchanged
from courseware.project import Project

from .conftest import python

GOOD = "# 题\n\n" + python("from snippets.one import f\nprint(f())")


@pytest.fixture
def built(course):
    course.write("snippets/one.py", "def f():\n    return 1\n")
    course.write("docs/evidence/a.json", "{}")
    course.page(GOOD)
    project = Project(course.root)
    course.write(".courseware/runs.json", "{}")
    course.write(".courseware/ledger.json", '{"chains": {"made": 1}}')
    course.write(".courseware/compiled/a/f/sm_90.html", "")
    unchanged.keep(project, unchanged.inputs(project))
    return course


def kept(course) -> dict | None:
    project = Project(course.root)
    return unchanged.kept(project, unchanged.inputs(project))


def test_it_is_taken_over_while_nothing_changes(built):
    assert kept(built)["chains"] == {"made": 1}
    built.write("site/index.html", "built")
    built.write("snippets/__pycache__/one.pyc", "made by running")
    os.utime(built.page(GOOD))
    assert kept(built)


CHANGED = [
    "docs/index.md", "docs/two.md", "docs/evidence/a.json", "snippets/one.py", "snippets/two.py", "kernels/__init__.py", "mkdocs.yml",
    "beside/notes.txt", ".courseware/runs.json", ".courseware/ledger.json", ".courseware/compiled/b/f/sm_90.html",
]  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_any_change_ends_that(built, name):
    path = built.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((path.read_text("utf-8") if path.exists() else "") + " ", "utf-8")
    assert kept(built) is None


@pytest.mark.parametrize("name", ["docs/evidence/a.json", "snippets/one.py", ".courseware/runs.json", ".courseware/ledger.json", ".courseware/compiled", ".courseware/checked"])
def test_so_does_what_is_gone(built, name):
    path = built.root / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert kept(built) is None


def test_contents_decide_not_times(built):
    path = built.root / "snippets" / "one.py"
    told = path.stat()
    path.write_text(path.read_text("utf-8").replace("1", "2"), "utf-8")
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns))
    assert kept(built) is None


def test_other_versions_and_other_days_end_it(built, monkeypatch):
    monkeypatch.setattr("courseware.unchanged.environment", lambda: {"torch": "9.9"})
    assert kept(built) is None


def test_a_change_while_the_build_ran_is_noticed_by_the_next(built):
    project = Project(built.root)
    before = unchanged.inputs(project)
    built.page(GOOD + "字\n")
    unchanged.keep(project, before)
    assert kept(built) is None


def test_a_rebuild_gives_the_same_site_and_a_fault_is_told_each_time(course):
    course.write("snippets/one.py", "def f():\n    return 1\n")
    course.page(GOOD)
    assert course.build().returncode == 0
    first, ledger = course.files(), course.root / ".courseware" / "ledger.json"
    written = ledger.stat().st_mtime_ns
    assert course.build().returncode == 0
    before = course.files()
    assert [name for name in first if first[name] != before[name]] in (["index.html"], [])  # it tells when it was built
    assert ledger.stat().st_mtime_ns == written, "the ledger was put together again"
    course.page(GOOD + "\n:::nothing\n:::\n")
    for _ in range(2):
        process = course.build()
        assert process.returncode != 0 and "docs/index.md" in process.stderr and course.files() == before
    course.page(GOOD + "\n[坏](missing.md)\n\n<a href='gone.html'>坏</a>\n")
    for _ in range(2):
        assert course.build().returncode != 0 and course.files() == before
    course.page(GOOD)
    assert course.build().returncode == 0 and course.files().keys() == before.keys()
    (course.root / ".courseware" / "runs.json").unlink()
    process = course.build()
    assert process.returncode == 0 and "运行" in process.stderr, "what was forgotten runs again"
