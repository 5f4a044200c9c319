"""Attention forward beside FlashAttention's own package (flash-attn-4, its path for Hopper), where that is installed."""

import importlib.metadata
from functools import partial

from kernels.benchmarks import SEED
from kernels.benchmarks.attention import Shape, agree, compared, ours, reference, sdpa_peers, timed
from kernels.timing import absent_note, at, figure, need_gpu

SHAPES = [Shape(16384, d, causal) for d in (128, 64, 256) for causal in (False, True)]  # each compiles for a while


def measure():
    """ms and TFLOP/s of the package, of SDPA's cuDNN and of ours, fp16; `ours_over_fa4_…`: `attention.compared`."""
    import torch

    need_gpu()
    torch.manual_seed(SEED)
    try:
        from flash_attn.cute import flash_attn_func
    except ImportError as error:
        return absent_note({"fa4": error})
    figures = {"fa4_version": figure(importlib.metadata.version("flash-attn-4"))}
    for shape in SHAPES:
        q, k, v = shape.draw(3)
        expected, calls = reference(q, k, v, shape.causal), {}
        peers = {"fa4": package(flash_attn_func, shape.causal), "sdpa_cudnn": sdpa_peers(shape.causal)["sdpa_cudnn"]}
        for peer, run in {**peers, "ours": ours(shape.causal)}.items():
            with at(f"attention_packages，{shape}，{peer}"):
                agree(run(q, k, v), expected, peer)
            calls[peer] = partial(run, q, k, v)
        with at(f"attention_packages，{shape}"):
            figures |= timed(shape, calls, 1)
        torch.cuda.empty_cache()
    return figures | compared(figures, SHAPES, "ours", "fa4")


def package(function, causal):
    """The package's function on our layout: it takes [B, S, H, d], here views of [B, H, S, d]."""

    def run(q, k, v):
        out = function(*(x.transpose(1, 2) for x in (q, k, v)), causal=causal)
        return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)

    return run
