"""What a reader's browser remembers: sections read, answers given; the overview that tells, and forgets when asked."""

from __future__ import annotations

import json
import re

import pytest

from .test_quiz import option, right, status, submit, wrong

PAGE = "flash-attention/"  # several sections, several quizzes
OVERVIEW = "progress/"
LONGER = 1300  # ms, longer than the moment that an end must stay in view


def kept(page) -> dict[str, str]:
    """What is remembered, whatever the site's path."""
    text = page.evaluate("Object.entries(localStorage).find(([name]) => name.endsWith('.progress'))?.[1] ?? '{}'")
    return json.loads(text).get("kept", {})


def headings(page):
    return page.locator(".md-content h2[data-key]")


def key_of(locator) -> str:
    return locator.get_attribute("data-key")


def state(page, key: str, value: str) -> None:
    """Wait until a key's state is `value`."""
    page.wait_for_function("([key, value]) => progress.get(key) == value", arg=[key, value])


def put(page, locator, y: int) -> None:
    """Scroll until an element's top is `y` px below that of the window."""
    locator.evaluate("(e, y) => scrollBy({top: e.getBoundingClientRect().top - y, behavior: 'instant'})", y)


def read(page, number: int) -> str:
    """Read a section: its heading, then its end. Returns its key."""
    put(page, headings(page).nth(number), 100)
    key = key_of(headings(page).nth(number))
    page.wait_for_function("key => progress.get(key)", arg=key)
    put(page, headings(page).nth(number + 1), 500)
    state(page, key, "read")
    return key


def entry(page, address: str):
    """A page's entry in the overview."""
    return page.locator(".progress > ul > li").filter(has=page.locator(f'> a[href$="/{address}"]'))


# --- sections --------------------------------------------------------------------------------------------------------


def test_every_section_and_quiz_has_a_key_of_its_own(site, course_sources):
    """On the pages that count; the guide shows some quizzes that stand elsewhere too."""
    found = []
    for source, path in course_sources.items():
        if not source.startswith(("guide/", "verification", "progress")):
            html = (site / path / "index.html").read_text("utf-8")
            found += re.findall(r'<(?:h2|form class="quiz") data-key="(\w+)"', html)
    assert len(found) == len(set(found)) > 40


def test_a_section_is_read_when_its_end_was_seen(visit):
    page = visit(PAGE)
    first = key_of(headings(page).nth(0))
    page.wait_for_function("key => progress.get(key) == 'begun'", arg=first)
    page.wait_for_timeout(LONGER)
    assert kept(page)[first] == "begun", "its end is far below"
    assert read(page, 0) == first
    page.reload()
    assert kept(page)[first] == "read"


def test_jumping_over_a_section_does_not_read_it(visit):
    page = visit(PAGE)
    first = key_of(headings(page).nth(0))
    state(page, first, "begun")
    page.goto(page.url + "#" + headings(page).nth(1).get_attribute("id"))
    state(page, key_of(headings(page).nth(1)), "begun")
    page.wait_for_timeout(LONGER)
    assert kept(page)[first] == "begun"


def test_passing_by_is_not_reading(visit):
    page = visit(PAGE)
    first, end = key_of(headings(page).nth(0)), headings(page).nth(1)
    state(page, first, "begun")
    put(page, end, 500)
    page.wait_for_timeout(200)
    put(page, end, 3000)
    page.wait_for_timeout(LONGER)
    assert kept(page)[first] == "begun"


def test_the_last_section_ends_before_the_footnotes(visit):
    page = visit("")
    last = headings(page).last
    put(page, last, 100)
    page.wait_for_function("key => progress.get(key)", arg=key_of(last))
    put(page, page.locator(".footnote"), 500)
    state(page, key_of(last), "read")


# --- the overview ----------------------------------------------------------------------------------------------------


def test_without_a_script_it_is_the_table_of_contents(visit, site, course_sources):
    page = visit(OVERVIEW, java_script_enabled=False)
    addresses = {link.get_attribute("href") for link in page.locator(".progress a").all()}
    for path in course_sources.values():
        assert f"../{path}" in addresses or path == OVERVIEW
    html = (site / PAGE / "index.html").read_text("utf-8")
    for anchor in re.findall(r'<h2 data-key="\w+" id="([^"]+)"', html):
        assert f"../{PAGE}#{anchor}" in addresses
    quizzes = html.count('<form class="quiz"')
    assert f"{quizzes} 道测验" in entry(page, PAGE).inner_text()
    assert not page.get_by_role("button", name="清除").is_visible()


def test_the_numbers(visit, served_below):
    page = visit(PAGE, base=served_below.url)
    read(page, 1)
    quizzes = page.locator("form.quiz")
    for number, choose in enumerate([right, wrong]):
        for letter in choose(quizzes.nth(number)):
            option(quizzes.nth(number), letter).check()
        submit(quizzes.nth(number)).click()
        status(quizzes.nth(number), "回答正确|再想想")
    count = quizzes.count()
    page.goto(served_below.url + OVERVIEW)
    mine, total = entry(page, PAGE), page.locator(".progress__total")
    total.filter(has_text="读过 1/").wait_for()
    sections = mine.locator("li")
    assert mine.locator(".progress__count").inner_text() == f"读过 1/{sections.count()} 节，答对 1/{count} 题"
    assert [item.locator("span").inner_text() for item in sections.all()][:3] == ["", "✓ 读过", ""]
    pages = page.locator(".progress__count").all_inner_texts()
    sums = [sum(int(re.findall(r"/(\d+)", text + "，/0")[n]) for text in pages) for n in (0, 1)]
    assert total.inner_text() == f"读过 1/{sums[0]} 节，答对 1/{sums[1]} 题"
    items = page.evaluate("Object.keys(localStorage)")
    assert [item for item in items if item.endswith(".progress")] == ["/course/ch19/.progress"]


