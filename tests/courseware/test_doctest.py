"""Blocks through pytest: kinds, chains, failures at the page's own line, values, the ledger."""

import json

import pytest

from courseware.doctest.ledger import Runs, _seal, assemble, problems
from courseware.project import Project

from .conftest import python

CONT = "\n<!--pytest-codeblocks:cont-->\n\n"
EXPECTED = "\n<!--pytest-codeblocks:expected-output-->\n\n"


def ledger(course):
    """Run what is due, as a build does; the assembled ledger and the problems."""
    process = course.run("courseware.doctest", str(course.root), "--block-seconds", "5", "--retry")
    project = Project(course.root)
    runs = Runs.of(project)
    found = problems(project, runs)
    assert process.returncode == (1 if found else 0), process.stdout + process.stderr
    return assemble(project, runs), found


@pytest.mark.parametrize(
    ("page", "summary"),
    [
        (python("print(1)"), "1 passed"),
        (python("x = 1") + CONT + python("assert x == 1"), "1 passed"),
        (python("x = 1") + "\n" + python("assert 'x' not in globals()"), "2 passed"),
        (python("raise RuntimeError", "Skeleton"), "1 passed"),
        (python("def", "Skeleton"), "1 failed"),
        (python("1 / 0"), "1 failed"),
        (python("print(2)") + EXPECTED + "```\n2\n```\n", "1 passed"),
        (python("print(2)") + EXPECTED + "```\n3\n```\n", "1 failed"),
        (python("import torch; torch.zeros(1).cuda()", "Runnable on CUDA"), "1 skipped"),
        ("```python\nprint(1)\n```\n", "1 failed"),
        ("```bash\nls\n```\n", "1 failed"),
        (python("if __name__ != '__main__': raise SystemExit"), "1 passed"),
        (python("from __future__ import annotations") + CONT + python("def f(x: undefined): pass"), "1 passed"),
    ],
)
def test_pytest_runs_blocks_by_kind(course, page, summary):
    course.page("# 题\n\n" + page)
    assert summary in course.doctest().stdout.splitlines()[-1]


def test_marks_select_blocks(course):
    course.page("# 题\n\n" + python("print(1)") + "\n" + python("x = 1", "Skeleton") + "\n" + python("x", "Runnable on CUDA"))
    assert "1 passed, 2 deselected" in course.doctest("-m", "not cuda and not skeleton").stdout
    assert "1 passed, 1 skipped" in course.doctest("-m", "cuda or skeleton").stdout


def test_blocks_run_under_xdist(course):
    course.page("# 题\n\n" + "\n".join(python(f"assert {n} < 6") for n in range(6)))
    assert "6 passed" in course.doctest("-n", "2").stdout


FAILURES = [
    ("raise ValueError('坏')", "ValueError: 坏"),
    ("raise SystemExit", "SystemExit"),
    ("exit(0)", "SystemExit: 0"),
    ("import os\nos._exit(0)", "退出码 0"),
    ("import os\nos.kill(os.getpid(), 11)", "段错误"),
    ("import time\ntime.sleep(60)", "5 秒的时限"),
    ("while True: pass", "5 秒的时限"),
    ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ("import numpy\nnumpy.ones(10**12)", "MemoryError"),
    ("def", "SyntaxError"),
    ("import snippets.nothing", "ModuleNotFoundError"),
    ("print('x' * 100_000)", "65536 字节的上限"),
    ("while True: print('x' * 10**6)", "65536 字节的上限"),
    ("import json\njson.dumps = None", "执行器在代码块的进程里出错"),
    ("import os\nfor fd in range(3, 30):\n    try: os.write(fd, b'x\\n')\n    except OSError: pass", "写进了执行器的管道"),
    ("raise ValueError('一\\n二')", "ValueError: 一；"),
    ("raise ExceptionGroup('组', [ValueError(1)])", "ExceptionGroup: 组"),
    ("raise ValueError('\\ud800')", "ValueError: ?"),
    ("import sys\nsys.stdout = None\n1 / 0", "ZeroDivisionError"),
]


