"""Builds as an author or CI sees them: refused with every mistake at once, or swapped in whole."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from .conftest import python

GOOD = "# 题\n\n" + python("print('好')\nx = 3") + "\n值 {{value:x}}\n"


@pytest.fixture
def built(course):
    """A course with a last good site."""
    course.page(GOOD)
    process = course.build()
    assert process.returncode == 0, process.stderr
    return course


def test_a_good_build(built):
    html = built.files()["index.html"].decode()
    assert 'data-status="ran"' in html and "值 3" in html and "好" in html
    report = json.loads(built.files()["verification.json"])
    assert [b["status"] for b in report["blocks"]] == ["ran"]
    assert {"environment", "blocks", "notebooks", "demos", "kernels"} == report.keys()
    assert {"python", "numpy", "torch", "triton", "device", "date"} == report["environment"].keys()
    expected = {"page", "heading", "line", "kind", "status", "seconds", "output", "source", "environment"}
    assert expected <= report["blocks"][0].keys()


REFUSED = {
    "raises": (python("1 / 0"), "ZeroDivisionError"),
    "exits": (python("import os\nos._exit(0)"), "退出码 0"),
    "wrong output": (
        python("print(1)") + "\n<!--pytest-codeblocks:expected-output-->\n\n```\n2\n```\n",
        "expected-output 不同",
    ),
    "container": (":::nothing\n:::\n", "nothing"),
    "value": ("{{value:absent}}\n", "absent"),
    "macro": ("$\\unknownmacro x$\n", "unknownmacro"),
    "link": ("[坏](missing.md)\n", "missing.md"),
    "anchor": ("[坏](#missing)\n", "missing"),
    "raw link": ('<p><a href="gone.html">坏</a></p>\n', "gone.html"),
    "outside": ('<img src="https://example.org/x.png" alt="外">\n', "站外"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_build_names_the_place_and_leaves_the_site_alone(built, case):
    page, words = REFUSED[case]
    before = built.files()
    built.page(GOOD + "\n## 又一节\n\n" + page)
    process = built.build()
    assert process.returncode != 0
    assert words in process.stderr and "docs/index.md:" in process.stderr
    assert built.files() == before
    assert not list(built.root.glob(".site.staging"))
    built.page(GOOD)
    assert built.build().returncode == 0


def test_all_mistakes_of_all_pages_at_once(built):
    built.page(GOOD + "\n" + REFUSED["raises"][0] + "\n:::nothing\n:::\n")
    built.page("# 二\n\n{{value:absent}}\n\n" + python("assert False"), "two.md")
    error = built.build().stderr
    for words in ("docs/index.md:11", "docs/index.md:16", "docs/two.md:3", "docs/two.md:5"):
        assert words in error, error


def test_a_broken_module_fails_the_build_though_no_page_changed(course):
    course.write("snippets/one.py", "def f():\n    return 1\n")
    course.page("# 题\n\n" + python("from snippets.one import f\nassert f() == 1"))
    assert course.build().returncode == 0
    before = course.files()
    course.write("snippets/one.py", "def f():\n    return 2\n")
    process = course.build()
    assert process.returncode != 0 and "AssertionError" in process.stderr and course.files() == before


def test_a_page_that_is_not_utf8_is_refused(built):
    before = built.files()
    (built.root / "docs" / "gbk.md").write_bytes("# 题\n\n正文\n".encode("gbk"))
    process = built.build()
    assert process.returncode != 0 and "docs/gbk.md:1: 不是 UTF-8" in process.stderr
    assert built.files() == before


def test_mkdocs_own_warning_is_strict(built):
    before = built.files()
    config = built.root / "mkdocs.yml"
    config.write_text(config.read_text() + "nav: [{题: index.md}, {无: absent.md}]\n")
    assert built.build().returncode != 0 and built.files() == before


def test_quiet_builds_are_refused(built):
    before = built.files()
    process = built.build("-q")
    assert process.returncode != 0 and "-q" in process.stdout and built.files() == before


def test_site_dir_of_the_command_line_is_used(built):
    assert built.build("--site-dir", "elsewhere").returncode == 0
    assert (built.root / "elsewhere" / "index.html").exists()


def test_files_that_are_gone_leave_the_site(built):
    built.page("# 二\n", "two.md")
    assert built.build().returncode == 0 and "two/index.html" in built.files()
    (built.root / "docs" / "two.md").unlink()
    assert built.build().returncode == 0 and "two/index.html" not in built.files()


def start(course, *command):
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "mkdocs", *command],
        cwd=course.root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.05)
    return found


def test_a_killed_build_leaves_the_site_and_the_next_one_works(built):
    before = built.files()
    running = built.root / "running"
    built.page("# 题\n\n" + python(f"open({str(running)!r}, 'w').close()\nimport time\ntime.sleep(30)"))
    process = start(built, "build")
    wait_for(running.exists)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert built.files() == before
    built.page(GOOD)
    assert built.build().returncode == 0


def test_a_swap_that_was_cut_short_is_mended(built):
    before = built.files()
    built.site.rename(built.root / ".site.old")
    built.page(GOOD + "\n:::nothing\n:::\n")
    assert built.build().returncode != 0
    assert built.files() == before


def test_two_builds_at_once(built):
    running = built.root / "running"
    built.page("# 题\n\n" + python(f"open({str(running)!r}, 'w').close()\nimport time\ntime.sleep(4)"))
    first = start(built, "build")
    wait_for(running.exists)
    second = built.build()
    assert second.returncode != 0 and "另一个构建" in second.stdout
    assert first.wait(60) == 0
