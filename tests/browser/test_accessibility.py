"""axe finds nothing, in light and dark; the keyboard gets everywhere and is seen to."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe

# Elements that take the focus but show no outline, ring or other box of their own. Runs in the page.
UNSEEN_FOCUS = """() => {
  const shown = e => {
    const style = getComputedStyle(e);
    return style.outlineStyle != 'none' && parseFloat(style.outlineWidth) >= 1 || style.boxShadow != 'none';
  };
  const unseen = [];
  for (const e of document.querySelectorAll('.md-header :is(a, button, input), .md-content :is(a[href], button, summary, input, [tabindex="0"])')) {
    if (!e.checkVisibility({visibilityProperty: true, opacityProperty: true}) || e.disabled) continue;
    e.focus({preventScroll: true});
    if (document.activeElement != e) continue;
    // a box inside a label or a search form may light up in its stead
    if (!shown(e) && !(e.matches('input') && (e.closest('label, form') && [e.closest('label'), e.closest('form')].some(o => o && shown(o)))))
      unseen.push(e.outerHTML.slice(0, 120));
  }
  return [...new Set(unseen)];
}"""


# What a finger has to hit in the text: width and height in px, a box inside a label with its label.
TARGETS = """() => [...document.querySelectorAll('.md-content :is(button, input, select, textarea, summary), .md-header__button')]
  .filter(e => e.checkVisibility({visibilityProperty: true, opacityProperty: true}))
  .map(e => e.matches('input') && e.closest('label') || e)
  .map(e => [e.getBoundingClientRect(), e])
  .filter(([box]) => box.height > 1 && (box.height < 43.9 || box.width < 43.9))
  .map(([box, e]) => `${box.width.toFixed(1)} x ${box.height.toFixed(1)} ${e.outerHTML.slice(0, 100)}`)"""

# Icons that Material draws as a masked background: those that nobody would see.
UNSEEN_ICONS = """() => [...document.querySelectorAll('.md-code__button, .md-nav__icon, .admonition-title')].flatMap(e =>
  ['::before', '::after'].map(part => [e, getComputedStyle(e, part)])
    .filter(([, style]) => style.maskImage != 'none' && style.display != 'none' && style.content != 'none')
    .filter(([, style]) => style.backgroundColor == getComputedStyle(document.body).backgroundColor)
    .map(([e]) => e.className))"""

COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}


def faults(page, context: str | None = None, options: dict | None = None) -> list[str]:
    """A line per element that breaks one of axe's rules."""
    results = Axe().run(page, context=context, options={"resultTypes": ["violations"], **(options or {})}).response  # half the time
    return [
        f"{violation['id']}: {violation['help']}: {node['html'][:160]} {node['failureSummary'].splitlines()[-1].strip()[:200]}"
        for violation in results["violations"]
        for node in violation["nodes"]
    ]


def test_axe(path, visit, in_both_schemes):
    page = visit(path, reduced_motion="reduce")
    for scheme in in_both_schemes(page):
        found = faults(page, options=COLOURS if scheme == "dark" else None)  # the other rules see no colour
        assert not found, f"{scheme}:\n" + "\n".join(found[:20])


def test_axe_on_the_page_that_is_not_there(visit):
    assert faults(visit("404.html")) == []


def test_axe_with_a_quiz_answered_and_the_search_open(visit, search, scheme):
    """States that only the script brings about."""
    page = visit("online-softmax/", scheme=scheme, reduced_motion="reduce")
    quiz = page.locator("form.quiz").first
    quiz.locator("input").first.check()
    quiz.locator("button[type=submit]").click()
    quiz.get_by_role("status").filter(has_text="再想想").or_(quiz.get_by_role("status").filter(has_text="回答正确")).wait_for()
    assert faults(page, "form.quiz") == []
    search(page, "FlashAttention")
    page.locator(".md-search-result__link").first.wait_for()
    assert faults(page, "[data-md-component=search]") == []


@pytest.mark.parametrize("where", ["", "online-softmax/", "lab-notebook/", "verification/"])
def test_tab_reaches_the_skip_link_first(where, visit):
    page = visit(where)
    page.keyboard.press("Tab")
    link = page.locator(":focus")
    assert "md-skip" in link.get_attribute("class")
    page.wait_for_function("() => getComputedStyle(document.activeElement).opacity == '1'")
    assert len(link.evaluate("link => link.hash")) > 1  # instant navigation makes the address absolute
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector(':target')")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.md-content') != null"), "after the skip link comes the text"


@pytest.mark.parametrize("where", ["online-softmax/", "tiling/", "verification/", "lab-notebook/"])
def test_the_focus_is_seen(where, visit, in_both_schemes):
    page = visit(where, reduced_motion="reduce")
    page.keyboard.press("Tab")  # from now on the browser shows the focus, scripts' included
    for scheme in in_both_schemes(page):
        unseen = page.evaluate(UNSEEN_FOCUS)
        assert not unseen, f"{scheme}:\n" + "\n".join(unseen[:10])


def test_a_folded_aside_by_keyboard(visit):
    page = visit("online-softmax/")
    aside = page.locator("details.unfold").first
    assert aside.evaluate("e => e.open")
    aside.locator("summary").focus()
    for is_open in (False, True):
        page.keyboard.press("Enter")
        assert aside.evaluate("e => e.open") == is_open


