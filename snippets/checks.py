"""Argument checks shared by the snippets: each error names the argument, the fault and the remedy."""

import math
from numbers import Integral


def positive(**values):
    """Raise ValueError for the first value that is not an integer of at least 1; `positive(S=1024, d=64)`."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name}={value!r} 不是正整数；请给一个不小于 1 的整数")


def one_of(choices, **values):
    """Raise ValueError for the first value that is not among `choices`; `one_of(("fa1", "fa2"), order=order)`."""
    for name, value in values.items():
        if value not in choices:
            raise ValueError(f"{name}={value!r} 不认识；可选：{'、'.join(map(str, choices))}")


def plain(x):
    """A float as JSON can carry it: NaN and the infinities become the strings "NaN", "inf" and "-inf"."""
    x = float(x)
    if math.isnan(x):
        return "NaN"
    return x if math.isfinite(x) else ("inf" if x > 0 else "-inf")
