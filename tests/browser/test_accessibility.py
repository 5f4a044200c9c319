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


COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}


def faults(page, context: str | None = None, options: dict | None = None) -> list[str]:
    """A line per element that breaks one of axe's rules.

    Left out: `empty-table-header` where the header is a formula. axe sees no text in MathML; screen readers do.
    """
    results = Axe().run(page, context=context, options=options).response
    return [
        f"{violation['id']}: {violation['help']}: {node['html'][:160]} {node['failureSummary'].splitlines()[-1].strip()[:200]}"
        for violation in results["violations"]
        for node in violation["nodes"]
        if not (violation["id"] == "empty-table-header" and "<math" in node["html"])
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
    page.wait_for_function("getComputedStyle(document.activeElement).opacity == '1'")
    target = link.get_attribute("href")
    assert target.startswith("#") and len(target) > 1
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
