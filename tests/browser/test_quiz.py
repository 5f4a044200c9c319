"""Quizzes in a reader's hands: mouse, keyboard, touch; right, wrong, several answers, none chosen, again."""

from __future__ import annotations

import re

import pytest

ONE, SEVERAL = "form.quiz:has(input[type=radio])", "form.quiz:has(input[type=checkbox])"
PAGES = ["io/", "tiling/", "online-softmax/"]


@pytest.fixture
def find(visit):
    """`find(form, **context)`: the first quiz of a kind, on whichever page has one."""

    def search(form: str, **options):
        for path in PAGES:
            page = visit(path, **options)
            if page.locator(form).count():
                return page.locator(form).first
        raise AssertionError(f"no {form} on {PAGES}")

    return search


def right(quiz) -> list[str]:
    return quiz.get_attribute("data-answer").split(",")


def wrong(quiz) -> str:
    """A letter that is not right."""
    letters = quiz.locator("input").evaluate_all("all => all.map(e => e.value)")
    return next(letter for letter in letters if letter not in right(quiz))


def option(quiz, letter: str):
    return quiz.locator(f"input[value={letter}]")


def submit(quiz):
    return quiz.get_by_role("button", name="提交")


def status(quiz, text: str):
    """The announced feedback, once it says so."""
    found = quiz.get_by_role("status").filter(has_text=re.compile(text))
    found.wait_for()
    return found


def test_every_quiz_has_a_key_among_its_options(path, site):
    html = (site / path / "index.html").read_text("utf-8")
    for form in re.findall(r'<form class="quiz".*?</form>', html, re.DOTALL):
        key = re.search('data-answer="([^"]*)"', form)[1].split(",")
        inputs = [dict(re.findall(r'(\w+)="([^"]*)"', tag)) for tag in re.findall("<input[^>]*>", form)]
        assert set(key) <= {one["value"] for one in inputs} and len(inputs) >= 2
        assert {one["type"] for one in inputs} == {"checkbox" if len(key) > 1 else "radio"}
        assert not re.search(r'<details class="quiz__answer"[^>]*\bopen', form)


def test_right_by_mouse(find):
    quiz = find(ONE)
    option(quiz, right(quiz)[0]).locator("xpath=..").click()  # the label, text and all, is the target
    submit(quiz).click()
    assert status(quiz, "回答正确").get_attribute("aria-live") == "polite"
    assert quiz.locator(".quiz__explanation").is_visible()


def test_wrong_by_mouse(find):
    quiz = find(ONE)
    option(quiz, wrong(quiz)).check()
    submit(quiz).click()
    status(quiz, "再想想")


def test_the_marks_are_words_too(find):
    """Never by colour alone: an option that was judged says so in its text."""
    quiz = find(ONE)
    option(quiz, wrong(quiz)).check()
    before = quiz.locator(".quiz__options").inner_text()
    submit(quiz).click()
    status(quiz, "再想想")
    assert quiz.locator(".quiz__options").inner_text() != before


def test_nothing_happens_before_submit(find):
    quiz = find(ONE)
    option(quiz, right(quiz)[0]).check()
    assert quiz.get_by_role("status").inner_text() == ""
    assert not quiz.locator(".quiz__answer").evaluate("e => e.open")


@pytest.mark.parametrize("form", [ONE, SEVERAL])
def test_none_chosen(find, form):
    quiz = find(form)
    submit(quiz).click()
    text = status(quiz, "选").inner_text()
    assert "正确" not in text and "再想想" not in text
    assert not quiz.locator(".quiz__answer").evaluate("e => e.open")


def test_several_answers(find):
    quiz = find(SEVERAL)
    some = right(quiz)[0]
    option(quiz, some).check()
    submit(quiz).click()
    status(quiz, "再想想")  # a part of the answer is not the answer
    again(quiz)
    for letter in right(quiz):
        option(quiz, letter).check()
    submit(quiz).click()
    status(quiz, "回答正确")
    again(quiz)
    for letter in [*right(quiz), wrong(quiz)]:
        option(quiz, letter).check()
    submit(quiz).click()
    status(quiz, "再想想")  # neither is more than the answer


def again(quiz) -> None:
    """The 重做 button empties the form."""
    quiz.get_by_role("button", name="重做").click()
    assert quiz.locator("input:checked").count() == 0
    assert quiz.get_by_role("status").inner_text() == ""
    assert quiz.locator("input:disabled").count() == 0


def test_again_after_a_wrong_answer(find):
    quiz = find(ONE)
    option(quiz, wrong(quiz)).check()
    submit(quiz).click()
    status(quiz, "再想想")
    again(quiz)
    option(quiz, right(quiz)[0]).check()
    submit(quiz).click()
    status(quiz, "回答正确")


