"""How Triton cuts n elements into programs of block_size lanes, and what the mask of the last one costs."""

from numbers import Integral
from typing import NamedTuple

from snippets.checks import positive

MAX_BLOCK = 1 << 20  # elements of the largest tensor that Triton accepts


class Program(NamedTuple):
    """One program's offsets start .. stop - 1; of these the first `live` lie below n, the last `masked` do not."""

    pid: int
    start: int
    stop: int
    live: int
    masked: int


def grid(n, block_size):
    """Number of programs, ceil(n / block_size); 0 when n is 0.

    ValueError: n is no integer of at least 0; block_size is no power of two (tl.arange) from 1 to MAX_BLOCK.
    """
    if isinstance(n, bool) or not isinstance(n, Integral) or n < 0:
        raise ValueError(f"n={n!r} 不是元素个数；请给一个不小于 0 的整数")
    positive(block_size=block_size)
    if block_size > MAX_BLOCK:
        raise ValueError(f"block_size={block_size} 超过 Triton 的上限；最大 {MAX_BLOCK}")
    if block_size & (block_size - 1):
        below = 1 << (block_size.bit_length() - 1)
        raise ValueError(f"block_size={block_size} 不是 2 的幂，tl.arange 不接受；可用 {below} 或 {2 * below}")
    return -(-n // block_size)


def program(n, block_size, pid):
    """The Program of that id. ValueError: as in `grid`; pid outside 0 .. grid - 1."""
    programs = grid(n, block_size)
    if isinstance(pid, bool) or not isinstance(pid, Integral) or not 0 <= pid < programs:
        allowed = f"应在 0 到 {programs - 1} 之间" if programs else "n=0 时没有 program"
        raise ValueError(f"pid={pid!r} 不存在；{allowed}")
    start = pid * block_size
    live = min(block_size, n - start)
    return Program(pid, start, start + block_size, live, block_size - live)


def wasted(n, block_size):
    """Masked lanes of the whole grid: always fewer than one block, however large n is. ValueError: as in `grid`."""
    return grid(n, block_size) * block_size - n


def frame(n, block_size, pid=None):
    """Data of the demo `triton-block`, JSON-plain; pid None means the last program. ValueError: as in `program`.

    `offsets` lists at most nine lanes of the program: three at either end and those round the border at n.
    With n = 0 there is no program: `pid` and `program` are None.
    """
    programs, waste = grid(n, block_size), wasted(n, block_size)
    data = {"n": n, "block_size": block_size, "programs": programs, "wasted": waste, "pid": None, "program": None}
    data["wasted_share"] = waste / (programs * block_size) if programs else 0.0
    data["offsets"] = []
    if pid is None and not programs:
        return data
    one = program(n, block_size, programs - 1 if pid is None else pid)
    start, stop = one.start, one.stop
    shown = {*range(start, start + 3), n - 1, n, n + 1, *range(stop - 3, stop)}
    data |= {"pid": one.pid, "program": one._asdict()}
    data["offsets"] = [{"offset": at, "live": at < n} for at in sorted(shown) if start <= at < stop]
    return data
