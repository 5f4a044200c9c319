"""Data of the pictures that need small numbers of their own, JSON-plain; from the modules that the pages explain."""

from snippets.block_grid import grid, program
from snippets.checks import positive
from snippets.online_softmax import EMPTY, blocks, finish, merge, update, weight
from snippets.tiling import ORDERS, schedule, traffic


def loop_orders(T_r=3, T_c=4, step=6):
    """Both loop orders over T_r x T_c tiles, of which `step` are done, the last one still on chip (counted from 1).

    {"orders": {order: {"turns": [T_r][T_c] at which step a tile is computed, "i", "j": the tile on chip, "written":
    [T_r] writes of each O tile so far, "total": {operand: [reads, writes] of one tile in the whole run}}}}.
    ValueError: sizes below 1; step above T_r * T_c.
    """
    positive(T_r=T_r, T_c=T_c, step=step)
    if step > T_r * T_c:
        raise ValueError(f"step={step} 超过 {T_r * T_c} 块；请给一个不大于它的步数")
    return {"T_r": T_r, "T_c": T_c, "step": step, "orders": {order: _order(T_r, T_c, step, order) for order in ORDERS}}


def _order(T_r, T_c, step, order):
    visits = list(schedule(T_r, T_c, 1, 1, order))
    turn = {(one.i, one.j): n for n, one in enumerate(visits, 1)}
    tiles = {"Q": T_r, "K": T_c, "V": T_c, "O": T_r}
    moved = traffic(T_r, T_c, 1, 1, 1, order=order)
    return {
        "turns": [[turn[i, j] for j in range(T_c)] for i in range(T_r)],
        "i": visits[step - 1].i, "j": visits[step - 1].j,
        "written": [sum("O" in one.written for one in visits[:step] if one.i == i) for i in range(T_r)],
        "total": {name: [moved[name].reads // n, moved[name].writes // n] for name, n in tiles.items()},
    }


def merged(x=(1, 2, 3, 4), v=(10, 20, 30, 40)):
    """Two states, of either half of the scores x with values v, and their merge.

    "a", "b": x, v, m, l, o, "to": e^(m - m of both), by which l and o are multiplied. "both": m, l, o, ratio = o / l.
    ValueError: as in `blocks`.
    """
    parts = list(blocks(x, v, len(x) // 2))
    states = [update(EMPTY, *part) for part in parts]
    both = merge(*states)
    found = {
        name: _plain(state) | {"x": part[0].tolist(), "v": part[1].tolist(), "to": float(weight(state.m, both.m))}
        for name, part, state in zip("ab", parts, states)
    }
    return found | {"both": _plain(both) | {"ratio": float(finish(both))}}


def _plain(state):
    return {name: float(one) for name, one in state._asdict().items()}


def lanes(n=10, block_size=4):
    """The grid over n elements: {"programs": [{pid, start, stop, live, masked}]}. ValueError: as in `grid`."""
    programs = [program(n, block_size, pid)._asdict() for pid in range(grid(n, block_size))]
    return {"n": n, "block_size": block_size, "programs": programs}
