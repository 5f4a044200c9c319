"""Proof of kernels.flash_attention against attention in fp64, by the accepted criterion; its log-sum-exp as well."""

import math
from functools import partial
from typing import NamedTuple
from unittest import mock

import torch

from kernels import flash_attention as module
from kernels import flash_attention_hopper
from kernels.flash_attention_tiles import padded
from kernels.proof import Case, Variant, assert_close, assert_equal, assert_near, guarded_outputs, signature

LSE_BOUND = 1e-4  # 3e-7 seen in the interpreter; tensor cores truncate where they add, and TF32 would be near 1e-3


class Shape(NamedTuple):
    """One call. scale: sm_scale, None for 1 / sqrt(D). layout: of LAYOUTS, or "mixed". spread: deviation of q and k."""

    name: str
    S_q: int
    S_kv: int
    D: int
    causal: bool = False
    H_q: int = 2
    H_kv: int = 2
    B: int = 1
    layout: str = "plain"
    scale: float | None = None
    spread: float = 1.0


SMALL = (
    Shape("one-tile", 32, 32, 16),
    Shape("tiles-even", 128, 192, 64),
    Shape("odd-lengths", 77, 131, 40, B=2),
    Shape("one-more-than-a-tile", 129, 65, 32),
    Shape("causal-square", 150, 150, 64, causal=True),
    Shape("causal-more-keys", 70, 201, 64, causal=True),
    Shape("causal-more-queries", 201, 70, 64, causal=True),  # 131 rows see nothing
    Shape("causal-one-query", 1, 140, 128, causal=True),
    Shape("one-key", 5, 1, 8),
    Shape("one-of-each", 1, 1, 1, H_q=1, H_kv=1),
    Shape("grouped", 20, 90, 32, H_q=6, H_kv=2),
    Shape("one-kv-head", 33, 40, 16, causal=True, H_q=4, H_kv=1, B=2),
    Shape("d-1", 17, 40, 1),
    Shape("d-3", 17, 40, 3, causal=True),
    Shape("d-72", 40, 70, 72),
    Shape("d-128", 40, 70, 128),
    Shape("d-128-tiles", 150, 70, 128, causal=True, H_q=4, B=2),
    Shape("d-129-window", 70, 40, 129, layout="window"),  # q fits a descriptor, o does not
    Shape("d-136-window", 70, 40, 136, causal=True, H_q=4, B=2, layout="window"),
    Shape("d-136-token-major", 130, 40, 136, H_q=4, B=2, layout="token-major"),
    Shape("d-200", 20, 70, 200),
    Shape("d-256", 33, 70, 256, causal=True),
    Shape("token-major", 70, 90, 24, layout="token-major", B=2),
    Shape("packed", 70, 70, 24, layout="packed", B=2),
    Shape("window", 70, 90, 24, layout="window", B=2),
    Shape("mixed", 70, 90, 24, H_q=4, layout="mixed", B=2),
    Shape("d-not-contiguous", 30, 40, 24, layout="d-first"),
    Shape("expanded-batch", 30, 40, 16, layout="expanded", B=3),
    Shape("overlapping", 17, 40, 64, layout="overlapping", B=2),  # rows that share elements
    Shape("heads-odd", 70, 70, 16, causal=True, H_q=5, H_kv=5, B=3),  # the last group of heads is not full
    Shape("scale-given", 40, 90, 16, scale=0.7),
    Shape("scale-negative", 40, 90, 16, scale=-0.3, causal=True),
    Shape("scale-zero", 40, 90, 16, scale=0.0, causal=True),
    Shape("large-scores", 40, 150, 64, spread=6.0),
    Shape("no-key", 40, 0, 16),
    Shape("no-query", 0, 40, 16),
    Shape("no-batch", 4, 4, 16, B=0),
    Shape("no-head", 4, 4, 16, H_q=0, H_kv=0),
)
LARGE = (
    Shape("long", 1000, 2077, 64, B=2, H_q=8, H_kv=2),
    Shape("long-causal", 2048, 2048, 128, causal=True, H_q=4, H_kv=4),
    Shape("long-causal-odd", 1501, 1777, 80, causal=True, H_q=4, H_kv=2, layout="token-major"),
    Shape("long-256", 700, 900, 256, causal=True, H_q=4, H_kv=1),
    Shape("many-heads", 16, 16, 16, B=70, H_q=1000, H_kv=1000),  # more heads than a grid's second axis would hold
)


