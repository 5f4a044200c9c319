"""`mkdocs serve`: a broken block shows on its page, mending it recovers, and nothing rebuilds by itself."""

import os
import re
import signal
import socket
import subprocess
import threading
import time
from urllib.request import urlopen

import pytest

from .conftest import python
from .test_hook import start, wait_for


class Server:
    def __init__(self, course, *options):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}/"
        self.process = start(course, "serve", "-a", f"127.0.0.1:{port}", *options)
        self.lines: list[str] = []
        threading.Thread(target=lambda: self.lines.extend(self.process.stdout), daemon=True).start()

    def page(self, path: str = "") -> str:
        try:
            return urlopen(self.address + path, timeout=5).read().decode()
        except OSError:
            assert self.process.poll() is None, "".join(self.lines)
            return ""

    @property
    def builds(self) -> int:
        return sum("Documentation built" in line for line in self.lines)

    def stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)


@pytest.fixture
def serve(course):
    servers = []

    def serve(*options):
        servers.append(Server(course, *options))
        return servers[-1]

    yield serve
    for server in servers:
        server.stop()


@pytest.mark.parametrize("options", [(), ("--clean",), ("--strict",)])
def test_serve_survives_a_broken_block_and_recovers(course, serve, options):
    course.write("snippets/one.py", "x = 1\n")
    course.page("# 题\n\n" + python("from snippets.one import x\nassert x == 1"))
    server = serve(*options)
    wait_for(lambda: 'data-status="ran"' in server.page())
    course.write("snippets/one.py", "x = 2\n")
    wait_for(lambda: 'data-status="failed"' in server.page() and "course-problems" in server.page())
    assert "AssertionError" in server.page()
    assert any("docs/index.md:3: 代码块失败" in line for line in server.lines)
    course.write("snippets/one.py", "x = 1\n")
    wait_for(lambda: 'data-status="ran"' in server.page() and "course-problems" not in server.page())
    assert server.process.poll() is None


def test_serve_shows_mistakes_from_the_start(course, serve):
    course.page("# 题\n\n:::nothing\n:::\n\n" + python("1 / 0"))
    server = serve()
    page = wait_for(lambda: "course-problems" in server.page() and server.page())
    assert "docs/index.md:3" in page and "ZeroDivisionError" in page


def test_serve_stands_whatever_a_page_is(course, serve):
    course.page("# 题\n\n" + python("print('好')"))
    course.page(':::note\n```text title="a"\n--8<-- "a"\n```\n```python\n# 类型：【Runnable】\n<div>\n', "two.md")
    server = serve()
    wait_for(lambda: 'data-status="ran"' in server.page())
    (course.root / "docs" / "two.md").write_bytes("# 题\n".encode("gbk"))
    course.write("docs/evidence/x.json", "{")
    course.write("docs/book.ipynb", "{")
    wait_for(lambda: all(any(words in line for line in server.lines) for words in ("不是 UTF-8", "x.json:1", "book.ipynb:1")))
    for name in ("two.md", "evidence/x.json", "book.ipynb"):
        (course.root / "docs" / name).unlink()
    course.page("# 又一题\n")
    wait_for(lambda: "又一题" in server.page())


BROKEN = """
from markdown import Extension
from markdown.treeprocessors import Treeprocessor

class Broken(Treeprocessor):
    def run(self, root):
        if any("爆" in text for text in root.itertext()):
            raise KeyError("curve-7")

class BrokenExtension(Extension):
    def extendMarkdown(self, md):
        md.treeprocessors.register(Broken(md), "broken", 0)

def makeExtension(**kwargs):
    return BrokenExtension(**kwargs)
"""


def test_serve_shows_what_cannot_be_rendered_on_its_page(course, serve):
    """A part of the dialect that raises costs its own page only, and says where."""
    course.write("broken.py", BROKEN)
    config = course.root / "mkdocs.yml"
    config.write_text(config.read_text().replace("  - tables\n", "  - tables\n  - broken\n"))
    course.page("# 题\n\n字\n\n::::note\n:::key\n爆\n:::\n::::\n")
    course.page("# 二\n\n好的一页。\n", "two.md")
    server = serve()
    page = wait_for(lambda: "course-problems" in server.page() and server.page())
    assert "docs/index.md:6: 这一页画不出来：KeyError" in page and "好的一页" in server.page("two/")
    course.page("# 又一题\n")
    wait_for(lambda: "又一题" in server.page() and "course-problems" not in server.page())


def test_serve_idles(course, serve):
    course.page("# 题\n\n" + python("print(1)"))
    server = serve()
    wait_for(lambda: server.builds == 1)
    time.sleep(4)
    assert server.builds == 1


def test_one_edited_block_runs_alone(course, serve):
    marks = course.root / "marks"
    blocks = [f"with open({str(marks)!r}, 'a') as f: f.write('{name}')" for name in "ab"]
    course.page("# 题\n\n" + "\n".join(map(python, blocks)))
    server = serve()
    wait_for(lambda: server.builds == 1 and server.page())  # files are watched from when it answers, not when it has built
    assert sorted(marks.read_text()) == ["a", "b"]
    marks.unlink()
    course.page("# 题\n\n新的一句。\n\n" + "\n".join(map(python, [blocks[0], blocks[1] + "  # edited"])))
    wait_for(lambda: server.builds == 2)
    assert marks.read_text() == "b"
    assert re.search(r"运行：1 项", "".join(server.lines))
