"""Every variant compiles for four targets without a GPU, fits each one's shared memory, and uses what it should."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARED = {"80": 99, "90": 227, "100": 227, "120": 99}  # KB a block may have; sm_80 has 163, but sm_86 runs the same tiles
TARGETS = ("80", "90", "100", "120")
PRODUCT = {"80": "mma.sync", "90": "wgmma.mma_async", "100": "tcgen05.mma", "120": "mma.sync"}  # the tensor cores' own
# These must not spill a byte on any target but for FEW_BYTES; elsewhere a few bytes pass (fp16-d256 on sm_100: 8, seen).
REPRESENTATIVE = {
    "vector_add": ["fp32", "fp16", "bf16", "fp64"],
    "softmax": [
        *("fp32-1024", "fp32-781", "fp32-widest", "fp32-online", "fp32-split", "fp32-strided", "fp32-strided-online"),
        *("bf16-widest", "bf16-online", "bf16-split", "bf16-strided", "fp64-widest", "fp64-online"),
        *("fp32-backward", "fp32-backward-widest", "fp32-backward-wide", "fp32-backward-split"),
        *("fp32-backward-strided", "bf16-backward-split", "bf16-backward-wide", "fp64-backward-widest", "fp64-backward-wide"),
    ],
    "flash_attention": [
        *("fp16-d128", "fp16-d128-causal", "bf16-d128", "fp16-d64", "fp16-d64-causal", "bf16-d64-causal", "fp16-d64-causal-short"),
        *("fp16-d32", "fp16-d16", "fp32-d32", "fp32-d64-causal", "fp32-d128-causal"),
        *("fp16-d128-specialised", "bf16-d256-specialised"),
    ],
    "flash_attention_backward": [
        *("dq-fp16-d128", "dq-fp16-d128-causal", "dq-fp16-d64", "dq-fp16-d64-causal", "dq-fp32-d64"),
        *("dkdv-fp16-d128", "dkdv-fp16-d128-causal", "dkdv-fp16-d64", "dkdv-fp16-d64-causal", "dkdv-fp32-d64"),
    ],
    "flash_attention_decode": ["split-fp16-d128", "split-bf16-d128-causal", "merge-fp16-d128"],
}
FEW_BYTES = {("bf16-split", "100"): 16, ("fp32-backward-split", "80"): 8}  # not on sm_90, where they were tuned


@functools.cache
def everything():
    """{kernel: {variant: {target: what came out}}}, compiled once in a child without the interpreter."""
    command = [sys.executable, "-m", "tests.kernels.compile_variants", *REPRESENTATIVE]
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    child = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout)


def compiled(name):
    return everything()[name]


@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_every_variant_on_every_target(name):
    wrong = []
    for variant, targets in compiled(name).items():
        assert list(targets) == list(TARGETS)
        for target, found in targets.items():
            spilled = variant in REPRESENTATIVE[name] and found.get("stack", 0) > FEW_BYTES.get((variant, target), 0)
            if "error" in found or found["shared"] > SHARED[target] * 1024 or spilled:
                wrong.append((variant, target, found))
    assert not wrong
    assert set(REPRESENTATIVE[name]) <= set(compiled(name))


@pytest.mark.parametrize("variant", ["fp16-d128", "bf16-d64-causal", "fp16-d256-causal", "fp16-d80", "fp16-d16"])
def test_attention_uses_tensor_cores_and_asynchronous_copies(variant):
    for target, found in compiled("flash_attention")[variant].items():
        assert PRODUCT[target] in found["instructions"], target
        assert "cp.async" in found["instructions"], target


def test_warps_are_specialised_where_it_was_asked_for():
    """Those that load hand registers over: without a word the compiler leaves a loop as it is where it cannot split it."""
    for variant, targets in compiled("flash_attention").items():
        handed_over = [target for target, found in targets.items() if "setmaxnreg" in found["instructions"]]
        assert handed_over == (["90"] if variant.endswith("specialised") else []), variant


def test_fp32_attention_is_never_tf32():
    for variant, targets in compiled("flash_attention").items():
        for target, found in targets.items():
            if variant.startswith("fp32"):
                assert not {"tf32", *PRODUCT.values()} & set(found["instructions"]), (variant, target)


@pytest.mark.parametrize(
    "name, variant",
    [("vector_add", "fp32"), ("vector_add", "bf16"), ("softmax", "fp32-1024"), ("softmax", "bf16-split")],
)
def test_loads_are_16_bytes_wide(name, variant):
    assert all("ld.global.v4" in found["instructions"] for found in compiled(name)[variant].values())


def test_the_merge_waits_for_the_segments_where_it_is_launched_early():
    merge = compiled("flash_attention_decode")["merge-fp16-d128"]
    assert [target for target, found in merge.items() if "griddepcontrol.wait" in found["instructions"]] == ["90", "100", "120"]