@pytest.mark.parametrize("form", [ONE, SEVERAL])
def test_by_keyboard_alone(find, form):
    """Arrows or Tab and Space choose without submitting; Tab reaches the button, Enter presses it; 重做 is reached too."""
    quiz = find(form)
    page = quiz.page
    first = quiz.locator("input").first
    letters = quiz.locator("input").evaluate_all("all => all.map(e => e.value)")
    first.focus()
    for index, letter in enumerate(letters):
        if form == ONE and letter == right(quiz)[0]:
            if index == 0:
                page.keyboard.press("Space")
            break
        if form == SEVERAL and letter in right(quiz):
            page.keyboard.press("Space")
        if form == ONE:
            page.keyboard.press("ArrowDown")
        elif index < len(letters) - 1:
            page.keyboard.press("Tab")
    assert quiz.get_by_role("status").inner_text() == "", "choosing must not submit"
    chosen = quiz.locator("input:checked").evaluate_all("all => all.map(e => e.value)")
    assert chosen == right(quiz)
    press(page, quiz, "提交")
    status(quiz, "回答正确")
    press(page, quiz, "重做")
    assert quiz.locator("input:checked").count() == 0


def press(page, quiz, name: str) -> None:
    """Tab, or Shift+Tab, to a button of the quiz, then Enter."""
    reached = "name => document.activeElement.closest('form.quiz') && document.activeElement.textContent.trim() == name"
    for key in ["Tab"] * 12 + ["Shift+Tab"] * 24:
        if page.evaluate(reached, name):
            return page.keyboard.press("Enter")
        page.keyboard.press(key)
    raise AssertionError(f"the keyboard does not reach {name}")


@pytest.mark.parametrize("choose", [wrong, lambda quiz: right(quiz)[0]], ids=["wrong", "right"])
def test_by_touch(find, choose):
    quiz = find(ONE, width=360, has_touch=True, is_mobile=True)
    letter = choose(quiz)
    label = option(quiz, letter).locator("xpath=..")
    assert label.bounding_box()["height"] >= 24, "too small for a finger"
    label.tap()
    submit(quiz).tap()
    status(quiz, "回答正确" if letter in right(quiz) else "再想想")


def test_quizzes_do_not_mix(visit):
    """Answering one leaves the others alone."""
    page = visit("online-softmax/")
    quizzes = page.locator("form.quiz")
    assert quizzes.count() >= 2
    option(quizzes.nth(0), wrong(quizzes.nth(0))).check()
    submit(quizzes.nth(0)).click()
    status(quizzes.nth(0), "再想想")
    assert quizzes.nth(1).get_by_role("status").inner_text() == ""
    assert quizzes.nth(1).locator("input:checked").count() == 0


def test_submitting_stays_on_the_page(find):
    quiz = find(ONE)
    before = quiz.page.url
    option(quiz, right(quiz)[0]).check()
    submit(quiz).click()
    status(quiz, "回答正确")
    assert quiz.page.url == before


# --- remembered ------------------------------------------------------------------------------------------------------


@pytest.fixture
def answered(visit):
    """`answered(form, choose, **context)`: a quiz answered on an earlier visit, and the page loaded again."""

    def answer(form: str, choose, **options):
        page = visit("flash-attention/", **options)
        quiz = page.locator(form).first
        for letter in choose(quiz):
            option(quiz, letter).check()
        submit(quiz).click()
        status(quiz, "回答正确|再想想")
        before = quiz.inner_text()
        page.reload()
        return quiz, before

    return answer


@pytest.mark.parametrize("form", [ONE, SEVERAL])
@pytest.mark.parametrize("choose", [right, wrong])
def test_an_answer_survives_reload(answered, form, choose):
    quiz, before = answered(form, choose)
    status(quiz, "回答正确" if choose == right else "再想想")
    assert quiz.inner_text() == before
    chosen = quiz.locator("input:checked").evaluate_all("all => all.map(e => e.value)")
    assert chosen == [*choose(quiz)]
    assert quiz.page.evaluate("document.activeElement == document.body")
    assert quiz.locator(".quiz__feedback").get_attribute("aria-live") == "off", "it was announced when it was submitted"
    assert quiz.page.locator("form.quiz input:checked").count() == len(chosen)
    submit(quiz).click()
    assert status(quiz, "回答正确|再想想").get_attribute("aria-live") == "polite"


def test_redo_forgets_one_answer(answered):
    quiz, _ = answered(SEVERAL, right)
    other = quiz.page.locator(ONE).first
    option(other, right(other)[0]).check()
    submit(other).click()
    status(other, "回答正确")
    again(quiz)
    quiz.page.reload()
    status(other, "回答正确")
    assert quiz.locator("input:checked").count() == 0 and quiz.get_by_role("status").inner_text() == ""


def test_an_edited_question_forgets(answered):
    quiz, _ = answered(ONE, right)
    key = quiz.get_attribute("data-key")
    quiz.page.route(
        "**/flash-attention/",
        lambda route: route.fulfill(body=route.fetch().text().replace(key, "0123abcd"), content_type="text/html"),
    )
    quiz.page.reload()
    assert quiz.get_attribute("data-key") == "0123abcd"
    assert quiz.locator("input:checked").count() == 0 and quiz.get_by_role("status").inner_text() == ""


def test_targets_for_a_finger(find):
    quiz = find(ONE, width=360, has_touch=True, is_mobile=True)
    option(quiz, right(quiz)[0]).locator("xpath=..").tap()
    submit(quiz).tap()
    status(quiz, "回答正确")
    targets = quiz.locator("label, button, summary")
    assert min(targets.evaluate_all("all => all.map(e => e.getBoundingClientRect().height)")) >= 44
