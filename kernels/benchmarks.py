"""The figures that `make record` takes on a GPU: `GROUPS` maps a group to a function, its file is docs/evidence/GROUP.json.

Each function returns {KEY: {"value", "unit"}}: medians (kernels.timing), taken only after every result agreed with a
reference of higher precision. Peers are timed in the same run, so that a figure is compared with its own machine. A peer
that this machine does not offer has no figure, and the key `absent` says which and why; anything else that fails raises.

By hand: `python -m kernels.benchmarks [GROUP …]` prints the figures.

Conventions. Attention: 4 B H S_q S_kv d FLOPs forward, half when causal; 16384 tokens and a hidden size of 2048 in all, as
in FlashAttention-2 (arXiv 2307.08691, section 4.1). Softmax and vector add: the bytes that must move (each input read once,
each output written once) over the time, whatever the form really moves.
"""

import re
import statistics

from kernels.timing import (
    at, attention_flops, check_close, cold_calls_ms, early_and_late, figure, gbps, graph_ms, host_ms, median_ms, need_gpu,
    peak_extra_mb, rotation, smi_under_load, spread_ms, sustained, tflops,
)

DEVICE = "cuda"
TOKENS, HIDDEN = 16384, 2048  # of every attention shape: B = TOKENS / S, H = HIDDEN / d
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
HEAD_DIMS = (128, 64)
CAUSAL_LENGTH = 4096
DECODE_LENGTHS = (4096, 16384, 65536, 131072)  # keys of one query row; B = 1, H = 16, d = 128
SOFTMAX_SHAPES = ((4096, 1024), (4096, 4096), (4096, 12672), (4096, 32768), (2048, 131072))
SMALL_SOFTMAX = (4096, 1024)  # shorter than its launches: replayed from a CUDA graph as well
ADD_SIZES = (10_000_000, 1 << 28)
LARGE_ADD, SMALL_ADD = 1 << 28, 1 << 21  # of `discipline`: 3.2 GB a call; 25 MB, which stays in the L2 of a recent card
PRODUCT = 8192  # rows and columns of the ceilings' matrices
COPY = 1 << 29  # fp32 elements of the ceilings' copy: 2 GiB read, 2 GiB written
UNAVAILABLE = ("No available kernel", "No viable backend")
SEED = 19
PATH = re.compile(r"(?<![\w])/[^\s'\":]+")  # a file path: it says nothing away from the machine it was met on


# Keys: WHAT_MEASURE_SIZE, so that a page can cite one curve by changing the size alone.


def attention_key(peer, measure, S, d, causal=False):
    """Key of an attention figure, such as `eager_ms_4096`, or `ours_tflops_4096_d64_causal`; d = 128 is not written."""
    return f"{peer}_{measure}_{S}" + (f"_d{d}" if d != HEAD_DIMS[0] else "") + ("_causal" if causal else "")


def attention_shapes():
    """(S, d, causal) of every prefill shape: all lengths without a mask, one with."""
    return [(S, d, causal) for d in HEAD_DIMS for S in LENGTHS for causal in (False, True) if not causal or S == CAUSAL_LENGTH]


def softmax_key(peer, measure, rows, columns):
    """Key of a softmax figure, such as `ours_gbps_4096x1024`."""
    return f"{peer}_{measure}_{rows}x{columns}"


def absent_note(absent):
    """{"absent": figure} of {peer: reason}, reasons cut to 200 characters, file paths left out; empty where none is absent."""
    told = "；".join(f"{peer}: {PATH.sub('…', ' '.join(str(reason).split()))[:200]}" for peer, reason in absent.items())
    return {"absent": figure(told)} if absent else {}


# Ceilings


def ceilings():
    """What the machine reaches: device copy, and 8192³ products over a short and a long run, with clock and power."""
    import torch

    need_gpu()
    torch.manual_seed(SEED)
    with at("ceilings，显存拷贝"):
        figures = {"copy_gbps": figure(_copy_gbps(), "GB/s")}
    absent = {}
    for name, dtype, tolerance in (("fp16", torch.float16, 2e-3), ("bf16", torch.bfloat16, 1e-2)):
        with at(f"ceilings，{name} 8192³ 矩阵乘"):
            figures |= _product(name, dtype, tolerance, absent)
    return figures | absent_note(absent)


