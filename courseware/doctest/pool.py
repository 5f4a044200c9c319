"""Run tasks in forked children, a few at a time, each with a limit of time and memory.

A child is forked from a process that has only *imported* numpy, torch and triton: it starts in milliseconds, and
nothing that one task does (a global, an exit, a crash) reaches another. Parent and child share one pipe (JSON lines)
and one file for each of stdout and stderr.
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import json
import os
import resource
import selectors
import signal
import sys
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO

GIB = 1 << 30
BROKEN = 70  # exit status of a child in which not the task ended but what runs it (EX_SOFTWARE)
MAX_FILE = GIB // 4  # bytes that a task may write into one file, its output included


@dataclass
class Task:
    """`run(send)` happens in a child; each JSON-plain object it sends arrives in `messages`, in order."""

    name: str
    run: Callable[[Callable[[object], None]], None]
    seconds: float  # limit of time
    memory: int | None = 4 * GIB  # bytes of address space beyond the parent's; None for CUDA, which maps far more

    messages: list = field(default_factory=list)
    stdout: bytes = b""
    stderr: bytes = b""
    ending: str = ""  # "" when the child came to the end of `run`, else what ended it
    done: bool = False


@dataclass
class _Child:
    task: Task
    pid: int
    pipe: int
    stdout: BinaryIO
    stderr: BinaryIO
    deadline: float
    buffer: bytes = b""


class Pool:
    """At most `size` children at once; `wait(task)` drives all of them until that task is done."""

    def __init__(self, size: int | None = None):
        self.size = size or _cores()
        self._pending: deque[Task] = deque()
        self._children: dict[int, _Child] = {}
        self._selector = selectors.DefaultSelector()
        atexit.register(self.close)  # also when nobody is left to read what an interrupted pytest prints

    def submit(self, task: Task) -> None:
        self._pending.append(task)

    def wait(self, task: Task) -> Task:
        if not task.done and not self._owns(task):
            self.submit(task)
        while not task.done:
            self._step()
        return task

    def close(self) -> None:
        """End every child that still runs (an interrupted session leaves nothing behind)."""
        for child in list(self._children.values()):
            _kill(child.pid)
            os.waitpid(child.pid, 0)
        self._children.clear()

    def _owns(self, task: Task) -> bool:
        return task in self._pending or any(child.task is task for child in self._children.values())

    def _step(self) -> None:
        while self._pending and len(self._children) < self.size:
            self._start(self._pending.popleft())
        now = time.monotonic()
        timeout = max(0.0, min(child.deadline for child in self._children.values()) - now)
        for key, _ in self._selector.select(timeout):
            self._read(self._children[key.fd])
        for child in [c for c in self._children.values() if time.monotonic() >= c.deadline]:
            self._end(child, f"超过 {child.task.seconds:g} 秒的时限，已被终止")

    def _start(self, task: Task) -> None:
        read, write = os.pipe()
        stdout, stderr = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        with warnings.catch_warnings():  # Python ≥ 3.12 warns of OpenBLAS' threads, which idle and survive a fork
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            os.close(read)
            _child(task, write, stdout, stderr)
        os.close(write)
        child = _Child(task, pid, read, stdout, stderr, time.monotonic() + task.seconds)
        self._children[read] = child
        self._selector.register(read, selectors.EVENT_READ)

    def _read(self, child: _Child) -> None:
        data = os.read(child.pipe, 1 << 16)
        child.buffer += data
        *lines, child.buffer = child.buffer.split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                self._end(child, "代码块写进了执行器的管道；请只写自己打开的文件")
                return
            if message == "end":
                self._end(child, "")
                return
            child.task.messages.append(message)
        if not data:
            self._end(child, None)

    def _end(self, child: _Child, ending: str | None) -> None:
        """`ending` None: the pipe closed before the task was through, so the exit status tells."""
        self._selector.unregister(child.pipe)
        os.close(child.pipe)
        del self._children[child.pipe]
        if ending is None:
            _, status = os.waitpid(child.pid, 0)
            ending = _exit_words(os.waitstatus_to_exitcode(status))
            _kill_group(child.pid)
        else:
            _kill(child.pid)
            os.waitpid(child.pid, 0)
        task = child.task
        task.stdout, task.stderr = _contents(child.stdout), _contents(child.stderr)
        task.ending, task.done = ending, True


def die_with_parent(signal_: signal.Signals = signal.SIGKILL) -> None:
    """From now on this process gets a signal when its parent ends, killed or not (Linux; elsewhere it ends by itself)."""
    if sys.platform == "linux":
        PR_SET_PDEATHSIG = 1  # noqa: N806 (the kernel's name)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal_)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _kill(pid: int) -> None:
    """End the child and everything that it started and left in its process group."""
    _kill_group(pid)
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _contents(file: BinaryIO) -> bytes:
    with file:
        file.seek(0)
        return file.read(1 << 20)


def _exit_words(code: int) -> str:
    if code == BROKEN:
        return "执行器在代码块的进程里出错；代码块多半改动了 builtins、json 等标准库，或关掉了不是自己打开的文件"
    if code >= 0:
        return f"进程自行退出（退出码 {code}）；代码块不应调用 exit 或 os._exit"
    name = signal.Signals(-code).name
    words = {"SIGSEGV": "段错误", "SIGKILL": "被系统杀死，多半是内存不足", "SIGXFSZ": "写出的文件过大"}
    return f"进程被信号 {name} 终止（{words.get(name, '异常终止')}）"


def _child(task: Task, pipe: int, stdout: BinaryIO, stderr: BinaryIO) -> None:
    """In the forked child: own process group, own output, limits; never returns."""
    status = BROKEN
    try:
        die_with_parent()
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        _redirect(stdout.fileno(), stderr.fileno())
        if task.memory is not None and os.path.exists("/proc/self/statm"):  # Linux only
            with open("/proc/self/statm") as statm:
                used = int(statm.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + task.memory,) * 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE, MAX_FILE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        pid = os.getpid()

        def send(message: object) -> None:
            if os.getpid() == pid:  # a process that the task forked must not speak for it
                data = json.dumps(message, ensure_ascii=False).encode(errors="replace") + b"\n"  # no half of a surrogate pair
                while data:
                    data = data[os.write(pipe, data) :]

        task.run(send)
        send("end")
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


def _redirect(stdout: int, stderr: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (stdout, 1), (stderr, 2)):
        os.dup2(source, target)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    faulthandler.enable(sys.stderr)  # a segmentation fault names the page's line too
