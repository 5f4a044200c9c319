"""The one MkDocs hook: check and run before a build, stage the build, swap it in when all of it succeeded.

Events, in the order MkDocs fires them:
  on_config      a build goes to a staging folder; under `serve` strictness is off
  on_pre_build   checker and runner, unless nothing changed; the ledger is put together; a build with any problem ends here
  on_files       executed notebooks take the place of their sources; verification.json; pages of what kernels were compiled to
  on_page_markdown  under `serve` a page that cannot be rendered becomes a problem on that page
  on_page_content  under `serve` a page shows its own problems; a notebook's page loses its inlined styles
  on_page_context  all pages have been rendered: the overview of what was read
  on_post_build  the search index in plain UTF-8, the theme lightened, the policy written; links and anchors of the built pages
  on_shutdown    the staged site replaces the last good one
"""

from __future__ import annotations

import fcntl
import html
import json
import logging
import shutil
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import click
from markdown import Markdown
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import Abort
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page
from mkdocs.structure.toc import get_toc
from mkdocs.utils import CountHandler

from courseware import compiled, links, notebook_page, policy, theme, unchanged
from courseware.check import check
from courseware.check.quizzes import computed_keys
from courseware.dialect import progress
from courseware.doctest import kernels
from courseware.doctest.ledger import Runs, assemble, page_values, pending, problems, write
from courseware.problem import Problem
from courseware.project import Project

log = logging.getLogger("mkdocs.courseware")
logging.getLogger("jieba").addFilter(lambda record: record.levelno >= logging.WARNING)  # not its loading times


class Build:
    """One build: where it is staged, what it found. MkDocs loads hooks anew for each configuration."""

    serving = False
    reached_end = False
    final: Path  # the site that readers get
    staging: Path
    lock = None
    project: Project
    problems: list[Problem] = []
    ledger: dict = {}


def on_config(config: MkDocsConfig) -> None:
    context = click.get_current_context(silent=True)
    # `serve --clean` announces itself as a build, so the command line decides
    Build.serving = context is not None and context.info_name == "serve"
    _absolute_paths(config, Path(config.config_file_path).resolve().parent)
    if Build.serving:
        _forgive_warnings()
        config.mdx_configs.get("pymdownx.snippets", {})["check_paths"] = False  # the checker says it, the page stands
        return
    if logging.getLogger("mkdocs").getEffectiveLevel() > logging.WARNING:
        raise Abort("-q 会连警告一起藏起来，坏链接就会混进站点；请去掉 -q 再构建")
    Build.final = Path(config.site_dir).resolve()  # through a link, which stays
    if Build.final.exists() and not Build.final.is_dir():
        raise Abort(f"{Build.final} 是文件，站点要写进文件夹；移走它，或用 --site-dir 换一个文件夹")
    Build.staging = Build.final.with_name(f".{Build.final.name}.staging")
    _lock(Build.final)
    _recover(Build.final)
    config.site_dir = str(Build.staging)


@event_priority(100)
def on_pre_build(config: MkDocsConfig) -> None:
    project = Build.project = Project(Path(config.config_file_path).parent, Path(config.docs_dir))
    inputs = unchanged.inputs(project)
    if ledger := unchanged.kept(project, inputs):
        Build.ledger, Build.problems = ledger, []
        return
    runner = _start_runner(project)
    found = check(project.docs, root=project.root)
    _wait_for(runner)
    runs = Runs.of(project)
    found = sorted({*found, *_after_run(project, runs, {(problem.path, problem.line) for problem in found})})
    Build.ledger = assemble(project, runs)
    write(project.state / "ledger.json", Build.ledger)
    Build.problems = found
    for problem in found:
        (log.warning if Build.serving else log.error)(str(problem))
    if not found:
        unchanged.keep(project, inputs)
    elif not Build.serving:
        raise Abort(f"构建中止：共 {len(found)} 处问题，上一次的站点没有改动")


def _after_run(project: Project, runs: Runs, told: set[tuple[str, int]]) -> list[Problem]:
    """What only the run could show; a value that is missing where the checker said so already is not told twice."""
    keys = [p for page in project.pages for p in computed_keys(page, page_values(project, page, runs))]
    return keys + [p for p in problems(project, runs) if not (p.fault.startswith("值 ") and (p.path, p.line) in told)]


