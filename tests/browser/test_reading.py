"""Without scripts, on paper, and the mathematics: what is there must be readable."""

from __future__ import annotations

import re

import pytest

WITH_MATH = ["io/", "tiling/", "online-softmax/"]
WITHOUT_SCRIPT = re.compile(r"(启用|开启|打开|(?<!不)需要)\s*(JavaScript|JS\b|脚本)", re.IGNORECASE)

# The site's policy refuses a <style> that it does not know; a sheet from a script is none of its business.
ADD_RULES = """rules => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(rules);
  document.adoptedStyleSheets.push(sheet);
}"""

# Last child of each <details> in the text that is not drawn. Runs in the page.
FOLDED = """() => [...document.querySelectorAll('.md-content details:is(.unfold, .quiz__answer, .challenge)')]
  .filter(e => !e.lastElementChild.checkVisibility() || e.lastElementChild.getBoundingClientRect().height < 1)
  .map(e => e.textContent.trim().slice(0, 60))"""


# --- without scripts -------------------------------------------------------------------------------------------------


def test_without_scripts_the_system_decides_on_dark(visit):
    colours = "() => [document.body, document.querySelector('.md-header'), document.querySelector('.md-typeset a')].flatMap(e => " \
        "[getComputedStyle(e).color, getComputedStyle(e).backgroundColor])"
    for scheme in ("dark", "light"):
        switched, plain = (visit("", scheme=scheme, java_script_enabled=on).evaluate(colours) for on in (True, False))
        assert plain == switched


def test_without_scripts(path, visit, course_sources, verification):
    page = visit(path, java_script_enabled=False)
    source = next(source for source, its in course_sources.items() if its == path)
    content = page.locator(".md-content")
    text = content.inner_text()
    assert page.locator("h1").first.is_visible() and len(text) > 100
    assert not WITHOUT_SCRIPT.search(text), "nothing may ask for scripts"
    blocks = [block for block in verification["blocks"] if block["page"] == source]
    assert page.locator(".course-badge").count() == len(blocks)
    shown = [one["name"] for one in verification["demos"] if one["page"] == source]
    demos = [name for name in shown if not name.endswith(".svg")]
    assert page.locator("figure.picture").count() == len(shown) - len(demos)
    assert page.locator("course-demo").evaluate_all("all => all.map(e => e.getAttribute('name'))") == demos
    for demo in page.locator("course-demo").all():
        drawing = demo.locator("svg").first.bounding_box()
        assert drawing["width"] > 50 and drawing["height"] > 10
        assert demo.locator("table").first.is_visible()
        for control in demo.locator("button, input, select").all():
            assert not control.is_visible(), "a control that does nothing"
    for quiz in page.locator("form.quiz").all():
        assert not quiz.locator("button").first.is_visible(), "a button that does nothing"
        answer = quiz.locator(".quiz__answer")
        answer.locator("summary").click()
        assert "答案" in answer.inner_text()
        assert not quiz.locator(".quiz__explanation").count() or quiz.locator(".quiz__explanation").is_visible()
    folded = page.locator(".md-content details:not([open]) > summary")
    while folded.count():
        folded.first.click()
    # all are unfolded now, so every badge is drawn
    assert [badge.text_content() for badge in page.locator(".course-badge").all() if not badge.is_visible()] == []
    printed(page)


# --- on paper --------------------------------------------------------------------------------------------------------


def test_printed(path, visit):
    printed(visit(path, scheme="dark"))


def printed(page) -> None:
    """All that was folded is open, controls are gone, ink is dark on white whatever the palette."""
    page.evaluate("document.querySelectorAll('details').forEach(e => e.open = false)")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate(FOLDED) == []
    controls = page.locator(".md-header, .md-sidebar, .md-footer, .md-top, .md-code__nav, .md-clipboard, .md-content button, .md-search")
    assert [control.get_attribute("class") for control in controls.all() if control.is_visible()] == []
    ink, paper = page.evaluate(
        """() => [getComputedStyle(document.querySelector('.md-content h1, .md-content p')).color, getComputedStyle(document.body).backgroundColor]"""
    )
    assert brightness(ink) < 120 and (brightness(paper) == 255 or paper == "rgba(0, 0, 0, 0)"), f"{ink} on {paper}"


