"""Tasks in forked children: each ends alone, whatever it does."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from courseware.doctest.pool import GIB, Pool, Task


def run(function, seconds=20.0, memory=GIB) -> Task:
    return Pool(1).wait(Task("t", function, seconds, memory))


def crash(send):
    os.kill(os.getpid(), signal.SIGSEGV)


def greedy(send):
    bytearray(3 * GIB)


def hang_with_signals_ignored(send):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1)


def hang_in_thread(send):
    threading.Thread(target=time.sleep, args=(100,)).start()


@pytest.mark.parametrize(
    ("function", "seconds", "ending"),
    [
        (lambda send: send(1), 20, ""),
        (lambda send: os._exit(0), 20, "退出码 0"),
        (lambda send: os._exit(7), 20, "退出码 7"),
        (lambda send: sys.exit(3), 20, "执行器在代码块的进程里出错"),
        (crash, 20, "段错误"),
        (greedy, 20, "执行器在代码块的进程里出错"),
        (hang_with_signals_ignored, 0.5, "0.5 秒"),
        (hang_in_thread, 20, ""),
    ],
    ids=["plain", "exit0", "exit7", "sys.exit", "segfault", "memory", "hang", "thread"],
)
def test_endings(function, seconds, ending):
    start = time.monotonic()
    task = run(function, seconds)
    assert task.done and ending in task.ending and bool(ending) == bool(task.ending)
    assert time.monotonic() - start < 15


def test_messages_and_output_arrive_whole():
    def chatter(send):
        print("out")
        sys.stdout.flush()
        os.write(1, b"raw\n")
        print("err", file=sys.stderr)
        for n in range(3):
            send({"n": n, "text": "长" * 100_000})

    task = run(chatter)
    assert [m["n"] for m in task.messages] == [0, 1, 2] and task.messages[0]["text"] == "长" * 100_000
    assert (task.stdout, task.stderr) == (b"out\nraw\n", b"err\n")


def test_stdin_is_empty():
    task = run(lambda send: send(sys.stdin.read()))
    assert task.messages == [""]


def test_a_forked_grandchild_cannot_speak_for_the_task():
    def fork(send):
        if os.fork() == 0:
            send("grandchild")
            return
        os.wait()
        send("child")

    assert run(fork).messages == ["child"]


def test_what_a_task_left_running_is_ended(tmp_path):
    mark = tmp_path / "mark"

    def leave(send):
        subprocess.Popen([sys.executable, "-c", f"import time; time.sleep(1.5); open({str(mark)!r}, 'w')"])

    run(leave)
    time.sleep(2.5)
    assert not mark.exists()


def test_tasks_run_side_by_side_and_results_keep_their_task():
    pool = Pool(2)
    tasks = [Task(str(n), lambda send, n=n: (time.sleep(1), send(n)), 20.0) for n in range(4)]
    start = time.monotonic()
    for task in tasks:
        pool.submit(task)
    assert [pool.wait(task).messages for task in reversed(tasks)] == [[3], [2], [1], [0]]
    assert time.monotonic() - start < 3.5  # four seconds, two at a time


def test_one_task_does_not_see_another():
    sys.modules[__name__].shared = 0

    def bump(send):
        sys.modules[__name__].shared += 1
        send(sys.modules[__name__].shared)

    pool = Pool(1)
    assert [pool.wait(Task("t", bump, 20.0)).messages for _ in range(2)] == [[1], [1]]


def test_close_ends_children():
    pool = Pool(1)
    task = Task("t", lambda send: time.sleep(100), 200.0)
    pool.submit(task)
    pool._start(pool._pending.popleft())
    (child,) = pool._children.values()
    pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)
