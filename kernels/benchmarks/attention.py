"""Attention forward, ours beside every peer that PyTorch offers; what the backward and decode groups share.

Conventions: 16384 tokens and a hidden size of 2048 in all, so B = 16384 / S and H = 2048 / d (FlashAttention-2, arXiv
2307.08691, section 4.1); 4 B H S^2 d FLOPs forward, half when causal, 2.5 times that backward. Times are those of
`kernels.timing.interleaved_ms`. Decode: one query row, 32 query and 8 key-value heads, d = 128; GB/s counts K and V once.
Every result agrees with fp32 by FlashAttention's criterion before it is timed. FlexAttention is compiled for each shape
(`prepare` does it beforehand, several at once, so that only the cached result is loaded here).
"""

import concurrent.futures
import contextlib
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kernels.benchmarks import DEVICE, SEED
from kernels.timing import (
    absent_note, at, attention_flops, figure, interleaved_ms, launch_us, need_gpu, peak_extra_mb, spread, tflops,
)

TOKENS, HIDDEN = 16384, 2048
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
BF16_LENGTHS = BACKWARD_LENGTHS = LENGTHS[1:]
HEAD_DIMS = (128, 64, 256)  # the first is not written in keys
CHECKED = 3  # heads of a shape that are compared with the reference, spread over all
WORKERS = 15  # processes that compile beforehand
UNAVAILABLE = ("No available kernel", "No viable backend")


class Shape(NamedTuple):
    """One problem of self-attention; dtype: "fp16" or "bf16"."""

    S: int
    d: int
    causal: bool
    dtype: str = "fp16"

    @property
    def size(self):
        """[B, H, S, d]"""
        return TOKENS // self.S, HIDDEN // self.d, self.S, self.d

    def draw(self, n):
        """n random tensors."""
        import torch

        dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[self.dtype]
        return [torch.randn(self.size, device=DEVICE, dtype=dtype) for _ in range(n)]

    @property
    def label(self):
        """What the page calls it."""
        return f"d={self.d}，S={self.S}" + "，因果" * self.causal + "，BF16" * (self.dtype == "bf16")

    def key(self, peer, measure):
        """Key of a figure: `ours_ms_4096`, `eager_mb_1024_d64`, `ours_tflops_4096_d256_causal_bf16`."""
        return (
            f"{peer}_{measure}_{self.S}" + (f"_d{self.d}" if self.d != HEAD_DIMS[0] else "")
            + ("_causal" if self.causal else "") + ("_bf16" if self.dtype == "bf16" else "")
        )  # fmt: skip


def forward_shapes():
    """All lengths at every head dimension, with and without a mask, in both dtypes; the shortest without a mask in fp16."""
    lengths = [("fp16", S) for S in LENGTHS] + [("bf16", S) for S in BF16_LENGTHS]
    return [
        Shape(S, d, causal, dtype)
        for dtype, S in lengths for d in HEAD_DIMS for causal in (False, True) if S > LENGTHS[0] or not causal
    ]  # fmt: skip


def backward_shapes():
    return [Shape(S, d, causal) for d in HEAD_DIMS for S in BACKWARD_LENGTHS for causal in (False, True)]


def measure():
    """Forward: ms (median, 20 % and 80 % quantiles), TFLOP/s, and in fp16 peak extra MB of each peer.

    `ours`: what `flash_attention` chooses here; `plain`: the plain Triton kernel. `..._launch_us`: what the host spends in
    a call of the shortest shape. `ours_over_sdpa_cudnn_...` and `plain_over_flex_...`: `compared`.
    """
    import torch

    need_gpu()
    torch.manual_seed(SEED)
    prepare("forward")
    figures, absent = {}, {}
    for shape in forward_shapes():
        q, k, v = shape.draw(3)
        expected, calls = reference(q, k, v, shape.causal), {}
        for peer, run in forward_peers(shape).items():
            call = partial(run, q, k, v)
            with at(f"attention，{shape}，{peer}"):
                out = offered(peer, call, absent, str(shape))
                if out is None:
                    continue
                agree(out, expected, peer)
                del out
                calls[peer] = call
                if shape.dtype == "fp16" and not shape.causal:
                    figures[shape.key(peer, "mb")] = figure(peak_extra_mb(call), "MB")
                if shape == forward_shapes()[0]:
                    figures[f"{peer}_launch_us"] = figure(launch_us(call), "µs")
        with at(f"attention，{shape}"):
            figures |= timed(shape, calls, 1)
        if shape.dtype == "fp16":
            figures[shape.key("sdpa", "choice")] = figure(sdpa_choice(q, k, v, shape.causal))
        torch.cuda.empty_cache()
    figures |= compared(figures, forward_shapes(), "ours", "sdpa_cudnn")
    figures |= compared(figures, forward_shapes(), "plain", "flex")
    return figures | absent_note(absent)


