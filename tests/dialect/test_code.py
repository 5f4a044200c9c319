"""Code: fences and records in, frames, badges, states, outputs and listings out."""

import pytest

from courseware.dialect.code import listing_title, seconds, status_line, visible
from courseware.doctest.blocks import chains
from courseware.page import scan
from tests.dialect.conftest import squeeze

ENVIRONMENT = {
    "python": "3.11.7",
    "numpy": "2.4.6",
    "torch": "2.13.0",
    "triton": "3.7.1",
    "device": "CPU",
    "date": "2026-11-29T10:00:00+00:00",
}
GPU = {**ENVIRONMENT, "python": "3.12.3", "torch": "2.11.0", "triton": "3.6.0", "device": "NVIDIA H200"}


def result(status="ran", output="", error=None, environment=ENVIRONMENT, seconds=0.0123):
    return {"status": status, "seconds": seconds, "output": output, "error": error, "source": "ab", "environment": environment}


@pytest.fixture
def page(render):
    """Renders a text whose chains have the given results, one list a chain, one result a block."""

    def soup(text: str, *results: list[dict]):
        keys = [chain.key for chain in chains(scan(text))]
        render.ledger(chains={key: {"blocks": blocks, "values": {}} for key, blocks in zip(keys, results)})  # noqa: B905
        return render.soup(text)

    return soup


def block(code="x = 1", kind="Runnable", note="", language="python"):
    return f"```{language}\n# 类型：【{kind}】{note}\n{code}\n```\n"


def test_the_whole_frame(page):
    frame = page(block("print(1)", note="只要 numpy"), [result(output="1\n")]).select_one(".course-code")
    frame.select_one(".highlight").clear()
    assert squeeze(str(frame)) == squeeze("""
        <div class="course-code" data-kind="runnable" data-status="ran" id="block-1">
          <div class="course-code__bar">
            <span class="course-badge">可运行 · Runnable</span>
            <span class="course-code__note">只要 numpy</span>
            <span class="course-code__status"
              title="Python 3.11.7 · numpy 2.4.6 · torch 2.13.0 · triton 3.7.1 · CPU · 2026-11-29T10:00:00+00:00">
              ✓ 已执行 · Python 3.11.7 · numpy 2.4.6 · 0.01 s · 2026-11-29</span>
          </div>
          <div class="language-python highlight"></div>
          <div class="course-output no-copy">
            <div class="course-output__label">输出</div>
            <pre><code>1 </code></pre>
          </div>
        </div>
    """)


@pytest.mark.parametrize(
    ("text", "kind", "badge"),
    [
        (block(), "runnable", "可运行 · Runnable"),
        (block(kind="Runnable on CUDA"), "cuda", "需要 GPU · Runnable on CUDA"),
        (block(kind="Skeleton"), "skeleton", "骨架 · Skeleton"),
        ("```pseudo\nfor i\n```", "pseudo", "伪代码 · Pseudo-code"),
    ],
)
def test_kinds(page, text, kind, badge):
    frame = page(text).select_one("#block-1")
    assert (frame["data-kind"], frame["data-status"]) == (kind, "not-executed")
    assert frame.select_one(".course-badge").text == badge


@pytest.mark.parametrize(
    ("kind", "record", "line"),
    [
        ("runnable", result(), "✓ 已执行 · Python 3.11.7 · numpy 2.4.6 · 0.01 s · 2026-11-29"),
        (
            "cuda",
            result("recorded", environment=GPU),
            "✓ 已在 GPU 上执行并记录 · NVIDIA H200 · torch 2.11.0 · triton 3.6.0 · 0.01 s · 2026-11-29",
        ),
        (
            "cuda",
            result("stale", environment=GPU, seconds=None),
            "⚠ 记录已过期（代码改过，尚未重录） · NVIDIA H200 · torch 2.11.0 · triton 3.6.0 · 2026-11-29",
        ),
        ("skeleton", result("compiled", seconds=None), "✓ 已编译，未执行 · Python 3.11.7 · numpy 2.4.6 · 2026-11-29"),
        ("runnable", result("not-executed", environment=None, seconds=None), "○ 未执行 / NOT EXECUTED"),
        (
            "runnable",
            result("not-executed", error="上一块失败，没有执行。", environment=None, seconds=None),
            "○ 未执行 / NOT EXECUTED · 上一块失败，没有执行。",
        ),
        ("cuda", result("not-executed", environment=None, seconds=None), "○ 未执行 / NOT EXECUTED · 需要 NVIDIA GPU"),
        ("pseudo", result("not-executed", environment=None, seconds=None), "○ 未执行 / NOT EXECUTED · 伪代码不执行"),
        ("runnable", result("failed", error="x"), "✗ 执行失败 · Python 3.11.7 · numpy 2.4.6 · 0.01 s · 2026-11-29"),
    ],
)
def test_status_line(kind, record, line):
    assert status_line(kind, record) == line


