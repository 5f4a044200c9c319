"""pytest plugin: run the blocks that pytest-codeblocks collects, each chain in its own process, a few at a time.

`pytest --codeblocks docs` runs what this machine can. Kinds become marks (`cuda`, `skeleton`) at collection, so that
`-m "not cuda"` and xdist see them. With `--ledger FILE` chains with a current record are not run again, and what runs
is recorded there.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

from courseware.doctest.blocks import chains
from courseware.doctest.execute import SECONDS, chain_result, chain_task, compile_result
from courseware.doctest.fingerprint import libraries
from courseware.doctest.ledger import Runs, chain_lines, failed
from courseware.doctest.pool import Pool
from courseware.environment import LIBRARIES, has_gpu
from courseware.page import PageError, read
from courseware.project import Project

SESSION = pytest.StashKey["Session"]()


class BlockFailure(Exception):
    """A block failed; the message holds the page, the line and the block's own traceback."""


class Session:
    """What one pytest run shares: the project, the pool and, with --ledger, the runs."""

    def __init__(self, config: pytest.Config):
        docs = config.option.course_docs
        self.project = Project(config.rootpath, Path(docs) if docs else None)
        self.pool = Pool(config.option.block_workers)
        self.seconds = config.option.block_seconds
        ledger = config.option.ledger
        self.runs = Runs(Path(ledger)) if ledger else None
        self.pages: dict[Path, tuple] = {}

    def page(self, path: Path) -> tuple:
        """The page at `path` and its chains by the line of their first fence."""
        if path not in self.pages:
            page = read(path, self.project.shown(path))
            self.pages[path] = page, {chain.line: chain for chain in chains(page)}
        return self.pages[path]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("courseware")
    group.addoption("--ledger", metavar="FILE", help="skip blocks with a current record in FILE and record the others")
    group.addoption("--course-docs", metavar="FOLDER", help="folder of the pages (docs)")
    group.addoption(
        "--block-seconds", type=float, default=SECONDS, metavar="S", help="limit of time for a chain of blocks (60)"
    )
    group.addoption("--block-workers", type=int, metavar="N", help="chains at once (one for each core; 1 to time them)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cuda: a block that needs an NVIDIA GPU")
    config.addinivalue_line("markers", "skeleton: a block that is compiled and not run")
    if getattr(config.option, "codeblocks", False):
        config.stash[SESSION] = Session(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    if SESSION in config.stash:
        config.stash[SESSION].pool.close()


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Give a block of pytest-codeblocks its chain, its marks and our way to run it."""
    session = item.config.stash.get(SESSION, None)
    block = getattr(item, "obj", None)
    if session is None or not hasattr(block, "lineno"):
        return
    item.runtest = lambda: _run(item)
    item.repr_failure = lambda excinfo, style=None: (
        str(excinfo.value) if excinfo.errisinstance(BlockFailure) else pytest.Item.repr_failure(item, excinfo)
    )
    item.task, item.chain = None, None
    item.fault = None
    try:
        page, by_line = session.page(item.path)
    except PageError as error:
        item.fault = str(error)
        return
    item.chain = by_line.get(block.lineno)
    if item.chain is None:
        item.fault = (
            f"{page.path}:{block.lineno}: 这个围栏（{block.syntax}）没有类型，不会渲染成代码块；"
            "首行应为 # 类型：【Runnable】等，命令用 ```console"
        )
        return
    item.wanted = session.project.wanted(item.chain)
    if item.chain.kind in ("cuda", "skeleton"):
        item.add_marker(item.chain.kind)
    if item.chain.kind == "cuda" and not has_gpu():
        item.add_marker(pytest.mark.skip(reason="这台机器没有 NVIDIA GPU"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --ledger, leave out the chains whose record is current."""
    session = config.stash.get(SESSION, None)
    if session is None or session.runs is None:
        return
    current = [item for item in items if _current(session, item)]
    if current:
        config.hook.pytest_deselected(items=current)
        items[:] = [item for item in items if item not in current]


def _current(session: Session, item: pytest.Item) -> bool:
    chain = getattr(item, "chain", None)
    if chain is None or chain.kind == "skeleton":
        return False
    return session.runs.chain(session.project.block_sources(chain)[-1], item.wanted) is not None


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Run the chains side by side before pytest asks for the first; it reports them in order.

    Those that need numpy alone come first: a process that holds torch takes ten times as long to fork.
    """
    ours = session.config.stash.get(SESSION, None)
    if ours is None or session.config.option.collectonly:
        return
    items = [i for i in session.items if _runs(i)]
    kinds = {i.chain.kind for i in items}
    needs = {i: libraries(i.chain.codes, ours.project.sources, LIBRARIES) for i in items}
    if hasattr(session.config, "workerinput"):  # under xdist each worker is given its items one by one
        preload([name for name in LIBRARIES if any(name in needs[i] for i in items)], kinds)
        return
    for light in (True, False):
        batch = [i for i in items if (set(needs[i]) <= {"numpy"}) == light]
        preload([name for name in LIBRARIES if any(name in needs[i] for i in batch)], kinds)
        for item in batch:
            ours.pool.submit(_task(ours, item))
        for item in batch:
            ours.pool.wait(item.task)


def preload(names: list[str], kinds: set[str]) -> None:
    """Import the heavy libraries once; the children inherit them. No torch operation may follow in this process.

    Triton makes its own functions (tl.max, …) for the interpreter or for the compiler when it is imported, so it is
    only inherited where all the children want the same (`kinds`: runnable is interpreted, cuda is compiled).
    """
    if len(kinds) == 1:
        os.environ["TRITON_INTERPRET"] = "0" if kinds == {"cuda"} else "1"
    for name in names:
        if name == "triton" and len(kinds) != 1:
            continue
        try:
            importlib.import_module(name)
        except ImportError:
            pass  # the block that needs it says so itself
    if {"torch", "triton"} <= set(names) & sys.modules.keys():
        importlib.import_module("torch._dynamo")  # the first call of a registered operator does, 1.5 s in each child


def _runs(item: pytest.Item) -> bool:
    chain = getattr(item, "chain", None)
    return chain is not None and chain.kind != "skeleton" and not item.get_closest_marker("skip")


def _task(session: Session, item: pytest.Item):
    if item.task is None:
        item.task = chain_task(item.chain, session.project.root, item.wanted, session.seconds)
    return item.task


def _run(item: pytest.Item) -> None:
    session = item.config.stash[SESSION]
    if item.fault:
        raise BlockFailure(item.fault)
    if item.chain.kind == "skeleton":
        result = compile_result(item.chain)
    else:
        result = chain_result(item.chain, session.pool.wait(_task(session, item)))
        if session.runs:
            source = session.project.block_sources(item.chain)[-1]
            session.runs.add("chains", source, {**result, "lines": chain_lines(item.chain)})
        if result["stderr"] and not failed(result):
            item.add_report_section("call", "stderr", result["stderr"])
    faults = [
        f"{block.page}:{block.line}: 代码块失败（{block.heading or '无标题'}）：\n{record['error']}"
        for block, record in zip(item.chain.blocks, result["blocks"], strict=True)
        if record["status"] in ("failed", "not-executed")
    ]
    if faults:
        raise BlockFailure("\n".join(faults))


def pytest_sessionfinish(session: pytest.Session) -> None:
    ours = session.config.stash.get(SESSION, None)
    if ours is not None and ours.runs is not None:
        ours.runs.save(ours.project)