@event_priority(100)  # before mkdocs-jupyter looks at the files
def on_files(files: Files, config: MkDocsConfig) -> Files:
    executed = Build.project.executed
    for path in Build.project.notebooks:
        uri = path.relative_to(Build.project.docs).as_posix()
        if (executed / uri).exists() and (original := files.get_file_from_path(uri)):
            files.remove(original)
            urls = config.use_directory_urls
            files.append(File(uri, str(executed), config.site_dir, urls, inclusion=original.inclusion))
    report = json.dumps(Build.ledger["verification"], ensure_ascii=False, indent=1)
    files.append(File.generated(config, "verification.json", content=report))
    _compiled(files, config)
    return files


def _compiled(files: Files, config: MkDocsConfig) -> None:
    """Where a page shows the marker, what each kernel was compiled to, as its proof left it."""
    project, page = Build.project, files.get_file_from_path(Build.ledger["compiled"])
    if page is None:
        return
    for kernel in Build.ledger["verification"]["kernels"]:
        folder = kernels.pages(project, kernel["source"])
        for path in sorted(folder.glob("*/*.html")):
            uri = f"{compiled.FOLDER}/{path.relative_to(folder).as_posix()}"
            content = path.read_text("utf-8").replace(compiled.BACK, page.url_relative_to(uri))
            files.append(File.generated(config, uri, content=content))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> None:
    """Under serve MkDocs would give up every page for one that cannot be rendered."""
    if Build.serving:
        page.render = partial(_render, page, page.render)


def _render(page: Page, render: Callable, config: MkDocsConfig, files: Files) -> None:
    try:
        render(config, files)
    except Exception as error:  # whatever a part of the dialect stumbles over, the server stands
        page.content, page.toc = "", get_toc([])
        path = Build.project.shown(Path(config.docs_dir, page.file.src_uri))
        fault, remedy = f"这一页画不出来：{type(error).__name__}: {error}", "改写这一处；检查器没有指出它，请报告给维护 courseware 的人"
        problem = Problem(path, _culprit(path, config), fault, remedy, traceback.format_exc(limit=-3))
        Build.problems = [*Build.problems, problem]
        log.warning(str(problem))


def _culprit(path: str, config: MkDocsConfig) -> int:
    """Line of the smallest container that cannot be rendered by itself either, else the page's first."""
    page = next((page for page in Build.project.pages if page.path == path), None)
    found = [(1 << 30, 1)]
    for container in page.containers if page else []:
        end = container.end or len(page.lines)
        text = textwrap.dedent("\n".join(page.lines[container.line - 1 : end]).expandtabs(4))
        try:
            Markdown(extensions=config.markdown_extensions, extension_configs=config.mdx_configs or {}).convert(text)
        except Exception:
            found.append((end - container.line, container.line))
    return min(found)[1]


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    if page.file.src_uri.endswith(".ipynb"):
        html, tokens = notebook_page.tidy(html, Path(page.file.src_uri).name)
        page.toc = get_toc(tokens)
        html = progress.mark(html)
    return _problem_box(page) + html


@event_priority(100)  # before the search index takes the text
def on_page_context(context: dict, page: Page, config: MkDocsConfig, nav: Navigation) -> dict:
    if progress.MARKER in page.content:
        uncounted = tuple(config.extra.get("uncounted", []))
        entries = [
            progress.Entry(
                p.title, p.file.url_relative_to(page.file), p.content, not p.file.src_uri.startswith(uncounted)
            )
            for p in nav.pages
            if p is not page
        ]
        page.content = page.content.replace(progress.MARKER, progress.overview(entries))
    return context


def on_post_build(config: MkDocsConfig) -> None:
    site = Path(config.site_dir)
    _unescape(site / "search" / "search_index.json")
    if Build.serving:
        return
    base = urlsplit(config.site_url or "").path
    broken = theme.lighten(site) + policy.protect(site) + links.check(site, Build.project, Build.ledger["verification"]["blocks"], base)
    for problem in broken:
        log.error(str(problem))
    if broken:
        raise Abort(f"构建中止：共 {len(broken)} 处问题，上一次的站点没有改动")
    Build.reached_end = True


def on_build_error(error: Exception) -> None:
    """A full disk or missing rights are no fault of a page: say so in a line."""
    if isinstance(error, OSError) and not Build.serving:
        raise Abort(f"构建中止：{error}；检查磁盘空间和权限。上一次的站点没有改动") from error


