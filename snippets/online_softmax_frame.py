"""Data of the demo `online-softmax`, JSON-plain: every block's turn, and the one-pass result beside it."""

import numpy as np

from snippets.checks import plain
from snippets.online_softmax import EMPTY, blocks, blockwise, finish, update
from snippets.softmax_faults import broken


def frame(x, v, block_size, fault=None):
    """The final frame and one row per block, for numbers x and v of one length; "-inf" may stand among x.

    `blocks[k]`: the scores `x`, values `v` and bars `e` = e^(x - m) of block k, `m`, `correction`, `l`, `o`, `ratio`
    = o / l, and `prefix`, the one-pass o / l over the blocks up to k. `bars` are e^(x - m) under the final m.
    `fault`: None or a name of `softmax_faults.FAULTS`. ValueError: as in `online_softmax.blocks`, or unknown fault.
    """
    pairs = blocks([float(one) for one in x], v, block_size)
    steps = _steps(pairs, fault, block_size)
    with np.errstate(all="ignore"):  # a fault's NaN and overflow are data here
        rows = [_row(pairs, steps, k, fault) for k in range(len(steps))]
    x_all, v_all = _prefix(pairs, len(pairs))
    one_pass = update(EMPTY, x_all, v_all)
    result = float(finish(one_pass))
    return {
        "x": [plain(one) for one in x_all], "v": [plain(one) for one in v_all], "block_size": block_size,
        "fault": fault, "blocks": rows, **{key: rows[-1][key] for key in ("m", "l", "o", "ratio")},
        "bars": [plain(one) for one in np.exp(x_all - one_pass.m)] if one_pass.l else [0.0] * len(x_all),
        "one_pass": {name: plain(value) for name, value in one_pass._asdict().items()} | {"ratio": plain(result)},
        "difference": plain(abs(float(rows[-1]["ratio"]) - result)),
    }


def _steps(pairs, fault, block_size):
    """The Steps of the pairs' scores, with the fault where one is named."""
    x, v = _prefix(pairs, len(pairs))
    return blockwise(x, v, block_size) if fault is None else broken(x, v, block_size, fault)


def _prefix(pairs, count):
    """Scores and values of the first `count` blocks, joined again."""
    return tuple(np.concatenate(side) for side in zip(*pairs[:count]))


def _row(pairs, steps, k, fault):
    """Block k of the table."""
    step = steps[k]
    right = fault is None and step.l == 0  # wholly masked so far: the guarded division gives 0
    m = step.m if np.isfinite(step.m) or fault == "no_guard" else 0.0
    return {
        "k": k, "x": [plain(one) for one in step.x], "v": [plain(one) for one in pairs[k][1]],
        "e": [plain(one) for one in np.exp(step.x - m)],
        "m": plain(step.m), "correction": plain(step.correction), "l": plain(step.l), "o": plain(step.o),
        "ratio": 0.0 if right else plain(np.float64(step.o) / np.float64(step.l)),
        "prefix": plain(finish(update(EMPTY, *_prefix(pairs, k + 1)))),
    }