def test_every_ending_is_the_failure_of_its_block_alone(course):
    text = "# 题\n\n" + python("print('first')")
    places = []
    for code, _ in FAILURES:
        places.append(text.count("\n") + 2)
        text += "\n" + python(code)
    course.page(text + "\n" + python("print('last')"))
    assembled, found = ledger(course)
    blocks = assembled["verification"]["blocks"]
    assert [b["status"] for b in blocks] == ["ran"] + ["failed"] * len(FAILURES) + ["ran"]
    assert [b["output"] for b in (blocks[0], blocks[-1])] == ["first\n", "last\n"]
    assert [(p.path, p.line) for p in found] == [("docs/index.md", line) for line in places]
    for problem, (_, words) in zip(found, FAILURES, strict=True):
        assert words in str(problem), problem


@pytest.mark.parametrize(
    "code",
    ["import os; os.close(1)", "import sys; sys.stdout.close()", "import time; time.perf_counter = lambda: 0", "print(chr(0xd800))"],
)
def test_what_a_block_does_to_its_process_is_its_own_affair(course, code):
    course.page("# 题\n\n" + python(code) + CONT + python("x = 1"))
    assembled, found = ledger(course)
    assert found == [] and all(0 <= block["seconds"] < 5 for block in assembled["verification"]["blocks"])


def test_a_traceback_names_the_line_of_the_page(course):
    course.page("# 题\n\n- 列表\n\n    ```python\n    # 类型：【Runnable】\n    x = 1\n\n    assert x == 2\n    ```\n" + CONT + python("x"))
    _, found = ledger(course)
    assert 'File "docs/index.md", line 9' in found[0].detail and "assert x == 2" in found[0].detail
    assert (found[1].line, "承接" in found[1].fault) == (14, True)


def test_source_of_a_function_defined_in_a_block_is_found(course):
    code = "import inspect\ndef f():\n    return 41 + 1\nassert '41 + 1' in inspect.getsource(f)\nclass A:\n    y = 5\nassert 'y = 5' in inspect.getsource(A)"
    course.page("# 题\n\n段落\n\n" + python("z = 1") + CONT + python(code))
    assert ledger(course)[1] == []


def test_a_triton_kernel_can_be_defined_in_a_block(course):
    code = """
    import torch, triton, triton.language as tl
    @triton.jit
    def double(x, y, N: tl.constexpr):
        at = tl.arange(0, N)
        tl.store(y + at, tl.load(x + at) * 2)
    a = torch.arange(4.0)
    b = torch.empty_like(a)
    double[(1,)](a, b, 4)
    assert b.tolist() == [0, 2, 4, 6]
    """
    course.page("# 题\n\n" + python(code))
    assert ledger(course)[1] == []


def test_each_fence_keeps_its_own_output(course):
    course.page("# 题\n\n" + python("print('一')") + CONT + python("import os; os.write(1, b'raw\\n')") + CONT + python("pass"))
    assert [b["output"] for b in ledger(course)[0]["verification"]["blocks"]] == ["一\n", "raw\n", ""]


def test_values_are_taken_after_the_chain(course):
    course.page("# 题\n\n{{value:x}} {{value:x:.2f}}\n\n" + python("x = 1.25") + CONT + python("x += 1"))
    assembled, found = ledger(course)
    assert found == []
    (entry,) = assembled["chains"].values()
    assert entry["values"] == {"x": "2.25", "x:.2f": "2.25"}


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("{{value:x}}\n\n" + python("x = 1") + "\n" + python("x = 2"), "两个代码块里不同"),
        ("{{value:x:.2f}}\n\n" + python("x = 'word'"), "无法写出"),
        ("{{value:x:.2f}}\n\n" + python("x = 'word'") + "\n" + python("x = 1"), "两个代码块里不同"),
        ("{{value:x}}\n\n" + python("if 0: x = 1"), "没有被任何可运行代码块赋值"),
        ("{{value:x}}\n\n" + python("x = 'x' * 20_000"), "超过 10000 的上限"),
        ("{{value:x}}\n\n" + python("class X:\n    def __str__(self): exit()\nx = X()"), "无法写出：SystemExit"),
    ],
)
def test_values_that_do_not_resolve(course, page, words):
    course.page("# 题\n\n" + page)
    (problem,) = ledger(course)[1]
    assert (problem.line, words in problem.fault) == (3, True)


