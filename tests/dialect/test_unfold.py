"""`:::unfold`: open at first, any body."""

import pytest

from tests.dialect.conftest import squeeze


@pytest.mark.parametrize(
    ("text", "html"),
    [
        (
            ":::unfold 先懂 *直觉*\n一\n\n二\n:::",
            '<details class="unfold" open="open"><summary>先懂 <em>直觉</em></summary><p>一</p><p>二</p></details>',
        ),
        (":::unfold\n一\n:::", '<details class="unfold" open="open"><summary>展开</summary><p>一</p></details>'),
        (
            ":::unfold 引\n> 话\n:::",
            '<details class="unfold" open="open"><summary>引</summary><blockquote><p>话</p></blockquote></details>',
        ),
    ],
)
def test_html(render, text, html):
    assert squeeze(render.html(text)) == squeeze(html)
