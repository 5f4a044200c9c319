"""Online softmax broken on purpose, one fault at a time, to show what each part of the update is for."""

import numpy as np

from snippets.checks import one_of
from snippets.online_softmax import Step, blocks

FAULTS = ("no_correction", "no_maximum", "no_guard")


def broken(x, v, block_size, fault):
    """`blockwise` with one fault; same arguments, errors and list of Step, float64.

    no_correction: old l and o are not rescaled. Silent: the weights still sum to 1, the result is wrong.
    no_maximum: m stays 0, so e^x overflows from x = 710 on and o / l is inf / inf = NaN.
    no_guard: a wholly masked first block computes e^(-inf - -inf) = NaN, which no later block removes.
    ValueError: an unknown fault.
    """
    one_of(FAULTS, fault=fault)
    m, l, o = np.float64(0.0 if fault == "no_maximum" else -np.inf), 0.0, 0.0
    steps = []
    with np.errstate(over="ignore", invalid="ignore"):  # overflow and NaN are what is being shown
        for x_block, v_block in blocks(x, v, block_size):
            m_new = m if fault == "no_maximum" else np.maximum(m, x_block.max())
            correction = np.float64(1.0) if fault == "no_correction" else _exp(m, m_new, fault)
            p = _exp(x_block, m_new, fault)
            l, o, m = l * correction + p.sum(), o * correction + p @ v_block, m_new
            steps.append(Step(x_block, m, correction, l, o))
    return steps


def _exp(x, m, fault):
    """e^(x - m); guarded against -inf - -inf unless that guard is the fault."""
    return np.exp(x - m) if fault == "no_guard" or m != -np.inf else np.exp(x)
