"""Record on a machine with an NVIDIA GPU: CUDA blocks, the kernels' proofs and the benchmarks, into docs/evidence/.

    python -m courseware.record [--only NAME …]      (or: make record)

Needs this repository and torch, triton, numpy, pytest and pytest-codeblocks; no network, no MkDocs. Each part is written
as a file of its own as soon as it is done: `blocks`, `kernels`, and one for each module of `kernels.benchmarks`.
Correctness comes first: when a kernel's proof fails, no benchmark is run. Exit 1 when anything failed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from courseware.doctest import kernels, plugin
from courseware.doctest.ledger import Runs, failed, write
from courseware.doctest.pool import Pool, Task
from courseware.environment import LIBRARIES, environment, has_gpu
from courseware.evidence import BENCHMARKS, benchmark_source, benchmarks
from courseware.project import Project

SECONDS = 540.0  # limit of time for one part
PARTS = 4  # of a kernel's proof


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="record these parts alone")
    options = parser.parse_args(argv)
    if not has_gpu():
        sys.exit("make record: this machine has no NVIDIA GPU (/dev/nvidia*); run it on one that has")
    project = Project(Path.cwd())
    plugin.preload(list(LIBRARIES), {"cuda"})  # CUDA itself only starts in the children
    parts = {"kernels": record_kernels, "blocks": record_blocks} | {
        group: lambda project, group=group: record_benchmark(project, group) for group in benchmarks(project)
    }
    unknown = set(options.only or ()) - parts.keys()
    if unknown:
        sys.exit(f"make record: no part {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
    broken: list[str] = []
    for name in options.only or parts:
        if "kernels" in broken and name != "blocks":
            print(f"{name}: not run, since a kernel's proof failed", flush=True)
        elif not _record(project, name, parts[name]):
            broken.append(name)
    return 1 if broken else 0


def _record(project: Project, name: str, part: Callable[[Project], dict]) -> bool:
    data = part(project)
    fault = data.pop("fault", None)
    if fault:
        print(f"{name}: FAILED\n{fault}", flush=True)
        return False
    known = {**environment(), **gpu()}
    command = f"python -m courseware.record --only {name}"
    write(project.docs / "evidence" / f"{name}.json", {"environment": known, "command": command, "date": known["date"], **data})
    print(f"{name}: recorded", flush=True)
    return True


def gpu() -> dict[str, str]:
    """Name of the GPU and version of its driver."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    name, driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
    return {"device": name, "driver": driver}


def record_kernels(project: Project) -> dict:
    """Every kernel's proof on the GPU, in parts that run at once: compiling takes longer than checking."""
    parts = {name: [(start, PARTS) for start in range(PARTS)] for name in kernels.names(project)}
    tasks = {(name, part): _task(project, name, _check(name, part)) for name in parts for part in parts[name]}
    pool = Pool()
    for task in tasks.values():
        pool.submit(task)
    records, faults = [], []
    for name in parts:
        results = [_result(pool.wait(tasks[name, part])) for part in parts[name]]
        faults += [f"{name}: {result['error']}" for result in results if result["error"]]
        statuses = {result["status"] for result in results} - {"not-applicable"}
        status = "failed" if "failed" in statuses else "passed" if statuses else "not-applicable"
        cases = sum(result["cases"] for result in results)
        records.append({"name": name, "source": kernels.source(project, name), "status": status, "cases": cases})
        print(f"  {name}: {status}, {cases} cases", flush=True)
    return {"source": "", "figures": {}, "kernels": records, "fault": "\n".join(faults)}


def _check(name: str, part: tuple[int, int]) -> Callable[[], dict]:
    return lambda: kernels.check_cases(importlib.import_module(f"{kernels.PACKAGE}.{name}"), "cuda", part)


def _result(task: Task) -> dict:
    return task.messages[0] if task.messages and not task.ending else {"status": "failed", "cases": 0, "error": _said(task)}


def record_blocks(project: Project) -> dict:
    """The pages' CUDA blocks, through pytest-codeblocks, one after the other so that their timings are their own."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "runs.json"
        options = ["--codeblocks", "-q", "-p", "no:cacheprovider", "-m", "cuda", f"--rootdir={project.root}"]
        limits = ["--block-workers=1", f"--block-seconds={SECONDS}", f"--ledger={ledger}"]
        code = pytest.main([*options, *limits, str(project.docs)], plugins=[] if _installed() else [plugin])
        runs = Runs(ledger)
    records = []
    for _, chain in project.chains:
        sources = project.block_sources(chain)
        run = runs.data["chains"].get(sources[-1])
        if chain.kind != "cuda" or run is None or failed(run):
            continue
        for block, source, record in zip(chain.blocks, sources, run["blocks"], strict=True):
            place = {"page": project.page_name(block.page), "heading": block.heading, "kind": block.kind}
            records.append({**place, "source": source, **{key: record[key] for key in ("status", "seconds", "output")}})
    fault = "a CUDA block failed (see above)" if code not in (0, pytest.ExitCode.NO_TESTS_COLLECTED) else ""
    return {"source": "", "figures": {}, "blocks": records, "fault": fault}


def _installed() -> bool:
    """Whether pytest loads our plugin by itself, as it does where the package is installed."""
    from importlib.metadata import entry_points

    return any(entry.value == "courseware.doctest.plugin" for entry in entry_points(group="pytest11"))


def record_benchmark(project: Project, group: str) -> dict:
    task = _in_child(project, group, lambda: importlib.import_module(f"{BENCHMARKS}.{group}").measure())
    if task.ending or not task.messages:
        return {"fault": _said(task)}
    print(json.dumps(task.messages[0]), flush=True)
    return {"source": benchmark_source(project, group), "figures": task.messages[0]}


def _in_child(project: Project, name: str, work: Callable[[], object]) -> Task:
    return Pool(1).wait(_task(project, name, work))


def _task(project: Project, name: str, work: Callable[[], object]) -> Task:
    def run(send: Callable[[object], None]) -> None:
        os.environ["TRITON_INTERPRET"] = "0"
        os.chdir(project.root)
        sys.path.insert(0, str(project.root))
        send(work())

    return Task(name, run, SECONDS, memory=None)


def _said(task: Task) -> str:
    return "\n".join(filter(None, [task.ending, task.stdout.decode(errors="replace"), task.stderr.decode(errors="replace")]))


if __name__ == "__main__":
    sys.exit(main())
