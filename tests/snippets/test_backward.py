"""snippets.backward against finite differences of attention in one go: nothing of its own derivation is used."""

import numpy as np
import pytest

from snippets.attention import standard_attention
from snippets.backward import tiled_backward

STEP = 1e-5  # of the central differences: their error is near STEP^2, the rounding near 1e-16 / STEP


def inputs(S_q, S_kv, d, d_v, seed=0):
    """Q, K, V, dO in fp64 and the log-sum-exp of the scores."""
    rng = np.random.default_rng(seed)
    Q, K, V, dO = (rng.normal(size=shape) for shape in ((S_q, d), (S_kv, d), (S_kv, d_v), (S_q, d_v)))
    return Q, K, V, dO, np.log(np.exp(Q @ K.T / np.sqrt(d)).sum(axis=1))


def differences(which, Q, K, V, dO):
    """Gradient of sum(O * dO) by the argument number `which`, each element moved by STEP both ways."""
    arguments = [Q.copy(), K.copy(), V.copy()]
    moved, slope = arguments[which], np.empty_like(arguments[which])
    for at in np.ndindex(moved.shape):
        kept, sides = moved[at], []
        for step in (STEP, -STEP):
            moved[at] = kept + step
            sides.append((standard_attention(*arguments) * dO).sum())
        moved[at], slope[at] = kept, (sides[0] - sides[1]) / (2 * STEP)
    return slope


@pytest.mark.parametrize("shape", [(6, 6, 4, 4), (7, 5, 3, 2), (1, 9, 4, 4), (5, 1, 2, 3)])
@pytest.mark.parametrize("tiles", [(1, 1), (2, 3), (4, 4), (16, 16)])
def test_gradients_are_those_of_finite_differences(shape, tiles):
    Q, K, V, dO, lse = inputs(*shape)
    found = tiled_backward(Q, K, V, standard_attention(Q, K, V), dO, lse, *tiles)
    for which, gradient in enumerate(found):
        np.testing.assert_allclose(gradient, differences(which, Q, K, V, dO), rtol=1e-6, atol=1e-8)


def test_a_lost_row_term_is_caught():
    Q, K, V, dO, lse = inputs(6, 6, 4, 4)
    dQ, _, _ = tiled_backward(Q, K, V, np.zeros_like(dO), dO, lse)  # D = 0
    assert np.abs(dQ - differences(0, Q, K, V, dO)).max() > 1e-2


@pytest.mark.parametrize("name", ["q_tile", "k_tile"])
def test_a_tile_below_one_is_refused(name):
    Q, K, V, dO, lse = inputs(4, 4, 2, 2)
    with pytest.raises(ValueError, match=name):
        tiled_backward(Q, K, V, standard_attention(Q, K, V), dO, lse, **{name: 0})
