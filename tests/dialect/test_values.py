"""References: what the ledger holds comes out as plain text wherever the reference stands, except in code."""

import pytest

from courseware.dialect.values import number, plain
from courseware.doctest.blocks import chains
from courseware.page import scan

BLOCK = "```python\n# 类型：【Runnable】\n{code}\n```\n\n"
STAR = "*a* _b_ `c` <d> | $e$ [f](g) & {{value:x}}"
VALUES = {"x": "0.5", "x:.2f": "0.50", "n": "-3", "star": STAR, "rows": "[[1 2]\n [3 4]]", "end": "3.", "unbound": None}
EVIDENCE = {
    "h200": {
        "environment": {},
        "command": "make record",
        "date": "2026-11-29",
        "figures": {"copy": {"value": 4281.37, "unit": "GB/s"}, "count": {"value": 123456, "unit": ""}},
    }
}
LINK = '<a href="/verification.md#evidence-h200">4281 GB/s</a>'


@pytest.fixture
def page(render):
    """Renders a text below a block that has bound VALUES; gives the HTML after the block, entities resolved."""

    def html(text: str, *values: dict) -> str:
        values = values or (VALUES,)
        text = "".join(BLOCK.format(code=f"x = {n}") for n in range(len(values))) + text
        result = {"status": "ran", "seconds": 0.0, "output": "", "error": None, "source": "", "environment": {}}
        entries = [{"blocks": [result], "values": each} for each in values]
        keys = [chain.key for chain in chains(scan(text))]
        render.ledger(chains=dict(zip(keys, entries, strict=True)), evidence=EVIDENCE)
        soup = render.soup(text)
        for code in soup.select(".course-code"):
            code.decompose()
        return soup.decode(formatter="minimal").replace("\N{NO-BREAK SPACE}", " ").strip()  # as in <mtext>

    return html


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("是 {{value:x}}。", "<p>是 0.5。</p>"),
        ("是 {{ value:x:.2f }}。", "<p>是 0.50。</p>"),
        ("{{value:n}} 开头", "<p>-3 开头</p>"),
        ("{{value:end}} 开头", "<p>3. 开头</p>"),
        ("**{{value:x}}**", "<p><strong>0.5</strong></p>"),
        ("`{{value:x}}`", "<p><code>{{value:x}}</code></p>"),
        ("{{value:star}}", f"<p>{STAR.replace('&', '&amp;').replace('<', '&lt;').replace('>', '&gt;')}</p>"),
        ("{{value:rows}}", "<p>[[1 2]\n [3 4]]</p>"),
        ("$x={{value:x}}$", "<mo>=</mo><mn>0.5</mn>"),
        ("$$\nx={{value:x}}\n$$", "<mo>=</mo><mn>0.5</mn>"),
        ("<div>{{value:x}}</div>", "<div>0.5</div>"),
        ("| a |\n|---|\n| {{value:star}} |", f"<td>{STAR.replace('&', '&amp;').replace('<', '&lt;').replace('>', '&gt;')}</td>"),
        (":::note 值 {{value:x}}\n文\n:::", '<p class="admonition-title">值 0.5</p>'),
        (":::note 值\n文 {{value:x}}\n:::", "<p>文 0.5</p>"),
        (":::related\n依赖 | 第 {{value:x}} 节\n:::", "<dd>第 0.5 节</dd>"),
        ("- 项 {{value:x}}", "<li>项 0.5</li>"),
        ("## 节 {{value:x}}", 'id="节-05"'),
        ("{{record:h200#copy}}", f"<p>{LINK}</p>"),
        ("{{record:h200.json#copy}}", f"<p>{LINK}</p>"),
        ("| a |\n|---|\n| {{record:h200#copy}} |", f"<td>{LINK}</td>"),
        ("{{record:h200#count}}", ">123456</a>"),
        ("[见 {{record:h200#copy}}](x.md)", '<p><a href="x.md">见 4281 GB/s</a></p>'),
        ("<div>\n{{record:h200#copy}}\n</div>", "<div>\n4281 GB/s\n</div>"),
        (r"$\text{{{record:h200#copy}}}$", "<mtext>4281 GB/s</mtext>"),
        ("{{value:none}}", '<p><span class="course-error">✗ 未解析：none</span></p>'),
        ("{{value:unbound}}", '<p><span class="course-error">✗ 未解析：unbound</span></p>'),
        ("{{record:h100#copy}}", '<p><span class="course-error">✗ 未解析：h100#copy</span></p>'),
        ("$x={{value:no_ne}}$", "<mtext>✗ 未解析：no_ne</mtext>"),
        ('<div title="{{value:none}}">x</div>', '<div title="✗ 未解析：none">x</div>'),
    ],
)
def test_resolves(page, text, html):
    assert html in page(text)


def test_never_in_a_fence(page):
    assert "{{value:x}}" in page("```text\n{{value:x}}\n```")


@pytest.mark.parametrize(
    ("chains", "shown"),
    [
        (({"x": "1"}, {"x": "1"}), "<p>1</p>"),
        (({"x": "1"}, {"x": None}), "<p>1</p>"),
        (({"x": "1"}, {"x": "2"}), '<p><span class="course-error">✗ 未解析：x</span></p>'),
    ],
)
def test_chains_must_agree(page, chains, shown):
    assert shown in page("{{value:x}}", *chains)


@pytest.mark.parametrize(
    ("figure", "text"),
    [(4281.37, "4281"), (123456.7, "123500"), (0.123456, "0.1235"), (1.5e-7, "1.5e-07"), (123456, "123456"), ("是", "是"), (2.0, "2")],
)
def test_number(figure, text):
    assert number(figure) == text


@pytest.mark.parametrize(
    ("text", "written"), [("0.5", "0.5"), ("3.", "3&#46;"), ("a_b", "a&#95;b"), ("中，1", "中，1"), ("1\n2", "1&#10;2"), ("|", "&#124;")]
)
def test_plain(text, written):
    assert plain(text) == written
