"""Each fault breaks what it should, and nothing where it should go unseen."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snippets.online_softmax import blockwise
from snippets.softmax_faults import FAULTS, broken

few = settings(deadline=None, max_examples=60)
finite = st.lists(st.floats(-50, 50), min_size=1, max_size=16)


def ratio(steps):
    return steps[-1].o / steps[-1].l


def test_forgotten_correction_is_silent():
    wrong = broken([1, 2, 3, 4], [10, 20, 30, 40], 2, "no_correction")
    assert round(float(ratio(wrong)), 3) == 27.311
    assert ratio(broken([1, 2, 3, 4], [1, 1, 1, 1], 2, "no_correction")) == 1  # the weights still sum to 1


@few
@given(finite, st.integers(1, 17))
def test_forgotten_correction_unseen_when_the_largest_comes_first(x, block_size):
    x = [max(x), *x]
    v = list(range(len(x)))
    np.testing.assert_allclose(
        ratio(broken(x, v, block_size, "no_correction")), ratio(blockwise(x, v, block_size)), rtol=1e-12
    )


@few
@given(finite, st.integers(1, 17), st.sampled_from(["no_maximum", "no_guard"]))
def test_the_other_faults_unseen_on_small_scores(x, block_size, fault):
    v = np.arange(1.0, len(x) + 1)
    np.testing.assert_allclose(ratio(broken(x, v, block_size, fault)), ratio(blockwise(x, v, block_size)), rtol=1e-12)


def test_no_maximum_overflows():
    last = broken([1000, 1001], [1, 2], 1, "no_maximum")[-1]
    assert last.m == 0 and np.isposinf(last.l) and np.isposinf(last.o)
    assert np.isfinite(ratio(broken([709], [1], 1, "no_maximum")))
    assert np.isposinf(broken([710], [1], 1, "no_maximum")[-1].l)


def test_no_guard_turns_a_masked_first_block_into_nan_for_good():
    masked = [-np.inf, -np.inf, 1, 2], [1, 2, 3, 4], 2
    for step in broken(*masked, "no_guard"):
        assert np.isnan(step.l) and np.isnan(step.o)
    assert np.isfinite(ratio(broken(*masked, "no_correction")))
    later = [1, 2, -np.inf, -np.inf], [1, 2, 3, 4], 2
    assert ratio(broken(*later, "no_guard")) == ratio(blockwise(*later))


def test_unknown_fault():
    assert FAULTS == ("no_correction", "no_maximum", "no_guard")
    with pytest.raises(ValueError, match="fault='none' 不认识；可选：no_correction、no_maximum、no_guard"):
        broken([1], [1], 1, "none")
