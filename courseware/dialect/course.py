"""What the dialect's parts share while one page is rendered: the scanned page, its records, the options."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from markdown import Markdown
from pymdownx.blocks import BlocksExtension
from pymdownx.blocks.block import Block as MarkdownBlock

from courseware.doctest import ledger
from courseware.doctest.blocks import Block, Chain, chains
from courseware.page import Page, scan

# Below "mkdocs", so that a strict build counts what is logged here; a plain name elsewhere.
LOG = logging.getLogger("mkdocs.courseware")

NOT_EXECUTED: dict[str, Any] = {
    "status": "not-executed",
    "seconds": None,
    "output": "",
    "error": None,
    "source": "",
    "environment": None,
}


@dataclass
class Record:
    """One block of the page with what the ledger says of it; `continues` where a block before it shares its process."""

    block: Block
    chain: Chain
    continues: bool
    result: dict[str, Any]


@dataclass
class Course:
    """The state of one Markdown instance; `read` refreshes it for each page.

    options: `ledger` (path of the working ledger), `related_base` (chapter -> address, or an address with `{n}`),
    `demos` and `pictures` (folders of templates).
    """

    options: dict[str, Any]
    page: Page = field(default_factory=lambda: scan(""))
    chains: list[Chain] = field(default_factory=list)
    ledger: dict[str, Any] = field(default_factory=dict)
    records: dict[int, Record] = field(default_factory=dict)  # by Block.number
    quizzes: list[Any] = field(default_factory=list)  # what the blocks `quiz`, `related`
    related: list[Any] = field(default_factory=list)  # and `chart` were read from, in the order of the page
    charts: list[Any] = field(default_factory=list)

    def read(self, text: str) -> None:
        """Scan the text of a page and look up its records."""
        self.page = scan(text)
        self.chains = chains(self.page)
        self.ledger = ledger.load(self.options["ledger"])
        self.records, self.quizzes, self.related, self.charts = {}, [], [], []
        for chain in self.chains:
            results = self.ledger["chains"].get(chain.key, {}).get("blocks", [])
            for position, block in enumerate(chain.blocks):
                result = NOT_EXECUTED | (results[position] if position < len(results) else {})
                self.records[block.number] = Record(block, chain, position > 0, result)



def register(md: Markdown, *classes: type[MarkdownBlock]) -> None:
    """Make pymdown-extensions' block processor know these blocks (it is set up on first use)."""
    manager = BlocksExtension().register_block_mgr(md)
    for each in classes:
        manager.register(each, {})
