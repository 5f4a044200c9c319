"""`:::note` and its three sisters: Markdown in, HTML out."""

import pytest

from tests.dialect.conftest import squeeze


@pytest.mark.parametrize(
    ("text", "html"),
    [
        (":::note\n正文\n:::", '<div class="admonition note"><p class="admonition-title">说明</p><p>正文</p></div>'),
        (":::warning 小心\n正文\n:::", '<div class="admonition warning"><p class="admonition-title">小心</p><p>正文</p></div>'),
        (
            ":::key **粗** `a|b`\n- 一\n- 二\n:::",
            '<div class="admonition key"><p class="admonition-title"><strong>粗</strong><code>a|b</code></p>'
            "<ul><li>一</li><li>二</li></ul></div>",
        ),
        (":::math\n:::", '<div class="admonition math"><p class="admonition-title">数学</p></div>'),
        (
            "::::note 外\n:::key 内\n文字\n:::\n尾\n::::",
            '<div class="admonition note"><p class="admonition-title">外</p><div class="admonition key">'
            '<p class="admonition-title">内</p><p>文字</p></div><p>尾</p></div>',
        ),
        (
            "- 项\n\n  :::note\n  正文\n  :::\n",
            '<ul><li><p>项</p><div class="admonition note"><p class="admonition-title">说明</p><p>正文</p></div></li></ul>',
        ),
    ],
)
def test_html(render, text, html):
    assert squeeze(render.html(text)) == squeeze(html)


def test_title_takes_mathematics(render):
    assert render.soup(":::math 尺子 $m$\nx\n:::").select_one("p.admonition-title math").text == "m"
