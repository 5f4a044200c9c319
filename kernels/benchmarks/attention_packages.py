"""Attention forward beside peers that PyTorch does not bring: Triton's own tutorial and FlashAttention-4.

The tutorial is a file of Triton's repository, python/tutorials/06-fused-attention.py, which TRITON_TUTORIAL names; its
configurations are tuned anew for every shape, as it does itself, by shorter readings, and apart for causal shapes, which
its cache mixes with the others; without a mask, on Hopper, the better of warp-specialised and not; a configuration whose
result holds a NaN is passed over and listed. FlashAttention-4 is the package flash-attn-4. Each is absent where it is not
there.
"""

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import math
import os
from functools import partial
from pathlib import Path

from kernels.benchmarks import SEED
from kernels.benchmarks.attention import (
    HEAD_DIMS, WORKERS, Shape, agree, at_once, compared, ours, plain, reference, sdpa_peers, timed,
)
from kernels.timing import absent_note, at, figure, median_ms, need_gpu

TUTORIAL = "TRITON_TUTORIAL"
LENGTHS = (1024, 4096, 16384)
SHAPES = [Shape(S, d, causal) for d in HEAD_DIMS for S in LENGTHS for causal in (False, True)]


def measure():
    """ms and TFLOP/s of each peer, of cuDNN through SDPA and of ours, fp16; `plain`: the plain Triton kernel.

    `plain_over_tutorial_…`, `ours_over_fa4_…`: `attention.compared`; `tutorial_choice_…`: the configuration of a shape that
    was fastest; `tutorial_nan`: those that gave NaN.
    """
    import torch

    need_gpu()
    torch.manual_seed(SEED)
    figures, absent, chosen, wrong, tutorial, fa4 = {}, {}, {}, set(), None, None
    try:
        tutorial, digest = load_tutorial()
    except (OSError, ImportError) as error:  # it imports pytest
        absent["tutorial"] = error
    try:
        version = importlib.metadata.version("flash-attn-4")
        from flash_attn.cute import flash_attn_func as fa4
    except ImportError as error:
        absent["fa4"] = error
    if tutorial:
        figures["tutorial_sha256"] = figure(digest[:12])
        prepare()
    if fa4:
        figures["fa4_version"] = figure(version)
    for shape in SHAPES if tutorial or fa4 else []:
        q, k, v = shape.draw(3)
        expected, calls = reference(q, k, v, shape.causal), {}
        for peer, run in _peers(shape, tutorial, fa4, absent, chosen, wrong).items():
            with at(f"attention_packages，{shape}，{peer}"):
                out = _offered(peer, partial(run, q, k, v), absent, shape)
                if out is None:
                    continue
                agree(out, expected, peer)
            calls[peer] = partial(run, q, k, v)
        with at(f"attention_packages，{shape}"):
            figures |= timed(shape, calls, 1)
        torch.cuda.empty_cache()
    if tutorial:
        figures |= {shape.key("tutorial", "choice"): figure(name) for shape, name in chosen.items()}
        figures["tutorial_nan"] = figure("；".join(sorted(wrong)) or "没有")
    for one, other in (("plain", "tutorial"), ("ours", "fa4")):
        figures |= compared(figures, SHAPES, one, other)
    return figures | absent_note(absent)


def _peers(shape, tutorial, fa4, absent, chosen, wrong):
    """{name: function of q, k, v}."""
    peers = {"ours": ours(shape.causal), "plain": plain(shape.causal), "sdpa_cudnn": sdpa_peers(shape.causal)["sdpa_cudnn"]}
    if fa4:
        peers["fa4"] = package(fa4, shape.causal)
    if tutorial:
        peers["tutorial"] = tuned(tutorial, shape, absent, chosen, wrong)
    return peers


def _offered(peer, call, absent, shape):
    """Result of a first call, which compiles; None and a note where a peer's own compiler fails. Ours must always run."""
    try:
        return call()
    except Exception as error:  # their failures have no common base
        if peer not in ("tutorial", "fa4"):
            raise
        absent[f"{peer} {shape}"] = error
        return None


def package(function, causal):
    """The package's function on our layout: it takes [B, S, H, d], here views of [B, H, S, d]."""

    def run(q, k, v):
        out = function(*(x.transpose(1, 2) for x in (q, k, v)), causal=causal)
        return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)

    return run