def test_the_same_value_in_two_chains_is_no_conflict(course):
    course.page("# 题\n\n{{value:x}}\n\n" + python("x = 1") + "\n" + python("x = 2 - 1"))
    assert ledger(course)[1] == []


def test_pages_that_share_a_chain_each_get_their_values(course):
    course.page("# 甲\n\n{{value:x}}\n\n" + python("x, y = 1, 2"))
    course.page("# 乙\n\n{{value:y:.1f}}\n\n" + python("x, y = 1, 2"), "two.md")
    assembled, found = ledger(course)
    (entry,) = assembled["chains"].values()
    assert found == [] and entry["values"] == {"x": "1", "y:.1f": "2.0"}


def test_half_a_surrogate_pair_is_no_text(course):
    course.page("# 题\n\n{{value:x}}\n\n" + python("x = chr(0xd800) + '字'"))
    assembled, found = ledger(course)
    assert found == [] and [e["values"] for e in assembled["chains"].values()] == [{"x": "?字"}]


def test_a_page_that_cannot_be_collected_stops_no_other(course):
    """What has not run is a problem, whatever the reason."""
    course.page("# 题\n\n" + python("print(1)"))
    course.page("# 题\n\n```python\n# 类型：【Runnable】\n1\n", "open.md")
    assembled, (problem,) = ledger(course)
    assert [b["status"] for b in assembled["verification"]["blocks"]] == ["ran", "not-executed"]
    assert (problem.path, problem.line, "没有执行记录" in problem.fault) == ("docs/open.md", 3, True)


def test_only_what_changed_runs_again(course):
    mark = course.root / "marks"
    block = "from pathlib import Path\nwith open({mark!r}, 'a') as f: print({name!r}, file=f)\n"
    blocks = [block.format(mark=str(mark), name=name) for name in "abc"]
    blocks[2] = "import snippets.one\n" + blocks[2]
    course.write("snippets/one.py", "x = 1\n")

    def page():
        course.page("# 题\n\n" + "\n".join(map(python, blocks)))
        ledger(course)
        ran = sorted(mark.read_text().split()) if mark.exists() else []
        mark.unlink(missing_ok=True)
        return ran

    assert page() == ["a", "b", "c"]
    assert page() == []
    blocks[0] += "# edited"
    assert page() == ["a"]
    course.write("snippets/one.py", "x = 2\n")
    assert page() == ["c"]
    course.write("snippets/unused.py", "x = 2\n")
    blocks.insert(0, "pass")  # all lines move, no source changes
    assert page() == []


def test_a_new_value_runs_its_page_again(course):
    course.page("# 题\n\n" + python("x, y = 1, 2"))
    ledger(course)
    course.page("# 题\n\n{{value:y}}\n\n" + python("x, y = 1, 2"))
    assembled, found = ledger(course)
    assert found == [] and [e["values"] for e in assembled["chains"].values()] == [{"y": "2"}]


def test_records_of_other_versions_are_not_used(course):
    course.page("# 题\n\n" + python("print(1)"))
    ledger(course)
    path = course.root / ".courseware" / "runs.json"
    data = json.loads(path.read_text())
    assert Runs(path).data["chains"]
    data["versions"]["numpy"] = "0.1"
    data["seal"] = _seal({key: part for key, part in data.items() if key != "seal"})
    path.write_text(json.dumps(data))
    assert Runs(path).data["chains"] == {}


def test_a_cache_that_was_changed_is_begun_anew(course):
    course.page("# 题\n\n" + python("print(1)"))
    ledger(course)
    path = course.root / ".courseware" / "runs.json"
    path.write_text(path.read_text().replace('"output": "1', '"output": "2'))
    assert Runs(path).data["chains"] == {}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"versions": 3}'])
def test_a_damaged_cache_is_begun_anew(tmp_path, text):
    path = tmp_path / "runs.json"
    path.write_text(text)
    assert Runs(path).data["chains"] == {}


EVIDENCE = {"command": "make record", "date": "2026-01-01", "source": "", "figures": {}}
CUDA = python("import torch\nprint(torch.cuda.get_device_name())", "Runnable on CUDA")


