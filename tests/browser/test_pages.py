"""Every page as a first visitor gets it: nothing broken, nothing from elsewhere, light enough, readable at 360 px."""

from __future__ import annotations

import re

import pytest

BUDGET = 550_000  # bytes of a first visit, uncompressed, without the search index
NOTEBOOK_BUDGET = 250_000  # bytes of the notebook's HTML

# Elements that are wider than the column, and whether the reader can get at what sticks out. Runs in the page.
SIDEWAYS = """() => {
  const width = document.documentElement.clientWidth, faults = [], scrollers = [];
  const name = e => `<${e.tagName.toLowerCase()} class="${e.getAttribute('class') || ''}" id="${e.id}"> ${e.textContent.trim().slice(0, 40)}`;
  const scrolls = e => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX);
  for (const e of document.querySelectorAll('.md-content *')) {
    if (!e.checkVisibility() || e.closest('svg svg, symbol, defs')) continue;
    if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth) {
      if (scrolls(e)) scrollers.push(e);
      else if (getComputedStyle(e).overflowX != 'visible') faults.push('cut off: ' + name(e));
    }
    const box = e.getBoundingClientRect();
    if (box.width > 1 && box.height > 1 && (box.right > width + 1 || box.left < -1)) {
      let outer = e.parentElement;
      while (outer && !scrolls(outer)) outer = outer.parentElement;
      if (!outer) faults.push('beyond the edge: ' + name(e));
    }
  }
  for (const e of scrollers) {
    e.scrollLeft = 10;
    if (e.scrollLeft == 0) faults.push('does not scroll: ' + name(e));
    e.scrollLeft = 0;
  }
  return {faults, scrollers: scrollers.map(name)};
}"""


def test_every_page_is_built(site, course_sources):
    built = {path.relative_to(site).as_posix().removesuffix("index.html") for path in site.rglob("index.html")}
    assert built == set(course_sources.values())


def test_a_first_visit(path, visit, served_below):
    """Nothing cached, the site in a subfolder: light, all that it asks for is there, links stay below the folder."""
    served_below.log.clear()
    page = visit(path, base=served_below.url)
    page.wait_for_load_state("networkidle")
    links = page.eval_on_selector_all("a[href]", "links => links.map(link => link.href)")
    local = {link.partition("#")[0] for link in links if link.startswith("http://127.0.0.1")}
    assert [link for link in local if not link.startswith(served_below.url)] == []
    log = [(name, size) for name, size in served_below.log if not name.endswith("search_index.json")]
    assert len(log) > 5  # the page, its styles and scripts
    heaviest = "\n".join(f"{size:>9,} {name}" for name, size in sorted(log, key=lambda entry: -entry[1])[:8])
    total = sum(size for _, size in log)
    assert total <= BUDGET, f"{path}: a first visit is {total:,} bytes, more than {BUDGET:,}\n{heaviest}"


def test_the_notebook_is_light(site, course_sources):
    notebooks = [path for source, path in course_sources.items() if source.endswith(".ipynb")]
    assert notebooks
    for path in notebooks:
        size = (site / path / "index.html").stat().st_size
        assert size <= NOTEBOOK_BUDGET, f"{path}: {size:,} bytes of HTML"


def test_at_360_px(path, visit, in_both_schemes):
    page = visit(path, width=360)
    for scheme in in_both_schemes(page):
        faults = page.evaluate(SIDEWAYS)["faults"]
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, f"{scheme}: {faults[:8]}"
        assert faults == [], scheme


def test_wide_things_scroll_inside_themselves(visit):
    """The check above looks at something: there are tables, formulas and code that are wider than a phone."""
    page = visit("online-softmax/", width=360)
    scrollers = page.evaluate(SIDEWAYS)["scrollers"]
    for kind in ("<code", "table-scroll", "math-block"):
        assert any(kind in scroller for scroller in scrollers), f"no {kind} scrolls at 360 px"


def test_the_page_that_is_not_there(visit):
    page = visit("404.html", width=360)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("h1").inner_text()


def test_dark_follows_the_system(visit, scheme):
    page = visit("", scheme=scheme)
    assert page.locator("body").get_attribute("data-md-color-scheme") == {"light": "default", "dark": "slate"}[scheme]
    red, green, blue = map(int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3])
    assert (red + green + blue < 200) == (scheme == "dark")


def test_the_palette_can_be_chosen(visit):
    """Follow the system, light, dark, by the switch in the header; the choice outlives the page."""
    page = visit("", scheme="light")
    for scheme in ("default", "slate"):
        page.locator("header label[for^=__palette]:visible").click()
        page.wait_for_function("scheme => document.body.dataset.mdColorScheme == scheme", arg=scheme)
    page.reload()
    assert page.locator("body").get_attribute("data-md-color-scheme") == "slate"


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_reduced_motion(visit, motion):
    """Who asks for less motion gets none that lasts."""
    page = visit("tiling/", reduced_motion=motion)
    longest = page.evaluate(
        """() => Math.max(...[...document.querySelectorAll('*')].flatMap(e => {
          const style = getComputedStyle(e);
          return [style.transitionDuration, style.animationDuration].flatMap(d => d.split(',').map(parseFloat));
        }))"""
    )
    assert (longest < 0.001) == (motion == "reduce")


def test_headings_have_readable_anchors(path, site):
    """`#io-cost` or `#在线-softmax`, never `#_1`."""
    html = (site / path / "index.html").read_text("utf-8")
    anchors = re.findall(r'<h[23][^>]*\bid="([^"]*)"', html)
    assert len(anchors) == len(re.findall("<h[23]\\b", html)), "a heading without an anchor"
    assert [anchor for anchor in anchors if not re.search(r"[^\W\d_]{2}", anchor)] == []
    assert len(set(anchors)) == len(anchors)
