"""References, outside requests and block frames in built HTML."""

import pytest

from courseware.links import check
from courseware.project import Project


def built(course, body: str, **pages: str):
    course.page("# 题\n\n正文 missing gone\n")
    files = {"index.html": f"<body>{body}</body>"} | {name.replace("__", "/"): text for name, text in pages.items()}
    for name, text in files.items():
        course.write(f"site/{name}", text)
    return check(course.site, Project(course.root), [])


GOOD = [
    '<a href="#here">x</a><p id="here">',
    '<a href="two/">x</a>',
    '<a href="two/#there">x</a>',
    '<a href="two/index.html?q=1#there">x</a>',
    '<a href="https://arxiv.org/abs/2205.14135">x</a>',
    '<a href="mailto:a@example.org">x</a>',
    '<a href="#__toc">x</a>',
    '<img src="data:image/png;base64,AA">',
    '<a href="two/%E5%9B%BE.png">x</a>',
    '<a href="/two/">x</a>',
]
BAD = [
    ('<a href="#gone">x</a>', "锚点不存在"),
    ('<a href="two/#gone">x</a>', "锚点不存在"),
    ('<a href="missing/">x</a>', "不存在的文件"),
    ('<img src="missing.png">', "不存在的文件"),
    ('<script src="https://cdn.example.org/x.js"></script>', "站外"),
    ('<link rel="stylesheet" href="//fonts.example.org/x.css">', "站外"),
    ('<img alt="" src="https://example.org/x.png">', "站外"),
]
TWO = {"two__index.html": '<p id="there">', "two__图.png": ""}


@pytest.mark.parametrize("body", GOOD)
def test_good_references(course, body):
    assert built(course, body, **TWO) == []


@pytest.mark.parametrize(("body", "fault"), BAD)
def test_bad_references(course, body, fault):
    (problem,) = built(course, body, **TWO)
    assert fault in problem.fault and problem.remedy


def test_the_source_line_is_named(course):
    (problem,) = built(course, '<a href="missing/">x</a>')
    assert (problem.path, problem.line) == ("docs/index.md", 3)


def test_the_line_of_the_link_is_named_not_of_its_anchor(course):
    course.page("# 题\n\n字 {#gone}\n\n[坏](#gone)\n")
    course.write("site/index.html", '<body><a href="#gone">x</a></body>')
    (problem,) = check(course.site, Project(course.root), [])
    assert (problem.path, problem.line) == ("docs/index.md", 5)


def test_a_block_without_a_frame_is_reported(course):
    course.page("# 题\n")
    course.write("site/index.html", '<div class="course-code" data-status="ran" id="block-1"></div>')
    blocks = [{"page": "index.md", "line": 7, "number": number, "status": "ran"} for number in (1, 2)]
    (problem,) = check(course.site, Project(course.root), blocks)
    assert (problem.line, "没有显示" in problem.fault) == (7, True)
    blocks = [{"page": "index.md", "line": 7, "number": 1, "status": "not-executed"}]
    (problem,) = check(course.site, Project(course.root), blocks)
    assert (problem.line, "状态是 ran" in problem.fault) == (7, True)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<span class="course-error">✗ 未解析：x</span>', "未解析：x"),
        ('<div class="course-problems" role="alert"><p>✗ 坏</p></div>', "✗ 坏"),
        ("<p>/////// note</p>\n<p>///////</p>\n", "没有读成容器"),
        ("<pre><code>x\n\n///////\n</code></pre>", "没有读成容器"),
    ],
)
def test_what_must_not_be_published(course, body, fault):
    (problem,) = built(course, body, **TWO)
    assert fault in problem.fault and problem.path == "docs/index.md"


def test_addresses_below_a_path(course):
    """`site_url` gives canonical addresses, and a 404 page whose links begin with the site's own path."""
    course.page("# 题\n")
    course.write("site/index.html", '<link rel="canonical" href="https://a.example/sub/"><a href="/sub/">x</a>')
    assert check(course.site, Project(course.root), [], "/sub/") == []


def test_addresses_without_folders(course):
    course.page("# 题\n", "two.md")
    course.write("site/two.html", '<div class="course-code" id="block-1" data-status="ran"></div>')
    assert check(course.site, Project(course.root), [{"page": "two.md", "line": 1, "number": 1, "status": "ran"}]) == []