def timed(shape, calls, products):
    """ms and TFLOP/s of each of {peer: function}, whose work is `products` times the forward pass's."""
    B, H, S, d = shape.size
    work, figures = products * attention_flops(B, H, S, S, d, shape.causal), {}
    for peer, times in interleaved_ms(calls).items():
        figures |= spread(shape.key(peer, "ms"), times)
        figures[shape.key(peer, "tflops")] = figure(tflops(work, times[1]), "TFLOP/s")
    return figures


def compared(figures, shapes, one, other):
    """One peer's rate over another's where both have one: geometric mean and least, in all and for each head dimension.

    `..._least_long`: the least from S = 4096 on; `..._shapes`: how many; `..._ahead`: how many of them are ahead;
    `..._behind` and `..._undecided`: which are not, by whether the spreads (20 % to 80 % of the readings) lie apart.
    """
    import statistics

    ratios = {
        shape: figures[shape.key(one, "tflops")]["value"] / figures[shape.key(other, "tflops")]["value"]
        for shape in shapes if {shape.key(one, "tflops"), shape.key(other, "tflops")} <= figures.keys()
    }  # fmt: skip
    if not ratios:
        return {}
    key = f"{one}_over_{other}"
    long = [ratio for shape, ratio in ratios.items() if shape.S >= 4096]
    told = {f"{key}_mean": statistics.geometric_mean(ratios.values()), f"{key}_least": min(ratios.values())}
    told |= {f"{key}_least_long": min(long)} if long else {}
    for d in {shape.d for shape in ratios}:
        some = [ratio for shape, ratio in ratios.items() if shape.d == d]
        told |= {f"{key}_mean_d{d}": statistics.geometric_mean(some), f"{key}_least_d{d}": min(some)}
    order = {shape: apart(figures, shape, one, other) for shape in ratios}
    named = {
        name: "；".join(shape.label for shape in ratios if order[shape] == which) or "没有"
        for name, which in ((f"{key}_undecided", 0), (f"{key}_behind", -1))
    }
    named |= {f"{key}_shapes": len(ratios), f"{key}_ahead": list(order.values()).count(1)}
    return {name: figure(float(value), "倍") for name, value in told.items()} | {name: figure(x) for name, x in named.items()}


def apart(figures, shape, one, other):
    """1 where all of one peer's middle readings are faster than the other's, -1 where they are slower, else 0."""
    mine, theirs = ([figures[f"{shape.key(peer, 'ms')}_{end}"]["value"] for end in ("low", "high")] for peer in (one, other))
    return 1 if mine[1] < theirs[0] else -1 if mine[0] > theirs[1] else 0


# Peers: functions of q, k, v


def forward_peers(shape):
    rivals = {"eager": eager(shape.S, shape.causal), **sdpa_peers(shape.causal)}
    if shape.dtype == "bf16":  # the rates hardly differ from fp16's: the best of them is enough
        rivals = {"sdpa_cudnn": rivals["sdpa_cudnn"]}
    if shape.S > LENGTHS[0]:
        rivals["flex"] = flex_attention(shape)
    return {**rivals, "plain": plain(shape.causal), "ours": ours(shape.causal)}


def backward_peers(shape):
    return {**sdpa_peers(shape.causal), "flex": flex_attention(shape), "ours": ours(shape.causal)}


def decode_peers():
    return {**sdpa_peers(False, enable_gqa=True), "ours": ours(False)}


def ours(causal):
    from kernels.flash_attention import flash_attention

    return lambda q, k, v: flash_attention(q, k, v, causal=causal)


def plain(causal):
    """The plain Triton kernel, where `flash_attention` would choose another."""
    import torch

    from kernels.flash_attention import LOG2E, forward_plain

    def run(q, k, v):
        o = torch.empty_like(q)
        lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
        forward_plain(q, k, v, o, lse, causal, LOG2E * q.shape[-1] ** -0.5)
        return o

    return run


def eager(S, causal):
    """Decomposed attention as one writes it from operators; the causal mask is made once, outside the timed call."""
    import torch

    hidden = torch.ones(S, S, device=DEVICE, dtype=torch.bool).triu(1) if causal else None

    def run(q, k, v):
        scores = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5  # [B, H, S_q, S_kv], through device memory
        if hidden is not None:
            scores = scores.masked_fill(hidden, float("-inf"))
        return scores.softmax(-1) @ v

    return run


def sdpa_peers(causal, **options):
    """scaled_dot_product_attention with its backend fixed."""
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def fixed(backend):
        def run(q, k, v):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal, **options)

        return run

    backends = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}
    return {f"sdpa_{name}": fixed(getattr(SDPBackend, backend)) for name, backend in backends.items()}


def sdpa_choice(q, k, v, causal):
    """Name of the backend that PyTorch itself chooses for this call, such as FLASH_ATTENTION."""
    import torch
    from torch.nn.attention import SDPBackend

    choice = torch._fused_sdp_choice(q, k, v, is_causal=causal)  # no public function tells it
    return {int(member.value): name for name, member in SDPBackend.__members__.items()}.get(choice, str(choice))


