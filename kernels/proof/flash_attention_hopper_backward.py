"""Proof of kernels.flash_attention_hopper_backward against autograd through attention in fp64, on sm_90 alone.

Gluon has no interpreter: on the CPU there is nothing to run, and `kernels.flash_attention_backward` proves the algorithm
there.
"""

from functools import partial

import torch

from kernels import flash_attention as forward
from kernels import flash_attention_hopper_backward as module
from kernels.flash_attention_hopper import DTYPES, shared_layout
from kernels.proof import Case, assert_equal, signature
from kernels.proof.flash_attention import Shape, inputs
from kernels.proof.flash_attention_backward import UPSTREAM, check, check_last_entry, check_row_at_minus_inf
from kernels.proof.flash_attention_hopper import GluonVariant
from kernels.proof.flash_attention_hopper import shapes as forward_shapes


def shapes(D):
    """Those of the forward kernel but for the longest, whose scores would not fit in fp64, and scales of every sign."""
    return (
        *(shape for shape in forward_shapes(D) if shape.S_kv < 2**20),
        Shape("a-hundred-thousand-keys", 64, 100_003, D, H_q=1, H_kv=1, spread=2.0),
        Shape("scale-negative", 200, 300, D, scale=-0.3, causal=True),
        Shape("scale-zero", 200, 300, D, scale=0.0),
        Shape("many-query-heads", 200, 130, D, H_q=16, H_kv=1, causal=True),
    )


def cases(device):
    """All cases on a GPU of compute capability 9.0; none elsewhere. Gradients lie in memory in every way in turn."""
    if device != "cuda" or torch.cuda.get_device_capability() != (9, 0):
        return []
    ways = list(UPSTREAM)
    table = [
        (shape, ways[(number + at) % len(ways)], dtype)
        for D in module.HEAD_DIMS for number, shape in enumerate(shapes(D)) for at, dtype in enumerate(DTYPES)
    ]  # fmt: skip
    found = [Case(f"{s.name}-d{s.D}-{str(d)[6:]}", partial(_check, s, up, d)) for s, up, d in table]
    return [
        *found,
        Case("without-the-log-sum-exp", _check_o_alone),
        *(
            Case(f"row-at-minus-inf-d{D}", partial(check_row_at_minus_inf, forward.flash_attention, D, torch.bfloat16))
            for D in module.HEAD_DIMS
        ),
        Case("past-32-bits-float16", partial(check_last_entry, forward.flash_attention)),
    ]


def _check(shape, upstream, dtype, device):
    q, k, v = inputs(shape, dtype, device)
    assert module.supported(*map(forward.dense_rows, (q, k, v)), q, q), "this shape does not come to the Hopper kernels"
    check(forward.flash_attention, shape, upstream, dtype, device)


def _check_o_alone(device):
    """No gradient of the log-sum-exp: as if it were 0, to the last bit."""
    q, k, v = (x.requires_grad_() for x in inputs(Shape("alone", 200, 300, 64), torch.float16, device))
    o, lse = forward.flash_attention(q, k, v, return_lse=True)
    do = torch.randn_like(o)
    alone = torch.autograd.grad(o, (q, k, v), do, retain_graph=True)
    for name, found, with_zero in zip("qkv", alone, torch.autograd.grad((o, lse), (q, k, v), (do, torch.zeros_like(lse)))):
        assert_equal(found, with_zero, f"d{name}")


def variants(thorough=False):
    """Both kernels, fp16, d = 128 and 64 causal; with `thorough` every head dimension, mask and dtype. For sm_90 alone."""
    table = [("fp16", 128, False), ("fp16", 128, True), ("fp16", 64, True)]
    if thorough:
        table += [("fp16", 64, False), *(("bf16", D, causal) for D in (128, 64) for causal in (False, True))]
    return [_variant(part, *row) for row in table for part in ("dq", "dkdv")]


def _variant(part, dtype, D, causal):
    chosen = module.config(D, causal)[part == "dkdv"]
    kernel = {"dq": module.dq_hopper_kernel, "dkdv": module.dkdv_hopper_kernel}[part]
    streams = ("k_desc", "v_desc") if part == "dq" else ("q_desc", "do_desc")
    types = {}
    for name in (name for name in kernel.arg_names if name.endswith("_desc")):
        rows = chosen.BLOCK if name in streams else module.ROWS
        types[name] = f"tensordesc<{dtype}[1, 1, {rows}, {D}],{shared_layout(rows, D)!r}>"
    statistics = f"tensordesc<fp32[1, {chosen.BLOCK}],{module.STATISTICS_LAYOUT!r}>"
    types |= dict.fromkeys(("lse2_desc", "delta_desc"), statistics)
    pointers = ("lse_ptr", "dlse_ptr", "lse2_ptr", "delta_ptr")
    types |= dict.fromkeys(pointers, "*fp32") | {"counter_ptr": "*i32", "qk_scale": "fp32"}
    constexprs = {"CAUSAL": causal, "CONFIG": chosen} | ({"DLSE": False} if part == "dq" else {})
    divisible = tuple(name for name in kernel.arg_names if name.endswith("_ptr"))
    name, options = f"{part}-{dtype}-d{D}" + "-causal" * causal, {"num_warps": 4, "maxnreg": module.MAXNREG}
    return GluonVariant(name, kernel, signature(kernel, types, constexprs), constexprs, options, divisible, targets=(90,))
