"""What holds for every demo: it adopts the page's figure, is played without a shift, by keyboard alone, and lets go."""

from __future__ import annotations

import re

import pytest

from .conftest import HOMES, Demo

NAMES = sorted(HOMES)
WORDS = """root => {
  const clean = text => text.replace(/\\s+/g, "");
  const shapes = [...root.querySelectorAll("figure svg [d], figure svg rect, figure svg text, figure svg circle")].map(e =>
    e.tagName + [...e.attributes].filter(a => /^(x|y|d|width|height|x1|x2|points|cx|cy)$/.test(a.name)).map(a => ` ${a.name}=${a.value}`).join(""));
  const words = [...root.querySelectorAll("figure [data-part], figure .demo-say, figure td, figure th, figure li, figure text")].map(e => clean(e.textContent));
  return {words, shapes};
}"""
SHIFTS = """() => {
  window.shifts = [];
  new PerformanceObserver(list => list.getEntries().forEach(entry => window.shifts.push(
    {value: entry.value, sources: entry.sources.map(s => s.node && (s.node.outerHTML || s.node.textContent || "").slice(0, 120))})))
    .observe({type: "layout-shift", buffered: true});
}"""


@pytest.mark.parametrize("name", NAMES)
def test_adopts_the_figure_of_the_page(name, live):
    """What the script draws at first is what the page carried: the same words and the same shapes."""
    demo = live(name)
    alive = demo.root.evaluate(WORDS)
    carried = demo.page.evaluate(
        f"""async name => {{
          const source = await (await fetch(location.pathname)).text();
          const page = new DOMParser().parseFromString(source, "text/html");
          return ({WORDS})(page.querySelector(`course-demo[name=${{name}}]`));
        }}""",
        name,
    )
    assert alive["words"] == carried["words"]
    assert [tidy(shape) for shape in alive["shapes"]] == [tidy(shape) for shape in carried["shapes"]]


def tidy(shape: str) -> str:
    """Numbers to one decimal: the two languages round a tie differently."""
    return re.sub(r"-?\d+(\.\d+)?", lambda number: f"{float(number[0]):.1f}", shape)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [360, 1440])
def test_no_layout_shift(name, width, visit):
    """Without the font of formulas: where it arrives late, as at a first visit, they move, and no demo has a part in it."""
    page = visit(HOMES[name], width=width)
    page.route("**/*.woff2", lambda route: None)  # it does not come
    page.add_init_script(f"({SHIFTS})()")
    page.reload(wait_until="domcontentloaded")
    demo = Demo(page, name)
    demo.root.scroll_into_view_if_needed()
    # played through the state machine, not by clicks: a shift within half a second of a click would not count
    demo.root.evaluate("root => setTimeout(() => root.querySelector('[data-do=PLAY]').click(), 0)")
    page.wait_for_timeout(1800)  # two steps of a play
    shifts = [shift for shift in page.evaluate("window.shifts") if shift["value"] > 0]
    assert shifts == []


@pytest.mark.parametrize("name", NAMES)
def test_by_keyboard_alone(name, live):
    """Tab reaches every control in the order of the page, each shows that it has the focus, Enter and Space press."""
    demo = live(name)
    demo.find("select, input, button").first.evaluate("e => e.focus()")
    seen = []
    for _ in range(60):
        at = demo.page.evaluate("""name => {
          const e = document.activeElement;
          if (e.closest('course-demo')?.getAttribute('name') !== name) return null;
          const style = getComputedStyle(e);
          return [e.dataset.do || e.dataset.field || e.dataset.fix || e.name || e.tagName, style.outlineStyle !== 'none' || style.boxShadow !== 'none'];
        }""", name)
        if at is None:
            break
        seen.append(at)
        demo.page.keyboard.press("Tab")
    assert [control for control, visible in seen if not visible] == []
    assert {"RESET", "BACK", "STEP", "PLAY", "guess"} <= {control for control, _ in seen}
    demo.button("RESET").focus()
    demo.page.keyboard.press("Enter")
    first = demo.said
    demo.button("STEP").focus()
    demo.page.keyboard.press("Space")
    assert demo.said != first
    demo.button("PLAY").focus()
    demo.page.keyboard.press("Enter")
    assert demo.button("PLAY").inner_text().startswith("暂停")
    demo.page.keyboard.press("Enter")
    assert demo.button("PLAY").inner_text().startswith("播放")


@pytest.mark.parametrize("name", NAMES)
def test_the_picture_is_named_and_described(name, live):
    """What it shows stays its name; the step is its description."""
    demo = live(name)
    title = demo.find("svg > title").text_content()
    demo.button("RESET").click()
    demo.button("STEP").click()
    assert demo.find("svg > title").text_content() == title
    assert demo.find("svg > desc").text_content() == demo.said


@pytest.mark.parametrize("name", NAMES)
def test_a_play_ends_and_is_told_once(name, live):
    demo = live(name)
    demo.find("[data-seek]").evaluate("e => { e.value = e.max - 2; e.dispatchEvent(new Event('input', {bubbles: true})); }")
    demo.button("PLAY").click()
    assert demo.find(".demo-say").get_attribute("aria-live") == "off"
    demo.page.wait_for_function(
        "name => document.querySelector(`course-demo[name=${name}] [data-do=PLAY]`).ariaPressed == 'false'", arg=name
    )
    assert demo.find(".demo-say").get_attribute("aria-live") == "polite"
    at, last = demo.find("[data-seek]").evaluate("e => [e.value, e.max]")
    assert at == last


