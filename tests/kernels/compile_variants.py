"""Child of test_compile: compiles the kernels' variants for every target and prints what came out, as JSON.

python -m tests.kernels.compile_variants NAME…, with TRITON_INTERPRET=0.
"""

import importlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget

TARGETS = (80, 90, 100, 120)
CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"  # comes with Triton
INSTRUCTIONS = ("wgmma.mma_async", "mma.sync", "tcgen05.mma", "cp.async", "tf32", "ld.global.v4", "griddepcontrol.wait", "setmaxnreg")


def resources(cubin):
    """Registers a thread, and bytes of stack a thread: what was spilled lies there."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [CUOBJDUMP, "--dump-resource-usage", file.name]
        told = subprocess.run(command, capture_output=True, text=True, check=True)
    return [int(re.search(rf"\b{key}:(\d+)", told.stdout).group(1)) for key in ("REG", "STACK")]


def compile_variant(variant, target):
    """What came out for one compute capability (90 is sm_90); a failure as its text."""
    try:
        compiled = triton.compile(variant.source(), target=GPUTarget("cuda", target, 32), options=variant.options)
    except Exception as error:  # reported with its variant by the test
        return {"error": f"{type(error).__name__}: {error}"}
    registers, stack = resources(compiled.asm["cubin"])
    found = [name for name in INSTRUCTIONS if name in compiled.asm["ptx"]]
    return {"registers": registers, "stack": stack, "shared": compiled.metadata.shared, "instructions": found}


if __name__ == "__main__":
    variants = {name: importlib.import_module(f"kernels.proof.{name}").variants(thorough=True) for name in sys.argv[1:]}
    found = {name: {variant.name: {} for variant in variants[name]} for name in variants}
    for name in variants:
        for variant in variants[name]:
            found[name][variant.name] |= {target: compile_variant(variant, target) for target in variant.targets or TARGETS}
    print(json.dumps(found))
