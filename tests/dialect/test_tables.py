"""Tables: Markdown in, scrolling boxes and header scopes out."""

import pytest

from tests.dialect.conftest import squeeze

PLAIN = """
| 量 | 字节 |
| --- | --- |
| Q | 4 |
"""


def test_wrapped_with_scopes(render):
    assert squeeze(render.html(PLAIN)) == squeeze("""
        <div aria-label="表格" class="table-scroll" role="region" tabindex="0">
          <table>
            <thead><tr><th scope="col">量</th><th scope="col">字节</th></tr></thead>
            <tbody><tr><td>Q</td><td>4</td></tr></tbody>
          </table>
        </div>
    """)


def test_empty_header_is_a_plain_cell(render):
    soup = render.soup("| | 字节 |\n| --- | --- |\n| Q | 4 |")
    assert [cell.name for cell in soup.select("thead tr > *")] == ["td", "th"]


@pytest.mark.parametrize(
    "text",
    [
        f":::note 标题\n{PLAIN}\n:::",
        "- 项\n" + PLAIN.replace("\n", "\n    "),
        "\n".join("> " + line for line in PLAIN.strip().split("\n")),
    ],
)
def test_wrapped_wherever_it_stands(render, text):
    assert len(render.soup(text).select(".table-scroll > table")) == 1


def test_each_box_has_its_own_name(render):
    soup = render.soup(f"{PLAIN}\n\n文\n{PLAIN}")
    assert [box["aria-label"] for box in soup.select(".table-scroll")] == ["表格 1", "表格 2"]


def test_named_by_the_heading_before(render):
    soup = render.soup(f"## 带 `<a>` 的 *节*\n{PLAIN}\n## 两张\n{PLAIN}\n文\n{PLAIN}")
    assert [box["aria-label"] for box in soup.select(".table-scroll")] == ["带 <a> 的 节，表格", "两张，表格 1", "两张，表格 2"]


def test_text_after_a_table_stays_after_it(render):
    assert squeeze(render.html(f"{PLAIN}\n文")).endswith("</div><p>文</p>")


def test_raw_html_is_left_alone(render):
    raw = "<table><tr><td>x</td></tr></table>"
    assert squeeze(render.html(raw)) == raw
