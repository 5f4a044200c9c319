"""What checking costs: a checked build against a plain one, interleaved pairs, medians of ratios in one run.

    make benchmark          (or: .venv/bin/python scripts/benchmark_build.py --pairs 7)

fresh      checked build, no run cached                 against  plain build + plain `pytest --codeblocks`
unchanged  checked rebuild, nothing changed             against  plain build
edited     checked rebuild after an edit in one block   for information: how many chains ran

The kernels' proofs are cached by source throughout; what they took is printed by itself. Plain is the same site and
extensions with the hook off and the notebook's page cached (in a cache of its own: in a common one each build would
throw out the other's), and pytest-codeblocks alone over the same Runnable blocks.
Exits 1 when a ratio is above its limit.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from courseware.environment import environment
from courseware.doctest.ledger import Runs
from courseware.page import read
from courseware.project import Project

ROOT = Path(__file__).parents[1]
COPIED = ("docs", "snippets", "kernels", "overrides", "mkdocs.yml", "pyproject.toml", "courseware")
PLAIN = "INHERIT: own-cache.yml\nhooks: []\nstrict: false\n"
LIMIT = 1.25


def seconds(*command: str, cwd: Path) -> float:
    # one process for all blocks imports Triton before `kernels` could choose the interpreter
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    start = time.perf_counter()
    process = subprocess.run([sys.executable, "-m", *command], cwd=cwd, env=environment, capture_output=True, text=True)
    elapsed = time.perf_counter() - start
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{process.stdout}{process.stderr}")
    return elapsed


def checked(root: Path) -> float:
    return seconds("mkdocs", "build", cwd=root)


def plain_build(root: Path) -> float:
    return seconds("mkdocs", "build", "-f", "plain.yml", "--site-dir", "site-plain", cwd=root)


def plain_pytest(root: Path) -> float:
    options = ["-p", "no:courseware", "-p", "no:cacheprovider", "-q"]
    return seconds("pytest", "--codeblocks", "runnable", *options, cwd=root)


def copy_project(root: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, root / name)
    config = (root / "mkdocs.yml").read_text("utf-8")
    (root / "own-cache.yml").write_text(config.replace("cache_dir: .courseware/jupyter", "cache_dir: .plain"), "utf-8")
    (root / "plain.yml").write_text(PLAIN)
    for path in (root / "docs").rglob("*.md"):
        target = root / "runnable" / path.relative_to(root / "docs")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(runnable_only(path), "utf-8")


def runnable_only(path: Path) -> str:
    """The page with other Python blocks renamed, so that plain pytest-codeblocks runs the same blocks as we do."""
    page = read(path)
    lines = list(page.lines)
    for fence in page.fences:
        if fence.kind in ("cuda", "skeleton"):
            lines[fence.line - 1] = lines[fence.line - 1].replace("python", "text")
    return "\n".join(lines)


def forget(root: Path) -> None:
    """Leave nothing cached but the kernels' proofs, whose time is told apart: they run when a kernel changes."""
    project = Project(root)
    runs = Runs.of(project)
    for path in (*project.state.iterdir(), root / "site"):
        if path.name != "compiled":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for part in ("chains", "demos", "notebooks"):
        runs.data[part] = {}
    runs.save(project)


def proof_seconds(root: Path) -> float:
    runs = json.loads((root / ".courseware" / "runs.json").read_text("utf-8"))
    return sum(run["seconds"] for run in runs["kernels"].values())


def edit_one_block(root: Path, number: int) -> None:
    """Append a comment to the first Runnable block of a page."""
    path = root / "docs" / "online-softmax.md"
    text = path.read_text("utf-8")
    path.write_text(re.sub(r"(?m)^(# 类型：【Runnable】.*)$", rf"\1\n# edit {number}", text, count=1), "utf-8")


def chains_run(root: Path, before: set[str]) -> int:
    return len(set(json.loads((root / ".courseware" / "runs.json").read_text())["chains"]) - before)


def measure(root: Path, pairs: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in ("fresh", "plain", "pytest", "unchanged", "edited")}
    checked(root)
    plain_build(root)  # both warm the file system and the notebook's cached page
    for number in range(pairs):
        forget(root)
        found["fresh"].append(checked(root))
        found["plain"].append(plain_build(root))
        found["pytest"].append(plain_pytest(root))
        found["unchanged"].append(checked(root))
        before = set(json.loads((root / ".courseware" / "runs.json").read_text())["chains"])
        edit_one_block(root, number)
        found["edited"].append(checked(root))
        ran = chains_run(root, before)
        if ran != 1:
            sys.exit(f"an edit in one block ran {ran} chains")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        copy_project(root)
        found = measure(root, options.pairs)
        proofs = proof_seconds(root)
    print(f"{environment()}, {os.cpu_count()} cores; medians of {options.pairs} interleaved runs, in seconds")
    for name, times in found.items():
        print(f"  {name:10} {statistics.median(times):6.2f}   ({min(times):.2f} to {max(times):.2f})")
    print(f"  proofs     {proofs:6.2f}   of all kernels, once, when their source changes")
    ratios = {
        "fresh": [f / (b + t) for f, b, t in zip(found["fresh"], found["plain"], found["pytest"], strict=True)],
        "unchanged": [u / b for u, b in zip(found["unchanged"], found["plain"], strict=True)],
    }
    failed = False
    for name, values in ratios.items():
        ratio = statistics.median(values)
        failed |= ratio > LIMIT
        print(f"  {name} ratio {ratio:.2f} (limit {LIMIT}) {'✗' if ratio > LIMIT else '✓'}")
    print("  edited: one chain ran alone each time")
    sys.exit(failed)


if __name__ == "__main__":
    main()
