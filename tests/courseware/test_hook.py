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
    "computed key": (python("right = 'E'") + "\n:::quiz\n题\n\nA. 一\nB. 二\n\n答案: =right\n:::\n", "quiz 的答案 E 不在选项中 (=right)"),
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


def test_the_folder_that_mkdocs_is_started_in_does_not_matter(course):
    course.write("snippets/one.py", "def frame():\n    return {'n': 42}\n")
    course.write("docs/assets/demos/one.html.j2", "{# data: snippets.one.frame {} #}\n<b>{{ n }}</b>")
    listing = '```python title="snippets/one.py"\n--8<-- "snippets/one.py"\n```\n'
    course.page(GOOD + "\n" + listing + "\n:::demo one 题\n看。\n:::\n")
    command = [sys.executable, "-m", "mkdocs", "build", "-f", str(course.root / "mkdocs.yml")]
    process = subprocess.run(command, cwd="/", capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    html = course.files()["index.html"].decode()
    assert "值 3" in html and "<b>42</b>" in html and "return" in html


@pytest.mark.parametrize(
    "settings",
    [
        "docs_dir: pages 页\n",
        "use_directory_urls: false\n",
        "site_url: https://a.example/course/\n",
        "docs_dir: pages 页\nuse_directory_urls: false\nsite_url: https://a.example/course/\n",
    ],
)
def test_settings_of_mkdocs(course, settings):
    course.page(GOOD + "\n[二](<子 夹/二 页.md#block-1>)\n")
    course.page("# 二\n\n[一](../index.md#block-1)\n\n" + python("print('二')"), "子 夹/二 页.md")
    course.page("# 三\n\n" + python("print('三')"), "三/README.md")
    if "docs_dir" in settings:
        (course.root / "docs").rename(course.root / "pages 页")
    config = course.root / "mkdocs.yml"
    config.write_text(config.read_text() + settings)
    process = course.build()
    assert process.returncode == 0, process.stderr
    report = json.loads(course.files()["verification.json"])
    assert [block["status"] for block in report["blocks"]] == ["ran"] * 3
    assert all(html.count(b'data-status="ran"') == 1 for name, html in course.files().items() if name.endswith(".html") and "404" not in name)


def test_pytest_settings_of_the_project_are_not_for_its_pages(course):
    course.write("pytest.ini", "[pytest]\naddopts = -n 2 -k nothing\n")
    course.write("conftest.py", "raise RuntimeError\n")
    course.page(GOOD)
    assert course.build().returncode == 0


def test_a_site_that_is_a_link_stays_one(course):
    (course.root / "elsewhere").mkdir()
    course.site.symlink_to(course.root / "elsewhere")
    course.page(GOOD)
    for _ in range(2):
        assert course.build().returncode == 0
        assert course.site.is_symlink() and "index.html" in course.files()


def test_a_folder_that_cannot_be_written_is_named(built):
    before = built.files()
    (built.root / ".site.lock").unlink()
    (built.root / ".site.lock").mkdir()
    process = built.build()
    assert process.returncode != 0 and "检查磁盘空间和权限" in process.stdout + process.stderr
    assert "Traceback" not in process.stderr and built.files() == before


def test_site_dir_of_the_command_line_is_used(built):
    assert built.build("--site-dir", "elsewhere").returncode == 0
    assert (built.root / "elsewhere" / "index.html").exists()


def test_a_file_in_the_place_of_the_site_is_kept(built):
    (built.root / "taken").write_text("mine")
    process = built.build("--site-dir", "taken")
    assert process.returncode != 0 and "taken 是文件" in process.stdout + process.stderr
    assert (built.root / "taken").read_text() == "mine"


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
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job, as CI may be, ignores it
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


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends the children of a killed process")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_of_a_build_that_is_killed_alone(built, number):
    mark = built.root / "running"
    code = f"import os, subprocess\nchild = subprocess.Popen(['sleep', '60'])\nopen({str(mark)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
    built.page("# 题\n\n" + python(code + "while True: pass"))
    process = start(built, "build")
    wait_for(lambda: mark.exists() and mark.read_text())
    os.kill(process.pid, number)
    process.wait(20)
    for pid in mark.read_text().split():
        wait_for(lambda: not alive(int(pid)))


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


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