def load_tutorial():
    """(module, SHA-256 of its text) of the file that TRITON_TUTORIAL names.

    OSError: not set, or no such file. ImportError: what it imports is missing.
    """
    path = os.environ.get(TUTORIAL)
    if not path:
        raise FileNotFoundError(f"{TUTORIAL} 没有给出 Triton 教程 06-fused-attention.py 的路径")
    spec = importlib.util.spec_from_file_location("tutorial", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, hashlib.sha256(Path(path).read_bytes()).hexdigest()


def tuned(module, shape, absent, chosen, wrong):
    """The tutorial's function with the best of its configurations for a shape, found in the first call.

    chosen[shape]: gets that one's name; absent: an entry where one of its ways fails and another takes its place; wrong:
    every configuration that gives NaN.
    """
    from triton.testing import do_bench

    kernel, found, best = module._attn_fwd, {}, None
    kernel._do_bench = lambda call, quantiles: do_bench(call, warmup=10, rep=50, quantiles=quantiles)
    kernel._bench = partial(right_ms, kernel, wrong)

    def run_way(specialised, q, k, v):
        kernel.cache = found.setdefault(specialised, {})  # of this shape alone: its own key does not tell causal
        return attend(module, shape, specialised, q, k, v)

    def run(q, k, v):
        nonlocal best
        if best is None:
            best, failed = fastest({one: partial(run_way, one, q, k, v) for one in ways(shape)})
            absent.update({f"tutorial {shape} warp_specialize={one}": error for one, error in failed.items()})
            (config,) = found[best].values()
            chosen[shape] = name_of(config, best)
        return run_way(best, q, k, v)

    return run


def attend(module, shape, specialised, q, k, v):
    """The tutorial's function for a shape."""
    return module.attention(q, k, v, shape.causal, shape.d**-0.5, specialised)


def right_ms(kernel, wrong, *args, config, **meta):
    """What `kernel._bench` tells the tuner of a configuration; infinite, and its name in `wrong`, where it gives NaN."""
    times = type(kernel)._bench(kernel, *args, config=config, **meta)
    out = kernel.nargs["desc_o"]
    if math.isinf(times[0]) or not getattr(out, "base", out).isnan().any():  # a tensor or its descriptor
        return times
    wrong.add(name_of(config, meta["warp_specialize"]))
    return [math.inf] * len(times)


def name_of(config, specialised):
    """Of one of the tutorial's configurations: tile, warps, stages, and whether warps are specialised."""
    tile = f"{config.kwargs['BLOCK_M']}×{config.kwargs['BLOCK_N']}"
    return f"{tile}，{config.num_warps} warp，{config.num_stages} 级" + "，特化" * specialised


def ways(shape):
    """Whether warps are specialised: without a mask both ways, as the tutorial's own benchmark does on Hopper."""
    return (False,) if shape.causal else (False, True)


def fastest(calls):
    """(key of the fastest, {key: error}) of {key: function}; what fails or gives NaN is passed over, the last error where all do."""
    times, failed = {}, {}
    for key, call in calls.items():
        try:
            if call().isnan().any():
                raise ArithmeticError("每种配置的结果里都有 NaN")
            times[key] = median_ms(call)
        except Exception as error:  # what does not compile or fit has no common base
            failed[key] = error
    if not times:
        raise list(failed.values())[-1]
    return min(times, key=times.get), failed


def prepare():
    """Compile the tutorial's configurations into Triton's cache, several at once."""
    source = "from kernels.benchmarks.attention_packages import compile_tutorial; compile_tutorial({})"
    at_once(source.format(start) for start in range(WORKERS))


def compile_tutorial(start):
    """Run every WORKERS-th configuration from `start` on once for each shape; many compile alike."""
    module, _ = load_tutorial()
    kernel = module._attn_fwd
    configs = kernel.configs[start::WORKERS]
    for shape in SHAPES:
        for config in configs:
            for one in ways(shape):
                kernel.configs, kernel.cache = [config], {}
                with contextlib.suppress(Exception):  # what does not fit is left out when it is tuned
                    attend(module, shape, one, *shape.draw(3))
