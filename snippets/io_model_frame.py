"""Data of the demo `attention-io`, JSON-plain: both pipelines step by step, memory, and the curve over S."""

from snippets.checks import positive
from snippets.io_model import compulsory, elements, flops, fused_forward, naive_forward
from snippets.memory_model import extra_bytes, largest_S, memory_bytes
from snippets.tiling import tile_sizes

LENGTHS = tuple(2**k for k in range(7, 18))  # 128 .. 131,072
SINGLE = 3  # turns of the fused kernel that are told one by one


def frame(S=1024, d=64, dtype_bytes=2, heads=16, sram_bytes=196608, limit_bytes=80_000_000_000):
    """Everything that the figure shows for these inputs; byte counts are of all `heads` (batch * heads) together.

    `ratio` is naive traffic over fused, in FA1's loop order with B_c = ceil(M / 4d); it tends to `ratio_limit`,
    4 B_c / 3d = M / 3d^2 where nothing is rounded. `turns` are the fused kernel's turns of its outer loop: the first
    SINGLE one by one, the others together. `flops_per_head` is the same in both. ValueError: sizes below 1.
    """
    positive(S=S, d=d, dtype_bytes=dtype_bytes, heads=heads, sram_bytes=sram_bytes, limit_bytes=limit_bytes)
    B_c = tile_sizes(sram_bytes, d, dtype_bytes)[1]
    unit = dtype_bytes * heads
    sizes = {"S": S, "d": d, "dtype_bytes": dtype_bytes, "heads": heads}
    return sizes | {
        "sram_bytes": sram_bytes, "limit_bytes": limit_bytes, "M": sram_bytes // dtype_bytes,
        "B_c": B_c, "T_c": -(-S // B_c),
        "naive": _form("naive", naive_forward(S, d), limit_bytes, **sizes),
        "fused": _form("fused", [fused_forward(S, d, B_c)], limit_bytes, **sizes),
        "turns": _turns(S, d, B_c, unit),
        "compulsory_bytes": compulsory(S, d) * unit,
        "ratio": _ratio(S, d, B_c), "ratio_limit": 4 * B_c / (3 * d),
        "flops_per_head": flops(S, d),
        "curve": [_point(at, d, B_c, dtype_bytes, heads) for at in LENGTHS],
    }


def _form(form, passes, limit_bytes, S, d, dtype_bytes, heads):
    """One pipeline: its passes in bytes, their sum, and how its memory stands against the limit."""
    unit = dtype_bytes * heads
    steps = []
    for one in passes:
        reads, writes = ({name: n * unit for name, n in side.items()} for side in (one.reads, one.writes))
        read, written = sum(reads.values()), sum(writes.values())
        steps.append({"name": one.name, "reads": reads, "writes": writes,
                      "read_bytes": read, "write_bytes": written, "total_bytes": read + written})
    memory = memory_bytes(S, d, form, dtype_bytes, heads)
    return {
        "steps": steps, "total_bytes": sum(step["total_bytes"] for step in steps),
        "memory_bytes": memory, "extra_bytes": heads * extra_bytes(S, form, dtype_bytes),
        "fits": memory <= limit_bytes, "largest_S": largest_S(limit_bytes, d, form, dtype_bytes, heads),
    }


def _turns(S, d, B_c, unit):
    """Turns of FA1's outer loop: each reads its block of K and V, all of Q and O, and writes O."""
    T_c = -(-S // B_c)
    groups = [(j, 1) for j in range(min(SINGLE, T_c))] + ([(SINGLE, T_c - SINGLE)] if T_c > SINGLE else [])
    found = []
    for first, n in groups:
        keys = min((first + n) * B_c, S) - first * B_c
        read, written = (2 * keys + 2 * n * S) * d * unit, n * S * d * unit
        found.append({"first": first, "count": n, "read_bytes": read, "write_bytes": written})
    return found


def _ratio(S, d, B_c):
    """HBM elements of naive attention over those of the fused one."""
    return elements(*naive_forward(S, d)) / elements(fused_forward(S, d, B_c))


def _point(S, d, B_c, dtype_bytes, heads):
    """One length of the curve: bytes moved and held by either form, and the two ratios."""
    unit = dtype_bytes * heads
    naive, fused = (memory_bytes(S, d, form, dtype_bytes, heads) for form in ("naive", "fused"))
    return {
        "S": S, "ratio": _ratio(S, d, B_c), "memory_ratio": naive / fused,
        "naive_bytes": elements(*naive_forward(S, d)) * unit, "naive_memory_bytes": naive,
        "fused_bytes": elements(fused_forward(S, d, B_c)) * unit, "fused_memory_bytes": fused,
    }
