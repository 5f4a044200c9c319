"""Instant navigation from any folder: the page changes without a load, starts and releases what it needs."""

from __future__ import annotations

import html
import re
from urllib.parse import urlsplit

import pytest

ACTIVE = "where => document.querySelector('.md-nav__link--active[href]')?.href.endsWith(where)"
STILL = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 150))))"


def go(page, where: str) -> None:
    """Follow the link of the navigation to a page, and wait until it has replaced this one."""
    page.locator(f".md-nav--primary a.md-nav__link[href$='/{where}']").first.evaluate("link => link.click()")
    arrived(page, where)


def arrived(page, where: str) -> None:
    page.wait_for_function(ACTIVE, arg=where)
    page.evaluate(STILL)


@pytest.fixture
def visit_below(visit, served_below):
    """A page of the site in a folder of its server; `page.evaluate("kept")` tells whether it was loaded only once."""

    def open_page(where: str, **options):
        page = visit(where, base=served_below.url, **options)
        page.wait_for_load_state("networkidle")  # the sitemap has come
        page.evaluate("() => { window.kept = true }")
        return page

    return open_page


def test_pages_change_without_a_load(visit_below, served_below, site):
    """Down, across, to the notebook and home; what the page says of itself follows, what all share stays."""
    page = visit_below("")
    shared = page.evaluate("document.querySelectorAll('head > [rel=stylesheet], head > [http-equiv], head > style').length")
    for where in ("online-softmax/", "guide/code/", "lab-notebook/", "tiling/"):
        go(page, where)
        assert page.url == served_below.url + where
        built = (site / where / "index.html").read_text("utf-8")
        assert page.title() == html.unescape(re.search("<title>(.*?)</title>", built)[1])
        assert page.locator("h1").count() == 1
        assert page.evaluate("document.querySelectorAll('head > [rel=stylesheet], head > [http-equiv], head > style').length") == shared
        links = page.eval_on_selector_all("a[href], link[href]", "all => all.map(e => e.href)")
        assert [link for link in links if link.startswith("http://127") and not link.startswith(served_below.url)] == []
    page.locator("header .md-logo").click()
    page.wait_for_function("path => location.pathname == path", arg=urlsplit(served_below.url).path)
    arrived(page, urlsplit(served_below.url).path)
    assert page.evaluate("kept && document.documentElement.lang") == "zh"


def test_the_sitemap_names_every_page(site, course_sources):
    places = re.findall("<loc>(.*?)</loc>", (site / "sitemap.xml").read_text("utf-8"))
    assert sorted(place.removeprefix("./") for place in places) == sorted(course_sources.values())


def test_back_forward_and_reload(visit_below):
    page = visit_below("tiling/")
    page.evaluate("scrollTo(0, 900)")
    page.evaluate(STILL)
    go(page, "summary/")
    assert page.evaluate("scrollY") == 0
    page.go_back()
    arrived(page, "tiling/")
    assert abs(page.evaluate("scrollY") - 900) < 60
    page.go_forward()
    arrived(page, "summary/")
    assert page.evaluate("kept")
    page.reload()
    page.wait_for_function("() => document.readyState == 'complete'")
    assert page.evaluate("window.kept") is None
    assert page.title().startswith("小结")
    page.go_back()
    arrived(page, "tiling/")
    assert page.locator("h3#tile-size").count() == 1


def test_a_link_to_a_section_shows_it(visit_below):
    page = visit_below("io/")
    page.locator(".md-content").evaluate("e => e.insertAdjacentHTML('beforeend', '<a id=far href=\"../tiling/#tile-size\">x</a>')")
    page.locator("#far").evaluate("e => e.click()")
    page.wait_for_function(
        "() => { const top = document.querySelector('#tile-size')?.getBoundingClientRect().top; return top >= 40 && top < innerHeight }"
    )
    page.go_back()
    arrived(page, "io/")
    assert page.evaluate("kept && location.hash") == ""


