"""`page.scan`: odd inputs, and how lists, fences and containers are re-emitted for Python-Markdown."""

import pytest

from courseware.page import Closer, Container, Fence, PageError, Text, body, read, scan


def emitted(text):
    """`Page.out` as lines; fences and containers by their names."""
    shown = []
    for piece in scan(text).out:
        if isinstance(piece, Text):
            shown.append(piece.text)
        elif isinstance(piece, Fence):
            shown.append(f"<{piece.depth} {piece.language or 'plain'}: {piece.code.strip()}>")
        else:
            container = piece.container if isinstance(piece, Closer) else piece
            shown.append(f"<{'/' if isinstance(piece, Closer) else ''}{container.name} {container.depth}>")
    return shown


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\n- b", ["a", "", "- b"]),  # a list may interrupt a paragraph
        ("a\n1. b", ["a", "", "1. b"]),
        ("a\n3. b", ["a", "", "3. b"]),
        ("a\n2023. b", ["a", "2023. b"]),  # a year in a sentence does not
        ("1) a\n2) b", ["1. a", "2. b"]),
        ("- a\n  - b\n    - c", ["- a", "    - b", "        - c"]),
        ("1. a\n   - b\n2. c", ["1. a", "    - b", "2. c"]),
        ("1. a\n  - b\n2. c", ["1. a", "    - b", "2. c"]),  # two columns do between kinds of list
        ("- a\n    - b\n        - c", ["- a", "    - b", "        - c"]),
        ("1. a\n- b", ["1. a", "", "- b"]),  # another kind of list
        ("- a\nlazy\n- b", ["- a", "    lazy", "- b"]),
        ("- a\n\n  b\n- c", ["- a", "", "    b", "", "- c"]),
        ("- a\n\nb", ["- a", "", "b"]),
        ("- a\n  ```text\n  x\n  ```\n- b", ["- a", "<1 text: x>", "", "- b"]),
        ("-\ta\n\n\tb", ["- a", "", "    b"]),
        ("-\ta\n\t-\tb\n\t\t-\tc", ["- a", "    - b", "        - c"]),
        ("$$\na\n- b % c\n# d\n$$ e\nf", ["$$ a - b  # d $$ e", "f"]),  # a formula is no list
        ("- $$\n  a\n  + b\n  $$\n- c", ["- $$ a + b $$", "- c"]),
        ("> $$\n> - a\n> $$", ["> $$ - a $$"]),
        ("\\begin{x}\n1. a\n\\end{x}", ["\\begin{x} 1. a \\end{x}"]),
        ("$$\n- a\n\n$$", ["$$", "", "- a", "", "$$"]),  # it ends with its paragraph
        ("`$$`\n- a\n$$", ["`$$`", "", "- a", "    $$"]),
        ("    a\n    - b\n    1. c", ["    a", "    - b", "    1. c"]),  # code
        ("- - -", ["- - -"]),  # a rule
        ("- a\n\n      code", ["- a", "", "        code"]),
        ("    code", ["    code"]),
        ("a\n|x|\n|-|\n|1|", ["a", "", "|x|", "|-|", "|1|"]),
        ("a\nx|y\n-|-\n1|2", ["a", "", "x|y", "-|-", "1|2"]),
        ("|x|\n|-|\n|1|\n- a", ["|x|", "|-|", "|1|", "", "- a"]),
        ("- a\n  |x|\n  |-|\n- b", ["- a", "", "    |x|", "    |-|", "", "- b"]),
        ("> a\n> - b\n>   - c", ["> a", ">", "> - b", ">     - c"]),
        ("a\n> b", ["a", "", "> b"]),
        ("> a\n|x|\n|-|", ["> a", "", "|x|", "|-|"]),
        ("- a\n  > b\n- c", ["- a", "", "    > b", "", "- c"]),
        ("a\n<!-- x\n-->\nb", ["a", "b"]),
        ("<!-- x --> b", ["b"]),
        ("- a\n<!-- x -->\n- b", ["- a", "- b"]),
        (":::note\n- a\n:::\n- b", ["<note 0>", "- a", "</note 0>", "- b"]),
        ("- a\n  :::note\n  - b\n  :::\n  c", ["- a", "<note 1>", "    - b", "</note 1>", "    c"]),
        ("`` ``` ``", ["`` ``` ``"]),  # a code span, not a fence
        ("```a`b```", ["```a`b```"]),
        ("", [""]),
        ("\ufeff- a\r\n- b\r", ["- a", "- b", ""]),
        ("---\ntitle: x\n---\na", ["---", "title: x", "---", "a"]),
        ("---\n\na\n- b\n\n---\n", ["---", "", "a", "", "- b", "", "---", ""]),  # rules, no front matter
        (":::quiz\nq\nA. x\n   - y\nB. z\n:::", ["<quiz 0>", "q", "A. x", "", "- y", "B. z", "</quiz 0>"]),
        (":::quiz\nA. x\n    ```text\n    y\n    ```\n:::", ["<quiz 0>", "A. x", "<0 text: y>", "</quiz 0>"]),
    ],
)
def test_emitted(text, lines):
    assert emitted(text) == lines


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (":::quiz\nA. x\nB、y\nC）z\n答案：A\n解析: w\nA. v\n:::", ["A", "B", "C", "答案", "解析"]),
        (":::quiz\nA.B 两块\nA、B 两块\n1. x\n:::", []),
        (":::quiz\n:::note\nA. x\n:::\n:::", []),
        ("A. x\n答案: A", []),
        (":::quiz\n     A. 太深\n:::", []),
    ],
)
def test_quiz_parts(text, parts):
    assert [piece.part for piece in scan(text).out if isinstance(piece, Text) and piece.part] == parts


