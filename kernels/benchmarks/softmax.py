"""Row softmax, forward and backward, ours beside torch, torch.compile and the composed form of five operators.

GB/s count the bytes that must move, each input read once and each output written once, whatever the form really moves.
"""

from functools import partial

from kernels.benchmarks import DEVICE, SEED
from kernels.timing import absent_note, at, check_close, figure, interleaved_ms, launch_us, moved, need_gpu

SHAPES = ((4096, 781), (4096, 1024), (4096, 4096), (4096, 12672), (16384, 8192), (4096, 32768), (2048, 131072))
DTYPES = ("fp32", "bf16")  # the first is not written in keys


def key_of(peer, measure, rows, columns, dtype=DTYPES[0]):
    """Key of a softmax figure, such as `ours_gbps_4096x1024` or `torch_backward_ms_4096x4096_bf16`."""
    return f"{peer}_{measure}_{rows}x{columns}" + (f"_{dtype}" if dtype != DTYPES[0] else "")


def measure():
    """Row softmax: ms (20 % to 80 % of the readings: `_low`, `_high`) and GB/s (one read and one write) of each peer.

    `composed`: five operators; `compiled`: the same through torch.compile; `composed_over_ours_…`: the ratio of their times;
    `backward`: two reads and one write, torch and ours; `of_copy_…`: our GB/s over that of a copy of the same tensor, in per
    cent. `…_launch_us`: what the host spends in a call of the first shape.
    """
    import torch

    need_gpu()
    torch.manual_seed(SEED)
    figures, absent = {}, {}
    peers = _softmax_peers()
    for dtype in DTYPES:
        for rows, columns in SHAPES:
            x = torch.randn(rows, columns, device=DEVICE).to({"fp32": torch.float32, "bf16": torch.bfloat16}[dtype])
            with at(f"softmax，{rows}×{columns}，{dtype}"):
                figures |= _one_softmax(peers, x, dtype, absent)
            del x
            torch.cuda.empty_cache()
    return figures | absent_note(absent)


def _one_softmax(peers, x, dtype, absent):
    """Figures of one shape and dtype."""
    import torch

    rows, columns = x.shape
    key = lambda peer, measure: key_of(peer, measure, rows, columns, dtype)  # noqa: E731, one word for five
    # fp32 rounds at 6e-8, bf16 at 4e-3, and the composed form several times; a wrong row or a lost column errs by far more
    tolerance, ref = {"fp32": 1e-5, "bf16": 2e-2}[dtype], torch.softmax(x.double(), -1)
    figures, calls = {}, {}
    for peer, run in peers.items():
        with at(peer):
            out = _compiled_or_none(run, x, absent) if peer == "compiled" else run(x)
            if out is None:
                continue
            check_close(out, ref, tolerance, peer)
            del out
            calls[peer] = partial(run, x)
            if x.shape == SHAPES[0] and dtype == DTYPES[0]:
                figures[f"{peer}_launch_us"] = figure(launch_us(calls[peer]), "µs")
    target, dy = torch.empty_like(x), torch.randn_like(x)
    calls["copy"] = partial(target.copy_, x)
    wanted = ref * (dy.double() - (ref * dy.double()).sum(-1, keepdim=True))
    for peer in ("torch", "ours"):
        with at(f"{peer}，反向"):
            leaf = x.clone().requires_grad_()
            backward = partial(torch.autograd.grad, peers[peer](leaf), leaf, dy, retain_graph=True)
            check_close(backward()[0], wanted, 4 * tolerance, f"{peer}，反向")
            calls[f"{peer}_backward"] = backward
    del ref, wanted
    times = interleaved_ms(calls)
    for name in times:
        figures |= moved(key(name, "{}"), (3 if name.endswith("backward") else 2) * x.nbytes, times[name])
    figures[key("composed_over_ours", "time")] = figure(times["composed"][1] / times["ours"][1], "倍")
    figures[key("ours", "of_copy")] = figure(100 * times["copy"][1] / times["ours"][1], "%")
    return figures


def composed_softmax(x):
    """Softmax of the last dimension as five operators, five kernels: max, subtract, exp, sum, divide."""
    row_max = x.amax(-1, keepdim=True)
    shifted = x - row_max
    weights = shifted.exp()
    total = weights.sum(-1, keepdim=True)
    return weights / total


def _softmax_peers():
    import torch

    from kernels.softmax import softmax as ours

    torch._dynamo.config.recompile_limit = 256  # beyond it torch.compile runs the uncompiled form, unasked
    compiled = torch.compile(composed_softmax, dynamic=False)  # one compilation a shape, in its first call
    return {"composed": composed_softmax, "torch": lambda x: torch.softmax(x, -1), "compiled": compiled, "ours": ours}


def _compiled_or_none(run, x, absent):
    """First call of the compiled form; None and a note where torch.compile does not work on this machine."""
    if "compiled" in absent:
        return None
    try:
        return run(x)
    except Exception as error:  # its failures have no common base: a missing compiler, a bug of the back end
        absent["compiled"] = f"{type(error).__name__}: {error}"
        return None