def test_an_edited_section_is_unread(visit):
    page = visit(PAGE)
    key = read(page, 0)

    def edited(route):
        route.fulfill(body=route.fetch().text().replace(key, "0123abcd"), content_type="text/html")

    page.route(f"**/{OVERVIEW}", edited)
    page.goto(page.url.replace(PAGE, OVERVIEW))
    page.locator(".progress__total").filter(has_text="读过 0/").wait_for()
    assert page.locator('[data-key="0123abcd"] span').inner_text() == ""


def test_another_tab_is_followed(visit):
    page = visit(OVERVIEW)
    other = page.context.new_page()
    other.goto(page.url)
    key = key_of(other.locator(".progress li li").first)
    other.evaluate("key => progress.set(key, 'read')", key)
    page.locator(".progress__total").filter(has_text="读过 1/").wait_for()


@pytest.fixture
def reader(visit):
    """The overview of one who has read a section."""

    def open_overview(**options):
        page = visit(OVERVIEW, **options)
        page.evaluate("key => progress.set(key, 'read')", key_of(page.locator(".progress li li").first))
        page.reload()
        page.locator(".progress__total").filter(has_text="读过 1/").wait_for()
        return page, page.locator(".progress button"), page.locator(".progress").get_by_role("status")

    return open_overview


def test_clearing_asks_once_more(reader):
    page, button, said = reader()
    button.click()
    assert "再按一次" in button.inner_text() and said.inner_text()
    page.locator("h1").click()  # elsewhere: not meant
    assert button.inner_text() == "清除本站的学习记录" and not said.inner_text()
    button.click()
    assert "读过 1/" in page.locator(".progress__total").inner_text()
    button.click()
    assert said.inner_text() == "学习记录已清除。"
    assert "读过 0/" in page.locator(".progress__total").inner_text()
    assert page.locator(".progress li li span").all_inner_texts() == [""] * page.locator(".progress li li").count()
    page.reload()
    assert kept(page) == {}


def test_clearing_by_keyboard_alone(reader):
    page, button, said = reader()
    page.locator(".progress a").last.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert "再按一次" in button.inner_text()
    page.keyboard.press("Shift+Tab")  # leaving takes it back
    assert button.inner_text() == "清除本站的学习记录" and kept(page)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    assert said.inner_text() == "学习记录已清除。" and not kept(page)
    assert page.evaluate("document.activeElement.matches('.progress button')")


def test_clearing_by_touch(reader):
    page, button, said = reader(width=360, has_touch=True, is_mobile=True)
    targets = page.locator(".progress :is(a, button)")
    assert min(targets.evaluate_all("all => all.map(e => e.getBoundingClientRect().height)")) >= 44
    button.tap()
    button.tap()
    said.filter(has_text="已清除").wait_for()
    assert not kept(page)


def test_on_paper_it_is_a_list(reader):
    page, button, said = reader()
    page.emulate_media(media="print")
    assert not button.is_visible() and page.locator(".progress a").first.is_visible()


def test_to_a_page_and_back(visit):
    """Whether the theme loads the pages or the browser does: what was done there is told here."""
    page = visit(OVERVIEW)
    entry(page, PAGE).locator("a").first.click()
    quiz = page.locator("form.quiz").first
    for letter in right(quiz):
        option(quiz, letter).check()
    submit(quiz).click()
    status(quiz, "回答正确")
    page.go_back()
    page.locator(".progress__total").filter(has_text="答对 1/").wait_for()


# --- storage that fails ----------------------------------------------------------------------------------------------

BROKEN = {
    "full": "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); };",
    "blocked": """for (const name of ['getItem', 'setItem']) {
        const original = Storage.prototype[name];  // the theme, which keeps the colours, is not tested here
        Storage.prototype[name] = function (item, value) {
          if (item.endsWith('.progress')) throw new DOMException('denied', 'SecurityError');
          return original.call(this, item, value);
        };
      }""",
    "unreadable": "localStorage.setItem('/.progress', '{');",
}


@pytest.mark.parametrize("script", BROKEN.values(), ids=BROKEN)
def test_storage_that_fails_breaks_nothing(visit, script):
    page = visit(OVERVIEW)
    page.add_init_script(script)
    page.goto(page.url.replace(OVERVIEW, ""))
    quiz = page.locator("form.quiz").first
    for letter in right(quiz):
        option(quiz, letter).check()
    submit(quiz).click()
    status(quiz, "回答正确")
    quiz.get_by_role("button", name="重做").click()
    assert quiz.locator("input:checked").count() == 0


def test_an_item_that_means_nothing_is_no_past(visit):
    page = visit(OVERVIEW)
    later = '{"version":2,"kept":{"a":"read"}}'
    for text in ("", "{", "null", "[]", "7", later, '{"version":1}', '{"version":1,"kept":[7]}'):
        page.evaluate("text => localStorage.setItem('/.progress', text)", text)
        assert page.evaluate("progress.get('a')") == "", text
        page.evaluate("progress.set('a', 'read')")
        assert page.evaluate("progress.get('a')") == "read", text


def test_an_answer_that_means_nothing_is_passed_over(visit):
    page = visit(PAGE)
    keys = page.locator("form.quiz").evaluate_all("all => all.map(e => e.dataset.key)")
    values = [5, {}, "", "right", "right Z", "read"]
    assert len(keys) >= len(values)
    page.evaluate("entries => entries.forEach(([key, value]) => progress.set(key, value))", [*zip(keys, values)])
    page.reload()
    page.locator("form.quiz[data-started]").first.wait_for()
    assert page.locator("form.quiz input:checked").count() == 0
    assert "".join(page.locator(".quiz__feedback").all_inner_texts()) == ""
