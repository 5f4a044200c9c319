"""Proof of the split-KV kernels: few query rows and long keys, through kernels.flash_attention's one function."""

from functools import partial

import torch

from kernels import flash_attention as forward
from kernels import flash_attention_decode as module
from kernels.proof import Case, Variant, signature
from kernels.proof.flash_attention import TARGETS, Shape, attention_variants, check, check_low, inputs

SMALL = (
    Shape("one-row", 1, 1300, 16),
    Shape("heads-enough", 2, 260, 8, H_q=40, H_kv=40, causal=True),  # one segment: nothing to merge
    Shape("heads-enough-token-major", 1, 260, 8, H_q=40, H_kv=20, B=2, layout="token-major"),
    Shape("one-row-causal", 1, 391, 32, causal=True),
    Shape("grouped", 1, 300, 24, H_q=8, H_kv=2, B=2),
    Shape("grouped-rows-causal", 5, 411, 16, causal=True, H_q=6, H_kv=2),
    Shape("one-kv-head", 4, 256, 8, H_q=4, H_kv=1, layout="token-major"),
    Shape("most-rows", 64, 330, 16, causal=True, H_q=1, H_kv=1),
    Shape("segments-unseen", 40, 1000, 16, causal=True, H_q=1, H_kv=1),
    Shape("d-3", 2, 300, 3, H_q=4),
    Shape("d-200", 1, 300, 200),
    Shape("window", 3, 333, 24, layout="window"),
    Shape("d-not-contiguous", 2, 280, 24, layout="d-first"),
    Shape("expanded-batch", 2, 280, 16, layout="expanded", B=2),
    Shape("scale-negative", 2, 290, 16, scale=-0.3, causal=True),
    Shape("scale-zero", 2, 290, 16, scale=0.0),
    Shape("large-scores", 2, 600, 16, spread=5.0),
)
LARGE = (
    Shape("long", 1, 100_003, 128, H_q=32, H_kv=8),
    Shape("long-batch", 1, 3000, 128, H_q=32, H_kv=8, B=16),
    Shape("long-rows-causal", 7, 20_001, 64, causal=True, H_q=8, H_kv=1, B=2),
    Shape("long-256", 2, 9000, 256, causal=True, H_q=4, H_kv=2, layout="token-major"),
)


def cases(device, flash_attention=forward.flash_attention):
    """All cases of `device`, "cpu" (interpreter) or "cuda"; flash_attention: the function to prove."""
    dtypes = (torch.float32, torch.float16) + ((torch.bfloat16,) if device == "cuda" else ())
    table = [(shape, dtype) for shape in SMALL + LARGE * (device == "cuda") for dtype in dtypes]
    found = [Case(f"{s.name}-{str(d)[6:]}", partial(_check, flash_attention, s, d)) for s, d in table]
    low = [(1, False), (40, True)]  # query rows, causal
    return found + [
        Case(f"at-minus-inf-{S_q}-d{D}-{str(d)[6:]}", partial(check_low, flash_attention, D, S_q, 600, causal, d))
        for D in ((16,) if device == "cpu" else (16, 128)) for S_q, causal in low for d in dtypes
    ]  # fmt: skip


def _check(flash_attention, shape, dtype, device):
    q, k, _ = inputs(shape, dtype, device)
    assert module.suits(q, k), "this shape does not come to the split-KV kernels"
    check(flash_attention, shape, dtype, device)


def variants(thorough=False):
    """fp16 and fp32 at d = 128; with `thorough` other tile shapes; and the merge."""
    table = [("fp16-d128", "fp16", 128, 16, False), ("fp32-d128", "fp32", 128, 16, False)]
    if thorough:
        table += [
            ("bf16-d128-causal", "bf16", 128, 64, True),
            ("fp16-d256-causal", "fp16", 256, 64, True),
            ("fp16-d16", "fp16", 16, 32, False),
            ("fp32-d256-causal", "fp32", 256, 64, True),
            ("fp16-d64-odd-strides", "fp16", 64, 16, True, False),
        ]
    return [variant for row in table for variant in _variants(*row)] + [_merge(target) for target in TARGETS]


def _merge(target):
    early = target >= 90
    constexprs = {"D": 128, "BLOCK_D": 128, "BLOCK_S": module.BLOCK_S, "EARLY": early}
    types = {"part_ptr": "*fp32", "part_lse_ptr": "*fp32", "o_ptr": "*fp16", "lse_ptr": "*fp32", "strides_o": ("i32",) * 3}
    args = signature(module.merge_kernel, types, constexprs)
    options = {"num_warps": 4, "launch_pdl": early}
    return Variant("merge-fp16-d128", module.merge_kernel, args, constexprs, options, tuple(types), (target,))


def _variants(name, dtype, D, rows, causal, divisible=True):
    return attention_variants(
        f"split-{name}", module.split_kernel, module.config, dtype, D, {"k_ptr": "BLOCK_N", "v_ptr": "BLOCK_N"},
        {"q_ptr": dtype, "o_ptr": "fp32", "lse_ptr": "fp32"}, {"CAUSAL": causal, "ALONE": False, "ROWS": rows}, divisible,
    )  # fmt: skip
