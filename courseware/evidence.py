"""Recorded runs: docs/evidence/*.json, written on a machine with a GPU and committed, the proof behind CUDA badges."""

from __future__ import annotations

import json
import math
from pathlib import Path

from courseware.project import Project

FIELDS = {"figures": dict, "environment": dict, "command": str, "date": str, "source": str}
RECORDS = {
    "blocks": {"page": str, "heading": str, "source": str, "seconds": (int, float), "output": str},
    "kernels": {"name": str, "source": str, "status": str, "cases": int},
}
BENCHMARKS = "kernels.benchmarks"  # the package: one module a group of figures


def benchmarks(project: Project) -> list[str]:
    """Names of the groups."""
    modules = (name.removeprefix(f"{BENCHMARKS}.") for name in project.sources.modules if name.startswith(f"{BENCHMARKS}."))
    return sorted(name for name in modules if not name.startswith("_"))


def benchmark_source(project: Project, name: str) -> str:
    """Hash over one group and every module that it reaches."""
    return project.sources.source(f"import {BENCHMARKS}.{name}", kind="benchmark")


def load(folder: Path) -> dict[str, dict]:
    """Every evidence file by its stem, but for those that are damaged: the checker refuses them."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            data = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):  # a folder or a dead link, no JSON, brackets without end
            continue
        if not fault(data):
            found[path.stem] = data
    return found


def fault(data: object) -> str:
    """What an evidence file lacks, in words that follow its name; "" when all that others rely on is there."""
    if not isinstance(data, dict):
        return "不是 JSON 对象"
    for key, kind in FIELDS.items():
        if not isinstance(data.get(key), kind):
            return f"的 {key} 类型不对" if key in data else f"没有 {key}"
    if not all(isinstance(data["environment"].get(key), str) for key in ("device", "date")):
        return "的 environment 缺少 device 或 date"
    for key, figure in data["figures"].items():
        if not isinstance(figure, dict) or not _is(figure.get("value"), (int, float, str)):
            return f"的数值 {key} 没有 value，或它不是有限的数或文字"
        if not isinstance(figure.get("unit", ""), str):
            return f"的数值 {key} 的 unit 不是文字"
    for part, kinds in RECORDS.items():
        records = data.get(part, [])
        if not isinstance(records, list):
            return f"的 {part} 不是列表"
        for number, record in enumerate(records, 1):
            missing = [key for key in kinds if not isinstance(record, dict) or key not in record]
            if missing:
                return f"的 {part} 第 {number} 条缺少 {'、'.join(missing)}"
            if wrong := [key for key, kind in kinds.items() if not _is(record[key], kind)]:
                return f"的 {part} 第 {number} 条类型不对：{'、'.join(wrong)}"
    return ""


def _is(value: object, kind: type | tuple[type, ...]) -> bool:
    """Of that kind, and a number only where it is one that can be shown: JSON in Python knows NaN and the infinities."""
    return isinstance(value, kind) and not isinstance(value, bool) and not (isinstance(value, float) and not math.isfinite(value))


def block(recorded: dict[str, dict], page: str, heading: str, source: str) -> dict:
    """Record of a CUDA block: recorded where a run has the same source, stale where only its place is known."""
    stale: dict = {}
    for data in recorded.values():
        for run in data.get("blocks", []):
            entry = {key: run[key] for key in ("seconds", "output")} | {"environment": data["environment"]}
            if run["source"] == source:
                return {**entry, "status": "recorded"}
            if (run["page"], run["heading"]) == (page, heading):
                stale = {**entry, "status": "stale"}
    return stale


def kernel(recorded: dict[str, dict], name: str, source: str) -> list[dict]:
    """Runs of a kernel's proof on named hardware, each passed, failed or stale (its source has changed since)."""
    return [
        {
            "device": data["environment"]["device"],
            "date": data["environment"]["date"],
            "status": run["status"] if run["source"] == source else "stale",
            "cases": run["cases"],
            "evidence": file,
        }
        for file, data in recorded.items()
        for run in data.get("kernels", [])
        if run["name"] == name
    ]
