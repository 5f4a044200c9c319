"""Pictures in the built pages: words large enough, selectable, inside and clear of each other, whatever the palette."""

import pytest

PAGES = ["io/", "roofline/", "tiling/", "online-softmax/", "triton/"]

# Smallest size of the words in px; words that leave their drawing; pairs of words that run into each other.
MEASURE = """() => [...document.querySelectorAll('figure.picture svg')].map(svg => {
  const frame = svg.getBoundingClientRect(), scale = frame.width / svg.viewBox.baseVal.width
  const words = [...svg.querySelectorAll('text')]
    .map(e => ({ said: e.textContent, box: e.getBoundingClientRect(), style: getComputedStyle(e) }))
  const beside = (a, b) => a.right <= b.left + 1 || b.right <= a.left + 1
  const above = (a, b) => a.bottom <= b.top + 4 * scale // a box has air above and below its letters
  const apart = (a, b) => beside(a, b) || above(a, b) || above(b, a)
  return {
    smallest: Math.min(...words.map(w => parseFloat(w.style.fontSize) * scale)),
    selectable: words.every(w => w.style.userSelect != 'none' && w.style.pointerEvents != 'none'),
    outside: words.filter(w => w.box.left < frame.left - 2 || w.box.right > frame.right + 2).map(w => w.said),
    overlapping: words.flatMap((a, i) => words.slice(i + 1)
      .filter(b => !apart(a.box, b.box)).map(b => [a.said, b.said])),
  }
})"""

# Colours of what is drawn, of each kind of mark once.
COLOURS = """() => [...new Set([...document.querySelectorAll('figure.picture svg *')]
  .flatMap(e => [getComputedStyle(e).fill, getComputedStyle(e).stroke]).filter(c => c.startsWith('rgb')))]"""


@pytest.mark.parametrize("page_path", PAGES)
def test_words_are_legible(page_path, visit):
    page = visit(page_path)
    for width in (1440, 360):
        page.set_viewport_size({"width": width, "height": 800})
        drawings = page.evaluate(MEASURE)
        assert drawings
        for one in drawings:
            assert one["smallest"] >= 12 and one["selectable"], one
            assert one["outside"] == [] and one["overlapping"] == [], one
        tops = page.locator("figure.picture svg").evaluate_all("all => all.map(e => e.getBoundingClientRect().top)")
        assert (len(set(tops)) == 1) == (width == 1440 or len(tops) == 1), "side by side where there is room"


def test_colours_follow_the_palette_and_the_system(visit, in_both_schemes):
    page = visit("tiling/")
    light, dark = (set(page.evaluate(COLOURS)) for _ in in_both_schemes(page))
    assert "rgb(26, 111, 208)" in light and "rgb(108, 170, 240)" in dark
    page.emulate_media(forced_colors="active")
    assert not set(page.evaluate(COLOURS)) & {"rgb(108, 170, 240)", "rgb(240, 160, 75)", "rgb(140, 235, 207)"}
