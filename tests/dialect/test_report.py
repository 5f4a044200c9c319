"""The report: a ledger in, tables out, each link one that MkDocs can check."""

import pytest

from courseware.dialect.report import heading_text

ENVIRONMENT = {"python": "3.11.7", "numpy": "2.4.6", "torch": "2.13.0", "triton": None, "device": "CPU", "date": "2026-11-29T10:00:00"}


def record(page, line, kind, status, **more):
    base = {"heading": "节", "seconds": None, "output": "", "source": "0123456789abcdef", "environment": None}
    return base | {"page": page, "line": line, "kind": kind, "status": status} | more


LEDGER = {
    "verification": {
        "environment": ENVIRONMENT,
        "blocks": [
            record("io.md", 30, "runnable", "ran", seconds=0.5, environment=ENVIRONMENT, heading="19.2 $O(N^2)$ **与** `a<b`"),
            record("io.md", 12, "runnable", "failed"),
            record("guide/index.md", 7, "cuda", "recorded", number=4, heading=""),
        ],
        "notebooks": [{"page": "lab-notebook.ipynb", "status": "ran", "seconds": 2.0, "source": "aa" * 8}],
        "demos": [{"page": "io.md", "name": "io-traffic", "status": "failed", "source": "bb" * 8}],
        "kernels": [
            {
                "name": "vector_add",
                "interpreted": {"status": "passed", "cases": 12},
                "compiled": {
                    "sm_80": {"status": "passed", "registers": 32, "shared_bytes": 0, "spill_bytes": 0, "instructions": {"mma": 3}},
                    "sm_90": {"status": "not-applicable"},
                },
                "recorded": [{"device": "NVIDIA H200", "date": "2026-11-29", "status": "stale", "evidence": "h200.json"}],
            },
            {"name": "softmax"},
        ],
    },
    "evidence": {
        "h200": {
            "environment": {"python": "3.12.3", "device": "NVIDIA H200"},
            "command": "make record <1>",
            "date": "2026-11-29",
            "figures": {
                "copy_ms": {"value": 1.5, "unit": "ms"},
                "copy_ms_low": {"value": 1.25, "unit": "ms"},
                "copy_ms_high": {"value": 1.75, "unit": "ms"},
                "copy_rate": {"value": 4281.37, "unit": "GB/s"},
                "rate_low": {"value": 3, "unit": ""},
            },
        }
    },
    "unrecorded": ["fuzz", "speed"],
}


@pytest.fixture
def report(render):
    render.ledger(**LEDGER)
    return render.soup("# 验证报告\n\n前文\n\n[VERIFICATION]\n\n后文")


def rows(report, caption):
    """Texts of the body's cells of the table with this caption."""
    table = next(t for t in report.select("table.report") if t.caption.text == caption)
    return [[" ".join(cell.text.split()) for cell in line.select("td")] for line in table.select("tbody tr")]


@pytest.mark.parametrize(
    ("caption", "cells"),
    [
        (
            "代码块：类别与状态",
            [
                ["可运行 · Runnable", "1", "0", "0", "0", "0", "1", "2"],
                ["需要 GPU · Runnable on CUDA", "0", "1", "0", "0", "0", "0", "1"],
                ["骨架 · Skeleton", "0", "0", "0", "0", "0", "0", "0"],
                ["伪代码 · Pseudo-code", "0", "0", "0", "0", "0", "0", "0"],
                ["合计", "1", "1", "0", "0", "0", "1", "3"],
            ],
        ),
        (
            "执行环境",
            [
                ["Python", "3.11.7"],
                ["NumPy", "2.4.6"],
                ["PyTorch", "2.13.0"],
                ["Triton", "没有"],
                ["设备", "CPU"],
                ["时间", "2026-11-29T10:00:00"],
            ],
        ),
        (
            "每个代码块一行",
            [
                ["io.md，第 30 行", "19.2 O(N^2) 与 a<b", "可运行 · Runnable", "✓ 已执行", "0.50 s", "CPU · 2026-11-29", "01234567"],
                ["io.md，第 12 行", "节", "可运行 · Runnable", "✗ 失败", "", "", "01234567"],
                ["guide/index.md，第 7 行", "（无标题）", "需要 GPU · Runnable on CUDA", "✓ 已记录", "", "", "01234567"],
            ],
        ),
        ("笔记本的执行", [["lab-notebook.ipynb", "✓ 已执行", "2.00 s", "aaaaaaaa"]]),
        ("静态演示和图所用的数据", [["io-traffic", "io.md", "✗ 失败", "bbbbbbbb"]]),
        (
            "内核的三级验证，互不替代",
            [
                [
                    "vector_add",
                    "✓ 通过，12 例",
                    "sm_80：✓ 通过，寄存器 32，共享内存 0 B，溢出 0 B，指令 mma × 3 sm_90：— 不适用",
                    "⚠ 已过期，NVIDIA H200，2026-11-29，记录",
                ],
                ["softmax", "○ 未执行", "○ 未执行", "○ 未执行"],
            ],
        ),
        ("h200：由来", [["命令", "make record <1>"], ["日期", "2026-11-29"], ["Python", "3.12.3"], ["设备", "NVIDIA H200"]]),
        ("h200：数值", [["copy_ms", "1.5（1.25 至 1.75） ms"], ["copy_rate", "4281 GB/s"], ["rate_low", "3"]]),
    ],
)
def test_tables(report, caption, cells):
    assert rows(report, caption) == cells


def test_links_are_for_mkdocs_to_check(report):
    assert [a["href"] for a in report.select("table a")] == [
        "/io.md#block-2",
        "/io.md#block-1",
        "/guide/index.md#block-4",
        "/lab-notebook.ipynb",
        "/io.md",
        "#evidence-h200",
    ]
    assert report.select_one("#evidence-h200").name == "h3"


def test_groups_without_a_record_are_named(report, render):
    assert "未执行 / NOT EXECUTED：fuzz、speed。" in report.text
    render.ledger(**LEDGER | {"unrecorded": []})
    assert "NOT EXECUTED：" not in render.soup("[VERIFICATION]").text


def test_a_status_is_a_word_with_its_state(report):
    cells = report.select("td[data-status]")
    assert cells and all(cell.text.strip() for cell in cells)


def test_each_table_scrolls_under_its_caption(report):
    assert all(t.parent["aria-label"] == t.caption.text for t in report.select("table.report"))


def test_text_around_stays(report):
    before, *own, after = [p.text for p in report.find_all("p", recursive=False)]
    assert (before, after) == ("前文", "后文") and len(own) == 1


def test_empty_ledger_says_so(render):
    text = render.soup("[VERIFICATION]").text
    for line in ("执行环境：没有记录。", "每个代码块一行：没有记录。", "还没有记录文件。"):
        assert line in text


@pytest.mark.parametrize("text", ["文 [VERIFICATION]", "`[VERIFICATION]`", "```text\n[VERIFICATION]\n```"])
def test_only_alone(render, text):
    assert not render.soup(text).select("table")


@pytest.mark.parametrize(
    ("markdown", "text"),
    [("**重** `x`", "重 x"), ("[链](a.md) 后", "链 后"), (r"$\frac{a}{b}$", "a/b"), ("值 {{value:x}}", "值 …"), (r"$\foo$", r"$\foo$")],
)
def test_heading_text(markdown, text):
    assert heading_text(markdown) == text
