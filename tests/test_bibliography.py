"""The bibliography of docs/summary.md and the citations of all pages are the same set, under the same names and titles."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text("utf-8") for path in sorted(DOCS.rglob("*.md"))}

ARXIV = re.compile(r"arxiv\.org/(?:abs|pdf|html)/(?P<id>\d{4}\.\d{4,5})(?P<version>v\d+)?", re.IGNORECASE)
DOI = re.compile(r"doi\.org/(?P<id>10\.\d{4,9}/[^\s)\"'>]+)", re.IGNORECASE)
BARE = re.compile(r"(?<![\w./])(?:arXiv[: ]\s*(?P<arxiv>\d{4}\.\d{4,5})|doi[: ]\s*(?P<doi>10\.\d{4,9}/[^\s)\]，。；、]+))", re.IGNORECASE)
LINKED = re.compile(r"\[(?:arXiv (?P<arxiv>[^\]]+)|doi (?P<doi>[^\]]+))\]\((?P<target>[^)]+)\)")
ENTRY = re.compile(r"^\| (?P<key>[A-Z][A-Z0-9]*) \| (?P<work>[^|]+) \| \[(?P<text>[^\]]+)\]\((?P<target>[^)]+)\) \|$", re.MULTILINE)
NOTE = re.compile(r"^\[\^(?P<name>[^\]]+)\]: (?P<text>.*)$", re.MULTILINE)
BLOG = "pytorch.org/blog/flash-decoding"  # Flash-Decoding is an article, not a paper


def papers(text):
    """Identifiers of the papers that a text links or names: arXiv numbers without version, DOIs, the one article."""
    found = {match["id"] for match in ARXIV.finditer(text)} | {match["id"].lower() for match in DOI.finditer(text)}
    found |= {(match["arxiv"] or match["doi"]).lower() for match in BARE.finditer(text)}
    return found | ({BLOG} if BLOG in text else set())


SUMMARY = PAGES["summary.md"]
TABLE = SUMMARY[SUMMARY.index("{#bibliography}") :].split("\n[^", 1)[0]
ENTRIES = {match["key"]: match for match in ENTRY.finditer(TABLE)}
CITED = {name: papers(text.replace(TABLE, "")) for name, text in PAGES.items()}  # what the table itself says does not count
BY_PAPER = {paper: match for match in ENTRIES.values() for paper in papers(match["target"])}


def title(entry):
    """The work's title: between authors and venue or year, which full-width commas set off."""
    return entry["work"].split("，")[1]


def test_every_row_is_read():
    rows = [line for line in TABLE.splitlines() if line.startswith("| ")]
    assert len(rows) == len(ENTRIES) + 2 and len(BY_PAPER) == len(ENTRIES) >= 15  # heading and rule besides
    assert list(ENTRIES) == sorted(ENTRIES)


@pytest.mark.parametrize("name", PAGES)
def test_every_citation_is_listed(name):
    missing = CITED[name] - set(BY_PAPER)
    assert not missing, f"docs/{name} 引用了 {sorted(missing)}，docs/summary.md 的参考文献里没有；加一行，或改正编号"


@pytest.mark.parametrize("key", ENTRIES)
def test_every_entry_is_cited(key):
    (paper,) = papers(ENTRIES[key]["target"])
    assert any(paper in cited for cited in CITED.values()), f"{key}（{paper}）没有任何一页引用；引用它，或删去这一行"


@pytest.mark.parametrize("name", PAGES)
def test_link_and_words_name_the_same_paper(name):
    for match in LINKED.finditer(PAGES[name]):
        assert {match["arxiv"] or match["doi"]} == papers(match["target"]), f"docs/{name}: {match[0]}"


@pytest.mark.parametrize("name", PAGES)
def test_footnotes_give_the_title_and_the_key(name):
    """A footnote that begins `KEY：` cites that entry and gives its title; every paper in a footnote goes by its key."""
    for note in NOTE.finditer(PAGES[name]):
        key, colon, rest = note["text"].partition("：")
        where = f"docs/{name}: [^{note['name']}]"
        if colon and key in ENTRIES:
            assert title(ENTRIES[key]).lower() in rest.lower(), f"{where} 应写出标题 {title(ENTRIES[key])}"
            assert papers(ENTRIES[key]["target"]) <= papers(rest), f"{where} 应链接到 {ENTRIES[key]['target']}"
        for paper in papers(note["text"]) & set(BY_PAPER):
            assert re.search(rf"\b{BY_PAPER[paper]['key']}\b", note["text"]), f"{where} 应以 {BY_PAPER[paper]['key']} 称呼它"


def test_snippets_and_kernels_cite_listed_papers():
    for folder in ("snippets", "kernels"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            missing = papers(path.read_text("utf-8")) - set(BY_PAPER)
            assert not missing, f"{path.relative_to(ROOT)} 引用了 {sorted(missing)}，参考文献里没有"


@pytest.mark.parametrize(
    "text, found",
    [
        ("[a](https://arxiv.org/abs/2205.14135v2)", {"2205.14135"}),
        ("https://arxiv.org/pdf/2407.08608", {"2407.08608"}),
        ("FlashAttention, arXiv 2307.08691, section 3", {"2307.08691"}),
        ("[doi](https://doi.org/10.1145/1498765.1498785)。", {"10.1145/1498765.1498785"}),
        ("doi 10.1145/3315508.3329973，", {"10.1145/3315508.3329973"}),
        ("https://pytorch.org/blog/flash-decoding/", {BLOG}),
        ("2205.14135 alone, or torch 2.11", set()),
    ],
)
def test_papers(text, found):
    assert papers(text) == found
