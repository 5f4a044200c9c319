"""Execute one notebook with nbclient: `python -m courseware.doctest.notebook IN OUT SECONDS` prints a JSON result."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from courseware.doctest.pool import die_with_parent


def execute(source: Path, target: Path, root: Path, seconds: float) -> dict:
    """Run every cell in `root`, write the executed copy, and say how it went.

    Returns {"status": "ran" | "failed", "seconds", "error", "cell"}: cell is the 1-based code cell that failed.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    notebook = nbformat.read(source, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=seconds,
        kernel_name="python3",
        resources={"metadata": {"path": str(root)}},
        record_timing=False,  # the executed copy depends on its input alone
        coalesce_streams=True,  # and not on how fast it printed
    )
    start, error = time.perf_counter(), None
    try:
        client.execute()
    except CellExecutionError as caught:
        error = f"{caught.ename}: {caught.evalue}"
    except CellTimeoutError:
        error = f"一个单元超过 {seconds:g} 秒的时限"
    except DeadKernelError:
        error = "内核意外退出"
    if error is None and (skipped := _skipped(notebook)):
        error = f"内核提前结束，第 {skipped} 个代码单元没有执行"
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    nbformat.write(notebook, temporary)
    temporary.replace(target)  # a build that reads it meanwhile sees the old one whole
    return {
        "status": "failed" if error else "ran",
        "seconds": round(time.perf_counter() - start, 3),
        "error": error,
        "cell": _last_executed(notebook) if error else None,
    }


def _skipped(notebook) -> int | None:
    """The first code cell that has code and was not run, as after a `quit()`."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return next((n for n, cell in enumerate(cells, 1) if cell.source.strip() and cell.execution_count is None), None)


def _last_executed(notebook) -> int:
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    started = [n for n, cell in enumerate(cells, 1) if cell.execution_count or cell.outputs]
    return max(started, default=1)


if __name__ == "__main__":
    die_with_parent()
    source, target, root, seconds = sys.argv[1:]
    json.dump(execute(Path(source), Path(target), Path(root), float(seconds)), sys.stdout)