def test_failure_shows_its_traceback_as_text(page):
    soup = page(block("1/0"), [result("failed", output="先\n", error="Traceback <b>\n  ZeroDivisionError\n")])
    assert soup.select_one("#block-1")["data-status"] == "failed"
    assert soup.select_one('.course-error[role="alert"] pre').text == "Traceback <b>\n  ZeroDivisionError\n"
    assert soup.select_one(".course-output pre").text == "先\n"


def test_output_is_text_and_only_where_there_is_some(page):
    soup = page(block() + "\n" + block("y"), [result(output="<b> {{value:x}} $x$\n")], [result(output="\n")])
    assert [pre.text for pre in soup.select(".course-output pre")] == ["<b> {{value:x}} $x$\n"]


@pytest.mark.parametrize(("output", "focus"), [("短\n", None), ("行\n" * 40, "0"), ("长" * 80, "0")])
def test_long_output_takes_the_focus(page, output, focus):
    code = page(block(), [result(output=output)]).select_one(".course-output code")
    assert code.get("tabindex") == focus
    assert code.get("aria-label") == (focus and "代码块 1 的输出")


@pytest.mark.parametrize(
    ("status", "label"), [("ran", "输出"), ("recorded", "输出（记录于 NVIDIA H200）"), ("stale", "输出（旧记录，NVIDIA H200）")]
)
def test_output_says_where_it_comes_from(page, status, label):
    soup = page(block(kind="Runnable on CUDA"), [result(status, output="1\n", environment=GPU)])
    assert soup.select_one(".course-output__label").text == label


CODE = 'import numpy as np\n\ns = "a\tb"\nif s:\n    print("<&>")'


@pytest.mark.parametrize(
    "text",
    [
        block(CODE),
        ":::note 标题\n" + block(CODE) + ":::",
        "- 项\n\n" + "".join(f"  {line}".rstrip() + "\n" for line in block(CODE).splitlines()),
        "> 引\n>\n" + "".join(f"> {line}".rstrip() + "\n" for line in block(CODE).splitlines()),
        "1. 项\n" + "".join(f"   {line}".rstrip() + "\n" for line in block(CODE).splitlines()),
    ],
)
def test_what_is_copied_is_the_code_alone(page, text):
    soup = page(text)
    (frame,) = soup.select(".course-code")
    assert frame.select_one(".highlight pre > code").text == CODE + "\n"
    assert "类型" not in soup.text and "```" not in soup.text


def test_chain_says_so_and_each_fence_has_its_own_record(page):
    text = block("x = 1") + "\n<!--pytest-codeblocks:cont-->\n\n" + block("print(x)")
    soup = page(text, [result(), result("failed", error="错")])
    assert [frame["data-status"] for frame in soup.select(".course-code")] == ["ran", "failed"]
    (link,) = soup.select(".course-code__continues")
    assert (link["href"], link.text) == ("#block-1", "承接上一块")


def test_no_ledger_is_no_error(render):
    assert render.soup(block()).select_one("#block-1")["data-status"] == "not-executed"


@pytest.mark.parametrize("fence", ["```text\nx\n```", "```\nx\n```", "```console\n$ make\n```", '```json title="a.json"\n{}\n```'])
def test_plain_fences_stay_plain(page, fence):
    soup = page(fence)
    assert soup.select_one(".highlight") and not soup.select(".course-code, .course-listing, .course-badge")


def test_listing_of_a_tested_file(page):
    soup = page('```python title="snippets/__init__.py"\n--8<-- "snippets/__init__.py"\n```')
    assert soup.select_one(".course-listing .filename").text == "清单 · 文件 snippets/__init__.py（已测试的源文件）"
    assert soup.select_one(".course-listing code") and not soup.select(".course-code")


@pytest.mark.parametrize(
    ("target", "title"),
    [
        ("snippets/tiling.py:schedule", "清单 · 文件 snippets/tiling.py（已测试的源文件）"),
        ("kernels/softmax.py:3:9", "清单 · 文件 kernels/softmax.py（已测试的源文件）"),
        ("Makefile", "清单 · 文件 Makefile"),
    ],
)
def test_listing_title(target, title):
    assert listing_title(target) == title


@pytest.mark.parametrize(
    ("output", "shown"),
    [("\x1b[31m红\x1b[0m\n", "红\n"), ("a\x00b\x02wzxhzdk:0\x03", r"a\x00b\x02wzxhzdk:0\x03"), ("10%\r20%\t\n", r"10%\x0d20%" + "\t\n")],
)
def test_visible(output, shown):
    assert visible(output) == shown


@pytest.mark.parametrize(("duration", "text"), [(0.001, "< 0.01 s"), (0.0123, "0.01 s"), (2.345, "2.35 s")])
def test_seconds(duration, text):
    assert seconds(duration) == text


def test_extension_order_does_not_matter(render):
    import markdown

    options = {"courseware.dialect": render.options}
    for extensions in (["courseware.dialect", "pymdownx.superfences"], ["pymdownx.superfences", "courseware.dialect"]):
        md = markdown.Markdown(extensions=extensions, extension_configs=options)
        assert md.convert(block()).count('id="block-1"') == 1
        assert md.reset().convert(block()).count('id="block-1"') == 1  # a second page
