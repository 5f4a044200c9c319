"""The Content-Security-Policy in every built page: complete, exact, and in force."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from html.parser import HTMLParser

import pytest

NAME = "Content-Security-Policy"
REPORTS = "addEventListener('securitypolicyviolation', e => (window.refused ??= []).push(e.effectiveDirective))"


class Governed(HTMLParser):
    """Policies of a page, what stands in it that runs or styles, and attributes that a strict policy would drop."""

    def __init__(self, html: str):
        super().__init__()
        self.policies: list[str] = []
        self.before: list[str] = []  # tags ahead of the policy
        self.inline: list[tuple[str, str]] = []
        self.dropped: list[str] = []
        self._open = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        values = dict(attributes)
        if values.get("http-equiv") == NAME:
            self.policies.append(values["content"])
        elif not self.policies:
            self.before.append(tag)
        self._open = tag if tag == "style" or (tag == "script" and "src" not in values and "json" not in (values.get("type") or "")) else ""
        self.dropped += [f"{tag} {name}" for name in values if name == "style" or name.startswith("on")]

    def handle_data(self, data: str) -> None:
        if self._open:
            self.inline.append((self._open, data))
            self._open = ""


@pytest.fixture(scope="module")
def pages(site) -> dict[str, Governed]:
    """All but the pages of compiled code, which bring a policy of their own (courseware.compiled)."""
    paths = [path for path in site.rglob("*.html") if path.relative_to(site).as_posix().count("/") < 2 or path.name == "index.html"]
    return {path.relative_to(site).as_posix(): Governed(path.read_text("utf-8")) for path in paths}


def test_every_page_has_the_same_one_first(pages):
    assert len(pages) > 10 and {"404.html", "lab-notebook/index.html"} <= set(pages)
    assert {page.policies[0] for page in pages.values()} == {next(iter(pages.values())).policies[0]}
    for name, page in pages.items():
        assert len(page.policies) == 1 and set(page.before) <= {"html", "head", "meta"}, name


def test_it_is_strict(pages):
    directives = dict(part.strip().split(" ", 1) for part in pages["index.html"].policies[0].split(";"))
    assert directives["default-src"] == "'self'"
    assert {directives[name] for name in ("object-src", "base-uri", "form-action")} == {"'none'"}
    assert directives["img-src"] == "'self' data:"
    allowed = " ".join(directives.values())
    assert not any(word in allowed for word in ("unsafe", "http", "*", "blob:"))


def test_it_allows_exactly_what_stands_in_the_pages(pages):
    found = {tag: {text for page in pages.values() for its, text in page.inline if its == tag} for tag in ("script", "style")}
    for tag, texts in found.items():
        hashes = {f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in texts}
        for page in pages.values():
            directives = dict(part.strip().split(" ", 1) for part in page.policies[0].split(";"))
            assert set(directives[f"{tag}-src"].split()) == {"'self'"} | hashes
    assert {name: page.dropped for name, page in pages.items() if page.dropped} == {}


@pytest.fixture
def refused(browser, served_below):
    """`refused(script, then)`: which directives stop what a script does on a page, before and after instant navigation."""
    contexts = []

    def run(script: str) -> list[list[str]]:
        context = browser.new_context()
        contexts.append(context)
        page = context.new_page()
        page.add_init_script(REPORTS)
        page.goto(served_below.url)
        page.wait_for_function("() => typeof document$ != 'undefined'")
        found = []
        for where in ("", "summary/"):
            if where:
                page.evaluate("where => { document.querySelector(`.md-nav a[href$='${where}']`).click() }", where)
                page.wait_for_function("where => document.querySelector('.md-nav__link--active[href]')?.href.endsWith(where)", arg=where)
            page.evaluate("() => { window.refused = []; window.ran = false }")
            page.evaluate(script)
            page.wait_for_function("() => window.refused.length || window.ran")
            found.append([*page.evaluate("window.refused"), *(["RAN"] if page.evaluate("window.ran") else [])])
        return found

    yield run
    for context in contexts:
        context.close()


@pytest.mark.parametrize(
    ("script", "directive"),
    [
        ("() => { const s = document.createElement('script'); s.textContent = 'ran = true'; document.body.append(s) }", "script-src-elem"),
        ("() => { const i = new Image(); i.onload = () => { ran = true }; i.src = 'https://example.org/a.png' }", "img-src"),
        ("() => { document.body.insertAdjacentHTML('beforeend', '<p style=\"color:red\">') }", "style-src-attr"),
        ("() => { document.body.insertAdjacentHTML('beforeend', '<img src=\"data:,\" onerror=\"ran = true\">') }", "script-src-attr"),
        ("() => { fetch('https://example.org/').then(() => { ran = true }, () => 0) }", "connect-src"),
    ],
    ids=["inline script", "outside image", "style attribute", "handler", "outside fetch"],
)
def test_it_refuses(refused, script, directive):
    assert [set(found) for found in refused(script)] == [{directive}, {directive}]


def test_columns_and_formulas_keep_their_alignment(visit):
    """What stood in `style` attributes holds still, also where the page came by instant navigation."""
    page = visit("")
    page.locator(".md-nav--primary a[href$='online-softmax/']").first.evaluate("e => e.click()")
    page.locator("h2#sources").wait_for()
    assert page.locator("td[class^=style-]").first.evaluate("e => getComputedStyle(e).textAlign") == "right"
    assert page.locator("mtd[class^=style-]").first.evaluate("e => getComputedStyle(e).textAlign") in ("right", "left")
