"""Random calls of kernels.flash_attention on a GPU, seeded: forward, its log-sum-exp and all gradients, each run twice.

By hand: `python -m kernels.proof.fuzz [COUNT [SEED]]`.
"""

import json
import random
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

import torch

from kernels.flash_attention_decode import suits
from kernels.proof import flash_attention, flash_attention_backward

COUNT, SEED, WORKERS = 600, 19, 16
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
HEAD_DIMS = (40, 64, 72, 128, 256)  # two that pad; each costs its own compilations


class Call(NamedTuple):
    """One random call. upstream: how the gradient of the output lies in memory."""

    shape: flash_attention.Shape
    dtype: str
    upstream: str


def draw(count=COUNT, seed=SEED):
    """`count` calls, always the same for a seed. A quarter have few query rows and long keys: those are split."""
    rng = random.Random(seed)
    return [_draw(rng, f"{seed}-{number}") for number in range(count)]


def _draw(rng, name):
    D = rng.choice(HEAD_DIMS)
    H_kv = rng.randint(1, 3)
    few = rng.random() < 0.25
    step = 16 if D % 16 else 1  # of lengths: strides that are multiples of 16 at times only would all compile apart
    shape = flash_attention.Shape(
        name,
        S_q=rng.randint(1, 12) if few else step * rng.randint(0, 400 // step),
        S_kv=rng.randint(256, 3000) if few else step * rng.randint(0, 400 // step),
        D=D,
        causal=rng.random() < 0.5,
        H_q=H_kv * rng.randint(1, 4),
        H_kv=H_kv,
        B=rng.randint(1, 3),
        layout=rng.choice([*flash_attention.LAYOUTS, "mixed"]),
        # twice the usual one at most: fp32 rounds an exponent of 80 by 5e-6, in ours three times and in the formula once
        scale=rng.choice([None, None, None, rng.uniform(-2, 2) * D**-0.5, 0.0]),
        spread=rng.choice([0.5, 1.0, 2.0]),
    )
    return Call(shape, rng.choice(list(DTYPES)), rng.choice(list(flash_attention_backward.UPSTREAM)))


def check(call, device="cuda"):
    """The text of what is wrong with one call, None where nothing is."""
    from kernels.flash_attention import flash_attention as function

    try:
        flash_attention.check(function, call.shape, DTYPES[call.dtype], device)
        flash_attention_backward.check(function, call.shape, call.upstream, DTYPES[call.dtype], device)
    except Exception as error:
        return f"{call}: {type(error).__name__}: {error}"


def fuzz(count=COUNT, seed=SEED, workers=WORKERS):
    """Summary of `count` checked calls; calls that compile alike go to one of the `workers`, which compile at once.

    {"cases", "seed", "failed": texts, "dtypes", "head_dims", "causal", "grouped", "split": how many of each, "seconds"}.
    """
    start, calls, lots = time.perf_counter(), draw(count, seed), {}
    for call in calls:
        lots.setdefault((call.shape.D, call.dtype, call.shape.causal), []).append(call)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        found = [text for texts in pool.map(_check_all, sorted(lots.values(), key=len, reverse=True)) for text in texts]
    return {
        "cases": len(calls),
        "seed": seed,
        "failed": [text for text in found if text],
        "dtypes": dict(Counter(call.dtype for call in calls)),
        "head_dims": dict(Counter(call.shape.D for call in calls)),
        "causal": sum(call.shape.causal for call in calls),
        "grouped": sum(call.shape.H_q > call.shape.H_kv for call in calls),
        "split": sum(_split(call.shape) for call in calls),
        "seconds": round(time.perf_counter() - start, 1),
    }


def _split(shape):
    q, k = (torch.empty(1, H, S, 1, device="meta") for H, S in ((shape.H_q, shape.S_q), (shape.H_kv, shape.S_kv)))
    return shape.S_q > 0 and suits(q, k)


def _check_all(calls):
    return [check(call) for call in calls]


def report(*arguments):
    """Print what `fuzz` gives; the exit status by hand: what is missing here, or True where a call failed."""
    if not torch.cuda.is_available():
        return "没有可用的 NVIDIA GPU；这批调用要在有 GPU 的机器上跑"
    found = fuzz(*map(int, arguments))
    print(json.dumps(found, ensure_ascii=False, indent=1))
    return bool(found["failed"])


if __name__ == "__main__":
    sys.exit(report(*sys.argv[1:]))
