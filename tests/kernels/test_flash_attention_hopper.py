"""The Hopper kernels without a GPU: what they take is known before anything is compiled, and what comes out for sm_90."""

import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import triton

from kernels import flash_attention_hopper as module
from kernels import flash_attention_hopper_backward as backward
from kernels.proof import flash_attention_hopper as proof
from kernels.proof import flash_attention_hopper_backward as backward_proof

ROOT = Path(__file__).parents[2]
SHARED = 227 * 1024  # bytes a block may have on sm_90
CHILD = """
import json, re, subprocess, sys, tempfile
from pathlib import Path
import triton
from triton.backends.compiler import GPUTarget
from kernels.proof import flash_attention_hopper, flash_attention_hopper_backward

TOOLS = Path(triton.__file__).parent / "backends/nvidia/bin"

def compiled(variant):
    built = triton.compile(variant.source(), target=GPUTarget("cuda", 90, 32), options=variant.options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(built.asm["cubin"])
        file.flush()
        run = lambda *command: subprocess.run([*command, file.name], capture_output=True, text=True, check=True).stdout
        sass, usage = run(TOOLS / "nvdisasm", "-c"), run(TOOLS / "cuobjdump", "--dump-resource-usage")
    letters = {"HGMMA": "H", "WARPGROUP.DEPBAR": "D", "MUFU.EX2": "E", "ACQBULK": "A", "ATOMG": "C"}
    letters |= {"UTMALDG": "L", "UTMASTG": "S", "USETMAXREG": "R"}
    met = re.findall("|".join(letters), sass)
    found = {name: met.count(name) for name in letters} | {"order": "".join(letters[name] for name in met)}
    return found | {"stack": int(re.search("STACK:([0-9]+)", usage)[1]), "shared": built.metadata.shared}

proofs = (flash_attention_hopper, flash_attention_hopper_backward)
print(json.dumps({variant.name: compiled(variant) for proof in proofs for variant in proof.variants(thorough=True)}))
"""


@functools.cache
def compiled():
    """{variant: machine instructions, stack and shared memory in bytes}, from a child without the interpreter."""
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    command = [sys.executable, "-c", CHILD]
    child = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout)


NAMES = [f"{dtype}-d{D}{mask}" for dtype in ("fp16", "bf16") for D in (64, 128, 256) for mask in ("", "-causal")]
NAMES += [f"{part}-{name}" for part in ("dq", "dkdv") for name in NAMES if "256" not in name]


@pytest.mark.parametrize("name", NAMES)
def test_compiles_for_hopper(name):
    found = compiled()[name]
    assert found["stack"] <= 64 * name.startswith("dkdv") and found["shared"] <= SHARED  # a few registers, mostly where the tile changes
    assert found["UTMALDG"] and found["UTMASTG"] and found["USETMAXREG"]


@pytest.mark.parametrize("name", NAMES)
def test_products_stay_in_flight(name):
    """Where ptxas cannot follow a product's registers it waits after each instruction: as many waits as products."""
    found = compiled()[name]
    assert 0 < found["WARPGROUP.DEPBAR"] <= found["HGMMA"] / 5


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("name, exponentials", [("{}-d128-causal", 64), ("dkdv-{}-d128", 32)])
def test_waits_after_the_exponentials(name, exponentials, dtype):
    """Where `pin` says so, a block's exponentials stand between the wait for its scores and that for the other products."""
    assert re.search(f"HDE{{{exponentials},}}D", compiled()[name.format(dtype)]["order"])


@pytest.mark.parametrize("D", module.HEAD_DIMS)
@pytest.mark.parametrize("causal", [False, True])
def test_waits_for_the_counter_before_it_takes_from_it(D, causal):
    """The launch is early: the kernel that sets the counter to 0 may not have ended."""
    found = compiled()[f"fp16-d{D}" + "-causal" * causal]
    dynamic = module.config(D, causal).DYNAMIC
    assert found["ACQBULK"] == dynamic and bool(found["ATOMG"]) == dynamic
    assert not re.search("C.*A", found["order"])


def test_variants_are_for_hopper_alone():
    for one in (proof, backward_proof):
        assert {variant.targets for variant in one.variants(thorough=True)} == {(90,)}
        assert one.cases("cpu") == []


class OnHopper:
    """A CPU tensor that says it lies on a GPU."""

    is_cuda = True

    def __init__(self, x):
        self.x = x

    def __getattr__(self, name):
        return getattr(self.x, name)


