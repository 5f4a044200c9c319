"""Data of the demo `tiling`, JSON-plain: one moment of the tile loops, from prefix sums and never by walking there."""

import numpy as np

from snippets.checks import one_of, positive
from snippets.tiling import ORDERS, sram_bytes_used, tile_sizes, traffic, visible

PHASES = ("load", "compute", "store")  # store: throw S away, keep or write O
RUNS = 64  # a strip is drawn from at most this many runs of blocks


def frame(S=1024, d=64, B_r=128, B_c=64, dtype_bytes=2, sram_bytes=196608, order="fa2", causal=False, step=None):
    """State of one head after `step` (0-based, three per tile pair); None means the middle pair with its S tile alive.

    Bytes are HBM bytes of one head, m and l not counted; tiles larger than S are cut to S. `slots` lists what lies on
    chip now, `reads` how often that tile has been loaded. A strip is [[first block, last block, times moved], ...];
    `final` has those of the last step, `orders` both orders' totals. ValueError: size below 1, unknown order or step.
    """
    positive(S=S, d=d, B_r=B_r, B_c=B_c, dtype_bytes=dtype_bytes, sram_bytes=sram_bytes)
    one_of(ORDERS, order=order)
    B_r, B_c = min(B_r, S), min(B_c, S)
    last, first = visible(S, S, B_r, B_c, causal)
    pairs, suggested = int(last.sum()), tile_sizes(sram_bytes, d, dtype_bytes)
    step = 3 * (pairs // 2) + 1 if step is None else step
    if step not in range(3 * pairs):
        raise ValueError(f"step={step!r} 不存在；应在 0 到 {3 * pairs - 1} 之间")
    sizes = {"S": S, "d": d, "B_r": B_r, "B_c": B_c, "dtype_bytes": dtype_bytes}
    peak = sum(sram_bytes_used(B_r, B_c, d, dtype_bytes).values())
    return sizes | {
        "sram_bytes": sram_bytes, "order": order, "causal": causal, "step": step, "steps": 3 * pairs, "pairs": pairs,
        "T_r": len(last), "T_c": len(first), "visible": _runs(last), "sram_peak": peak, "fits": peak <= sram_bytes,
        "suggested": {"B_r": suggested[0], "B_c": suggested[1]}, "naive_bytes": (4 * S * S + 4 * S * d) * dtype_bytes,
        "orders": [_totals(name, causal, **sizes) for name in ORDERS],
        "final": _moment(pairs - 1, 2, last, first, order, **sizes)["strips"],
    } | _moment(*divmod(step, 3), last, first, order, **sizes)


def _moment(pair, phase, last, first, order, S, d, B_r, B_c, dtype_bytes):
    """What changes with the step: the tile, what is on chip, what has moved so far."""
    i, j = _position(pair, last, first, order)
    reads, writes = _strips(i, j, phase, last, first, order)
    rows, cols = _sizes(S, B_r), _sizes(S, B_c)
    here = sram_bytes_used(int(rows[i]), int(cols[j]), d, dtype_bytes)
    slots = {name: size for name, size in here.items() if name != "S" or PHASES[phase] == "compute"}
    times = {"Q": reads["Q"][i], "O": reads["O"][i], "K": reads["K"][j], "V": reads["V"][j]}
    read = {name: int(n @ (rows if name in "QO" else cols)) * d * dtype_bytes for name, n in reads.items()}
    written = int(writes @ rows) * d * dtype_bytes
    return {
        "pair": pair, "phase": PHASES[phase], "i": i, "j": j,
        "rows": [i * B_r, i * B_r + int(rows[i])], "cols": [j * B_c, j * B_c + int(cols[j])],
        "slots": [{"name": name, "bytes": n, "reads": int(times.get(name, 0))} for name, n in slots.items()],
        "sram_now": sum(slots.values()),
        "read_bytes": read, "written_bytes": written, "hbm_bytes": sum(read.values()) + written,
        "strips": {name: _runs(n) for name, n in (reads | {"O_write": writes}).items()},
    }


def _position(pair, last, first, order):
    """Tile (i, j) of the pair-th visit of that loop order."""
    ends = np.cumsum(last if order == "fa2" else len(last) - first)
    outer = int(np.searchsorted(ends, pair, side="right"))
    inner = pair - (int(ends[outer - 1]) if outer else 0)
    return (outer, inner) if order == "fa2" else (inner + int(first[outer]), outer)


def _strips(i, j, phase, last, first, order):
    """({operand: reads of each block so far}, writes of each O block so far), int64; this pair's loads are done."""
    row, col = np.arange(len(last)), np.arange(len(first))
    if order == "fa2":
        # A column block has been read once by each earlier row tile that sees it, and by this one up to j.
        kv = np.maximum(i - first, 0) + (col <= j)
        done = i + (PHASES[phase] == "store" and j == last[i] - 1)
        return {"Q": (row <= i) * 1, "K": kv, "V": kv, "O": row * 0}, (row < done) * 1
    # A row block has been read once by each earlier column tile that it sees, and by this one up to i.
    earlier = np.minimum(last, j)
    sees = row >= first[j]
    moved = earlier + (sees & (row <= i))
    kv = (col <= j) * 1
    return {"Q": moved, "K": kv, "V": kv, "O": moved}, earlier + (sees & (row < i + (PHASES[phase] == "store")))


def _sizes(S, B):
    """Rows of each tile, int64: B everywhere, what is left in the last."""
    return np.minimum(B, S - np.arange(0, S, B))


def _runs(counts):
    """At most RUNS runs of equally many blocks, each with the largest count in it."""
    width = -(-len(counts) // RUNS)
    starts = range(0, len(counts), width)
    return [[at, min(at + width, len(counts)) - 1, int(counts[at : at + width].max())] for at in starts]


def _totals(order, causal, S, d, B_r, B_c, dtype_bytes):
    """One loop order's whole traffic: a row per operand, and the sums."""
    moves = traffic(S, S, d, B_r, B_c, dtype_bytes, order, causal)
    read, written = (sum(getattr(one, key) for one in moves.values()) for key in ("read_bytes", "write_bytes"))
    rows = [{"name": name} | one._asdict() for name, one in moves.items()]
    return {"order": order, "rows": rows, "read_bytes": read, "write_bytes": written, "total_bytes": read + written}
