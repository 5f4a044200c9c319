"""`:::quiz`: what is parsed, what is rendered, what is wrong and said so."""

import pytest

from courseware.dialect.quiz import answer_letters, parse_quiz
from courseware.doctest.blocks import chains
from courseware.page import scan
from tests.dialect.conftest import squeeze

QUIZ = ":::quiz\n问？\nA. 一\nB. 二\n答案: {}\n解析: 因为\n:::"


def parsed(body):
    page = scan(f":::quiz\n{body}\n:::")
    return parse_quiz(page, page.containers[0])


def test_html(render):
    soup = render.soup(QUIZ.format("B"))
    key = soup.form["data-key"]
    assert squeeze(str(soup)) == squeeze(
        f"""<form class="quiz" data-answer="B" data-key="{key}"><fieldset aria-describedby="quiz-0-question"><legend>单选题</legend>
        <div class="quiz__question" id="quiz-0-question"><p>问？</p></div><ul class="quiz__options">
        <li><label><input name="quiz-0" type="radio" value="A"/><span class="quiz__letter">A</span>
        <div class="quiz__text"><p>一</p></div></label></li>
        <li><label><input name="quiz-0" type="radio" value="B"/><span class="quiz__letter">B</span>
        <div class="quiz__text"><p>二</p></div></label></li></ul></fieldset>
        <button type="submit">提交</button><div aria-live="polite" class="quiz__feedback" role="status"></div>
        <details class="quiz__answer"><summary>答案与解析</summary><p>答案：B</p>
        <div class="quiz__explanation"><p>因为</p></div></details></form>"""
    )


@pytest.mark.parametrize(
    ("answer", "letters"),
    [
        ("B", ["B"]),
        ("A, C", ["A", "C"]),
        ("C，A", ["A", "C"]),
        ("A、C", ["A", "C"]),
        ("A C", ["A", "C"]),
        ("AC", ["A", "C"]),
        ("Ｂ。", ["B"]),
        ("b", None),
        ("B 或者", None),
        ("", None),
    ],
)
def test_answer_letters(answer, letters):
    assert answer_letters(answer) == letters


@pytest.mark.parametrize("line", ["答案: A,B", "答案：A、B", "答案 ： AB", "  答案:A B"])
def test_several_right_answers(render, line):
    soup = render.soup(QUIZ.replace("答案: {}", line))
    assert soup.form["data-answer"] == "A,B" and soup.legend.text == "多选题"
    assert {i["type"] for i in soup.select("input")} == {"checkbox"}


@pytest.mark.parametrize(
    ("old", "new", "forgets"),
    [
        ("问", "**问**", False),
        ("一", "一\n", False),
        ("因为", "所以", False),  # a better explanation does not undo the answer
        ("quiz", "quiz 标题", False),
        ("问", "问题", True),
        ("二", "三", True),
        ("答案: B", "答案: A", True),
        ("答案: B", "答案: A, B", True),
        ("x^2", "x_2", True),
    ],
)
def test_the_key_is_of_what_is_asked(render, old, new, forgets):
    text = QUIZ.format("B").replace("一", "一 $x^2$")
    key = render.soup(text).form["data-key"]
    other = render.soup("前文\n\n" + text.replace(old, new)).form["data-key"]
    assert (other != key) == forgets


def test_the_key_follows_a_computed_question(render):
    text = "```python\n# 类型：【Runnable】\nn = 1\n```\n\n" + QUIZ.format("B").replace("一", "{{value:n}}")
    chain = chains(scan(text))[0].key
    keys = set()
    for n in ("1", "2"):
        render.ledger(chains={chain: {"blocks": [], "values": {"n": n}}})
        keys.add(render.soup(text).form["data-key"])
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("body", "letters", "answers", "explained", "stray"),
    [
        ("问\nA. 一\nB. 二\n答案: B", ["A", "B"], [(5, "B")], False, []),
        ("问\nA、一\nB．二\nC) 三\nＤ. 四\n答案：Ａ", ["A", "B", "C", "D"], [(7, "A")], False, []),
        ("问\nA. 一\nA. 二", ["A", "A"], [], False, []),
        ("问\nA. 一\nB. 二\n答案: A\n答案: B", ["A", "B"], [(5, "A"), (6, "B")], False, []),
        ("问\nA. 一\nB. 二\n答案: A\n多余\n解析: x\nC. 不是", ["A", "B"], [(5, "A")], True, [6]),
        ("问\n```\nA. 假\n```\nA. 一\n   ```\n   B. 假\n   ```\nB. 二", ["A", "B"], [], False, []),
        ("问\nA. 一\n\n:::note\nB. 里面的\n:::\nB. 二", ["A", "B"], [], False, []),
        ("A、B 两块合并\nA. 一\nB. 二", ["A", "B"], [], False, []),
        ("", [], [], False, []),
    ],
)
def test_parse(body, letters, answers, explained, stray):
    quiz = parsed(body)
    assert (quiz.letters, quiz.answers, quiz.explanation is not None, quiz.stray) == (letters, answers, explained, stray)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("答案: D", "答案 D 不在选项里"),
        ("答案: 第二个", "答案 第二个 不是选项字母"),
        ("答案:", "quiz 缺少“答案:”行"),
        ("", "quiz 缺少“答案:”行"),
        ("答案: =KEY", "答案 =KEY 没有解析出来"),
    ],
)
def test_faults_stand_in_place(render, answer, says):
    assert says in render.soup(QUIZ.replace("答案: {}", answer)).select_one("form > .course-problems[role=alert]").text


@pytest.mark.parametrize(("value", "right"), [("B", "B"), ("A, B", "A,B")])
def test_computed_key(render, value, right):
    text = f"```python\n# 类型：【Runnable】\nKEY = {value!r}\n```\n\n" + QUIZ.format("=KEY")
    key = chains(scan(text))[0].key
    render.ledger(chains={key: {"blocks": [], "values": {"KEY": value}}})
    form = render.soup(text).form
    assert form["data-answer"] == right and not form.select(".course-problems")


def test_options_hold_any_markdown(render):
    body = "问\nA. 一 $x$\n   - 甲\n     - 乙\n\n   ```text\n   B. 假\n   ```\nB. | 表 |\n\n    | a |\n    |---|\n    | 1 |\n答案: B"
    soup = render.soup(f":::quiz\n{body}\n:::")
    first, second = soup.select("ul.quiz__options > li .quiz__text")
    assert first.select("math") and first.select("ul ul li") and first.pre.text == "B. 假\n"
    assert second.select("table")
