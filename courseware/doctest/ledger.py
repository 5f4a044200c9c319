"""The ledger: what ran, where, when, on which source.

Two files in the project's state folder. `runs.json` keeps what this machine has executed, by source hash, so that only
what changed runs again. `ledger.json` is put together from it, the pages as they stand and the recorded evidence; it is
all that rendering reads, and its "verification" part becomes the site's verification.json.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from functools import lru_cache
from pathlib import Path, PurePosixPath

from courseware import compiled, evidence
from courseware.doctest import kernels
from courseware.doctest.blocks import QUIZ_KEY, Chain, wanted_values
from courseware.doctest.execute import compile_result
from courseware.environment import environment, versions
from courseware.page import COMPILED, Page, shows
from courseware.problem import Problem
from courseware.project import Project

FORMAT = 1  # of a run's record; another number has everything run again
NOT_RUN = "先改好一起列出的其他错误；没有的话，看执行器的输出（mkdocs build -v）"
EMPTY = {"verification": {}, "chains": {}, "compiled": "", "demos": {}, "evidence": {}, "unrecorded": []}


def write(path: Path, data: object) -> None:
    """Replace a JSON file in one step: a reader or a killed build never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", "utf-8")
    temporary.replace(path)


def load(path: Path | str) -> dict:
    """The assembled ledger, read again only when the file changed; empty parts where there is none yet."""
    path = Path(path)
    try:
        stamp = path.stat()
    except FileNotFoundError:
        return EMPTY
    return _load(str(path), stamp.st_mtime_ns, stamp.st_size)


@lru_cache(maxsize=4)
def _load(path: str, _mtime: int, _size: int) -> dict:
    try:
        data = json.loads(Path(path).read_text("utf-8"))
    except ValueError:
        return EMPTY
    return EMPTY | data if isinstance(data, dict) else EMPTY