def _plain_shapes():
    for D in flash_attention_hopper.HEAD_DIMS:
        yield Shape("odd-lengths", 333, 201, D, B=2, layout="token-major")
        yield Shape("heads-odd", 333, 391, D, causal=True, H_q=5, H_kv=5, B=3)
        yield Shape("grouped", 391, 333, D, causal=True, H_q=6, H_kv=2, layout="window")
        yield Shape("long", 500, module.SHORT + 77, D, causal=True, H_q=4)
    for D, S_kv in module.LONG.items():
        yield Shape("specialised", 333, S_kv + 128, D, H_q=6, H_kv=2, B=2, layout="token-major")
        yield Shape("specialised-one-row", 1, S_kv, D, H_q=70, H_kv=1)


# On Hopper its own kernel would take these.
PLAIN = tuple(shape._replace(name=f"plain-{shape.name}-d{shape.D}") for shape in _plain_shapes())


def cases(device, flash_attention=module.flash_attention):
    """All cases of `device`, "cpu" (interpreter) or "cuda"; flash_attention: the function to prove."""
    if device == "cpu":  # the interpreter's bf16 is wrong
        table = [(shape, dtype) for shape in SMALL for dtype in (torch.float32, torch.float16)]
    else:
        table = [(shape, dtype) for shape in SMALL + LARGE for dtype in (torch.float32, torch.float16, torch.bfloat16)]
    found = [Case(f"{s.name}-{str(d)[6:]}", partial(check, flash_attention, s, d)) for s, d in table]
    dims = (16,) if device == "cpu" else (16, 64, 128, 256)
    found += [
        Case(f"at-minus-inf{'-causal' * causal}-d{D}-{str(d)[6:]}", partial(check_low, flash_attention, D, 140, 600, causal, d))
        for D in dims for causal in (False, True) for d in dict.fromkeys(d for _, d in table)
    ]  # fmt: skip
    if device == "cuda":
        found += [Case("past-32-bits-float16", partial(_check_last_head, flash_attention))]
        found += [
            Case(f"{s.name}-{str(d)[6:]}", partial(plainly, flash_attention_hopper, check, flash_attention, s, d))
            for s in PLAIN for d in (torch.float16, torch.bfloat16)
        ]  # fmt: skip
        low = partial(plainly, flash_attention_hopper, check_low, flash_attention)
        found += [
            Case(f"plain-at-minus-inf-{S_kv}-d{D}", partial(low, D, 140, S_kv, False, torch.float16))
            for D in flash_attention_hopper.HEAD_DIMS for S_kv in (600, max(module.LONG.values()))
        ]  # fmt: skip
    return found


def plainly(hopper, checked, *given):
    """Run a check with the plain kernels alone, where those of the module `hopper` would take the call."""
    with mock.patch.object(hopper, "supported", lambda *_: False):
        checked(*given)


def check(flash_attention, shape, dtype, device):
    q, k, v = inputs(shape, dtype, device)
    call = partial(flash_attention, q, k, v, causal=shape.causal, sm_scale=shape.scale)
    with guarded_outputs():
        o, lse = call(return_lse=True)
    assert o.dtype == dtype and lse.dtype == torch.float32, f"o is {o.dtype}, lse is {lse.dtype}"
    ref, ref_lse = attention(q.double(), k.double(), v.double(), shape.causal, shape.scale)
    low = attention(q, k, v, shape.causal, shape.scale)[0]
    assert_close(o, ref, low, "o", terms=shape.S_kv, exponent=largest_exponent(q, k, shape.scale))
    assert_near(lse, ref_lse, LSE_BOUND, "lse")
    if device == "cuda":
        again, lse_again = call(return_lse=True)
        assert_equal(again, o, "o, run again")
        assert_equal(lse_again, lse, "lse, run again")