def on_shutdown() -> None:
    """Last event of a build. A strict abort comes after on_post_build, hence the look at the exception going on."""
    if Build.serving or Build.lock is None:
        return
    if Build.reached_end and sys.exc_info()[0] is None:
        _swap(Build.staging, Build.final)
    else:
        shutil.rmtree(Build.staging, ignore_errors=True)
    Build.lock.close()


def _forgive_warnings() -> None:
    logger = logging.getLogger("mkdocs")
    for handler in [h for h in logger.handlers if isinstance(h, CountHandler)]:
        logger.removeHandler(handler)


def _absolute_paths(config: MkDocsConfig, root: Path) -> None:
    """Paths in the extensions' options start from mkdocs.yml, wherever MkDocs was started (`-f`)."""
    dialect = config.mdx_configs.setdefault("courseware.dialect", {})
    dialect["ledger"] = str(root / dialect.get("ledger", ".courseware/ledger.json"))
    for folder in ("demos", "pictures"):
        dialect[folder] = str(root / dialect.get(folder, Path(config.docs_dir, "assets", folder)))
    if snippets := config.mdx_configs.get("pymdownx.snippets"):
        base = snippets.get("base_path", ["."])
        snippets["base_path"] = [str(root / path) for path in ([base] if isinstance(base, str) else base)]


def _lock(final: Path) -> None:
    """One build at a time for a site; the lock goes with the process, however that ends."""
    final.parent.mkdir(parents=True, exist_ok=True)
    Build.lock = open(final.with_name(f".{final.name}.lock"), "w")
    try:
        fcntl.flock(Build.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        Build.lock = None
        raise Abort(f"另一个构建正在写 {final}；等它结束，或用 --site-dir 换一个文件夹") from None


def _old(final: Path) -> Path:
    return final.with_name(f".{final.name}.old")


def _recover(final: Path) -> None:
    """A build killed between the two renames of a swap left the last good site aside: put it back."""
    if _old(final).exists():
        if final.exists():
            shutil.rmtree(_old(final))
        else:
            _old(final).rename(final)


def _swap(staging: Path, final: Path) -> None:
    try:
        if final.exists():
            final.rename(_old(final))
        staging.rename(final)
    except OSError as error:  # read-only, or a mount point
        _recover(final)
        shutil.rmtree(staging, ignore_errors=True)
        raise Abort(f"构建好的站点换不进 {final}：{error}；检查权限，或用 --site-dir 换一个文件夹") from error
    shutil.rmtree(_old(final), ignore_errors=True)


def _start_runner(project: Project) -> subprocess.Popen | None:
    """The runner in a process of its own, when anything is due: MkDocs' process never imports torch."""
    runs = Runs.of(project)
    runs.forget(project, failures=not Build.serving)
    due = pending(project, runs)
    if not any(due.values()):
        return None
    log.info("运行：" + "，".join(f"{len(items)} 项 {name}" for name, items in due.items() if items))
    command = [sys.executable, "-m", "courseware.doctest", str(project.root), f"--docs={project.docs}"]
    if not Build.serving:
        command.append("--retry")
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=project.root)


def _wait_for(runner: subprocess.Popen | None) -> None:
    """Failures are read from the ledger; a runner that could not even write it is an error of its own."""
    if runner is None:
        return
    output, _ = runner.communicate()
    if runner.returncode not in (0, 1):
        said = f"代码块的执行器异常退出（{runner.returncode}）：\n{output}"
        if not Build.serving:
            raise Abort(said)
        log.error(said)
    log.debug(output)
    for line in output.splitlines():
        if line.startswith("kernel "):  # proofs take their time, so that is told apart
            log.info(line)


def _problem_box(page: Page) -> str:
    """Under serve: what is wrong on this page, on this page."""
    mine = [p for p in Build.problems if (Build.project.root / p.path) == Path(Build.project.docs, page.file.src_uri)]
    items = "".join(f"<li><pre>{html.escape(str(problem))}</pre></li>" for problem in mine)
    return f'<div class="course-problems" role="alert"><p>本页有 {len(mine)} 处问题</p><ul>{items}</ul></div>' if mine else ""


def _unescape(index: Path) -> None:
    """The search index is fetched whole: Chinese written as \\u escapes doubles it."""
    if index.exists():
        index.write_text(json.dumps(json.loads(index.read_text("utf-8")), ensure_ascii=False, separators=(",", ":")), "utf-8")