def _copy_gbps():
    """GB/s of a copy within device memory, 2 GiB read and 2 GiB written."""
    import torch

    source = torch.randn(COPY, device=DEVICE)
    target = torch.empty_like(source)
    ms = median_ms(lambda: target.copy_(source), rep=200)
    if not torch.equal(source, target):
        raise AssertionError("拷贝的结果与来源不同")
    return gbps(2 * source.nbytes, ms)


def _product(name, dtype, tolerance, absent):
    """Figures of a PRODUCT³ product: the first 0.1 s after a pause, after 3 s of load, the drop, nvidia-smi under that load."""
    import subprocess
    import time

    import torch

    size = PRODUCT
    a, b = (torch.randn(size, size, device=DEVICE, dtype=dtype) for _ in range(2))
    out = torch.empty_like(a)

    def product():
        return torch.mm(a, b, out=out)

    check_close(product()[:256], a[:256].double() @ b.double(), tolerance, f"{name} 矩阵乘")
    torch.cuda.synchronize()
    time.sleep(1)  # let the card cool and raise its clock again: the short figure is that of a rested card
    short, late = (tflops(2 * size**3, ms) for ms in early_and_late(sustained(product)))
    figures = {
        f"{name}_short_tflops": figure(short, "TFLOP/s"),
        f"{name}_sustained_tflops": figure(late, "TFLOP/s"),
        f"{name}_drop_percent": figure(100 * (1 - late / short), "%"),
    }
    try:
        figures |= {f"{name}_{key}": told for key, told in smi_under_load(product, calls=600).items()}
    except (OSError, subprocess.SubprocessError) as error:
        absent["nvidia-smi"] = type(error).__name__
    return figures


# Attention


def attention():
    """Attention forward, fp16: ms (median, 20 % and 80 % quantiles), TFLOP/s and peak extra MB of each peer and of ours.

    Peers: `eager` (product, softmax and product as separate operators), `sdpa_flash`, `sdpa_cudnn`, `sdpa` (PyTorch's own
    choice, named by `sdpa_choice_…`), `ours`. Decode (one query row): `decode_PEER_ms_KEYS` and GB/s of reading K and V,
    from a CUDA graph.
    """
    import torch

    need_gpu()
    torch.manual_seed(SEED)
    figures, absent = {}, {}
    for S, d, causal in attention_shapes():
        B, H = TOKENS // S, HIDDEN // d
        q, k, v = (torch.randn(B, H, S, d, device=DEVICE, dtype=torch.float16) for _ in range(3))
        peers = {"eager": _eager(S, causal), **_sdpa_peers(causal), "ours": _ours(causal)}
        ref, low = _reference(q, k, v, causal)
        for peer, run in peers.items():
            with at(f"attention，S={S}，d={d}，causal={causal}，{peer}"):
                figures |= _one_attention(peer, run, (q, k, v), ref, low, causal, absent)
        figures[attention_key("sdpa", "choice", S, d, causal)] = figure(_sdpa_choice(q, k, v, causal))
        torch.cuda.empty_cache()
    for S_kv in DECODE_LENGTHS:
        figures |= _decode(S_kv, absent)
    return figures | absent_note(absent)


def _one_attention(peer, run, qkv, ref, low, causal, absent):
    """Figures of one peer at one shape; none, and a note in `absent`, where the machine does not offer it."""
    B, H, S, d = qkv[0].shape
    out = _offered(peer, lambda: run(*qkv), absent, f" S={S} d={d}")
    if out is None:
        return {}
    _agree(out, ref, low, peer)
    del out
    extra = peak_extra_mb(lambda: run(*qkv))
    fast, ms, slow = spread_ms(lambda: run(*qkv))
    rate = tflops(attention_flops(B, H, S, S, d, causal), ms)
    key = attention_key(peer, "ms", S, d, causal)
    return {
        key: figure(ms, "ms"), f"{key}_low": figure(fast, "ms"), f"{key}_high": figure(slow, "ms"),
        attention_key(peer, "tflops", S, d, causal): figure(rate, "TFLOP/s"),
        attention_key(peer, "mb", S, d, causal): figure(extra, "MB"),
    }