class Runs:
    """Local runs by source hash, of one environment: other versions begin anew, and so does a file that was changed."""

    def __init__(self, path: Path):
        self.path = path
        empty = {"versions": versions(), "chains": {}, "demos": {}, "notebooks": {}, "kernels": {}}
        try:
            data = json.loads(path.read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            data = empty
        if isinstance(data, dict) and data.pop("seal", None) != _seal(data):
            data = empty
        usable = isinstance(data, dict) and data.keys() == empty.keys() and data["versions"] == empty["versions"]
        self.data = data if usable else empty

    @classmethod
    def of(cls, project: Project) -> Runs:
        return cls(project.state / "runs.json")

    def save(self, project: Project) -> None:
        """Write the runs that the project as it stands still refers to."""
        sources = {
            "chains": {project.block_sources(chain)[-1] for _, chain in project.chains},
            "demos": {project.demo_source(demo) for demo in project.demos.values()},
            "notebooks": {project.notebook_source(path) for path in project.notebooks},
            "kernels": {kernels.source(project, name) for name in kernels.names(project)},
        }
        for part, kept in sources.items():
            self.data[part] = {source: run for source, run in self.data[part].items() if source in kept}
        write(self.path, {**self.data, "seal": _seal(self.data)})
        kept = {kernels.pages(project, source) for source in sources["kernels"]}
        for folder in set((project.state / compiled.FOLDER).glob("*")) - kept:
            shutil.rmtree(folder, ignore_errors=True)

    def add(self, part: str, source: str, result: dict) -> None:
        self.data[part][source] = {**result, "environment": environment()}

    def forget(self, project: Project, *, failures: bool) -> None:
        """Drop runs that must be repeated: with `failures` all that failed, else those whose lines have moved."""
        moved = {project.block_sources(chain)[-1]: chain_lines(chain) for _, chain in project.chains}
        for part in ("chains", "demos", "notebooks", "kernels"):
            self.data[part] = {
                source: run
                for source, run in self.data[part].items()
                if not failed(run) or not (failures or run.get("lines") != moved.get(source))
            }

    def chain(self, source: str, wanted: list[str]) -> dict | None:
        """The run of a chain, unless it has none or never looked at a value that the page now wants."""
        run = self.data["chains"].get(source)
        if run and not failed(run) and any(spec not in run["values"] for spec in wanted):
            return None
        return run


def _seal(data: dict) -> str:
    """Hash over the runs and what their records look like: damage at any depth, or another format, is noticed."""
    return hashlib.sha256(f"{FORMAT}{json.dumps(data, sort_keys=True)}".encode()).hexdigest()


def chain_lines(chain: Chain) -> list[int]:
    return [block.line for block in chain.blocks]


def failed(run: dict) -> bool:
    return any(block["status"] == "failed" for block in run.get("blocks", [])) or run.get("status") == "failed"


def pending(project: Project, runs: Runs) -> dict[str, list]:
    """What has no current record and has to run: chains, demos, notebooks and the kernels' proofs."""
    return {
        "chains": [
            chain
            for _, chain in project.chains
            if chain.kind == "runnable"
            and runs.chain(project.block_sources(chain)[-1], project.wanted(chain)) is None
        ],
        "demos": [d for d in project.demos.values() if d.callable and project.demo_source(d) not in runs.data["demos"]],
        "notebooks": [p for p in project.notebooks if project.notebook_source(p) not in runs.data["notebooks"]],
        "kernels": [name for name in kernels.names(project) if not _proved(project, name, runs)],
    }


def _proved(project: Project, name: str, runs: Runs) -> bool:
    """Whether a kernel has a record and, where it was compiled, the pages that show it."""
    source = kernels.source(project, name)
    run = runs.data["kernels"].get(source)
    return bool(run) and (not run["compiled"] or kernels.pages(project, source).is_dir())


def assemble(project: Project, runs: Runs) -> dict:
    """The ledger of the project as it stands (see the module's docstring)."""
    recorded = evidence.load(project.docs / "evidence")
    chains, records = {}, []
    for _, chain in project.chains:
        entry = _chain_entry(project, chain, runs, recorded)
        chains[chain.key] = entry
        for block, record in zip(chain.blocks, entry["blocks"], strict=True):
            records.append(
                {
                    "page": project.page_name(block.page),
                    "heading": block.heading,
                    "line": block.line,
                    "kind": block.kind,
                    "number": block.number,
                    **{key: record[key] for key in ("status", "seconds", "output", "source", "environment")},
                }
            )
    demos = {name: runs.data["demos"].get(project.demo_source(demo)) for name, demo in project.demos.items()}
    return {
        "verification": {
            "environment": environment(),
            "blocks": records,
            "notebooks": [_notebook_record(project, path, runs) for path in project.notebooks],
            "demos": _demo_records(project, demos),
            "kernels": [_kernel_record(project, name, runs, recorded) for name in kernels.names(project)],
        },
        "chains": chains,
        "compiled": next((project.page_name(page.path) for page in project.pages if shows(page, COMPILED)), ""),
        "demos": {name: run for name, run in demos.items() if run},
        "evidence": {name: _figures(project, name, data) for name, data in recorded.items()},
        "unrecorded": [name for name in evidence.benchmarks(project) if name not in recorded],
    }


def _figures(project: Project, name: str, data: dict) -> dict:
    """An evidence file without its records of blocks and kernels; `stale` when the benchmarks have changed since."""
    kept = {key: value for key, value in data.items() if key not in ("blocks", "kernels")}
    return {**kept, "stale": bool(data["figures"]) and data["source"] != evidence.benchmark_source(project, name)}


def _run_of(project: Project, chain: Chain, runs: Runs) -> dict | None:
    """The run of a chain, if it has one; a skeleton is compiled on the spot, which costs less than to look it up."""
    if chain.kind == "skeleton":
        return {**compile_result(chain), "environment": environment()}
    return runs.data["chains"].get(project.block_sources(chain)[-1])


def _runs_of(project: Project, page: Page, runs: Runs) -> list[dict]:
    """The runs of a page's chains, in order, those that have one."""
    found = (_run_of(project, chain, runs) for other, chain in project.chains if other is page)
    return [run for run in found if run]


def _chain_entry(project: Project, chain: Chain, runs: Runs, recorded: dict) -> dict:
    sources = project.block_sources(chain)
    run = _run_of(project, chain, runs)
    blocks = []
    for index, (block, source) in enumerate(zip(chain.blocks, sources, strict=True)):
        record = {"status": "not-executed", "seconds": None, "output": "", "error": None, "environment": None}
        if run:
            record = {**run["blocks"][index], "environment": run["environment"]}
        elif block.kind == "cuda":
            record |= evidence.block(recorded, project.page_name(block.page), block.heading, source)
        blocks.append({**record, "source": source})
    texts = {spec: value and value.get("text") for spec, value in (run or {}).get("values", {}).items()}
    return {"blocks": blocks, "values": texts}


def _notebook_record(project: Project, path: Path, runs: Runs) -> dict:
    source = project.notebook_source(path)
    run = runs.data["notebooks"].get(source, {"status": "not-executed", "seconds": None, "environment": None})
    kept = {key: run[key] for key in ("status", "seconds", "environment")}
    return {"page": path.relative_to(project.docs).as_posix(), **kept, "source": source}


def _kernel_record(project: Project, name: str, runs: Runs, recorded: dict) -> dict:
    source = kernels.source(project, name)
    run = runs.data["kernels"].get(source, {"interpreted": {"status": "not-executed", "cases": 0}, "compiled": {}})
    return {
        "name": name,
        "interpreted": run["interpreted"],
        "compiled": run["compiled"],
        "recorded": evidence.kernel(recorded, name, source),
        "source": source,
    }


def _demo_records(project: Project, demos: dict[str, dict | None]) -> list[dict]:
    """One record per place where a page shows a demo or a picture."""
    return [
        {
            "page": project.page_name(page.path),
            "name": name,
            "line": line,
            "status": (demos[name] or {}).get("status", "not-executed"),
            "source": project.demo_source(project.demos[name]),
        }
        for page in project.pages
        for line, name in sorted([*_demos_of(page), *_pictures_of(page)])
        if name in demos
    ]


def _demos_of(page: Page) -> list[tuple[int, str]]:
    return [(c.line, c.title.partition(" ")[0]) for c in page.containers if c.name == "demo"]


def _pictures_of(page: Page) -> list[tuple[int, str]]:
    return [(line, PurePosixPath(target).name.removesuffix(".j2")) for line, target in page.pictures]


def problems(project: Project, runs: Runs) -> list[Problem]:
    """What failed when the project ran, each with its place."""
    return [
        *_block_problems(project, runs),
        *(p for page in project.pages for p in _value_problems(project, page, runs)),
        *_demo_problems(project, runs),
        *_notebook_problems(project, runs),
        *_kernel_problems(project, runs),
    ]


def _block_problems(project: Project, runs: Runs) -> list[Problem]:
    found = []
    for _, chain in project.chains:
        run = _run_of(project, chain, runs)
        if run is None and chain.kind == "runnable":
            found.append(Problem(chain.page, chain.line, "代码块没有执行记录", NOT_RUN))
        for block, record in zip(chain.blocks, run["blocks"] if run else [], strict=bool(run)):
            if record["status"] == "failed":
                remedy = "改好这个代码块或它引用的模块"
                found.append(Problem(block.page, block.line, f"代码块失败：{_summary(record['error'])}", remedy, record["error"]))
            elif run and record["error"]:
                found.append(Problem(block.page, block.line, record["error"].rstrip("。"), "先改好上一块"))
    return found


def _summary(error: str) -> str:
    """The one line that tells: the first of a traceback's message, the first sentence of what the runner itself says."""
    lines = error.strip().splitlines()
    if "Exception Group" in lines[0]:
        lines = [re.sub(r"^\s{0,2}[|+] ?", "", line) for line in lines]
    if not lines[0].lstrip().startswith(("Traceback", "File ", "Exception Group")):
        return lines[0].partition("。")[0]
    last = max((n for n, line in enumerate(lines) if re.match(r'\s*File "', line)), default=0)
    return next((line for line in lines[last + 1 :] if line and not line[0].isspace()), lines[-1])


def _value_problems(project: Project, page: Page, runs: Runs) -> list[Problem]:
    """A value that no chain bound, that two chains bound differently, or that its format does not fit."""
    found = []
    entries = _runs_of(project, page, runs)
    lines = {spec: line for line, what, spec in reversed(page.values) if what == "value"}
    for spec in wanted_values(page):
        bound = [entry["values"][spec] for entry in entries if entry["values"].get(spec)]
        texts = {value["text"] for value in bound if "text" in value}
        errors = [value["error"] for value in bound if "error" in value]
        name = spec.partition(":")[0]
        line = lines.get(spec) or _key_line(page, name)
        if errors and len(bound) == 1:
            found.append(Problem(page.path, line, f"值 {spec} 无法写出：{errors[0]}", "换一个适合其类型的格式"))
        elif errors or len(texts) > 1:
            fault = f"值 {name} 在两个代码块里不同" + (f"（{'、'.join(sorted(texts))}）" if len(texts) > 1 else "")
            found.append(Problem(page.path, line, fault, "给其中一个换个名字"))
        elif not texts and not any(failed(entry) for entry in entries):
            found.append(Problem(page.path, line, f"值 {name} 没有被任何可运行代码块赋值", "在本页的代码块里给它赋值，或改正名字"))
    return found


def page_values(project: Project, page: Page, runs: Runs) -> dict[str, str]:
    """Texts of the values that a page's chains gave, by `NAME` or `NAME:FORMAT`."""
    given = [(spec, value) for run in _runs_of(project, page, runs) for spec, value in run["values"].items()]
    return {spec: value["text"] for spec, value in given if value and "text" in value}


def _key_line(page: Page, name: str) -> int:
    keys = (match for match in QUIZ_KEY.finditer(page.prose) if match["name"] == name)
    return next((page.line_of(match.start("name")) for match in keys), 1)


def _demo_problems(project: Project, runs: Runs) -> list[Problem]:
    found = []
    for demo in project.demos.values():
        run = runs.data["demos"].get(project.demo_source(demo))
        if not demo.callable:
            continue  # the checker says what its first line lacks
        if run is None:
            found.append(Problem(project.shown(demo.template), 1, f"演示 {demo.name} 的数据没有执行记录", NOT_RUN))
        elif run["status"] == "failed":
            fault = f"演示 {demo.name} 的数据没有算出来：{run['error'].splitlines()[-1]}"
            remedy = f"改好 {demo.call} 或它的参数"
            found.append(Problem(project.shown(demo.template), 1, fault, remedy, run["error"]))
    return found


def _notebook_problems(project: Project, runs: Runs) -> list[Problem]:
    found = []
    for path in project.notebooks:
        run = runs.data["notebooks"].get(project.notebook_source(path))
        if run is None:
            found.append(Problem(project.shown(path), 1, "笔记本没有执行记录", NOT_RUN))
        elif run["status"] == "failed":
            fault = f"笔记本的第 {run['cell']} 个代码单元失败：{run['error'].splitlines()[-1]}"
            found.append(Problem(project.shown(path), 1, fault, "改好这个单元", run["error"]))
    return found


def _kernel_problems(project: Project, runs: Runs) -> list[Problem]:
    found = []
    for name in kernels.names(project):
        run = runs.data["kernels"].get(kernels.source(project, name))
        if run is None:
            found.append(Problem(f"kernels/{name}.py", 1, f"内核 {name} 没有执行记录", NOT_RUN))
        elif failed(run):
            fault = f"内核 {name} 没有通过验证"
            found.append(Problem(f"kernels/{name}.py", 1, fault, "改好内核或 kernels/proof 里的检查", run["error"]))
    return found
