"""Two levels of a kernel's proof that need no GPU: interpreted on the CPU, and compiled for four GPU generations.

A kernel NAME is proved by the module kernels/proof/NAME.py: `cases(device)` gives the checks, each with a `name` and a
`check(device)` that raises; `variants()` gives what to compile, each with a `name`, a `source()` for `triton.compile`,
its `options` and, where it is not for all, the `targets` (90 is sm_90). The first variant of each kernel function stands
for it: what it was compiled to is kept as pages (`courseware.compiled`). The third level, a run on a GPU, is
`courseware.record`'s.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from courseware import compiled
from courseware.compiled import INSTRUCTIONS, STAGES, Compiled, Place
from courseware.doctest.pool import die_with_parent
from courseware.project import Project

PACKAGE = "kernels.proof"
TARGETS = {"sm_80": 80, "sm_90": 90, "sm_100": 100, "sm_120": 120}
SECONDS = 300.0  # limit of time for one level of one kernel
RESOURCE = re.compile(r"REG:(?P<registers>\d+) STACK:(?P<stack>\d+)")


def names(project: Project) -> list[str]:
    """Every kernel that has a proof."""
    folder = project.root.joinpath(*PACKAGE.split("."))
    return sorted(path.stem for path in folder.glob("[!_]*.py") if (project.root / "kernels" / path.name).is_file())


def source(project: Project, name: str) -> str:
    """Hash over the proof and every module that it reaches, the kernel among them."""
    return project.sources.source(f"import {PACKAGE}.{name}", kind="kernel")


def pages(project: Project, source: str) -> Path:
    """Folder of the pages of what a kernel was compiled to: another one for another source, or for other pages."""
    writer = hashlib.sha256(Path(compiled.__file__).read_bytes()).hexdigest()
    return project.state / compiled.FOLDER / f"{source[:16]}-{writer[:8]}"


def prove(project: Project, kernels: list[str]) -> dict[str, dict]:
    """Interpret and compile each kernel; {name: {"status", "interpreted", "compiled", "error", "seconds"}}."""
    if importlib.util.find_spec("triton") is None:
        reason = {"status": "not-applicable", "error": "这台机器上没有 Triton（只有 Linux 有安装包）"}
        return {name: {**reason, "interpreted": reason, "compiled": {}, "seconds": 0.0} for name in kernels}
    levels = [(name, level) for name in kernels for level in LEVELS]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as workers:
        found = dict(zip(levels, workers.map(lambda one: _run(project, *one), levels), strict=True))
    return {name: _result(*(found[name, level] for level in LEVELS)) for name in kernels}


def _run(project: Project, name: str, level: str) -> dict:
    """One level in a process of its own: Triton is made for the interpreter or the compiler when it is imported."""
    environment = {**os.environ, "TRITON_INTERPRET": "1" if level == "interpreted" else "0"}
    command = [sys.executable, "-m", "courseware.doctest.kernels", name, level, str(pages(project, source(project, name)))]
    try:
        process = subprocess.run(command, cwd=project.root, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return {"status": "failed", "error": f"超过 {SECONDS:g} 秒的时限，已被终止"}
    if process.returncode:
        return {"status": "failed", "error": process.stderr.strip() or f"进程自行退出（退出码 {process.returncode}）"}
    return json.loads(process.stdout.splitlines()[-1])


def check_cases(module: object, device: str, part: tuple[int, int] = (0, 1)) -> dict:
    """Run the checks of a proof on "cpu" (interpreted) or "cuda"; every failure is named, the first with its traceback.

    part: (start, step) for every step-th case from the start-th on.
    """
    cases, failed, first = module.cases(device)[part[0] :: part[1]], [], ""
    for case in cases:
        try:
            case.check(device)
        except Exception:
            failed.append(case.name)
            first = first or traceback.format_exc(limit=-2)
    error = f"{len(failed)}/{len(cases)} 例不对：{'、'.join(failed)}\n{first}" if failed else None
    status = "failed" if failed else "passed" if cases else "not-applicable"
    return {"status": status, "cases": len(cases), "error": error}


def _compile(module: object, folder: Path) -> dict:
    """Resources of every variant on every target; the first variant stands for the kernel. Writes the pages to `folder`."""
    targets, shown, faults = {}, {}, []
    for target, capability in TARGETS.items():
        results, functions = {}, {}
        for variant in module.variants():
            wanted = getattr(variant, "targets", ())
            if wanted and capability not in wanted:
                continue
            try:
                one = compile_variant(variant, capability)
            except Exception as error:
                results[variant.name] = {"status": "failed"}
                faults.append(f"{variant.name}, {target}: {type(error).__name__}: {error}")
                continue
            results[variant.name] = one.facts
            functions.setdefault(one.function, one)
        shown[target] = list(functions.values())
        if not results:
            targets[target] = {"status": "not-applicable", "variants": {}}
            continue
        first = next(iter(results.values()))
        status = "passed" if all(one["status"] == "passed" for one in results.values()) else "failed"
        targets[target] = {**first, "status": status, "variants": results}
    compiled.write(Path.cwd(), folder, shown)
    return {"status": "failed" if faults else "passed", "targets": targets, "error": "\n".join(faults) or None}


def compile_variant(variant: object, capability: int) -> Compiled:
    """Compile one specialisation without a GPU; its facts: {"registers" a thread, "shared_bytes", "spill_bytes", …}."""
    import triton
    from triton.backends.compiler import GPUTarget

    source = variant.source()
    built = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=dict(variant.options))
    registers, stack = _resources(built.asm["cubin"])
    counts = {name: len(re.findall(pattern, built.asm["ptx"])) for name, pattern in INSTRUCTIONS.items()}
    function, code = source.fn.fn.__name__, source.fn.fn.__code__
    constants = [f"{source.fn.arg_names[path[0]]}={value}" for path, value in source.constants.items() if len(path) == 1]
    return Compiled(
        function=function,
        place=Place(os.path.relpath(code.co_filename), code.co_firstlineno),
        variant=variant.name,
        settings=", ".join([*constants, f"num_warps={built.metadata.num_warps}"]),
        texts={stage: built.asm[stage] for stage in STAGES if stage in built.asm},
        facts={
            "status": "passed",
            "function": function,
            "registers": registers,
            "shared_bytes": built.metadata.shared,
            "spill_bytes": stack,
            "instructions": {name: count for name, count in counts.items() if count},
        },
    )


def _resources(cubin: bytes) -> tuple[int, int]:
    """Registers of a thread and bytes of its stack, where spilled registers go, read back from the machine code."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        output = subprocess.run([tool, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True)
    match = RESOURCE.search(output.stdout)
    return int(match["registers"]), int(match["stack"])


def _result(interpreted: dict, compiled: dict) -> dict:
    levels = {"解释执行": interpreted, "编译": compiled}
    errors = [f"{word}：{level['error']}" for word, level in levels.items() if level["error"]]
    return {
        "status": "failed" if errors else "passed",
        "interpreted": {"status": interpreted["status"], "cases": interpreted.get("cases", 0)},
        "compiled": compiled.get("targets", {}),
        "error": "\n".join(errors) or None,
        "seconds": round(sum(level.get("seconds", 0.0) for level in levels.values()), 3),
    }


LEVELS = {"interpreted": lambda module, folder: check_cases(module, "cpu"), "compiled": _compile}


def main(name: str, level: str, folder: str) -> None:
    """In the child: one level of one kernel; the result is the last line printed."""
    die_with_parent()
    sys.path.insert(0, os.getcwd())
    if importlib.util.find_spec("torch"):
        importlib.import_module("torch").set_num_threads(1)  # small operations, beside other processes
    start = time.perf_counter()
    module = importlib.import_module(f"{PACKAGE}.{name}")
    result = LEVELS[level](module, Path(folder))
    print(json.dumps({**result, "seconds": round(time.perf_counter() - start, 3)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