def _decode(S_kv, absent, B=1, H=16, d=128):
    """Figures of one query row against S_kv keys: plain tiling has B H programs only, split-KV many more."""
    import torch

    def draw(S):
        return torch.randn(B, H, S, d, device=DEVICE, dtype=torch.float16)

    moved = 2 * B * H * S_kv * d * 2  # bytes of K and V in fp16
    sets = [(draw(1), draw(S_kv), draw(S_kv)) for _ in range(rotation(moved, _cache_bytes()))]
    q, k, v = sets[0]
    ref, low = _reference(q, k, v, False)
    sdpa = _sdpa_peers(False)
    figures = {}
    for peer, run in {"sdpa_flash": sdpa["sdpa_flash"], "sdpa": sdpa["sdpa"], "ours": _ours(False)}.items():
        with at(f"attention，解码，S_kv={S_kv}，{peer}"):
            out = _offered(peer, lambda: run(q, k, v), absent, f" decode {S_kv}")
            if out is None:
                continue
            _agree(out, ref, low, peer)
            ms = graph_ms([lambda run=run, qkv=qkv: run(*qkv) for qkv in sets])  # launches take as long as the work
            figures[f"decode_{peer}_ms_{S_kv}"] = figure(ms, "ms")
            figures[f"decode_{peer}_gbps_{S_kv}"] = figure(gbps(moved, ms), "GB/s")
    return figures | {f"decode_sdpa_choice_{S_kv}": figure(_sdpa_choice(q, k, v, False))}


def _offered(peer, call, absent, shape):
    """Result of the first call; None and a note where memory does not suffice or PyTorch has no such backend here.

    Ours must always run. PyTorch answers a backend that does not serve a call with a RuntimeError of UNAVAILABLE.
    """
    import torch

    try:
        return call()
    except torch.cuda.OutOfMemoryError:
        if peer != "eager":
            raise
        absent[peer + shape] = "out of memory"
        torch.cuda.empty_cache()
    except RuntimeError as error:
        if not peer.startswith("sdpa_") or not str(error).startswith(UNAVAILABLE):
            raise
        absent.setdefault(peer, error)
    return None


def _eager(S, causal):
    """Decomposed attention as one writes it from operators; the causal mask is made once, outside the timed call."""
    import torch

    hidden = torch.ones(S, S, device=DEVICE, dtype=torch.bool).triu(1) if causal else None

    def eager(q, k, v):
        scores = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5  # [B, H, S_q, S_kv] fp16, through device memory
        if hidden is not None:
            scores = scores.masked_fill(hidden, float("-inf"))
        return scores.softmax(-1) @ v

    return eager


def _sdpa_peers(causal):
    """{peer: function of q, k, v}: two fixed backends of scaled_dot_product_attention, and PyTorch's own choice."""
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def fixed(backend):
        def run(q, k, v):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return run

    return {
        "sdpa_flash": fixed(SDPBackend.FLASH_ATTENTION),
        "sdpa_cudnn": fixed(SDPBackend.CUDNN_ATTENTION),
        "sdpa": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
    }


def _sdpa_choice(q, k, v, causal):
    """Name of the backend that PyTorch chooses for this call, such as FLASH_ATTENTION."""
    import torch
    from torch.nn.attention import SDPBackend

    choice = torch._fused_sdp_choice(q, k, v, is_causal=causal)  # no public function tells it
    return {int(member.value): name for name, member in SDPBackend.__members__.items()}.get(choice, str(choice))


def _ours(causal):
    from kernels.flash_attention import flash_attention

    return lambda q, k, v: flash_attention(q, k, v, causal=causal)


def _reference(q, k, v, causal):
    """(fp32 reference, the same formula in q's dtype), head by head: the scores of all heads need not fit at once."""
    import torch

    S_q, S_kv = q.shape[2], k.shape[2]
    hidden = torch.ones(S_q, S_kv, device=q.device, dtype=torch.bool).triu(1) if causal else None
    ref, low = torch.empty(q.shape, device=q.device), torch.empty_like(q)
    for target in (ref, low):
        for head in ((b, h) for b in range(q.shape[0]) for h in range(q.shape[1])):
            one_q, one_k, one_v = (x[head].to(target.dtype) for x in (q, k, v))
            scores = (one_q @ one_k.T) * q.shape[-1] ** -0.5
            if hidden is not None:
                scores.masked_fill_(hidden, float("-inf"))
            target[head] = scores.softmax(-1) @ one_v
    return ref, low


