"""Proof of the gradients of kernels.flash_attention against autograd through attention in fp64, by the accepted criterion."""

from functools import partial

import torch

from kernels import flash_attention as forward
from kernels import flash_attention_backward as module
from kernels import flash_attention_hopper_backward
from kernels.proof import Case, assert_close, assert_equal, assert_near, guarded_outputs
from kernels.proof.flash_attention import LAYOUTS, Shape, attention, attention_variants, inputs, largest_exponent, plainly

FACTOR = 3  # of the plain formula's error, as FlashAttention's own tests allow gradients
NAMES = ("dq", "dk", "dv")
UPSTREAM = {  # how the gradient of o lies in memory
    **{name: LAYOUTS[name] for name in ("plain", "token-major", "d-first", "window")},
    "expanded": lambda B, H, S, D, make: make(1).expand(B, H, S, D),  # what o.sum() hands down: all strides 0
}

SMALL = (
    (Shape("tiles-even", 64, 96, 32), "plain"),
    (Shape("odd-lengths", 39, 71, 24, B=2), "token-major"),
    (Shape("causal-square", 70, 70, 16, causal=True), "plain"),
    (Shape("causal-more-keys", 35, 101, 16, causal=True), "window"),
    (Shape("causal-more-queries", 101, 35, 16, causal=True), "expanded"),  # 66 rows see nothing
    (Shape("one-query", 1, 70, 40, causal=True), "plain"),
    (Shape("grouped", 20, 50, 16, H_q=6, H_kv=2), "d-first"),
    (Shape("one-kv-head", 33, 40, 8, causal=True, H_q=3, H_kv=1, B=2), "plain"),
    (Shape("d-1", 17, 40, 1), "plain"),
    (Shape("d-72", 20, 37, 72), "plain"),
    (Shape("d-200", 20, 37, 200, causal=True), "plain"),
    (Shape("mixed", 40, 50, 24, H_q=4, layout="mixed"), "token-major"),
    (Shape("d-not-contiguous", 30, 40, 8, layout="d-first"), "plain"),
    (Shape("expanded-batch", 30, 40, 16, layout="expanded", B=3), "plain"),
    (Shape("overlapping", 17, 40, 24, layout="overlapping", B=2), "plain"),
    (Shape("scale-negative", 40, 50, 16, scale=-0.3, causal=True), "plain"),
    (Shape("scale-zero", 40, 50, 16, scale=0.0, causal=True), "plain"),
    (Shape("terms-equal", 64, 128, 40, H_q=9, H_kv=3, B=2, layout="expanded", scale=0.0), "expanded"),  # so errors add up
    (Shape("large-scores", 40, 70, 16, spread=3.0), "plain"),
    (Shape("many-keys", 3, 300, 16, H_q=4, causal=True), "plain"),  # forward is split, backward is not
    (Shape("no-key", 40, 0, 16), "plain"),
    (Shape("no-query", 0, 40, 16), "plain"),
    (Shape("no-batch", 4, 4, 16, B=0), "plain"),
)
LARGE = (
    (Shape("long", 1000, 2077, 64, H_q=8, H_kv=2), "plain"),
    (Shape("long-causal", 2048, 2048, 128, causal=True), "token-major"),
    (Shape("long-causal-odd", 1501, 1777, 80, causal=True, H_q=4, layout="token-major"), "window"),
    (Shape("long-256", 700, 900, 256, causal=True, H_q=4, H_kv=1), "plain"),
    (Shape("many-heads", 16, 16, 16, B=70, H_q=1000, H_kv=1000), "plain"),
)


def cases(device, flash_attention=forward.flash_attention):
    """All cases of `device`, "cpu" (interpreter) or "cuda"; flash_attention: the function whose gradients to prove."""
    alone = partial(plainly, flash_attention_hopper_backward)
    dtypes = (torch.float32, torch.float16) + ((torch.bfloat16,) if device == "cuda" else ())
    table = [(*row, dtype) for row in SMALL + LARGE * (device == "cuda") for dtype in dtypes]
    found = [Case(f"{s.name}-{str(d)[6:]}", partial(alone, check, flash_attention, s, up, d)) for s, up, d in table]
    found += [Case("of-the-log-sum-exp", partial(alone, _check_lse_alone, flash_attention))]
    found += [Case("scores-far-below-0", partial(alone, _check_low_scores, flash_attention))]
    wide = [(16, torch.float32)] + [(D, torch.bfloat16) for D in (64, 128, 256)] * (device == "cuda")
    low = partial(alone, check_row_at_minus_inf, flash_attention)
    found += [Case(f"row-at-minus-inf-d{D}-{str(d)[6:]}", partial(low, D, d)) for D, d in wide]
    if device == "cuda":
        found += [Case("past-32-bits-float16", partial(alone, check_last_entry, flash_attention))]
    return found


