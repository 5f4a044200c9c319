"""Pages of what a kernel was compiled to: documents of their own, so what other tests ask of every page is asked here."""

from __future__ import annotations

import re

from .test_accessibility import faults

PAGE = "compiled/flash_attention_kernel/sm_90.html"
FIRST_VISIT = 550_000  # bytes that a reader's first visit of such a page may take


def test_by_keyboard_without_scripts_on_a_phone(visit):
    page = visit(PAGE, width=360, java_script_enabled=False)
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="跳到源码")
    assert skip.is_visible() and skip.evaluate("e => e.getBoundingClientRect().top >= 0")
    link = page.locator("#source a[href^='#ptx']").first
    line = link.locator("xpath=..").locator("xpath=..").get_attribute("id")
    link.focus()
    page.keyboard.press("Enter")
    run = page.locator(":target")
    assert run.get_attribute("id").startswith("ptx-") and run.is_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator(":target").get_attribute("id") == line
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_axe(visit):
    for scheme, width in (("light", 360), ("dark", 1440)):
        page = visit("compiled/", scheme=scheme)
        page.set_viewport_size({"width": width, "height": 800})
        page.locator(f"a[href$='{PAGE.partition('/')[2]}']").first.click()
        page.wait_for_url("**/sm_90.html")
        found = faults(page)
        assert not found, f"{scheme}:\n" + "\n".join(found[:20])


def test_the_colours_that_the_reader_chose(visit):
    page = visit("compiled/", scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    page.goto(page.url + "flash_attention_kernel/sm_90.html")
    light = page.evaluate(ground)
    page.go_back()
    page.evaluate("""__md_set("__palette", {index: 2, color: {media: "(prefers-color-scheme: dark)", scheme: "slate"}})""")
    page.goto(page.url + "flash_attention_kernel/sm_90.html")
    assert page.evaluate(ground) != light


def test_every_page_is_whole(site):
    """Each stage has instructions that lead to a line of source; an id is there once. The build checks the links."""
    pages = sorted(site.glob("compiled/*/*.html"))
    assert pages
    for page in pages:
        text = page.read_text("utf-8")
        ids = re.findall(r'\sid="([^"]*)"', text)
        assert len(set(ids)) == len(ids), page
        for stage in {"ttgir", "ptx", *re.findall('<section id="(ttir)">', text)}:
            assert re.search(rf'<b id="{stage}-\d+"><a href="#', text), (page, stage)


def test_weight(site):
    own = sum((site / "assets" / name).stat().st_size for name in ("css/compiled.css", "js/compiled.js"))
    heavy = {p.relative_to(site).as_posix(): p.stat().st_size for p in site.glob("compiled/*/*.html")}
    assert heavy and max(heavy.values()) + own <= FIRST_VISIT, heavy