def test_instant_navigation_tells_of_the_new_page(visit):
    """By keyboard: the focus goes to the title, seen and read out; a link to a section leaves it to the browser."""
    page = visit("tiling/")
    page.wait_for_load_state("networkidle")
    link = page.locator(".md-nav--primary a[href$='online-softmax/']").first
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.activeElement.matches('h1') && document.title.startsWith('在线')")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert page.evaluate("scrollY") == 0
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.md-content') != null")


def test_axe_after_instant_navigation(visit, in_both_schemes):
    page = visit("", reduced_motion="reduce")
    page.wait_for_load_state("networkidle")
    for where in ("online-softmax/", "guide/code/"):
        page.locator(f".md-nav--primary a[href$='{where}']").first.evaluate("link => link.click()")
        page.wait_for_function("where => document.querySelector('.md-nav__link--active[href]')?.href.endsWith(where)", arg=where)
        for scheme in in_both_schemes(page):
            assert faults(page, options=COLOURS if scheme == "dark" else None) == []


@pytest.mark.parametrize("where", ["online-softmax/", "guide/code/", "lab-notebook/"])
def test_targets_for_a_finger(where, visit):
    page = visit(where, width=360, has_touch=True, is_mobile=True)
    assert page.evaluate("matchMedia('(pointer: coarse)').matches")
    assert page.evaluate(TARGETS) == []


@pytest.mark.parametrize("where", ["online-softmax/", "guide/containers/"])
def test_forced_colours(where, visit):
    """Every icon is drawn, what the focus is on and what is current is seen without a background or a shadow."""
    page = visit(where, forced_colors="active")
    assert page.evaluate("matchMedia('(forced-colors: active)').matches")
    assert page.evaluate("document.querySelectorAll('.md-code__button').length") > 0
    assert page.evaluate(UNSEEN_ICONS) == []
    page.keyboard.press("Tab")
    assert page.evaluate(UNSEEN_FOCUS) == []
    current = page.locator(".md-nav--primary .md-nav__link--active .md-ellipsis:visible").first
    assert "underline" in current.evaluate("e => getComputedStyle(e).textDecorationLine")


@pytest.mark.parametrize(("width", "zoom"), [(640, 2), (320, 4)])
def test_zoomed(width, zoom, visit):
    """200 and 400 % of a screen 1280 px wide: no page scrolls sideways. By instant navigation from one to the next."""
    page = visit("", width=width, device_scale_factor=zoom)
    page.wait_for_load_state("networkidle")
    wide = {}
    for link in page.eval_on_selector_all(".md-nav--primary a.md-nav__link[href$='/']", "all => [...new Set(all.map(e => e.href))]"):
        page.locator(f".md-nav--primary a[href='{link}']").first.evaluate("link => link.click()")
        page.wait_for_function("link => document.querySelector('.md-nav__link--active[href]')?.href == link", arg=link)
        if (reached := page.evaluate("document.documentElement.scrollWidth")) > width:
            wide[link] = reached
    assert wide == {}


def test_large_text(path, visit):
    """200 % text on a phone: no page scrolls sideways."""
    page = visit(path, width=360)
    page.evaluate("""() => {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync("html { font-size: 40px !important }"); // Material's is 20px
      document.adoptedStyleSheets.push(sheet);
      document.querySelectorAll("details").forEach(e => e.open = true);
    }""")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    cut = page.evaluate("[...document.querySelectorAll('.course-badge')].filter(e => e.getBoundingClientRect().right > 360).length")
    assert cut == 0


def test_the_drawer_by_keyboard(visit):
    page = visit("tiling/", width=360)
    drawer = page.locator(".md-sidebar--primary")
    button = page.get_by_role("button", name="菜单")
    for _ in range(12):
        page.keyboard.press("Tab")
        assert not drawer.locator(":focus").count()
    assert button.get_attribute("aria-expanded") == "false"
    for key in ("Enter", "Space"):
        button.press(key)
        assert button.get_attribute("aria-expanded") == "true"
        page.wait_for_function("() => Math.round(document.querySelector('.md-sidebar--primary').getBoundingClientRect().left) == 0")
        while not drawer.locator(":focus").count():
            page.keyboard.press("Tab")
        while drawer.locator(":focus").count():
            assert drawer.locator(":focus").evaluate("e => e.checkVisibility({opacityProperty: true, visibilityProperty: true})")
            page.keyboard.press("Tab")
        page.keyboard.press("Escape")
        assert button.evaluate("e => e == document.activeElement && e.ariaExpanded") == "false"
        drawer.wait_for(state="hidden")


def test_the_drawer_without_scripts(visit):
    page = visit("tiling/", width=360, java_script_enabled=False)
    page.locator(".md-header [for=__drawer]").click()
    page.locator(".md-sidebar--primary a", has_text="在线 softmax").first.click()
    page.wait_for_url("**/online-softmax/")


def test_no_id_twice(path, visit):
    """Nor among those that Material's script gives."""
    page = visit(path)
    ids = page.eval_on_selector_all("[id]", "all => all.map(e => e.id)")
    assert sorted(ids) == sorted(set(ids))
