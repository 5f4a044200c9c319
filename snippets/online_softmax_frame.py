"""Data of the demo `online-softmax`, JSON-plain: every block's turn, and the one-pass result beside it."""

import numpy as np

from snippets.checks import plain
from snippets.online_softmax import EMPTY, blocks, blockwise, finish, update, weight
from snippets.softmax_faults import broken


def frame(x, v, block_size, fault=None):
    """The result and one row per block, for numbers x and v of one length; "-inf" may stand among x.

    `blocks[k]`: the scores `x`, values `v` and heights `e` = e^(x - m) of block k, their sums `sum_e` and `sum_ev`,
    `m`, `correction`, `l`, `o`, `ratio` = o / l; `bars`, the heights that l sums, of all scores up to block k. Beside
    them what is right: `due_correction`; of one pass over the blocks up to k `due`, its e^(x - m), and `prefix`, its
    o / l; `agrees`: ratio is prefix up to rounding. `one_pass` and `difference` are of all scores.
    `fault`: None or a name of `softmax_faults.FAULTS`. ValueError: as in `online_softmax.blocks`, or unknown fault.
    """
    pairs = blocks([float(one) for one in x], v, block_size)
    x_all, v_all = (np.concatenate(side) for side in zip(*pairs))
    right = blockwise(x_all, v_all, block_size)
    steps = right if fault is None else broken(x_all, v_all, block_size, fault)
    with np.errstate(all="ignore"):  # a fault's NaN and overflow are data here
        rows, bars = [], np.empty(0)
        for k, (step, truth) in enumerate(zip(steps, right)):
            e = _heights(step, fault)
            bars = np.append(bars * step.correction, e)
            seen = x_all[: bars.size], v_all[: bars.size]
            rows.append({"k": k, **_turn(step, e, pairs[k][1], fault), "bars": _plain(bars), **_truth(truth, *seen)})
    for row in rows:
        row["agrees"] = abs(float(row["ratio"]) - float(row["prefix"])) <= row.pop("rounding")
    one_pass = update(EMPTY, x_all, v_all)
    result = float(finish(one_pass))
    return {
        "x": _plain(x_all), "v": _plain(v_all), "block_size": block_size, "fault": fault, "blocks": rows,
        **{key: rows[-1][key] for key in ("m", "l", "o", "ratio")},
        "one_pass": {name: plain(value) for name, value in one_pass._asdict().items()} | {"ratio": plain(result)},
        "difference": plain(abs(float(rows[-1]["ratio"]) - result)),
    }


def _plain(numbers):
    return [plain(one) for one in numbers]


def _heights(step, fault):
    """e^(x - m) of a step's own block."""
    return np.exp(step.x - step.m) if fault == "no_guard" else weight(step.x, step.m)


def _turn(step, e, v, fault):
    """What the update does with one block."""
    guarded = fault is None and step.l == 0  # wholly masked so far: the guarded division gives 0
    return {
        "x": _plain(step.x), "v": _plain(v), "e": _plain(e), "sum_e": plain(e.sum()), "sum_ev": plain(e @ v),
        "m": plain(step.m), "correction": plain(step.correction), "l": plain(step.l), "o": plain(step.o),
        "ratio": 0.0 if guarded else plain(np.float64(step.o) / np.float64(step.l)),
    }


def _truth(step, x, v):
    """One pass over the scores so far, and how far a sum of these terms may be off by rounding."""
    one_pass = update(EMPTY, x, v)
    return {
        "due_correction": plain(step.correction),
        "due": _plain(weight(x, one_pass.m)), "prefix": plain(finish(one_pass)),
        "rounding": 1e-12 * float(finish(update(EMPTY, x, np.abs(v)))) + 1e-300,
    }