@pytest.mark.parametrize(("changed", "status"), [("", "recorded"), ("# edited\n", "stale")])
def test_recorded_cuda_blocks(course, changed, status):
    course.page("# 题\n\n" + CUDA)
    (block,) = ledger(course)[0]["verification"]["blocks"]
    assert block["status"] == "not-executed"
    environment = {"device": "NVIDIA H200", "date": "2026-01-01"}
    run = {"page": "index.md", "heading": "题", "source": block["source"], "seconds": 1.5, "output": "NVIDIA H200\n"}
    course.write("docs/evidence/run.json", json.dumps(EVIDENCE | {"environment": environment, "blocks": [run]}))
    course.page("# 题\n\n" + CUDA.replace("print", changed + "print"))
    (block,) = ledger(course)[0]["verification"]["blocks"]
    assert (block["status"], block["output"], block["environment"]) == (status, "NVIDIA H200\n", environment)


def test_benchmarks_without_a_record_are_named(course):
    for name in ("__init__", "__main__", "benchmarks/__init__", "benchmarks/__main__", "benchmarks/fuzz", "benchmarks/speed"):
        course.write(f"kernels/{name}.py", "def measure():\n    return {}\n")
    course.page("# 题")
    assert ledger(course)[0]["unrecorded"] == ["fuzz", "speed"]
    environment = {"device": "NVIDIA H200", "date": "2026-01-01"}
    course.write("docs/evidence/fuzz.json", json.dumps(EVIDENCE | {"environment": environment}))
    assert ledger(course)[0]["unrecorded"] == ["speed"]


def test_demo_data_comes_from_its_function(course):
    course.write("snippets/one.py", "def frame(n):\n    return {'n': n, 'twice': 2 * n}\n")
    course.write("docs/assets/demos/one.html.j2", '{# data: snippets.one.frame {"n": 4} #}\n{{ twice }}')
    course.page("# 题\n\n:::demo one 标题\n看\n:::\n")
    assembled, found = ledger(course)
    assert found == [] and assembled["demos"]["one"]["data"] == {"n": 4, "twice": 8}
    (record,) = assembled["verification"]["demos"]
    assert (record["page"], record["name"], record["status"]) == ("index.md", "one", "ran")
    course.write("snippets/one.py", "def frame(n):\n    return 1 / 0\n")
    _, found = ledger(course)
    assert "ZeroDivisionError" in found[0].detail and found[0].path == "docs/assets/demos/one.html.j2"


def test_notebooks_run_and_fail_like_blocks(course):
    import nbformat.v4 as v4

    def notebook(*codes):
        cells = [v4.new_code_cell(code, id=f"c{n}") for n, code in enumerate(codes)]
        import nbformat

        course.write("docs/book.ipynb", nbformat.writes(v4.new_notebook(cells=cells)))

    course.page("# 题\n")
    course.write("snippets/one.py", "x = 6\n")
    notebook("from snippets.one import x", "print(7 * x)")
    assembled, found = ledger(course)
    assert found == [] and assembled["verification"]["notebooks"][0]["status"] == "ran"
    executed = (course.root / ".courseware/notebooks/book.ipynb").read_text()
    assert "42" in executed
    notebook("x = 1", "1 / 0", "print(3)")
    _, found = ledger(course)
    assert "第 2 个代码单元" in found[0].fault and "ZeroDivisionError" in str(found[0])
    course.write("docs/book.ipynb", "{")  # the checker's affair
    assert ledger(course)[1] == []


def test_a_cell_that_was_passed_over_is_a_failure():
    import nbformat.v4 as v4

    from courseware.doctest.notebook import _skipped

    cells = [v4.new_code_cell("x", execution_count=1), v4.new_code_cell(""), v4.new_code_cell("y")]
    assert _skipped(v4.new_notebook(cells=cells)) == 3
    assert _skipped(v4.new_notebook(cells=cells[:2])) is None


def test_our_packages_are_the_ones_imported():
    import kernels
    import snippets

    from .conftest import ROOT

    for package in (kernels, snippets):
        assert ROOT in __import__("pathlib").Path(package.__file__).parents