@pytest.mark.parametrize(
    ("text", "ends", "stray"),
    [
        (":::a\n:::b\n:::\n:::", [("a", 4), ("b", 3)], []),
        ("::::a\n:::b\n::::", [("a", 3), ("b", 0)], []),
        (":::a\n::::", [("a", 0)], [2]),
        (":::", [], [1]),
        ("```\n:::a\n```", [], []),
        ("::: a  t\n   :::", [("a", 2)], []),
        ("    :::a", [], []),
        ("::a", [], []),
    ],
)
def test_containers(text, ends, stray):
    page = scan(text)
    assert [(c.name, c.end) for c in page.containers] == ends and page.stray_closers == stray


@pytest.mark.parametrize(
    ("text", "code", "end"),
    [
        ("```\nx\n```", "x\n", 3),
        ("````\n```\n````", "```\n", 3),
        ("~~~\n```\n~~~~", "```\n", 3),
        ("```\nx", "x\n", 0),
        ("- a\n\n      ```\n  x\n      ```", None, None),
        ("  ```\n    x\n\n  y\n  ```", "  x\n\ny\n", 5),
        ("> ```\n> x\n> ```", "x\n", 3),
        ("> ```\n> x\nb", "x\n", 0),
    ],
)
def test_fences(text, code, end):
    fences = scan(text).fences
    assert [(f.code, f.end) for f in fences] == ([] if code is None else [(code, end)])


def test_a_fence_in_a_comment_is_noted_and_not_emitted():
    page = scan("<!--\n```python\n1\n```\n-->")
    assert page.fences[0].commented and page.out == []


def test_body_of_containers():
    out = scan("::::a\n:::b\nx\n:::\n::::\ny").out
    assert [type(piece) for piece in body(out, 0)] == [Container, Text, Closer]
    assert [piece.text for piece in body(out, 1)] == ["x"]
    unclosed = scan("::::a\n:::b\nx\n::::\ny").out
    assert [piece.text for piece in body(unclosed, 1)] == ["x"]


def test_prose_keeps_offsets():
    text = "a `{{value:x}}`\n```\n{{value:y}}\n```\n{{value:z}} <!-- {{value:w}} -->"
    page = scan(text)
    assert len(page.prose) == len(text) and page.values == [(5, "value", "z")]


def test_of_a_comment_and_a_code_span_the_first_to_begin_holds_the_other():
    """A page that shows `<!--` in code must not lose what stands between it and the next `-->`."""
    page = scan("`<!--` {{value:x}} `-->` <!-- ` --> {{value:y}} `z`")
    assert [spec for _, _, spec in page.values] == ["x", "y"]


def test_not_utf8_names_the_line(tmp_path):
    path = tmp_path / "page.md"
    path.write_bytes(b"a\n\xff")
    with pytest.raises(PageError, match=r"page\.md:2: 不是 UTF-8 编码（字节 0xff）；请另存为 UTF-8"):
        read(path)
