"""Run what is due: `python -m courseware.doctest [ROOT] [--retry] [--block-seconds S]`.

Blocks run through pytest and pytest-codeblocks, then demo data and the kernels' proofs; notebooks beside them. The results
go into ROOT/.courseware/runs.json. Exit 0 when everything ran, 1 when something failed.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from courseware.doctest import kernels
from courseware.doctest.execute import SECONDS
from courseware.doctest.ledger import Runs, pending, problems
from courseware.doctest.plugin import preload
from courseware.doctest.pool import Pool, Task, die_with_parent
from courseware.project import Demo, Project


def run(project: Project, *, retry: bool = True, seconds: float = SECONDS) -> bool:
    """Run what is due in `project` and record it; True when nothing failed. One runner at a time for a project."""
    project.state.mkdir(exist_ok=True)
    with open(project.state / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _run(project, retry=retry, seconds=seconds)


def _run(project: Project, *, retry: bool, seconds: float) -> bool:
    for library in ("OMP", "OPENBLAS"):  # read at import: children for all cores run at once, so one thread each
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    runs = Runs.of(project)
    runs.forget(project, failures=retry)
    runs.save(project)
    due = pending(project, runs)
    notebooks = [(path, _start_notebook(project, path, seconds)) for path in due["notebooks"]]
    _run_blocks(project, {chain.page for chain in due["chains"]}, seconds)
    runs = Runs.of(project)  # with what pytest recorded
    _record_demos(project, runs, due["demos"])
    for name, result in kernels.prove(project, due["kernels"]).items():
        runs.add("kernels", kernels.source(project, name), result)
        print(f"kernel {name}: {result['status']} in {result['seconds']} s")
    for path, process in notebooks:
        out, err = process.communicate()
        result = json.loads(out) if process.returncode == 0 else _crashed(err)
        runs.add("notebooks", project.notebook_source(path), result)
    runs.save(project)
    return not problems(project, runs)


def _run_blocks(project: Project, pages: set[str], seconds: float) -> None:
    if not pages:
        return
    options = ["--codeblocks", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-m", "not skeleton and not cuda"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # our plugin is imported before pytest starts
    options += ["-c", os.devnull, "--noconftest"]  # a project's own pytest settings are for its own tests
    options += ["--continue-on-collection-errors"]  # one page that pytest-codeblocks cannot read stops no other
    os.environ.pop("PYTEST_ADDOPTS", None)
    ledger = project.state / "runs.json"
    code = pytest.main(
        [*options, f"--rootdir={project.root}", f"--course-docs={project.docs}", f"--ledger={ledger}", f"--block-seconds={seconds}"]
        + [str(project.root / page) for page in sorted(pages)]
    )
    if code == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if code in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR):
        sys.exit(int(code))  # its output says why


def _start_notebook(project: Project, path: Path, seconds: float) -> subprocess.Popen:
    copy = project.executed / path.relative_to(project.docs)
    command = [sys.executable, "-m", "courseware.doctest.notebook", str(path), str(copy), str(project.root), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _crashed(stderr: str) -> dict:
    return {"status": "failed", "seconds": None, "error": stderr.strip() or "执行器意外退出", "cell": 1}


def _record_demos(project: Project, runs: Runs, demos: list[Demo]) -> None:
    pool, tasks = Pool(), []
    if demos:
        preload(["numpy"], {"runnable"})
    for demo in demos:
        task = Task(f"demo {demo.name}", _demo_run(project, demo), SECONDS)
        tasks.append((demo, task))
        pool.submit(task)
    for demo, task in tasks:
        pool.wait(task)
        error = task.stderr.decode(errors="replace").strip() or task.ending
        result = {"status": "ran", "data": (task.messages or [None])[0], "error": None}
        if task.ending or not task.messages:
            result = {"status": "failed", "data": None, "error": error}
        runs.add("demos", project.demo_source(demo), result)


def _demo_run(project: Project, demo: Demo):
    def run(send):
        sys.path.insert(0, str(project.root))
        function = getattr(importlib.import_module(demo.module), demo.call.rpartition(".")[2])
        send(function(**demo.arguments))

    return run


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=Path.cwd())
    parser.add_argument("--docs", type=Path, help="folder of the pages, ROOT/docs by default")
    parser.add_argument("--retry", action="store_true", help="run again what failed before, though it did not change")
    parser.add_argument("--block-seconds", type=float, default=SECONDS)
    options = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what the blocks started is ended too
    die_with_parent(signal.SIGTERM)
    return 0 if run(Project(options.root, options.docs), retry=options.retry, seconds=options.block_seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