def flex_attention(shape):
    """FlexAttention compiled for the shape, with a block mask where it is causal."""
    import torch
    import torch._dynamo.config
    import torch._functorch.config
    from torch.nn.attention import flex_attention as flex

    torch._dynamo.config.recompile_limit = 256  # beyond it torch.compile runs the uncompiled form, unasked
    torch._functorch.config.donated_buffer = False  # else a backward pass runs once only
    compiled = torch.compile(flex.flex_attention, dynamic=False)
    mask = None
    if shape.causal:
        mask = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, shape.S, shape.S, device=DEVICE)
    return lambda q, k, v: compiled(q, k, v, block_mask=mask)


def offered(peer, call, absent, what):
    """Result of a first call; None and a note where memory does not suffice or PyTorch has no such backend here.

    Ours must always run. PyTorch answers a backend that does not serve a call with a RuntimeError of UNAVAILABLE.
    """
    import torch

    try:
        return call()
    except torch.cuda.OutOfMemoryError:
        if peer in ("ours", "plain"):
            raise
        absent[f"{peer} {what}"] = "out of memory"
        torch.cuda.empty_cache()
    except Exception as error:
        known = peer.startswith("sdpa_") and str(error).startswith(UNAVAILABLE)
        if not known and peer != "flex":  # its compiler's failures have no common base
            raise
        absent.setdefault(f"{peer} {what}" if peer == "flex" else peer, error)
    return None


# References


def _heads(q):
    """(b, h) of the CHECKED heads, the first and the last among them."""
    B, H = q.shape[:2]
    numbers = {round(step * (B * H - 1) / max(CHECKED - 1, 1)) for step in range(CHECKED)}
    return [divmod(number, H) for number in sorted(numbers)]


def _one_head(q, k, v, head, causal, dtype):
    """Attention of one head with its whole score matrix, in `dtype`."""
    import torch

    b, h = head
    h_kv = h // (q.shape[1] // k.shape[1])
    one_q, one_k, one_v = q[b, h].to(dtype), k[b, h_kv].to(dtype), v[b, h_kv].to(dtype)
    scores = (one_q @ one_k.T) * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    return scores.softmax(-1) @ one_v


def reference(q, k, v, causal):
    """[(head, fp32, the same formula in q's dtype)] of the checked heads."""
    import torch

    return [(head, *(_one_head(q, k, v, head, causal, dtype) for dtype in (torch.float32, q.dtype))) for head in _heads(q)]


def reference_gradients(q, k, v, do, causal):
    """For dq, dk and dv what `reference` gives for the output; as many key-value heads as query heads."""
    import torch

    found = [[], [], []]
    for head in _heads(q):
        pairs = []
        for dtype in (torch.float32, q.dtype):
            one = [x[head].detach()[None, None].to(dtype).requires_grad_() for x in (q, k, v)]
            out = _one_head(*one, (0, 0), causal, dtype)
            pairs.append([x[0, 0] for x in torch.autograd.grad(out, one, do[head].to(dtype))])
        for place, ref, low in zip(found, *pairs, strict=True):
            place.append((head, ref, low))
    return found


def agree(out, expected, what, factor=2):
    """The accepted criterion, defined once beside the proofs, on the checked heads; no NaN anywhere."""
    from kernels.proof import assert_close

    if out.isnan().any():
        raise AssertionError(f"{what} 的结果里有 NaN")
    for head, ref, low in expected:
        assert_close(out[head], ref, low, f"{what}，头 {head}", factor)


# Compilation beforehand


def prepare(direction):
    """Compile FlexAttention for every shape of `forward` or `backward` into torch's cache, several at once."""
    shapes = [shape for shape in forward_shapes() if shape.S > LENGTHS[0]] if direction == "forward" else backward_shapes()
    lots = [[tuple(shape) for shape in shapes[start::WORKERS]] for start in range(WORKERS)]
    at_once(f"from kernels.benchmarks.attention import compile_flex; compile_flex({direction!r}, {lot})" for lot in lots if lot)


def at_once(sources):
    """Run each Python source text in a process of its own, WORKERS at a time, 240 s at most.

    They fill caches: what fails here fails again, and is told, when it is timed.
    """

    def run(source):
        root = Path(__file__).resolve().parents[2]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run([sys.executable, "-c", source], cwd=root, timeout=240, check=False, capture_output=True)

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(run, sources))


def compile_flex(direction, shapes):
    """Run FlexAttention once for each shape, given as tuples."""
    import torch

    for shape in (Shape(*one) for one in shapes):
        q, k, v = (x.requires_grad_(direction == "backward") for x in shape.draw(3))
        out = flex_attention(shape)(q, k, v)
        if direction == "backward":
            torch.autograd.grad(out, (q, k, v), torch.ones_like(out))