def brightness(color: str) -> float:
    """Mean of red, green and blue, 0 to 255."""
    return sum(map(float, re.findall(r"[\d.]+", color)[:3])) / 3


def test_printed_pages_lose_nothing_at_the_side(visit):
    """Code and tables that scroll on a screen are broken or fit on paper (A4 less its margins: 178 mm, 673 px)."""
    page = visit("online-softmax/", width=673)
    page.emulate_media(media="print")
    cut = page.evaluate(
        """() => [...document.querySelectorAll('.md-content pre > code')]
          .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent.slice(0, 60))"""
    )
    assert cut == []


# --- mathematics -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", WITH_MATH)
def test_formulas_are_drawn_in_their_font(where, visit):
    """MathML, no script, and every glyph but Chinese from the site's own font."""
    page = visit(where)
    page.evaluate("document.fonts.ready.then(() => true)")
    loaded = page.evaluate("[...document.fonts].filter(f => f.family.includes('Course Math') && f.status == 'loaded').length")
    assert loaded == 1
    assert page.evaluate("typeof MathJax == 'undefined' && typeof katex == 'undefined'")
    assert page.locator(".MathJax, .katex, mjx-container").count() == 0
    foreign = foreign_glyphs(page)
    assert page.locator("math").count() > 5
    assert foreign == {}, "glyphs that the cut of STIX Two Math lacks (scripts/make_font.py)"


def foreign_glyphs(page) -> dict[str, str]:
    """Text of each formula's leaf that is not drawn in a font of the site -> the font; Chinese is left out."""
    session = page.context.new_cdp_session(page)
    session.send("DOM.enable")
    session.send("CSS.enable")
    root = session.send("DOM.getDocument", {"depth": 0})["root"]["nodeId"]
    leaves = session.send("DOM.querySelectorAll", {"nodeId": root, "selector": "math :is(mi, mn, mo, mtext)"})["nodeIds"]
    texts = page.locator("math :is(mi, mn, mo, mtext)").all_text_contents()
    first_of = {text: node for node, text in zip(reversed(leaves), reversed(texts))}
    found = {}
    for text, node in first_of.items():
        if not text.strip() or re.search("[\u3000-\u9fff\uff00-\uffef]", text):
            continue
        fonts = session.send("CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]
        if others := [font["familyName"] for font in fonts if not font["isCustomFont"]]:
            found[text] = ", ".join(others)
    session.detach()
    return found


@pytest.mark.parametrize("where", WITH_MATH)
def test_display_formulas_are_not_cut(where, visit):
    """A formula's frame hides nothing above or below: it looks the same with the frame taken away."""
    page = visit(where, width=1000, reduced_motion="reduce")
    page.evaluate("document.fonts.ready.then(() => true)")
    formulas = page.locator("div.arithmatex")
    assert formulas.count() > 2
    # Room around each, so that what sticks out meets white and not its neighbours; nothing that floats over the text.
    page.evaluate(ADD_RULES, ".md-typeset div.arithmatex { margin-block: 60px !important } .md-header, .md-top { display: none }")
    tall = [f.text_content()[:40] for f in formulas.all() if f.evaluate("e => e.scrollHeight > e.clientHeight + 1")]
    assert tall == []
    framed = pictures(page, formulas)
    page.evaluate(ADD_RULES, ".md-typeset div.arithmatex { overflow: visible !important; contain: none !important }")
    free = pictures(page, formulas)
    cut = [formulas.nth(n).text_content()[:40] for n in framed if framed[n] != free[n]]
    assert cut == []


def pictures(page, formulas) -> dict[int, bytes]:
    """Each fitting formula with 30 px above and below."""
    found = {}
    for number, formula in enumerate(formulas.all()):
        if formula.evaluate("e => e.scrollWidth > e.clientWidth || !e.checkVisibility()"):
            continue
        formula.evaluate("e => e.scrollIntoView({block: 'center', behavior: 'instant'})")
        box = formula.bounding_box()
        clip = {"x": box["x"], "y": box["y"] - 30, "width": box["width"], "height": box["height"] + 60}
        found[number] = page.screenshot(clip=clip, animations="disabled", caret="hide")
    return found
