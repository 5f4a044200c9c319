"""snippets.checks: every message names the argument, the fault and the remedy."""

import re

import numpy as np
import pytest

from snippets.checks import one_of, plain, positive


@pytest.mark.parametrize("value", [0, -3, 1.0, "4", True, None])
def test_positive_refuses(value):
    with pytest.raises(ValueError, match=re.escape(f"d={value!r} 不是正整数；请给一个不小于 1 的整数")):
        positive(S=1, d=value)


def test_positive_accepts_integers_of_any_kind():
    positive(S=1, d=np.int64(64))


def test_one_of():
    one_of(("fa1", "fa2"), order="fa1")
    with pytest.raises(ValueError, match="order='fa3' 不认识；可选：fa1、fa2"):
        one_of(("fa1", "fa2"), order="fa3")


@pytest.mark.parametrize(
    "x, want", [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "-inf"), (np.float32(0.5), 0.5), (3, 3.0)]
)
def test_plain(x, want):
    assert plain(x) == want and type(plain(x)) is type(want)