def check(flash_attention, shape, upstream, dtype, device, seed=0):
    """Gradients of o and of the log-sum-exp together, and of o alone."""
    q, k, v = inputs(shape, dtype, device)
    generator = torch.Generator(device).manual_seed(seed + 1)

    def make(*size):
        return torch.randn(size, generator=generator, device=device, dtype=torch.float32).to(dtype)

    do = UPSTREAM[upstream](*q.shape, make)
    visible = shape.S_kv and not (shape.causal and shape.S_q > shape.S_kv)  # -inf has no gradient to hand down
    dlse = make(shape.S_q, shape.B, shape.H_q).float().permute(1, 2, 0) if visible else None
    call = partial(gradients, partial(flash_attention, causal=shape.causal, sm_scale=shape.scale, return_lse=True), q, k, v)
    with guarded_outputs():
        found = call(do, dlse)
    formula = partial(attention, causal=shape.causal, scale=shape.scale)
    wide = [None if x is None else x.double() for x in (do, dlse)]
    ref = gradients(formula, q.double(), k.double(), v.double(), *wide)
    low = gradients(formula, q, k, v, do, None if dlse is None else dlse.to(dtype))
    terms = max(shape.S_kv, shape.S_q * shape.H_q // max(shape.H_kv, 1))  # of dQ, of dK and dV
    exponent = largest_exponent(q, k, shape.scale)
    equal = upstream == "expanded" and shape.scale == 0 and not shape.causal  # the terms of dV
    for name, x, out, expected, plain in zip(NAMES, (q, k, v), found, ref, low):
        assert out.dtype == dtype and out.shape == x.shape, f"{name} is {out.dtype} {tuple(out.shape)}"
        assert_close(out, expected, plain, name, FACTOR, terms, exponent, alike=equal and name == "dv")
    if device == "cuda":
        for name, out, again in zip(NAMES, found, call(do, dlse)):
            assert_equal(again, out, f"{name}, run again")


def gradients(function, q, k, v, do, dlse):
    """(dq, dk, dv) of a function that returns (o, lse); dlse None: lse is not used."""
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    o, lse = function(*leaves)
    if not o.requires_grad:  # no key: a constant
        return [torch.zeros_like(x) for x in leaves]
    outputs, upstream = ([o], [do]) if dlse is None else ([o, lse], [do, dlse])
    found = torch.autograd.grad(outputs, leaves, upstream, allow_unused=True)
    return [torch.zeros_like(x) if dx is None else dx for x, dx in zip(leaves, found)]


def _check_lse_alone(flash_attention, device):
    """A loss of the log-sum-exp only: dV is 0, and no gradient of o exists."""
    q, k, v = (x.requires_grad_() for x in inputs(Shape("lse", 20, 30, 16), torch.float32, device))
    dq, dk, dv = torch.autograd.grad(flash_attention(q, k, v, return_lse=True)[1].sum(), (q, k, v))
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    lse = attention(*wide, False, None)[1].sum()
    for name, out, ref in zip(NAMES, (dq, dk), torch.autograd.grad(lse, wide[:2])):
        assert_close(out, ref, ref.float(), name, FACTOR)
    assert_equal(dv, torch.zeros_like(v), "dv")


def _check_low_scores(flash_attention, device):
    """All scores near -3600, and a last tile of keys that is not full: 2^(0 - lse) of a key that is not there overflows."""
    q, k, v = inputs(Shape("low", 20, 37, 16), torch.float32, device)
    q, k, do = 30 + 0.01 * q, -30 + 0.01 * k, v[:, :, :20]
    formula = partial(attention, causal=False, scale=None)
    ref = gradients(formula, q.double(), k.double(), v.double(), do.double(), None)
    low = gradients(formula, q, k, v, do, None)
    for name, out, expected, plain in zip(NAMES, gradients(partial(flash_attention, return_lse=True), q, k, v, do, None), ref, low):
        assert out.isfinite().all(), f"{name} is not finite"
        assert_near(out, expected, 0.02 + 4 * (plain.double() - expected).abs().max().item(), name)


def check_row_at_minus_inf(flash_attention, D, dtype, device):
    """A row whose every score overflows to -inf sees nothing and gives nothing: gradients are those of the other rows."""
    q, k, v = (x.abs() + 0.1 for x in inputs(Shape("low", 70, 90, D), dtype, device))
    row, rest = 3, [i for i in range(70) if i != 3]
    q, k, do = q.clone(), -k, v[:, :, :70]
    q[:, :, row] = 1e38
    call = partial(flash_attention, return_lse=True)
    formula = partial(attention, causal=False, scale=None)
    o, lse = call(q, k, v)
    assert_equal(o[:, :, row], torch.zeros_like(o[:, :, row]), "o of the row")
    assert_equal(lse[:, :, row], torch.full_like(lse[:, :, row], -torch.inf), "lse of the row")
    dq, dk, dv = gradients(call, q, k, v, do, None)
    assert_equal(dq[:, :, row], torch.zeros_like(dq[:, :, row]), "dq of the row")
    left, up = q[:, :, rest], do[:, :, rest]
    ref = gradients(formula, left.double(), k.double(), v.double(), up.double(), None)
    low = gradients(formula, left, k, v, up, None)
    for name, out, expected, plain in zip(NAMES, (dq[:, :, rest], dk, dv), ref, low):
        assert_close(out, expected, plain, name, FACTOR, terms=90)


def check_last_entry(flash_attention, device):
    """q with more than 2^31 elements, 4.3 GB in fp16: gradients of the last batch entry are those of that entry alone."""
    generator = torch.Generator(device).manual_seed(0)
    q, do = torch.randn(2, 2**15 + 1, 1, 512, 128, dtype=torch.float16, device=device, generator=generator)
    k = torch.randn(2**15 + 1, 1, 64, 128, dtype=torch.float16, device=device, generator=generator)
    whole = gradients(partial(flash_attention, return_lse=True), q, k, k, do, None)
    alone = gradients(partial(flash_attention, return_lse=True), q[-1:], k[-1:], k[-1:], do[-1:], None)
    for name, out, ref in zip(NAMES, whole, alone):
        assert_equal(out[-1:], ref, f"{name} of the last batch entry")


def variants(thorough=False):
    """Both kernels, fp16 at d = 128 causal and 64, and fp32; with `thorough` every tile shape of `config`."""
    table = [("fp16-d128-causal", "fp16", 128, True), ("fp16-d64", "fp16", 64, False), ("fp32-d64", "fp32", 64, False)]
    if thorough:
        table += [
            ("fp16-d128", "fp16", 128, False),
            ("bf16-d128-causal", "bf16", 128, True),
            ("fp16-d64-causal", "fp16", 64, True),
            ("bf16-d256", "bf16", 256, False),
            ("fp16-d256-causal", "fp16", 256, True),
            ("fp16-d16-causal", "fp16", 16, True),
            ("fp32-d16-causal", "fp32", 16, True),
            ("fp32-d128-causal", "fp32", 128, True),
            ("fp32-d256-causal", "fp32", 256, True),
            ("fp16-d64-odd-strides", "fp16", 64, True, False),
        ]
    return [variant for row in table for variant in _variants(*row)]


def _variants(name, dtype, D, causal, divisible=True):
    loaded = {"q_ptr": "BLOCK_M", "k_ptr": "BLOCK_N", "v_ptr": "BLOCK_N", "do_ptr": "BLOCK_M"}
    return attention_variants(
        f"dq-{name}", module.dq_kernel, lambda *device: module.config(*device)[0], dtype, D,
        loaded, {"lse2_ptr": "fp32", "delta_ptr": "fp32", "lse_ptr": "fp32", "dlse_ptr": "fp32", "o_ptr": dtype, "dq_ptr": dtype},
        {"CAUSAL": causal, "WHOLE": not causal}, divisible,
    ) + attention_variants(
        f"dkdv-{name}", module.dkdv_kernel, lambda *device: module.config(*device)[1], dtype, D,
        {**loaded, "lse2_ptr": "BLOCK_M", "delta_ptr": "BLOCK_M"}, {"dk_ptr": dtype, "dv_ptr": dtype}, {"CAUSAL": causal}, divisible,
    )  # fmt: skip
