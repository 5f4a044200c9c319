"""Recorded runs: docs/evidence/*.json, written on a machine with a GPU and committed, the proof behind CUDA badges."""

from __future__ import annotations

import json
from pathlib import Path


def load(folder: Path) -> dict[str, dict]:
    """Every evidence file by its stem; a file that is no JSON raises ValueError naming it."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            found[path.stem] = json.loads(path.read_text("utf-8"))
        except ValueError as error:
            raise ValueError(f"{path}: 不是有效的 JSON（{error}）；请用 make record 重新生成") from error
    return found


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


def kernels(recorded: dict[str, dict]) -> list[dict]:
    """Kernel records of every evidence file, in the ledger's form."""
    return [kernel for data in recorded.values() for kernel in data.get("kernels", [])]
