"""The levels of proof of a kernel that need no GPU, and what the record on a GPU makes of it."""

import json

import pytest

from courseware.doctest.ledger import Runs, assemble, problems
from courseware.project import Project

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def twice_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=mask) * 2, mask=mask)
"""
PROOF = """
from dataclasses import dataclass
from types import SimpleNamespace as Thing
import torch
from triton.compiler import ASTSource
from kernels.twice import twice_kernel

def check(device):
    x = torch.arange(100.0, device=device)
    y = torch.full_like(x, float("nan"))
    twice_kernel[(2,)](x, y, 100, 64)
    assert y.tolist() == (2 * x).tolist()

def cases(device):
    return [Thing(name="hundred", check=check)]

def variants():
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    source = lambda: ASTSource(twice_kernel, signature=signature, constexprs={"BLOCK": 64})
    return [Thing(name="fp32", source=source, options={"num_warps": 2})]
"""


def prove(course):
    course.run("courseware.doctest", str(course.root), "--retry")
    project = Project(course.root)
    runs = Runs.of(project)
    return assemble(project, runs)["verification"]["kernels"], problems(project, runs)


@pytest.fixture
def kernel(course):
    course.page("# 题\n")
    course.write("kernels/twice.py", KERNEL)
    course.write("kernels/proof/__init__.py", "")
    course.write("kernels/proof/twice.py", PROOF)
    return course


def test_a_kernel_is_interpreted_and_compiled_for_four_targets(kernel):
    (record,), found = prove(kernel)
    assert found == []
    assert record["interpreted"] == {"status": "passed", "cases": 1}
    assert list(record["compiled"]) == ["sm_80", "sm_90", "sm_100", "sm_120"]
    for target in record["compiled"].values():
        assert target["status"] == "passed" and target["registers"] > 0 and target["spill_bytes"] == 0
    assert record["recorded"] == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("* 2", "* 3"), "hundred"),
        (lambda text: text.replace("tl.arange(0, BLOCK)", "tl.arange(0, 63)"), "sm_80"),
        (lambda text: text + "\nraise RuntimeError('broken')\n", "RuntimeError"),
    ],
)
def test_a_faulty_kernel_is_a_problem_with_its_place(kernel, change, words):
    kernel.write("kernels/twice.py", change(KERNEL))
    _, found = prove(kernel)
    assert found[0].path == "kernels/twice.py" and words in found[0].detail


def test_only_a_changed_kernel_is_proved_again(kernel):
    prove(kernel)
    output = kernel.run("courseware.doctest", str(kernel.root)).stdout
    assert "kernel twice" not in output
    kernel.write("kernels/twice.py", KERNEL + "# edited\n")
    assert "kernel twice: passed" in kernel.run("courseware.doctest", str(kernel.root)).stdout


def test_a_record_from_a_gpu_goes_stale_with_its_source(kernel):
    (record,), _ = prove(kernel)
    run = {"name": "twice", "source": record["source"], "status": "passed", "cases": 3}
    environment = {"device": "NVIDIA H200", "date": "2026-01-01"}
    data = {"environment": environment, "command": "c", "date": "2026-01-01", "source": "", "figures": {}, "kernels": [run]}
    kernel.write("docs/evidence/kernels.json", json.dumps(data))
    expected = {**environment, "status": "passed", "cases": 3, "evidence": "kernels"}
    assert prove(kernel)[0][0]["recorded"] == [expected]
    kernel.write("kernels/twice.py", KERNEL + "# edited\n")
    assert prove(kernel)[0][0]["recorded"] == [{**expected, "status": "stale"}]


def test_recording_without_a_gpu_is_refused(kernel):
    process = kernel.run("courseware.record")
    assert process.returncode != 0 and "no NVIDIA GPU" in process.stderr


def test_the_pages_of_what_it_was_compiled_to(kernel):
    kernel.page("# 题\n\n[COMPILED]\n\n[VERIFICATION]\n", "sub/see.md")
    for name in ("css/compiled.css", "js/compiled.js"):
        kernel.write(f"docs/assets/{name}", "\n")
    config = kernel.root / "mkdocs.yml"
    config.write_text(config.read_text() + "validation: {absolute_links: relative_to_docs}\n")
    process = kernel.build()
    assert process.returncode == 0, process.stdout + process.stderr
    files = kernel.files()
    pages = [name for name in files if name.startswith("compiled/")]
    assert pages == [f"compiled/twice_kernel/sm_{number}.html" for number in (100, 120, 80, 90)]
    html = files["compiled/twice_kernel/sm_90.html"].decode()
    assert '<a href="../../sub/see/">' in html and 'id="ptx-0"' in html and 'href="#L8"' in html
    report = files["sub/see/index.html"].decode()
    assert "compiled/twice_kernel/sm_90.html" in report and ">编译透视</a>" in report
    assert "运行" not in kernel.build().stderr
    (compiled,) = (kernel.root / ".courseware" / "compiled").iterdir()
    (compiled / "twice_kernel" / "sm_90.html").write_text("kept as it is", "utf-8")
    assert kernel.build().returncode == 0 and kernel.files()["compiled/twice_kernel/sm_90.html"] == b"kept as it is"
    kernel.write("kernels/twice.py", KERNEL + "# edited\n")
    assert kernel.build().returncode == 0
    assert len(list((kernel.root / ".courseware" / "compiled").iterdir())) == 1
    assert kernel.files()["compiled/twice_kernel/sm_90.html"] == html.encode()


def test_without_the_marker_there_are_no_pages(kernel):
    assert kernel.build().returncode == 0
    assert not [name for name in kernel.files() if name.startswith("compiled/")]


def test_a_kernel_for_one_target(kernel):
    kernel.write("kernels/proof/twice.py", PROOF.replace("options={", "targets=(90,), options={"))
    (record,), found = prove(kernel)
    assert found == []
    assert {target: one["status"] for target, one in record["compiled"].items()} == {
        **dict.fromkeys(("sm_80", "sm_100", "sm_120"), "not-applicable"),
        "sm_90": "passed",
    }
    (page,) = (kernel.root / ".courseware" / "compiled").glob("*/twice_kernel/*.html")
    assert "sm_80 不适用" in page.read_text("utf-8")
