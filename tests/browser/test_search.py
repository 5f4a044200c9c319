"""The search box finds Chinese words and names of code, and its links lead to pages that hold them."""

from __future__ import annotations

import re

import pytest


@pytest.mark.parametrize("word", ["注意力", "归一化", "FlashAttention", "BLOCK_SIZE", "block_size", "在线 softmax"])
def test_finds(word, visit, search, site, base_url):
    """One of the results at least: Material cuts a Chinese query short (注意力 to 注意), so the first may hold less."""
    page = visit("")
    search(page, word)
    results = page.locator(".md-search-result__link")
    results.first.wait_for()
    links = results.evaluate_all("all => all.filter(e => e.checkVisibility()).map(e => e.href)")
    pages = list(dict.fromkeys(link.partition("?")[0].partition("#")[0] for link in links))
    holding = [url for url in pages if holds(site, url.removeprefix(base_url), word)]
    assert holding, f"none of {pages} holds {word}"
    results.and_(page.locator(f"[href^='{holding[0]}']")).first.click()
    page.wait_for_url(lambda url: url.startswith(holding[0]))
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
