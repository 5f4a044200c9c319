"""The search box finds Chinese words and names of code, and its links lead to pages that hold them."""

from __future__ import annotations

import re

import pytest


@pytest.mark.parametrize("word", ["注意力", "归一化", "FlashAttention", "BLOCK_SIZE", "block_size", "在线 softmax"])
def test_finds(word, visit, search, site, base_url):
    """The first result holds the word; Material's own search would cut 注意力 to 注意 and put other pages first."""
    page = visit("")
    search(page, word)
    results = page.locator(".md-search-result__link")
    results.first.wait_for()
    links = results.evaluate_all("all => all.filter(e => e.checkVisibility()).map(e => e.href)")
    path = links[0].partition("?")[0].partition("#")[0].removeprefix(base_url)
    assert holds(site, path, word), f"{links[0]} does not hold {word}"
    results.first.click()
    page.wait_for_url(lambda url: url.startswith(base_url + path))
    for part in word.split():
        page.locator(".md-content").get_by_text(part).first.wait_for(state="attached")


def holds(site, path: str, word: str) -> bool:
    """Whether every part of the word stands in a page's article."""
    text = re.sub("<[^>]*>", "", (site / path / "index.html").read_text("utf-8").partition("<article")[2]).lower()
    return all(part in text for part in word.lower().split())


def test_says_that_it_finds_nothing(visit, search):
    page = visit("")
    search(page, "zzzzqqqq")
    page.locator(".md-search-result__meta").filter(has_text="没有找到").wait_for()
    assert page.locator(".md-search-result__link").count() == 0
