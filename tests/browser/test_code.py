"""Code blocks: what the page shows, what the record says and what is copied are the same."""

from __future__ import annotations

import html
import re
from collections import Counter
from html.parser import HTMLParser

import pytest

from courseware.page import read


class Frames(HTMLParser):
    """(number, kind, status) of each code block's frame of a page, in order; no browser needed."""

    def __init__(self, html: str):
        super().__init__()
        self.found: list[tuple[int, str, str]] = []
        self.ids: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        values = dict(attributes)
        self.ids += [values["id"]] if "id" in values else []
        if "course-code" in (values.get("class") or "").split():
            number = int(values["id"].removeprefix("block-"))
            self.found.append((number, values["data-kind"], values["data-status"]))


@pytest.fixture(scope="module")
def frames(site, course_sources) -> dict[str, Frames]:
    """Frames of each Markdown page, by its source."""
    return {
        source: Frames((site / path / "index.html").read_text("utf-8"))
        for source, path in course_sources.items()
        if source.endswith(".md")
    }


def pythons(source: str, docs) -> list:
    """Python and pseudo-code fences of a page, listings left out."""
    fences = read(docs / source).fences
    return [fence for fence in fences if fence.language in ("python", "pseudo") and not fence.listing and not fence.commented]


def test_badges_agree_with_the_records(frames, verification):
    shown = Counter((source, *frame) for source, page in frames.items() for frame in page.found)
    recorded = Counter((block["page"], block["number"], block["kind"], block["status"]) for block in verification["blocks"])
    assert shown == recorded
    assert sum(recorded.values()) > 20


def test_counts_of_each_status(frames, verification):
    shown = Counter(status for page in frames.values() for _, _, status in page.found)
    assert shown == Counter(block["status"] for block in verification["blocks"])
    assert shown["ran"] > 0 and shown["failed"] == 0 and shown["stale"] == 0


def test_every_python_fence_has_one_record_and_one_frame(frames, verification, docs):
    for source, page in frames.items():
        lines = [fence.line for fence in pythons(source, docs)]
        assert sorted(block["line"] for block in verification["blocks"] if block["page"] == source) == lines, source
        assert len(page.found) == len(lines), source


def test_block_anchors(frames):
    for source, page in frames.items():
        assert [number for number, _, _ in page.found] == list(range(1, len(page.found) + 1)), source
        assert max(Counter(page.ids).values(), default=1) == 1, f"{source}: an id stands twice"


def test_a_link_to_a_block_shows_it_below_the_header(visit):
    page = visit("tiling/#block-3")
    page.wait_for_function(
        """() => { const top = document.querySelector('#block-3').getBoundingClientRect().top;
          return top >= document.querySelector('.md-header').getBoundingClientRect().bottom - 1 && top < innerHeight; }"""
    )


def test_the_report_links_to_every_block(visit, verification, base_url):
    page = visit("verification/")
    links = page.eval_on_selector_all(".md-content a", "all => all.map(e => decodeURI(e.hash))")
    assert Counter(link for link in links if link.startswith("#block-")) == Counter(
        f"#block-{block['number']}" for block in verification["blocks"]
    )


def test_the_public_record_is_served(base_url, visit, verification):
    page = visit("verification/")
    assert page.evaluate("url => fetch(url).then(answer => answer.json())", base_url + "verification.json") == verification
    assert set(verification["environment"]) >= {"python", "numpy", "torch", "triton", "device", "date"}
    assert {book["status"] for book in verification["notebooks"]} == {"ran"}
    assert {demo["status"] for demo in verification["demos"]} == {"ran"}


def code(fence) -> str:
    """What a reader should get: the block without its 类型 line, which is the badge."""
    return "\n".join(fence.lines[1:] if fence.label is not None else fence.lines).rstrip("\n")


def test_the_page_shows_exactly_the_code(path, site, course_sources, docs):
    source = next(source for source, its in course_sources.items() if its == path)
    if source.endswith(".md"):
        page = (site / path / "index.html").read_text("utf-8")
        shown = re.findall(r'<div class="course-code".*?<code[^>]*>(.*?)</code>', page, re.DOTALL)
        assert [html.unescape(re.sub("<[^>]*>", "", text)).rstrip("\n") for text in shown] == [code(f) for f in pythons(source, docs)]


def test_copy_gives_exactly_the_code(visit, docs, base_url):
    """The clipboard after a click on the button; every kind stands on this page."""
    source = "guide/code.md"
    page = visit("guide/code/")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=base_url.rstrip("/"))
    page.evaluate("document.querySelectorAll('details').forEach(e => e.open = true)")
    for number, fence in enumerate(pythons(source, docs), 1):
        page.evaluate("navigator.clipboard.writeText('')")
        page.locator(f"#block-{number} > .highlight .md-code__nav button").first.click()
        copied = page.wait_for_function("() => navigator.clipboard.readText()").json_value()
        assert copied.rstrip("\n") == code(fence), f"block {number}"
