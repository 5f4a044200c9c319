"""What machine and versions a run happened on, read without importing torch."""

from __future__ import annotations

import platform
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

LIBRARIES = ("numpy", "torch", "triton")


def has_gpu() -> bool:
    """An NVIDIA device exists on this machine. CUDA is not touched: a process that did could no longer fork."""
    return any(Path("/dev").glob("nvidia[0-9]*"))


def device() -> str:
    """Name of the GPU that CUDA blocks would run on, else of the processor."""
    for information in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        for line in information.read_text().splitlines():
            if line.startswith("Model:"):
                return line.split(":", 1)[1].strip()
    return f"CPU ({platform.machine()})"


def versions() -> dict[str, str]:
    """Python and library versions: what decides whether a local run must be repeated."""
    found = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            found[library] = "not installed"
    return found


def environment() -> dict[str, str]:
    """The ledger's `environment`: versions, device and date (UTC)."""
    return {**versions(), "device": device(), "date": datetime.now(timezone.utc).strftime("%Y-%m-%d")}
