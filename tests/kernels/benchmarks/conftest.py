"""What holds for the figures of every group."""

import json
import math
import re

KEY = re.compile(r"[a-z0-9_]+")


def check_figures(figures, some):
    """Each can be recorded and read back, lies within its spread where it has one; `some`: keys and their units."""
    assert json.loads(json.dumps(figures)) == figures
    for key, told in figures.items():
        assert KEY.fullmatch(key) and set(told) == {"value", "unit"}, key
        assert isinstance(told["value"], (str, int)) or math.isfinite(told["value"]), key
    assert {key: figures[key]["unit"] for key in some} == some
    for key in figures:
        if key.endswith("_low"):
            low, middle, high = (figures[key[:-4] + end]["value"] for end in ("_low", "", "_high"))
            assert low < middle < high, key
