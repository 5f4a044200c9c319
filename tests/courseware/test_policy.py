"""The policy of built pages: hashes of all of them, attributes turned into rules, what it would silence is told."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

import pytest

from courseware.policy import protect

PAGE = '<!doctype html>\n<html>\n<head>\n<meta charset="utf-8">\n<title>x</title>\n</head>\n<body>{}</body>\n</html>\n'


def built(site, **pages: str) -> dict[str, str]:
    """The pages after `protect`, which found nothing wrong."""
    for name, body in pages.items():
        (site / f"{name}.html").write_text(PAGE.format(body), "utf-8")
    assert protect(site) == []
    return {name: (site / f"{name}.html").read_text("utf-8") for name in pages}


def policy(page: str) -> dict[str, set[str]]:
    content = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)[1]
    return {name: set(values) for name, *values in (part.split() for part in content.split(";"))}


def hashed(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def test_all_pages_have_one_policy_with_the_hashes_of_all(tmp_path):
    pages = built(tmp_path, one="<script>\n  one('中')</script>", two='<script type="module">two</script><style>p {}</style>', three="")
    assert policy(pages["one"]) == policy(pages["two"]) == policy(pages["three"])
    assert policy(pages["one"])["script-src"] == {"'self'", hashed("\n  one('中')"), hashed("two")}
    assert policy(pages["one"])["style-src"] == {"'self'", hashed("p {}")}


def test_data_and_files_need_no_hash(tmp_path):
    page = built(tmp_path, one='<script type="application/json">{}</script><script src="a.js"></script><!-- <script>x</script> -->')["one"]
    assert policy(page)["script-src"] == {"'self'"}


def test_the_policy_stands_before_what_it_governs(tmp_path):
    page = built(tmp_path, one="")["one"]
    assert page.index('charset="utf-8"') < page.index("http-equiv") < page.index("<title>")


@pytest.mark.parametrize(
    ("tag", "style"),
    [
        ('<td style="text-align: right;">', "text-align: right;"),
        ("<td style='font-family: \"A B\"'>", 'font-family: "A B"'),
        ('<td title="a > b" style="x: url(&quot;y&quot;)" class="big red">', 'x: url("y")'),
        ('<td CLASS="big" STYLE="x:1" />', "x:1"),
    ],
)
def test_a_style_attribute_becomes_a_rule(tmp_path, tag, style):
    page = built(tmp_path, one=f"<table><tr>{tag}1</table>")["one"]
    rules = re.search(r"<style>(.*?)</style>", page)[1]
    name = re.fullmatch(r"\.(style-\w{8}):not\(#_\)\{(.*)\}", rules)
    assert name[2] == style
    changed = re.search(r"<td[^>]*?>", page.replace("a > b", "a b"))[0]
    assert "style=" not in changed.lower() and changed.lower().count("class=") == 1
    assert f'{name[1]}"' in changed and ("big" in changed) == ("big" in tag) and ("a b" in changed) == ("a > b" in tag)
    assert hashed(rules) in policy(page)["style-src"]


def test_equal_attributes_share_a_rule_on_every_page(tmp_path):
    pages = built(tmp_path, one='<p style="x:1"></p><p style="x:1"></p>', two='<p style="y:2"></p>', three="")
    rules = {re.search(r"<style>(.*?)</style>", page)[1] for page in pages.values()}
    assert len(rules) == 1 and rules.pop().count("{") == 2


@pytest.mark.parametrize("text", ["<pre><code>&lt;p style=\"x:1\"&gt;</code></pre>", "<textarea><p style=\"x:1\"></textarea>", '<p data-style="x:1" linestyle="y">'])
def test_what_is_no_style_attribute_stays(tmp_path, text):
    assert text in built(tmp_path, one=text)["one"]


SILENCED = [
    '<button onclick="go()">', "<a href='javascript:void(0)'>", '<img src="a.png" ONERROR=go()>', '<form action="a/">',
]  # fmt: skip


@pytest.mark.parametrize("tag", SILENCED)
def test_what_the_policy_would_silence_is_a_problem(tmp_path, tag):
    (tmp_path / "one.html").write_text(PAGE.format(tag), "utf-8")
    (problem,) = protect(tmp_path)
    assert problem.path == "site/one.html" and "内容安全策略" in problem.fault


LOOSE = ["color: red}body{display:none", "font-family: 'abc", "width: calc(1px", "x:1 /*", "x: '</style>'", "x:\\"]


@pytest.mark.parametrize("style", LOOSE)
def test_a_style_that_would_reach_other_rules_is_a_problem(tmp_path, style):
    (tmp_path / "one.html").write_text(PAGE.format(f'<p style="{style}">x</p>'), "utf-8")
    (problem,) = protect(tmp_path)
    assert problem.path == "site/one.html" and "打乱所有页面的样式" in problem.fault
    assert "<style>" not in (tmp_path / "one.html").read_text("utf-8")


def test_a_page_without_a_head_is_a_problem(tmp_path):
    (tmp_path / "one.html").write_text("<p>x", "utf-8")
    assert "<head>" in protect(tmp_path)[0].fault