def tensors(B=2, H=4, S=24, D=64, dtype=torch.float16, S_kv=24):
    return [torch.zeros(B, H, n, D, dtype=dtype) for n in (S, S_kv, S_kv)]


@pytest.fixture
def supported(monkeypatch):
    """`supported` as it answers on a device of a given compute capability, without the interpreter."""

    def ask(q, k, v, capability=(9, 0), do=None, o=None):
        monkeypatch.setattr(triton.knobs.runtime, "interpret", False)
        monkeypatch.setattr(module, "capability", lambda x: capability)
        if do is None:
            return module.supported(*map(OnHopper, (q, k, v)))
        return backward.supported(*map(OnHopper, (q, k, v, do, o)))

    return ask


@pytest.mark.parametrize("D", module.HEAD_DIMS)
@pytest.mark.parametrize("dtype", module.DTYPES)
def test_what_it_takes(supported, D, dtype):
    assert supported(*tensors(D=D, dtype=dtype))
    assert supported(*tensors(S=1, S_kv=1, D=D, dtype=dtype))


@pytest.mark.parametrize("given", [{"D": 32}, {"D": 96}, {"D": 512}, {"dtype": torch.float32}, {"S_kv": 0}], ids=str)
def test_what_it_leaves(supported, given):
    assert not supported(*tensors(**given))


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (8, 9), (10, 0), (12, 0)])
def test_other_devices(supported, capability):
    assert not supported(*tensors(), capability=capability)


def test_neither_on_the_cpu_nor_in_the_interpreter(monkeypatch):
    monkeypatch.setattr(module, "capability", lambda x: (9, 0))
    monkeypatch.setattr(triton.knobs.runtime, "interpret", True)
    assert not module.supported(*map(OnHopper, tensors()))
    monkeypatch.setattr(triton.knobs.runtime, "interpret", False)
    assert not module.supported(*tensors())


VIEWS = {
    "token-major": (lambda x: x.transpose(1, 2), True),
    "expanded": (lambda x: x[:1].expand(5, -1, -1, -1), True),
    "every-other-row": (lambda x: x[:, :, ::2], True),
    "columns-8-on": (lambda x: x[..., 8:72], True),
    "columns-1-on": (lambda x: x[..., 1:65], False),  # base address
    "rows-of-132": (lambda x: x.reshape(-1)[: 2 * 4 * 20 * 132].view(2, 4, 20, 132)[..., :64], False),  # stride
    "every-other-column": (lambda x: x[..., ::2], False),
    "one-row-of-132": (lambda x: x.reshape(-1)[:132].view(1, 1, 1, 132)[..., :64], True),  # its stride is never used
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("place", range(3))
def test_strides(supported, view, place):
    change, taken = VIEWS[view]
    whole = [torch.zeros(2, 4, 24, 128, dtype=torch.float16) for _ in range(3)]
    given = [change(x) if at == place else x[..., :64] for at, x in enumerate(whole)]
    assert given[place].shape[3] in (64, 128)
    assert supported(*given) == taken


def test_what_the_gradients_take(supported):
    q, k, v = tensors()
    assert supported(q, k, v, do=q, o=q)
    assert supported(q, k, v, do=q[:1, :1, :1].expand_as(q), o=q)  # of o.sum()
    assert not supported(q, k, v, do=torch.zeros(2, 4, 24, 65, dtype=q.dtype)[..., 1:], o=q)  # strides and base address
    assert not supported(q, k, v, do=q, o=torch.zeros(2, 4, 24, 68, dtype=q.dtype)[..., :64])
    for given in ({"D": 256}, {"dtype": torch.float32}, {"S": 0}, {"S_kv": 0}):
        q, k, v = tensors(**given)
        assert not supported(q, k, v, do=q, o=q)
    assert 128 * (backward.CONSUMERS.value + 1) * backward.MAXNREG <= 65536


@pytest.mark.parametrize("D", module.HEAD_DIMS)
@pytest.mark.parametrize("causal", [False, True])
def test_configurations_fill_the_registers(D, causal):
    chosen = module.config(D, causal)
    warpgroups = chosen.CONSUMERS + 1
    assert 128 * warpgroups * chosen.maxnreg <= 65536
    assert chosen.CONSUMERS * chosen.CONSUMER_REGISTERS + chosen.PRODUCER_REGISTERS <= warpgroups * chosen.maxnreg
    assert not chosen.CONSUMER_REGISTERS % 8 and not chosen.PRODUCER_REGISTERS % 8  # what setmaxnreg takes