def _agree(out, ref, low, what):
    """The accepted criterion, defined once beside the proofs."""
    from kernels.proof import assert_close

    assert_close(out, ref, low, what)


# Softmax


def softmax():
    """Row softmax, fp32: ms and GB/s (one read and one write) of the composed form, torch, torch.compile and ours.

    `compiled` is the composed form through torch.compile; `composed_over_ours_…` is the ratio of their times. Keys with
    `graph` are replayed from a CUDA graph, with more tensors than fit in L2.
    """
    import torch

    need_gpu()
    torch.manual_seed(SEED)
    figures, absent = {}, {}
    peers = _softmax_peers()
    for rows, columns in SOFTMAX_SHAPES:
        x = torch.randn(rows, columns, device=DEVICE)
        ref, ms = torch.softmax(x.double(), -1), {}
        for peer, run in peers.items():
            with at(f"softmax，{rows}×{columns}，{peer}"):
                out = _compiled_or_none(run, x, absent) if peer == "compiled" else run(x)
                if out is None:
                    continue
                check_close(out, ref, 1e-5, peer)  # fp32 rounds at 6e-8; a wrong row or a lost column errs by far more
                del out
                ms[peer] = median_ms(lambda: run(x))
                figures |= _moved(softmax_key(peer, "{}", rows, columns), 2 * x.nbytes, ms[peer])
        figures[softmax_key("composed_over_ours", "time", rows, columns)] = figure(ms["composed"] / ms["ours"], "倍")
        del x, ref
        torch.cuda.empty_cache()
    with at("softmax，CUDA graph"):
        figures |= _small_softmax({peer: run for peer, run in peers.items() if peer not in absent})
    return figures | absent_note(absent)


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


def _moved(key, moved_bytes, ms):
    """ms and GB/s figures; `key` holds {} in the measure's place."""
    return {key.format("ms"): figure(ms, "ms"), key.format("gbps"): figure(gbps(moved_bytes, ms), "GB/s")}


def _cache_bytes():
    import torch

    return torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size


def _small_softmax(peers):
    """Graph figures of the small shape; each set is one input, its output is the graph's own."""
    import torch

    rows, columns = SMALL_SOFTMAX
    sets = rotation(2 * 4 * rows * columns, _cache_bytes())
    inputs = [torch.randn(rows, columns, device=DEVICE) for _ in range(sets)]
    ms = {peer: graph_ms([lambda run=run, x=x: run(x) for x in inputs]) for peer, run in peers.items()}
    figures = {}
    for peer, time in ms.items():
        figures |= _moved(softmax_key(peer, "graph_{}", rows, columns), 2 * inputs[0].nbytes, time)
    ratio = ms["composed"] / ms["ours"]
    return figures | {softmax_key("composed_over_ours", "graph_time", rows, columns): figure(ratio, "倍")}


# Vector add


def vector_add():
    """x + y, fp32: ms and GB/s (two reads and one write) of torch and ours; `graph`: from a CUDA graph, L2 exceeded."""
    import torch

    from kernels.vector_add import add

    need_gpu()
    torch.manual_seed(SEED)
    figures = {}
    for n in ADD_SIZES:
        sets = rotation(3 * 4 * n, _cache_bytes())
        pairs = [(torch.randn(n, device=DEVICE), torch.randn(n, device=DEVICE)) for _ in range(sets)]
        x, y = pairs[0]
        ref = x.cpu().add(y.cpu()).to(DEVICE)  # one rounding: equal to the last bit on any device
        for peer, run in {"torch": torch.add, "ours": add}.items():
            with at(f"vector_add，n={n}，{peer}"):
                if not torch.equal(run(x, y), ref):
                    raise AssertionError("结果与 CPU 上的不逐位相等；先改对再测速")
                figures |= _moved(f"{peer}_{{}}_{n}", 3 * x.nbytes, median_ms(lambda: run(x, y)))
                ms = graph_ms([lambda run=run, pair=pair: run(*pair) for pair in pairs])
                figures |= _moved(f"{peer}_graph_{{}}_{n}", 3 * x.nbytes, ms)
    return figures


