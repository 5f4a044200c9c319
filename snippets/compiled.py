"""What Triton makes of the attention kernel without a GPU: its PTX, and which lines of the source asked for what.

    python -m snippets.compiled 80 90

prints {capability: PTX} as JSON; `ptx` runs it, because a process that has loaded Triton for the interpreter cannot
compile. Names of the instructions: NVIDIA, PTX ISA. The specialisation is the first of the kernel's proof: fp16, head
dimension 128, no mask.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
INSTRUCTIONS = {  # tensor-core products, and copies that run beside the computation
    "mma.sync": r"\bmma\.sync",
    "wgmma": r"\bwgmma\.mma_async",
    "tcgen05.mma": r"\btcgen05\.mma",
    "cp.async": r"\bcp\.async\.c[ag]",
    "TMA": r"\bcp\.async\.bulk\.tensor",
}


def ptx(*capabilities):
    """{capability: PTX text} of the attention kernel for compute capabilities such as 90, which is sm_90."""
    command = [sys.executable, "-m", "snippets.compiled", *map(str, capabilities)]
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    child = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if child.returncode:
        raise RuntimeError(f"编译失败：\n{child.stderr}")
    return {int(capability): text for capability, text in json.loads(child.stdout).items()}


# --8<-- [start:places]
def places(text):
    """{instruction: {line of kernels/flash_attention.py: how many}} of a PTX text, by the `.loc` before each one."""
    found = {name: Counter() for name in INSTRUCTIONS}
    line = None
    for row in text.splitlines():
        if row.lstrip().startswith(".loc"):  # a call that was inlined: its own place, then @[ the caller's ]
            at = re.findall(r"\bflash_attention\.py:(\d+)", row)
            line = int(at[-1]) if at else line
        for name, pattern in INSTRUCTIONS.items():
            if re.search(pattern, row):
                found[name][line] += 1
    return found
# --8<-- [end:places]


def compile_all(capabilities):
    """In the child: {capability: PTX}."""
    import triton
    from triton.backends.compiler import GPUTarget

    from kernels.proof.flash_attention import variants

    found = {}
    for capability in capabilities:
        variant = next(v for v in variants() if not getattr(v, "targets", ()) or capability in v.targets)
        target = GPUTarget("cuda", capability, 32)
        found[capability] = triton.compile(variant.source(), target=target, options=dict(variant.options)).asm["ptx"]
    return found


if __name__ == "__main__":
    print(json.dumps(compile_all(map(int, sys.argv[1:]))))
