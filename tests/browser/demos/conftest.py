"""What the tests of the demos share: a live demo on its page, and `compute` of its module run in that page."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page

HOMES = {  # demo -> the page it stands on
    "attention-io": "io/",
    "online-softmax": "online-softmax/",
    "roofline": "roofline/",
    "tiling": "tiling/",
    "triton-block": "triton/",
}


class Demo:
    """A demo that has come to life. `root` is its element, `page` the page it stands on."""

    def __init__(self, page: Page, name: str) -> None:
        self.page, self.name = page, name
        self.root = page.locator(f"course-demo[name={name}]")
        self.root.and_(page.locator("[data-state=live]")).wait_for(state="attached")

    def find(self, selector: str) -> Locator:
        return self.root.locator(selector)

    def button(self, action: str) -> Locator:
        return self.find(f"button[data-do={action}]")

    def field(self, name: str) -> Locator:
        return self.find(f"[data-field={name}]:not([type=range])")

    def fill(self, **texts: str) -> None:
        for name, text in texts.items():
            self.field(name).fill(text)

    def preset(self, label: str) -> None:
        self.find("[data-preset]").select_option(label=label)

    @property
    def said(self) -> str:
        return self.find(".demo-say").inner_text()

    @property
    def error(self) -> str:
        return self.find(".demo-errors").inner_text()

    def guess(self, value: str) -> str:
        """Answer the challenge, by its radio button or its field; what is said to it."""
        radio = self.find(f"input[type=radio][name=guess][value='{value}']")
        radio.check() if radio.count() else self.find("input[name=guess]").fill(value)
        self.find("[data-challenge] button[type=submit]").click()
        return self.find("[data-challenge] output").inner_text()

    def call(self, body: str, argument=None):
        """The value of a JavaScript expression over `m`, the demo's module, and `a`, the argument."""
        source = f"async ([name, a]) => {{ const m = await import(new URL(`../assets/demos/${{name}}.js`, location)); return JSON.stringify({body}); }}"
        return json.loads(self.page.evaluate(source, [self.name, argument]))

    def compute(self, inputs: list[dict]) -> list[dict]:
        """`compute` of each of the inputs, as JSON carries it."""
        return self.call("a.map(m.compute)", inputs)


@pytest.fixture
def live(visit) -> Callable[..., Demo]:
    """`live(name, hash="", **options of visit)`: the demo on its page, started."""

    def start(name: str, hash: str = "", **options) -> Demo:
        return Demo(visit(HOMES[name] + hash, **options), name)

    return start


def assert_same(got, expected, where: str = "data", relative: float = 1e-12) -> None:
    """Equal as plain JSON: integers and texts exactly, floating point to `relative`."""
    if isinstance(expected, dict):
        assert isinstance(got, dict) and got.keys() == expected.keys(), f"{where}: keys {sorted(got)} and {sorted(expected)}"
        for key, value in expected.items():
            assert_same(got[key], value, f"{where}.{key}", relative)
    elif isinstance(expected, list):
        assert isinstance(got, list) and len(got) == len(expected), f"{where}: {got} and {expected}"
        for at, (one, other) in enumerate(zip(got, expected)):
            assert_same(one, other, f"{where}[{at}]", relative)
    elif isinstance(expected, float):
        assert isinstance(got, (int, float)) and math.isclose(got, expected, rel_tol=relative), f"{where}: {got} and {expected}"
    else:
        assert got == expected and isinstance(got, bool) == isinstance(expected, bool), f"{where}: {got} and {expected}"
