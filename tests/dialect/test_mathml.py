r"""Mathematics: LaTeX in, MathML out; what cannot be converted is shown in place and told to the checker."""

import pytest

from courseware.dialect.mathml import Converter, MathError, math_errors, math_spans, plain
from courseware.page import scan

CHAPTER = [  # what the chapter's formulas are made of
    r"\mathrm{softmax}(x)_i = \frac{e^{x_i}}{\sum_{j=1}^{N} e^{x_j}}",
    r"m = \max_{j} x_j",
    r"\begin{aligned} m' &= \max(m, \tilde m) \\ \ell' &= e^{m-m'}\ell + e^{\tilde m-m'}\tilde{\ell} \end{aligned}",
    r"\frac{QK^{\top}}{\sqrt{d_k}}",
    r"\left\lceil \frac{N}{B_r} \right\rceil \cdot \lceil N/B_c \rceil",
    r"O \in \mathbb{R}^{N \times d}",
    r"\text{字节数} = 4N^2\ \text{B}",
    r"f(x) = \begin{cases} 1 & x > 0 \\ 0 & \text{否则} \end{cases}",
    r"\operatorname{diag}(\ell)^{-1} O \le \infty",
]


@pytest.mark.parametrize("latex", CHAPTER)
def test_chapter_formula_converts(latex):
    for block in (True, False):
        assert Converter().convert(latex, block=block).startswith("<math")


@pytest.mark.parametrize(
    ("text", "tag", "kind", "mathml"),
    [
        ("文 $a<b$ 字", "span", "math-inline", "<math><mi>a</mi><mo>&lt;</mo><mi>b</mi></math>"),
        (r"文 \(x\) 字", "span", "math-inline", "<math><mi>x</mi></math>"),
        ("$$\na<b\n$$", "div", "math-block", '<math display="block"><mi>a</mi><mo>&lt;</mo><mi>b</mi></math>'),
        ("\\[\nx\n\\]", "div", "math-block", '<math display="block"><mi>x</mi></math>'),
        ("文\n$$\nx\n$$\n字", "div", "math-block", '<math display="block"><mi>x</mi></math>'),
        ("文 $$x$$ 字", "span", "math-inline", '<math display="block"><mi>x</mi></math>'),
        ("> 文\n> $$\n> x\n> $$", "div", "math-block", '<math display="block"><mi>x</mi></math>'),
        ("- 项\n\n    $$\n    x\n    $$", "div", "math-block", '<math display="block"><mi>x</mi></math>'),
        ("| a |\n|---|\n| $x$ |", "span", "math-inline", "<math><mi>x</mi></math>"),
        (":::note 标题 $x$\n文\n:::", "span", "math-inline", "<math><mi>x</mi></math>"),
    ],
)
def test_renders(render, text, tag, kind, mathml):
    html = render.html(text)
    element = render.soup(text).select_one(f"{tag}.{kind}")
    assert element is not None, html
    assert mathml in html
    assert "$" not in html and "\\" not in html


def test_block_can_take_the_focus_and_has_its_own_name(render):
    soup = render.soup("$$a$$\n\n$$b$$")
    assert [(e["tabindex"], e["role"], e["aria-label"]) for e in soup.select(".math-block")] == [
        ("0", "group", "公式 1"),
        ("0", "group", "公式 2"),
    ]


@pytest.mark.parametrize("text", ["价格 $5 与 \\$6。", "`$x$`", "```text\n$$x$$\n```"])
def test_what_is_no_formula_stays(render, text):
    html = render.html(text)
    assert "<math" not in html and "$" in html


def test_equation_numbers_begin_at_one_on_each_page(render):
    page = "\\begin{align}\nx\n\\end{align}\n\n\\begin{align}\ny\n\\end{align}"
    for _ in range(2):
        assert [t.text for t in render.soup(page).select("mtext")] == ["(1)", "(2)"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r"文 $\foo{x}<1$", r"✗ 公式不认识命令 \foo：\foo{x}<1"),
        ("$$\n\\begin{foo}x\\end{foo}\n$$", r"✗ 公式不认识环境 foo：\begin{foo}x\end{foo}"),
    ],
)
def test_fault_is_shown_in_place(render, text, shown):
    assert render.soup(text).select_one('.course-error[role="alert"]').text == shown


def test_heading_has_readable_contents_and_anchor(render):
    soup = render.soup("[TOC]\n\n# 代价 $O(N^2)$ 与 `a<b` $\\frac{a_i}{\\mathbf{Q}}$")
    assert soup.select_one(".toc a").text == "代价 O(N^2) 与 a<b a_i/Q"
    assert soup.h1["id"].startswith("代价-on2-与-ab")


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        ("O(N^2)", "O(N^2)"),
        (r"\frac{a}{b}", "a/b"),
        (r"\sqrt{d_k}", "√(d_k)"),
        (r"\sum_{i=1}^{N} x_i", "∑_i=1^Nx_i"),
        (r"\tilde{\ell}", "l"),
        (r"\mathbf{Q}", "Q"),
        (r"\max_j x", "max_jx"),
    ],
)
def test_plain(latex, text):
    assert plain(Converter().convert(latex, block=False)) == text


def test_spans_have_line_source_and_style():
    page = scan("文 $a$\n\n```text\n$b$\n```\n\n> $$\n> c\n> $$\n\n`$d$` 与 <!-- $e$ --> \\$f\n\n- 项 \\(g\\)\n")
    assert [(line, latex.strip(), block) for line, latex, block in math_spans(page)] == [
        (1, "a", False),
        (7, "c", True),
        (13, "g", False),
    ]


REMEDY = "；改用 math-core 支持的写法"
UNPAIRED = "“$$” 没有配对；补上另一个，公式中不能有空行"


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ("一\n\n二 $\\foo$", [(3, rf"公式 \foo 不认识命令 \foo{REMEDY}")]),
        (
            "$a_{$",
            [(1, f'公式 a_{{ 第 4 个字符处有误（Expected closing token "}}", but reached end of input）{REMEDY}')],
        ),
        ("$$\na\n\nb\n$$", [(1, UNPAIRED), (5, UNPAIRED)]),
        ("$x={{value:a_b}}$ 与 `$\\foo$`", []),
        ("$\\foo$\n\n$\\baz$", [(n, rf"公式 {m} 不认识命令 {m}{REMEDY}") for n, m in ((1, r"\foo"), (3, r"\baz"))]),
    ],
)
def test_errors(text, errors):
    assert math_errors(scan(text)) == errors


def test_converter_says_what_is_wrong():
    with pytest.raises(MathError, match="不认识命令"):
        Converter().convert(r"\foo", block=False)


def test_punctuation_stays_with_its_formula(render):
    soup = render.soup("设 $Q$、$K$，而 $V$ 不同")
    kept = [span.get_text() for span in soup.select(".math-keep")]
    assert kept == ["Q、", "K，"] and len(soup.select("math")) == 3