@pytest.mark.parametrize("name", NAMES)
def test_the_address_holds_the_state(name, live):
    demo = live(name)
    demo.button("RESET").click()
    demo.button("STEP").click()
    step = demo.find("[data-seek]").input_value()  # RESET's own address may come first
    demo.page.wait_for_function(
        "([name, step]) => location.hash.startsWith(`#${name}?`) && new URLSearchParams(location.hash.split('?')[1]).get('t') === step",
        arg=[name, step],
    )
    said, address = demo.said, demo.page.evaluate("location.hash")
    assert demo.find("[data-link]").get_attribute("href") == address
    again = live(name, hash=address)
    assert again.said == said
    assert again.find("[data-seek]").input_value() == demo.find("[data-seek]").input_value()


def test_links_to_states_show_them(live):
    """At the first of them instant navigation fetches the page again; at the next ones it changes the address alone."""
    demo = live("triton-block")
    demo.page.wait_for_load_state("networkidle")  # the sitemap has come
    for n, line in ((1000, 5), (2000, 2), (1000, 5)):
        link = f'<a id="to" href="#triton-block?n={n}&amp;t={line - 1}">x</a>'
        demo.page.evaluate("link => { document.body.insertAdjacentHTML('beforeend', link); document.querySelector('#to').click() }", link)
        demo.page.wait_for_function(
            "([n, said]) => document.querySelector('[data-field=n]')?.value == n && document.querySelector('.demo-say').textContent.startsWith(said)",
            arg=[str(n), f"第 {line}/6 行"],
        )
        demo.page.evaluate("document.querySelector('#to').remove()")


def test_the_address_of_the_next_page_is_left_alone(live):
    """A step, and at once a link: on a slow line the next page has the address before this one's demo is gone."""
    demo = live("tiling")
    demo.page.wait_for_load_state("networkidle")  # the sitemap has come
    demo.page.route("**/summary/", lambda route: None)  # it does not come
    demo.button("STEP").click()
    demo.page.locator(".md-nav--primary a.md-nav__link[href$='/summary/']").first.evaluate("link => link.click()")
    demo.page.wait_for_timeout(700)
    assert demo.page.url.endswith("/summary/")


def test_a_long_text_is_read_at_once(live):
    """No field and no answer hangs on a hundred thousand characters."""
    for name in NAMES:
        demo = live(name)
        seconds = demo.root.evaluate("""root => {
          const start = performance.now();
          for (const field of root.querySelectorAll("input[type=text], input:not([type])")) {
            field.value = "9".repeat(1e5) + "x";
            field.dispatchEvent(new Event("input", {bubbles: true}));
          }
          return (performance.now() - start) / 1000;
        }""")
        assert seconds < 1 and demo.error.startswith("✗")


@pytest.mark.parametrize("name", NAMES)
def test_an_address_of_nonsense_breaks_nothing(name, live):
    demo = live(name, hash=f"#{name}?t=NaN&S=%3Cimg%3E&n=--5&x=%00&block_size=9e99&d=1e400")
    demo.button("RESET").click()
    assert demo.said
    assert demo.find("img").count() == 0


@pytest.mark.parametrize("name", NAMES)
def test_forced_colours_and_print(name, live):
    demo = live(name, forced_colors="active")
    assert demo.find("svg[role=img]").first.bounding_box()["height"] > 50
    hidden = demo.root.evaluate("root => [...root.querySelectorAll('svg rect, svg path')].filter(e => { const s = getComputedStyle(e); return s.fill === 'none' && s.stroke === 'none' && !e.closest('defs'); }).length")
    assert hidden == 0
    demo.page.emulate_media(media="print")
    assert not demo.find(".demo-transport").is_visible()
    assert demo.find("details.challenge").is_visible()
    assert demo.find("table").first.is_visible()


@pytest.mark.parametrize("name", NAMES)
def test_touch_targets(name, live):
    demo = live(name, width=360, has_touch=True, is_mobile=True)
    small = demo.root.evaluate("""root => [...root.querySelectorAll('button, select, input, .demo-flag, .demo-transport a, summary')]
      .filter(e => e.checkVisibility() && !(e.type === 'checkbox' || e.type === 'radio'))
      .map(e => [e.textContent.trim().slice(0, 12) || e.name || e.dataset.field, Math.round(e.getBoundingClientRect().height)])
      .filter(([_, height]) => height < 44)""")
    assert small == []


@pytest.mark.parametrize("name", NAMES)
def test_the_words_of_a_cell_stay_in_it(name, live):
    demo = live(name)
    for width in (320, 700, 1440):
        demo.page.set_viewport_size({"width": width, "height": 800})
        outside = demo.root.evaluate("""root => [...root.querySelectorAll("figure :is(td, th)")].filter(cell => {
          const words = document.createRange();
          words.selectNodeContents(cell);
          const [inner, outer] = [words.getBoundingClientRect(), cell.getBoundingClientRect()];
          return inner.width && (inner.left < outer.left || inner.right > outer.right);
        }).map(cell => cell.textContent)""")
        assert outside == [], width


def test_a_module_that_does_not_come_leaves_the_figure(visit, browser, base_url):
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.route("**/assets/demos/triton-block.js", lambda route: route.abort())
    page = context.new_page()
    page.goto(base_url + "triton/")
    demo = page.locator("course-demo[data-state=failed]")
    demo.wait_for(state="attached")
    assert not demo.locator(".demo-transport").is_visible()
    assert demo.locator("details.challenge").is_visible()
    context.close()


def test_loaded_only_where_used(visit, served):
    served.log.clear()
    visit("summary/").wait_for_load_state("networkidle")
    assert [path for path, _ in served.log if "/assets/demos/" in path] == []


def test_scripts_are_small(site):
    sizes = {path.name: path.stat().st_size for path in (site / "assets/demos").rglob("*.js")}
    sizes["demos.js"] = (site / "assets/js/demos.js").stat().st_size
    assert sum(sizes.values()) <= 60_000, sizes
