"""Proof of kernels.flash_attention_hopper against attention in fp64, by the accepted criterion, on sm_90 alone.

Gluon has no interpreter: on the CPU there is nothing to run, and `kernels.flash_attention` proves the algorithm there.
"""

import math
from functools import partial

import torch

from kernels import flash_attention_hopper as module
from kernels.proof import Case, Variant, assert_equal, signature
from kernels.proof.flash_attention import Shape, check, inputs

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def shapes(D):
    """Every edge of the tiles, the masks and the descriptors, at one head dimension."""
    return (
        Shape("tiles-even", 384, 256, D),
        Shape("odd-lengths", 77, 131, D, B=2),
        Shape("one-more-than-a-tile", 193, 129, D),
        Shape("one-of-each", 1, 1, D, H_q=1, H_kv=1),
        Shape("one-key", 200, 1, D),
        Shape("causal-square", 513, 513, D, causal=True, B=2),
        Shape("causal-even", 1024, 1024, D, causal=True),
        Shape("causal-more-keys", 70, 1201, D, causal=True),
        Shape("causal-more-queries", 1000, 200, D, causal=True),  # 800 rows see nothing
        Shape("causal-one-query", 1, 140, D, causal=True),
        Shape("grouped", 300, 190, D, H_q=6, H_kv=2),
        Shape("grouped-causal", 640, 640, D, causal=True, H_q=12, H_kv=3, B=7),  # tiles for several rounds
        Shape("token-major", 190, 310, D, causal=True, layout="token-major", B=2),
        Shape("packed", 300, 300, D, layout="packed", B=2),
        Shape("window", 190, 310, D, layout="window", B=2),
        Shape("mixed", 190, 310, D, H_q=4, causal=True, layout="mixed", B=2),
        Shape("expanded-batch", 190, 310, D, layout="expanded", B=3),
        Shape("scale-given", 200, 300, D, causal=True, scale=0.7),
        Shape("large-scores", 300, 300, D, causal=True, spread=6.0),
        Shape("two-million-keys", 64, 2**21, D, H_q=1, H_kv=1, spread=2.0),  # corrections just off 1 would add up
    )


def cases(device):
    """All cases on a GPU of compute capability 9.0; none elsewhere."""
    if device != "cuda" or torch.cuda.get_device_capability() != (9, 0):
        return []
    table = [(shape, dtype) for D in module.HEAD_DIMS for shape in shapes(D) for dtype in module.DTYPES]
    found = [Case(f"{s.name}-d{s.D}-{str(d)[6:]}", partial(check, attend, s, d)) for s, d in table]
    found += [Case("past-32-bits-float16", _check_last_entry)]
    return found + [Case(check.__name__.strip("_"), check) for check in (_check_right_behind, _check_graph)]


def _check_right_behind(device):
    """Inputs are written right before each call and nothing waits: the early launch must not read what was there before."""
    draws, expected = _draws(device)
    q, k, v = (torch.zeros_like(x) for x in draws[0])
    found = []
    for draw in draws * 5:
        for x, new in zip((q, k, v), draw):
            x.copy_(new)
        found.append(attend(q, k, v, causal=True))
    for i, out in enumerate(found):
        assert_equal(out, expected[i % len(draws)], f"o of call {i}")


def _check_graph(device):
    """Replayed from a CUDA graph with other inputs."""
    draws, expected = _draws(device)
    q, k, v = (x.clone() for x in draws[0])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = attend(q, k, v, causal=True)
    for i, draw in enumerate(draws):
        for x, new in zip((q, k, v), draw):
            x.copy_(new)
        graph.replay()
        assert_equal(o, expected[i], f"o of replay {i}")


def _draws(device):
    """([(q, k, v)], [o]): several tiles a program, d = 128, each o from a call that waits."""
    draws = [inputs(Shape("drawn", 900, 900, 128, B=4, H_q=8, H_kv=8), torch.float16, device, seed) for seed in range(8)]
    expected = []
    for draw in draws:
        torch.cuda.synchronize()
        expected.append(attend(*draw, causal=True))
        torch.cuda.synchronize()
    return draws, expected


def attend(q, k, v, *, causal=False, sm_scale=None, return_lse=False):
    """`kernels.flash_attention.flash_attention`, by this kernel alone."""
    assert module.supported(q, k, v)
    o, lse = torch.empty_like(q), torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    sm_scale = 1 / math.sqrt(q.shape[3]) if sm_scale is None else sm_scale
    module.forward(q, k, v, o, lse, causal, sm_scale * math.log2(math.e))
    return (o, lse) if return_lse else o


def _check_last_entry(device):
    """More than 2^31 elements in q, k and v alike: the last batch entry must come out like that entry alone."""
    generator = torch.Generator(device).manual_seed(0)
    size = (2**15 + 1, 8, 129, 64)
    q, k, v = (torch.randn(size, dtype=torch.float16, device=device, generator=generator) for _ in range(3))
    o = attend(q, k, v, causal=True)
    assert_equal(o[-1:], attend(q[-1:], k[-1:], v[-1:], causal=True), "o of the last batch entry")


class GluonVariant(Variant):
    """A compilation of a Gluon kernel, which starts at TTGIR."""

    def source(self):
        from triton.experimental.gluon._runtime import GluonASTSource

        attrs = {(list(self.signature).index(name),): [["tt.divisibility", 16]] for name in self.divisible}
        return GluonASTSource(fn=self.kernel, signature=self.signature, constexprs=self.constexprs, attrs=attrs)


def variants(thorough=False):
    """fp16 at every head dimension, with a mask and without; with `thorough` bf16 as well. For sm_90 alone."""
    dtypes = DTYPES if thorough else ("fp16",)
    return [_variant(dtype, D, causal) for dtype in dtypes for D in (128, 64, 256) for causal in (False, True)]


def _variant(dtype, D, causal):
    kernel, chosen = module.flash_attention_hopper_kernel, module.config(D, causal)
    rows = {"q_desc": module.ROWS, "k_desc": chosen.BLOCK_N, "v_desc": chosen.BLOCK_N, "o_desc": module.ROWS}
    types = {name: f"tensordesc<{dtype}[1, 1, {n}, {D}],{module.shared_layout(n, D)!r}>" for name, n in rows.items()}
    types |= {"lse_ptr": "*fp32", "counter_ptr": "*i32", "qk_scale": "fp32"}
    constexprs = {"CAUSAL": causal, "CONFIG": chosen}
    options = {"num_warps": 4, "maxnreg": chosen.maxnreg}
    name, divisible = f"{dtype}-d{D}" + "-causal" * causal, ("lse_ptr", "counter_ptr")
    types = signature(kernel, types, constexprs)
    return GluonVariant(name, kernel, types, constexprs, options, divisible, targets=(90,))