def test_quizzes_start_once(visit_below):
    page = visit_below("online-softmax/")
    for where in ("tiling/", "online-softmax/", "summary/", "online-softmax/"):
        go(page, where)
        forms = page.locator("form.quiz")
        assert page.locator("form.quiz .quiz__redo").count() == forms.count() > 0, where
    form = forms.first
    form.locator("input").first.check()
    form.locator("button[type=submit]").click()
    form.locator(".quiz__feedback").filter(has_text="答案").wait_for()
    form.locator(".quiz__redo").click()
    assert form.locator("input:checked").count() == 0


def test_nothing_grows(visit_below):
    """Twenty times forth and back, scrolled in between: as many nodes and listeners after 20 rounds as after 5."""
    page = visit_below("tiling/")
    cdp = page.context.new_cdp_session(page)
    cdp.send("Performance.enable")

    def count() -> dict[str, int]:
        page.evaluate(STILL)
        for _ in range(2):
            cdp.send("HeapProfiler.collectGarbage")
        metrics = {entry["name"]: int(entry["value"]) for entry in cdp.send("Performance.getMetrics")["metrics"]}
        return {name: metrics[name] for name in ("Nodes", "JSEventListeners", "Documents")}

    counts = {}
    for done in range(1, 21):
        for where in ("online-softmax/", "tiling/"):
            go(page, where)
            page.evaluate("scrollTo(0, document.body.scrollHeight / 2)")
        if done in (5, 20):
            counts[done] = count()
    assert page.evaluate("kept")
    assert counts[20] == counts[5]


def test_copy_gives_the_block_of_the_page_that_came(visit_below, served_below):
    page = visit_below("")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=served_below.url.rstrip("/"))
    go(page, "guide/containers/")  # its blocks have the numbers that those of the next page have
    go(page, "guide/code/")
    blocks = page.locator(".md-content .course-code:visible > .highlight pre > code")
    for block in blocks.all()[:4]:
        page.evaluate("navigator.clipboard.writeText('')")
        block.locator("xpath=..").locator(".md-code__nav button").first.click()
        copied = page.wait_for_function("() => navigator.clipboard.readText()").json_value()
        assert copied.rstrip("\n") == block.text_content().rstrip("\n")


def test_a_search_result_is_opened_in_place(visit_below, search):
    page = visit_below("guide/")
    search(page, "FlashAttention")
    page.locator(".md-search-result__link").first.click()
    page.wait_for_url(lambda url: "?h=" in url)
    page.locator(".md-content mark").first.wait_for(state="attached")
    assert page.evaluate("kept")


def test_the_chosen_palette_stays(visit_below):
    page = visit_below("", scheme="light")
    for _ in range(2):
        page.locator("header label[for^=__palette]:visible").click()
        page.evaluate(STILL)
    assert page.locator("body").get_attribute("data-md-color-scheme") == "slate"
    go(page, "io/")
    assert page.locator("body").get_attribute("data-md-color-scheme") == "slate"


def test_a_page_with_links_in_its_figures(visit_below):
    """An SVG element that refers to another has no `href` to assign to; Material's script must not trip over it."""
    page = visit_below("io/")
    figure = '<svg width="9" height="9"><defs><rect id="r" width="5" height="5"/></defs><use href="#r"/></svg></article>'
    page.context.route(
        "**/summary/", lambda route: route.fulfill(response=(answer := route.fetch()), body=answer.text().replace("</article>", figure))
    )
    go(page, "summary/")
    assert page.evaluate("kept && document.querySelector('use').getBoundingClientRect().width") == 5


@pytest.mark.parametrize("missing", ["nowhere/", "guide/deeper/nowhere"])
def test_the_page_that_is_not_there_finds_home(missing, browser, served_below, site):
    """Whatever the address and the site's folder; its own answer is the only error in the console."""
    context = browser.new_context()
    page = context.new_page()
    address = served_below.url + missing
    page.route(address, lambda route: route.fulfill(status=404, content_type="text/html", body=(site / "404.html").read_bytes()))
    exceptions: list = []
    page.on("pageerror", lambda error: exceptions.append(error))
    assert page.goto(address).status == 404
    page.locator(".home a").wait_for()
    assert page.locator(".home a").evaluate("e => e.href") == served_below.url
    assert page.evaluate("getComputedStyle(document.querySelector('main')).maxWidth") != "none"  # its style is allowed
    assert exceptions == []
    context.close()
