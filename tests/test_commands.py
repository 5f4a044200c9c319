"""The commands that others call: README, Makefile and CI agree, and the pins are exact where they must be."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TARGETS = ("serve", "site", "check", "test", "benchmark", "record")


@pytest.mark.parametrize("target", TARGETS)
def test_targets_exist_and_are_in_the_readme(target):
    assert f"make {target}" in (ROOT / "README.md").read_text("utf-8")
    process = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


def test_ci_runs_the_readmes_test_command():
    script = (ROOT / ".ci" / "run").read_text()
    assert script.splitlines()[-1] == "exec make test"
    workflow = (ROOT / ".github" / "workflows" / "site.yml").read_text()
    assert "make test" in workflow and "make site" in workflow


def test_torch_and_triton_are_pinned_together():
    text = (ROOT / "requirements.txt").read_text()
    assert re.search(r"^torch==2\.13\.0$", text, re.M) and re.search(r"^triton==3\.7\.1;", text, re.M)


def test_paths_named_in_the_readme_exist():
    for path in re.findall(r"^\| `([^`]+)` \|", (ROOT / "README.md").read_text("utf-8"), re.M):
        assert (ROOT / path).exists(), path


def test_every_package_is_installed_by_name():
    listed = set(re.search(r"packages = \[(.*)\]", (ROOT / "pyproject.toml").read_text())[1].replace('"', "").split(", "))
    found = {p.parent.relative_to(ROOT).as_posix().replace("/", ".") for name in ("snippets", "kernels", "courseware") for p in (ROOT / name).rglob("__init__.py")}
    assert listed == found