def check_low(flash_attention, D, S_q, S_kv, causal, dtype, device):
    """Keys whose every score is -inf: the first half of all, tiles of them, then the last half, then all."""
    generator = torch.Generator(device).manual_seed(0)
    q, k, v = (torch.randn(1, 1, S, D, generator=generator, device=device).to(dtype) for S in (S_q, S_kv, S_kv))
    q = q.abs() + 0.1
    for name, gone in (("first", slice(S_kv // 2)), ("last", slice(S_kv // 2, S_kv)), ("all", slice(S_kv))):
        low = k.clone()
        low[:, :, gone] = -torch.inf
        with guarded_outputs():
            o, lse = flash_attention(q, low, v, causal=causal, return_lse=True)
        ref, ref_lse = attention(q.double(), low.double(), v.double(), causal, None)
        assert_close(o, ref, attention(q, low, v, causal, None)[0], f"o, {name} keys at -inf", terms=S_kv)
        assert_near(lse, ref_lse, LSE_BOUND, f"lse, {name} keys at -inf")


def largest_exponent(q, k, scale):
    """Size of the largest score as a power of 2, 0 where there is none."""
    if not q.numel() or not k.numel():
        return 0.0
    scores = q.double() @ k.double().repeat_interleave(q.shape[1] // k.shape[1], dim=1).transpose(2, 3)
    return scores.abs().max().item() * abs(1 / math.sqrt(q.shape[3]) if scale is None else scale) * math.log2(math.e)


def _check_last_head(flash_attention, device):
    """q with more than 2^31 elements, 4.3 GB in fp16: the last batch entry must come out like that entry alone."""
    generator = torch.Generator(device).manual_seed(0)
    q = torch.randn(2**15 + 1, 1, 512, 128, dtype=torch.float16, device=device, generator=generator)
    k = torch.randn(1, 1, 64, 128, dtype=torch.float16, device=device, generator=generator).expand(len(q), 1, 64, 128)
    o = flash_attention(q, k, k)
    assert_equal(o[-1:], flash_attention(q[-1:], k[-1:], k[-1:]), "o of the last batch entry")


def attention(q, k, v, causal, scale):
    """(o, lse) with the whole score matrix, in q's dtype; rows that see no key give 0 and -inf. Shapes as the kernel's."""
    heads = q.shape[1] // k.shape[1] if k.shape[1] else 1
    k, v = k.repeat_interleave(heads, dim=1), v.repeat_interleave(heads, dim=1)
    S_q, S_kv = q.shape[2], k.shape[2]
    if not S_kv:
        return torch.zeros_like(q), q.new_full(q.shape[:3], -torch.inf)
    s = q @ k.transpose(2, 3) * (1 / math.sqrt(q.shape[3]) if scale is None else scale)
    if causal:
        row, col = torch.arange(S_q, device=q.device)[:, None], torch.arange(S_kv, device=q.device)
        s = s.masked_fill(col > row + S_kv - S_q, -torch.inf)
    return torch.softmax(s, dim=-1).nan_to_num() @ v, torch.logsumexp(s, dim=-1)


# How q, k and v lie in memory; each takes (B, H, S, D) and a function that makes random tensors of a shape.
LAYOUTS = {
    "plain": lambda B, H, S, D, make: make(B, H, S, D),
    "token-major": lambda B, H, S, D, make: make(B, S, H, D).transpose(1, 2),
    "packed": lambda B, H, S, D, make: make(B, S, 3, H, D)[:, :, 1].transpose(1, 2),
    "d-first": lambda B, H, S, D, make: make(B, H, D, S).transpose(2, 3),
    "expanded": lambda B, H, S, D, make: make(1, H, S, D).expand(B, H, S, D),
    "window": lambda B, H, S, D, make: _window(B, H, S, D, make),
    "overlapping": lambda B, H, S, D, make: make(B, H, S + D - 1).unfold(2, D, 1) if S else make(B, H, S, D),
}


def _window(B, H, S, D, make):
    """A view whose surroundings are NaN: anything read past its rows or columns shows."""
    whole = make(B, H, S + 64, (D + 23) // 8 * 8)  # rows that a descriptor takes
    inside = whole[:, :, 32 : 32 + S, 8 : 8 + D]
    kept = inside.clone()
    whole.fill_(torch.nan)
    inside.copy_(kept)
    return inside


def inputs(shape, dtype, device, seed=0):
    """q, k, v of a Shape, random, q and k with its spread."""
    generator = torch.Generator(device).manual_seed(seed)

    def make(*size):
        return torch.randn(size, generator=generator, device=device, dtype=torch.float32).to(dtype)

    def spread(*size):
        return make(*size) * shape.spread

    of_q, of_k, of_v = ("window", "plain", "token-major") if shape.layout == "mixed" else [shape.layout] * 3
    q = LAYOUTS[of_q](shape.B, shape.H_q, shape.S_q, shape.D, spread)
    k = LAYOUTS[of_k](shape.B, shape.H_kv, shape.S_kv, shape.D, spread)
    return q, k, LAYOUTS[of_v](shape.B, shape.H_kv, shape.S_kv, shape.D, make)


DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
TARGETS = (80, 90, 100, 120)
TILES = ("q_ptr", "k_ptr", "v_ptr", "o_ptr", "do_ptr")  # what is moved in tiles [rows, D]; other descriptors take one row


def variants(thorough=False):
    """fp16 at d = 128 and 64, and fp32; with `thorough` every tile shape of `config`, odd dimensions and strides.

    Those that are timed have a key-value head for each query head, which the launcher makes a constant.
    """
    table = [
        ("fp16-d128", "fp16", 128, False, True, True, 0, 1),
        ("fp16-d128-causal", "fp16", 128, True, True, True, 0, 1),
        ("fp16-d64", "fp16", 64, False, True, True, 0, 1),
        ("fp32-d64", "fp32", 64, False, True),
    ]
    if thorough:
        table += [
            ("fp16-d64-causal", "fp16", 64, True, False),
            ("bf16-d64-causal", "bf16", 64, True, False),
            ("bf16-d128", "bf16", 128, False, False),
            ("fp16-d256-causal", "fp16", 256, True, False),
            ("bf16-d256", "bf16", 256, False, True),
            ("fp16-d80", "fp16", 80, True, False),
            ("fp16-d32", "fp16", 32, True, False),
            ("fp16-d16", "fp16", 16, True, False),
            ("fp32-d16", "fp32", 16, True, False),
            ("fp32-d32", "fp32", 32, True, False),
            ("fp32-d64-causal", "fp32", 64, True, False),
            ("fp32-d128-causal", "fp32", 128, True, False),
            ("fp32-d256-causal", "fp32", 256, True, False),
            ("fp16-d64-odd-strides", "fp16", 64, True, False, False),
            ("fp16-d1-odd-strides", "fp16", 1, True, False, False),
            ("fp16-d64-causal-short", "fp16", 64, True, True, True, module.SHORT, 1),
            ("fp16-d128-specialised", "fp16", 128, False, True, True, module.LONG[128], 1),
            ("bf16-d256-specialised", "bf16", 256, False, True, True, module.LONG[256]),
            ("fp16-d128-causal-grouped", "fp16", 128, True, True),
        ]
    return [variant for row in table for variant in _variants(*row)]


def _variants(name, dtype, D, causal, whole, divisible=True, S_kv=0, group=None):
    moved = {"q_ptr": "BLOCK_M", "k_ptr": "BLOCK_N", "v_ptr": "BLOCK_N", "o_ptr": "BLOCK_M"}
    return attention_variants(
        name, module.flash_attention_kernel, partial(module.config, causal=causal, S_kv=S_kv), dtype, D, moved,
        {"o_ptr": dtype, "lse_ptr": "fp32"}, {"CAUSAL": causal, "WHOLE": whole} | ({"group": group} if group else {}), divisible,
    )  # fmt: skip


def attention_variants(name, kernel, config, dtype, D, moved, pointers, constexprs, divisible=True):
    """One variant for each target, as the launcher has it there, of a kernel of attention.

    config(dtype, D, capability): its tiles. moved: arguments that TMA turns into descriptors, with the constexpr that
    counts a tile's rows. pointers: the others, with their types. divisible: strides that are multiples of 16.
    """
    found = []
    for target in TARGETS:
        tma = target >= 90 and dtype != "fp32" and divisible
        blocks = config(DTYPES[dtype], D, divmod(target, 10) if tma else None)._asdict()
        options = {key: blocks.pop(key) for key in ("num_warps", "num_stages")}
        constants = {**constexprs, **blocks, "D": D, "BLOCK_D": padded(D), "TMA": tma}
        tma &= not constants.get("WARP_SPECIALIZE")  # descriptors are made on the device then
        if "TMA_O" in kernel.arg_names:
            constants["TMA_O"] = tma and "o_ptr" in moved
        types = {"qk_scale": "fp32", **{key: f"*{kind}" for key, kind in pointers.items()}}
        for key, rows in moved.items():
            kind, shape = (dtype, f"1, 1, {constants[rows]}, {padded(D)}") if key in TILES else ("fp32", f"1, {constants[rows]}")
            types[key] = f"tensordesc<{kind}[{shape}]>" if tma else f"*{kind}"
        types |= {key: ("i32", "i32", "i32") for key in kernel.arg_names if key.startswith("strides")}
        sixteens = [
            key for key in kernel.arg_names
            if key.endswith("_ptr") and str(types.get(key)).startswith("*") or divisible and key.startswith("strides")
        ]  # fmt: skip
        args = signature(kernel, types, constants)
        found.append(Variant(name, kernel, args, constants, options, tuple(sixteens), (target,)))
    return found
