"""Charts in the built pages: words large enough, clear of each other; curves seen in every palette; printed whole."""

import pytest

PAGES = ["flash-attention/", "triton/"]

# Of each chart: smallest word in px, words outside the drawing, pairs of words that run into each other.
MEASURE = """() => [...document.querySelectorAll('.chart__drawing > svg')].map(svg => {
  const frame = svg.getBoundingClientRect(), figure = svg.closest('figure').getBoundingClientRect()
  const scale = frame.width / svg.viewBox.baseVal.width
  const words = [...svg.querySelectorAll('text')]
    .map(e => ({ said: e.textContent, box: e.getBoundingClientRect(), style: getComputedStyle(e) }))
  const beside = (a, b) => a.right <= b.left + 1 || b.right <= a.left + 1
  const above = (a, b) => a.bottom <= b.top + 4 * scale // a box has air above and below its letters
  return {
    smallest: Math.min(...words.map(w => parseFloat(w.style.fontSize) * scale)),
    selectable: words.every(w => w.style.userSelect != 'none' && w.style.pointerEvents != 'none'),
    outside: words.filter(({ box }) => box.left < figure.left || box.right > figure.right || box.bottom > frame.bottom + 1)
      .map(w => w.said),
    overlapping: words.flatMap((a, i) => words.slice(i + 1)
      .filter(b => !(beside(a.box, b.box) || above(a.box, b.box) || above(b.box, a.box))).map(b => [a.said, b.said])),
  }
})"""

# Contrast of each curve's line with the page, and how many looks (colour and dash) there are.
LINES = """() => [...document.querySelectorAll('.chart__drawing')].map(chart => {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true })
  const light = colour => {
    canvas.fillStyle = colour
    canvas.fillRect(0, 0, 1, 1)
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(c => c / 255)
      .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05
  }
  const page = light(getComputedStyle(document.body).backgroundColor)
  const looks = [...chart.querySelectorAll(':scope > svg .chart__line')].map(e => getComputedStyle(e))
  return {
    weakest: Math.min(...looks.map(look => light(look.stroke)).map(l => Math.max(l, page) / Math.min(l, page))),
    looks: new Set(looks.map(look => look.stroke + look.strokeDasharray)).size, lines: looks.length,
  }
})"""


@pytest.mark.parametrize("page_path", PAGES)
def test_words_are_legible(page_path, visit):
    page = visit(page_path)
    for width in (1440, 360):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        charts = page.evaluate(MEASURE)
        assert charts
        for one in charts:
            assert one["smallest"] >= 12 and one["selectable"], one
            assert one["outside"] == [] and one["overlapping"] == [], one


@pytest.mark.parametrize("page_path", PAGES)
def test_curves_are_seen_and_told_apart(page_path, visit, in_both_schemes):
    page = visit(page_path)
    for scheme in in_both_schemes(page):
        for chart in page.evaluate(LINES):
            assert chart["weakest"] >= 3 and chart["looks"] == chart["lines"], (scheme, chart)
    page.emulate_media(forced_colors="active")
    for chart in page.evaluate(LINES):
        assert chart["weakest"] >= 3 and chart["looks"] == chart["lines"], chart


def test_tables_open_and_are_printed(visit):
    page = visit("flash-attention/", java_script_enabled=False)
    table = page.locator("figure.chart table").first
    assert not table.is_visible()
    page.locator("figure.chart summary").first.click()
    assert table.is_visible() and table.locator("tbody a[href*='evidence-']").count() >= 12
    page.emulate_media(media="print")
    heights = page.locator("figure.chart table").evaluate_all("all => all.map(e => e.checkVisibility() && e.offsetHeight)")
    assert min(heights) > 99
