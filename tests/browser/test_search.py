"""The search box finds Chinese words and names of code, and its links lead to pages that hold them."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("word", ["注意力", "归一化", "FlashAttention", "BLOCK_SIZE", "block_size", "在线 softmax"])
def test_finds(word, visit):
    page = visit("")
    box = page.locator("input.md-search__input")
    box.click()
    page.keyboard.insert_text(word)
    page.keyboard.press("End")  # text put in by an input method is searched for at the next key
    result = page.locator(".md-search-result__link").first
    result.wait_for()
    result.click()
    page.wait_for_url(lambda url: url != page.url or "h=" in url or "#" in url)
    page.wait_for_load_state()
    text = page.locator(".md-content").inner_text().lower()
    for part in word.lower().split():
        assert part in text, f"{page.url} does not hold {part}"


def test_says_that_it_finds_nothing(visit):
    page = visit("")
    page.locator("input.md-search__input").click()
    page.keyboard.insert_text("zzzzqqqq")
    page.keyboard.press("End")
    page.locator(".md-search-result__meta").filter(has_text="没有找到").wait_for()
    assert page.locator(".md-search-result__link").count() == 0
