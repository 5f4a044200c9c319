"""courseware.notebook_page: what mkdocs-jupyter makes of a notebook, without weight, scripts and useless anchors."""

import re

import nbformat
import pytest
from mkdocs_jupyter import convert
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from courseware.notebook_page import tidy

PRINTED = '<div id="x" tabindex="0"> 印出来的 <script>alert(1)</script> </pre>\n'
CELLS = [
    new_markdown_cell("# 题目\n\n正文 `a < b`", id="title"),
    new_markdown_cell("## 第一节 softmax", id="one"),
    new_code_cell("x = '<div tabindex=\"0\"> </div>'  # <!-- kept -->\nprint(1 < 2)", id="code-one", execution_count=1,
                  outputs=[new_output("stream", text=PRINTED)]),
    new_markdown_cell("### 第一节 softmax", id="two"),
    new_markdown_cell("## 练习 & 答案", id="three"),
    new_code_cell("y = 2", id="code-two"),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("notebook") / "实验.ipynb"
    nbformat.write(new_notebook(cells=CELLS, metadata={"kernelspec": {"name": "python3", "language": "python", "display_name": "P"}}), path)
    content = convert.nb2html(str(path), theme="light")
    assert len(content) > 500_000  # what there is to tidy
    return tidy(content, "实验.ipynb")


def text(html):
    return re.sub(r"<[^>]+>", "", html)


def test_no_style_script_or_element_of_a_script_remains(page):
    html, _ = page
    assert not re.search(r"<(style|script|link|clipboard-copy|svg)\b|<!--|https?:", html)
    assert "tabindex" not in re.sub(r"(?<=>)[^<]*(?=<)", "", html)  # none in a tag
    assert len(html) < 8_000


def test_boxes_stay_balanced(page):
    html, _ = page
    assert html.count("<div") == html.count("</div>")


def test_code_is_shown_once_and_unchanged(page):
    html, _ = page
    sources = re.findall(r'<div class="highlight"><pre><code>(.*?)</code></pre>', html, re.DOTALL)
    assert [text(source).strip() for source in sources] == [
        "x = '&lt;div tabindex=\"0\"&gt; &lt;/div&gt;'  # &lt;!-- kept --&gt;\nprint(1 &lt; 2)", "y = 2"
    ]


def test_output_is_unchanged_and_looks_like_ours(page):
    html, _ = page
    output = re.search(r'<div class="jp-RenderedText[^"]* course-output"[^>]*>\s*<pre><code>(.*?)</code></pre>', html, re.DOTALL)
    expected = PRINTED.replace("<", "&lt;").replace(">", "&gt;")
    assert output[1].replace("&quot;", '"') == expected


def test_ids_are_selectors_and_anchors_keep_their_chinese(page):
    html, toc = page
    ids = re.findall(r' id="([^"]*)"', html)
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[\w-]+", name) for name in ids)
    assert {"cell-title", "cell-code-one", "题目", "第一节-softmax", "第一节-softmax_1"} <= set(ids)
    assert html.count('class="headerlink"') == 4 and "anchor-link" not in html
    assert [(entry["name"], entry["id"]) for entry in toc] == [("题目", "题目")]
    sections = [(entry["name"], entry["id"], [child["id"] for child in entry["children"]]) for entry in toc[0]["children"]]
    assert sections[0] == ("第一节 softmax", "第一节-softmax", ["第一节-softmax_1"])
    assert sections[1][0] == "练习 &amp; 答案" and sections[1][1] in ids


def test_the_notebook_itself_is_linked_under_the_title(page):
    html, _ = page
    assert '</h1><p class="notebook-source"><a href="实验.ipynb" download>下载这份笔记本（实验.ipynb）</a></p>' in html


def test_a_page_without_title_still_links_the_notebook():
    html, toc = tidy("<p>没有标题</p>", "a.ipynb")
    assert html.startswith('<p class="notebook-source">') and html.endswith("<p>没有标题</p>") and toc == []