# Discipline: one kernel (ours, vector add), timed wrongly and rightly


def discipline():
    """Vector add timed wrongly and rightly: no synchronisation, first call, no warm-up, mean or median, warm or cold L2.

    `large_…`: 2^28 elements. `small_…`: 2^21, all of it fits L2. `first_…`: small, in a new process, nothing compiled.
    """
    import torch

    from kernels.vector_add import add

    need_gpu()
    torch.manual_seed(SEED)
    with at("discipline"):
        figures = {}
        for n, timings in ((LARGE_ADD, _unsynchronised), (SMALL_ADD, _cold_and_warm)):
            x, y = (torch.randn(n, device=DEVICE) for _ in range(2))
            if not torch.equal(add(x, y), x + y):
                raise AssertionError(f"n={n} 的结果与 torch 不逐位相等；先改对再测速")
            figures |= timings(add, x, y)
        return figures | _first_calls(SMALL_ADD)


def _unsynchronised(add, x, y):
    """The large call: device events against a host clock with and without synchronisation."""
    calls = {
        "large_events": median_ms(lambda: add(x, y)),
        "large_host_synchronised": statistics.median(host_ms(lambda: add(x, y), 100)),
        "large_host_unsynchronised": statistics.median(host_ms(lambda: add(x, y), 100, synchronise=False)),
    }
    figures = {}
    for key, ms in calls.items():
        figures |= {f"{key}_ms": figure(ms, "ms"), f"{key}_gbps": figure(gbps(3 * x.nbytes, ms), "GB/s")}
    return figures


def _cold_and_warm(add, x, y):
    """The small call: L2 warm or cold, launch counted or not, and the spread of single host-clock readings."""
    import torch

    sets = rotation(3 * x.nbytes, _cache_bytes())
    pairs = [(torch.randn_like(x), torch.randn_like(x)) for _ in range(sets)]
    calls = {
        "small_events": median_ms(lambda: add(x, y)),  # do_bench: L2 flushed before each call
        "small_cold_l2": graph_ms([lambda pair=pair: add(*pair) for pair in pairs]),  # other tensors each time
        "small_warm_l2": graph_ms([lambda: add(x, y)]),  # the same tensors again and again
    }
    readings = host_ms(lambda: add(x, y), 1000)
    calls |= {f"small_host_{name}": function(readings) for name, function in SUMMARIES.items()}
    figures = {}
    for key, ms in calls.items():
        figures |= {f"{key}_us": figure(1e3 * ms, "µs"), f"{key}_gbps": figure(gbps(3 * x.nbytes, ms), "GB/s")}
    return figures


SUMMARIES = {"min": min, "median": statistics.median, "mean": statistics.mean, "max": max}


def _first_calls(n, times=10):
    """The first calls of a process: what compiling costs, and what it does to a mean without warm-up."""
    setup = f"import torch\nfrom kernels.vector_add import add\nx, y = (torch.randn({n}, device={DEVICE!r}) for _ in range(2))"
    return first_figures(cold_calls_ms(setup, "add(x, y)", times))


def first_figures(readings):
    """Figures of the first calls of a process: the first (compiles), the second, mean and median of all of them."""
    return {
        "first_call_ms": figure(readings[0], "ms"),
        "first_second_call_ms": figure(readings[1], "ms"),
        f"first_{len(readings)}_mean_ms": figure(statistics.mean(readings), "ms"),
        f"first_{len(readings)}_median_ms": figure(statistics.median(readings), "ms"),
    }


GROUPS = {
    "ceilings": ceilings,
    "attention": attention,
    "softmax": softmax,
    "vector_add": vector_add,
    "discipline": discipline,
}


def main(names):
    """Print the figures of the named groups, or of all."""
    unknown = [name for name in names if name not in GROUPS]
    if unknown:
        raise SystemExit(f"没有基准组 {'、'.join(unknown)}；可用的是 {'、'.join(GROUPS)}")
    for name in names or GROUPS:
        for key, told in GROUPS[name]().items():
            print(f"{name}#{key} = {told['value']} {told['unit']}".rstrip(), flush=True)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
