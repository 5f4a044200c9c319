"""The built site in Chromium: built once, served from a free port, and watched.

Every page that a test opens through `visit` is watched: an error or a warning in its console, or a request to another
host, fails the test, whatever it tests. `path` and `scheme` are parametrized here: every page of docs/, light and dark.
"""

from __future__ import annotations

import functools
import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from ..scripts import load

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SUBFOLDER = "/course/ch19/"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # nothing but our own server can be reached: a request to another host fails at once
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
PATIENCE = 30_000  # ms that a condition may take


def address(source: str) -> str:
    """Address of a page, relative to the site, from its source relative to docs/: `guide/code.md` -> `guide/code/`."""
    stem = source.rpartition(".")[0]
    return stem.removesuffix("index") if stem.split("/")[-1] == "index" else f"{stem}/"


def sources() -> list[str]:
    """Every page's source relative to docs/."""
    found = [*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")]
    names = [path.relative_to(DOCS) for path in found]
    return sorted(name.as_posix() for name in names if not any(part.startswith(".") for part in name.parts))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "path" in metafunc.fixturenames:
        metafunc.parametrize("path", [address(source) for source in sources()], ids=lambda path: path or "index")
    if "scheme" in metafunc.fixturenames:
        metafunc.parametrize("scheme", ["light", "dark"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")


# --- the site, served ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as readers get it; what has run already is taken from the working ledger."""
    folder = tmp_path_factory.mktemp("built") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    build = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
    if build.returncode:
        pytest.fail(f"{' '.join(command)} ended with {build.returncode}:\n{build.stdout}{build.stderr}", pytrace=False)
    return folder


@dataclass
class Served:
    """A running server: where it is, and (path, bytes of the body) of each answer since `log` was last cleared."""

    url: str
    log: list[tuple[str, int]] = field(default_factory=list)


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder below a prefix and nothing above it, uncompressed."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments, prefix: str, log: list, **options):
        self.prefix, self.log = prefix, log
        super().__init__(*arguments, **options)

    def translate_path(self, path: str) -> str:
        inside = urlsplit(path).path.startswith(self.prefix)
        return super().translate_path("/" + path[len(self.prefix) :]) if inside else str(Path(self.directory) / "outside the prefix")

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "max-age=600")  # as hosts of static sites do: else a page met before is not
        super().end_headers()

    def send_header(self, keyword: str, value: str) -> None:
        if keyword.lower() == "content-length":
            self.log.append((unquote(urlsplit(self.path).path), int(value)))
        super().send_header(keyword, value)

    def log_message(self, *arguments) -> None:
        """The tests keep a log of their own."""


def _serve(folder: Path, prefix: str) -> Iterator[Served]:
    log: list[tuple[str, int]] = []
    handler = functools.partial(Handler, directory=str(folder), prefix=prefix, log=log)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Served(f"http://127.0.0.1:{server.server_port}{prefix}", log)
        server.shutdown()


@pytest.fixture(scope="session")
def served(site: Path) -> Iterator[Served]:
    yield from _serve(site, "/")


@pytest.fixture(scope="session")
def served_below(site: Path) -> Iterator[Served]:
    """The same site in a folder of a server that has nothing else: only relative links work."""
    yield from _serve(site, SUBFOLDER)


@pytest.fixture(scope="session")
def base_url(served: Served) -> str:
    return served.url


# --- the browser -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = load("install_browser").find()
    if path is None:
        pytest.fail("No Chromium. Run: .venv/bin/python scripts/install_browser.py (make test does)", pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


class Watch:
    """What the pages of one test said and asked for."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.requested: list[str] = []

    def attach(self, context: BrowserContext) -> None:
        context.on("console", lambda message: self._console(message.type, message.text, message.location["url"]))
        context.on("weberror", lambda error: self.said.append(f"exception: {error.error}"))
        context.on("request", lambda request: self.requested.append(request.url))

    def _console(self, kind: str, text: str, url: str) -> None:
        if kind in ("error", "warning"):
            self.said.append(f"{kind}: {text} ({url})")

    @property
    def outside(self) -> list[str]:
        """Requests that leave our server; `data:` and `blob:` are no requests."""
        return [url for url in self.requested if urlsplit(url).scheme in ("http", "https") and urlsplit(url).hostname != "127.0.0.1"]


@pytest.fixture
def visit(browser: Browser, base_url: str) -> Iterator[Callable[..., Page]]:
    """`visit(path, scheme="light", width=1440, **options of a Playwright context)`: the page in a context of its own."""
    watch, contexts = Watch(), []

    def open_page(path: str, *, scheme: str = "light", width: int = 1440, base: str = base_url, **options) -> Page:
        context = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 800}, locale="zh-CN", **options
        )
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        watch.attach(context)
        page = context.new_page()
        response = page.goto(base + path)
        assert response and response.ok, f"{path}: {response and response.status}"
        # Material's script has run when it has marked the root; without scripts there is nothing to wait for
        if options.get("java_script_enabled", True):
            page.wait_for_function("() => document.documentElement.classList.contains('js') && document.readyState == 'complete'")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not watch.outside, "requests that leave the site"
    assert not watch.said, "errors or warnings in the console"


def change_scheme(page: Page, scheme: str) -> None:
    """The reader's system turns light or dark while the page is open; the page follows."""
    page.emulate_media(color_scheme=scheme)
    palette = {"light": "default", "dark": "slate"}[scheme]
    page.wait_for_function("palette => document.body.dataset.mdColorScheme == palette", arg=palette)


@pytest.fixture
def in_both_schemes() -> Callable[[Page], Iterator[str]]:
    """`for scheme in in_both_schemes(page)`: light, then dark, without loading the page again."""

    def each(page: Page) -> Iterator[str]:
        for scheme in ("light", "dark"):
            change_scheme(page, scheme)
            yield scheme

    return each


@pytest.fixture
def search() -> Callable[[Page, str], None]:
    """`search(page, word)`: put a word into the search box."""

    def type_into_box(page: Page, word: str) -> None:
        page.locator("input.md-search__input").click()
        page.keyboard.insert_text(word)
        page.keyboard.press("End")  # text put in by an input method is searched for at the next key

    return type_into_box


@pytest.fixture(scope="session")
def course_sources() -> dict[str, str]:
    """Source relative to docs/ of each page -> its address."""
    return {source: address(source) for source in sources()}


@pytest.fixture(scope="session")
def verification(site: Path) -> dict:
    """The public record, as it was published."""
    return json.loads((site / "verification.json").read_text("utf-8"))


@pytest.fixture(scope="session")
def docs() -> Path:
    return DOCS
