"""Whether the last ledger still stands: nothing has changed since the checker and the runs found nothing wrong.

Contents decide, of all that a record's source is made from and of the machinery; of what else lies beside them, names,
sizes and times. Then neither checker nor runner has anything to do, and the ledger would come out the same.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from courseware import compiled
from courseware.doctest.fingerprint import PACKAGES
from courseware.doctest.ledger import load
from courseware.environment import environment
from courseware.project import Project


def inputs(project: Project) -> str:
    """Hash over what a ledger is made from, taken before anything is read; hidden files and built pages (`site*`) are not."""
    read = {project.docs, Path(__file__).parent, *(project.root / name for name in PACKAGES)}
    beside = {path for path in project.root.iterdir() if not path.name.startswith((".", "site"))}
    digest = hashlib.sha256(json.dumps(environment()).encode())
    for top in sorted(beside | {top for top in read if top.exists()}):
        for path in [top, *sorted(top.rglob("*"))]:
            if path.suffix != ".pyc" and path.name != "__pycache__":
                digest.update(f"{path}\0{_told(path, top in read)}\n".encode())
    return digest.hexdigest()


def _told(path: Path, read: bool) -> str:
    if read and path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    told = path.lstat()
    return "" if path.is_dir() else f"{told.st_size} {told.st_mtime_ns}"


def kept(project: Project, inputs: str) -> dict | None:
    """The last ledger, where it was kept for the same inputs and nothing of what came out of the runs has changed."""
    note = project.state / "checked"
    return load(project.state / "ledger.json") if note.is_file() and note.read_text("utf-8") == _note(project, inputs) else None


def keep(project: Project, inputs: str) -> None:
    """The ledger that was just written, from these inputs, has no problem in it."""
    (project.state / "checked").write_text(_note(project, inputs), "utf-8")


def _note(project: Project, inputs: str) -> str:
    files = [path for name in ("runs.json", "ledger.json") if (path := project.state / name).is_file()]
    pages = sorted(path.as_posix() for path in (project.state / compiled.FOLDER).rglob("*"))
    return "\n".join([inputs, *(hashlib.sha256(path.read_bytes()).hexdigest() for path in files), *pages])
