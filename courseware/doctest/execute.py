"""Execute one chain of blocks in a child process and judge what came of it."""

from __future__ import annotations

import __future__

import linecache
import os
import sys
import traceback
import types
from collections.abc import Callable
from os import SEEK_CUR, lseek  # by name: a block may change the modules
from pathlib import Path
from time import perf_counter

from courseware.doctest.blocks import Chain
from courseware.doctest.pool import Task

SECONDS = 60.0  # limit of time for one chain
MAX_OUTPUT = 1 << 16  # bytes that one block may print: a page must stay readable
MAX_VALUE = 10_000  # characters of a value in the text
FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


def chain_task(chain: Chain, root: Path, wanted: list[str], seconds: float = SECONDS) -> Task:
    """The task that runs a chain: Triton interpreted for Runnable blocks, compiled for CUDA ones."""
    codes = [(block.line, block.code) for block in chain.blocks]
    cuda = chain.kind == "cuda"
    asked = wanted if chain.kind == "runnable" else []

    def run(send: Callable[[object], None]) -> None:
        os.environ["TRITON_INTERPRET"] = "0" if cuda else "1"
        os.chdir(root)
        sys.path.insert(0, str(root))
        execute(chain.page, codes, asked, send)

    name = f"{chain.page}:{chain.line}"
    return Task(name, run, seconds, memory=None) if cuda else Task(name, run, seconds)


def padded(line: int, code: str) -> str:
    """The code pushed down to the page lines it stands on, so that tracebacks and `inspect` name the page's lines."""
    return "\n" * line + code


def execute(page: str, codes: list[tuple[int, str]], wanted: list[str], send: Callable[[object], None]) -> None:
    """Run the codes of a chain in one `__main__`, stop at the first that fails, then take the wanted values."""
    module = types.ModuleType("__main__")
    module.__file__ = page
    sys.modules["__main__"] = module
    text = ""
    for line, code in codes:
        text += "\n" * (line - text.count("\n")) + code
    linecache.cache[page] = (len(text), None, text.splitlines(keepends=True), page)  # for getsource and @triton.jit
    flags, stdout, printed = 0, sys.stdout, os.dup(1)  # a block may close or replace its own
    for line, code in codes:
        start, error = perf_counter(), None
        try:
            compiled = compile(padded(line, code), page, "exec", flags, dont_inherit=True)
            flags |= compiled.co_flags & FUTURE
            exec(compiled, module.__dict__)
        except BaseException as caught:  # exits and interrupts are this block's failure too
            error = _traceback(caught)
        seconds = perf_counter() - start
        try:
            stdout.flush()
        except OSError as caught:  # what it printed is lost
            error = error or _traceback(caught)
        except ValueError:
            pass  # it closed its output, which flushed it
        send({"seconds": round(seconds, 4), "printed": lseek(printed, 0, SEEK_CUR), "error": error})
        if error:
            return
    send({"values": {spec: _value(spec, module.__dict__) for spec in wanted}})


def _traceback(caught: BaseException) -> str:
    """The traceback from the page's own frame on."""
    frames = caught.__traceback__
    while frames and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(caught), caught, frames)).rstrip()


def _value(spec: str, namespace: dict) -> dict | None:
    """Text of `NAME` or `NAME:FORMAT`; None where the chain does not bind NAME."""
    name, _, form = spec.partition(":")
    if name not in namespace:
        return None
    try:
        text = format(namespace[name], form) if form else str(namespace[name])
    except BaseException as caught:  # an exit too
        return {"error": f"{type(caught).__name__}: {caught}"}
    if len(text) > MAX_VALUE:
        return {"error": f"它有 {len(text)} 个字符，超过 {MAX_VALUE} 的上限"}
    return {"text": text}


def chain_result(chain: Chain, task: Task) -> dict:
    """The runs' entry of a finished task: blocks with status, seconds, output and error, and the values."""
    messages = list(task.messages)
    values = messages.pop()["values"] if messages and "values" in messages[-1] else {}
    if task.ending and len(messages) == len(chain.blocks) and not messages[-1]["error"]:
        messages[-1]["error"] = _ending(task)  # it died right after its last block
    blocks, position = [], 0
    for index, block in enumerate(chain.blocks):
        if index < len(messages):
            message = messages[index]
            output = task.stdout[position : message["printed"]]
            position = message["printed"]
            error = _too_long(output) or message["error"] or _output_fault(output, block.expected)
            blocks.append(_block(output, error, message["seconds"]))
        elif index == len(messages) and task.ending:
            blocks.append(_block(task.stdout[position:], _ending(task), None))
        else:
            error = "未执行：它承接的上一块失败了。"
            blocks.append({"status": "not-executed", "seconds": None, "output": "", "error": error})
    return {"blocks": blocks, "values": values, "stderr": task.stderr.decode(errors="replace")}


def _ending(task: Task) -> str:
    lines = [task.ending + "。", task.stderr.decode(errors="replace").strip()]
    return "\n".join(filter(None, lines))


def _block(output: bytes, error: str | None, seconds: float | None) -> dict:
    text = output[:MAX_OUTPUT].decode(errors="replace")
    return {"status": "failed" if error else "ran", "seconds": seconds, "output": text, "error": error}


def _too_long(output: bytes) -> str | None:
    if len(output) > MAX_OUTPUT:
        return f"输出 {len(output)} 字节，超过 {MAX_OUTPUT} 字节的上限；请少打印一些。"
    return None


def _output_fault(output: bytes, expected: str | None) -> str | None:
    text = output.decode(errors="replace")
    if expected is None or text == expected:
        return None
    return f"输出与 expected-output 不同。应为：\n{expected}\n实为：\n{text}"


def compile_result(chain: Chain) -> dict:
    """A skeleton is compiled, never run."""
    blocks = []
    for block in chain.blocks:
        error = None
        try:
            compile(padded(block.line, block.code), chain.page, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as caught:
            error = "".join(traceback.format_exception_only(caught)).rstrip()
        blocks.append(
            {"status": "failed" if error else "compiled", "seconds": None, "output": "", "error": error}
        )
    return {"blocks": blocks, "values": {}, "stderr": ""}
