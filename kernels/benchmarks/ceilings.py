"""What the machine reaches: device copy, and 8192^3 products over a short and a long run, with clock and power."""

from kernels.benchmarks import DEVICE, SEED
from kernels.timing import (
    absent_note, at, check_close, early_and_late, figure, gbps, median_ms, need_gpu, smi_under_load, sustained, tflops,
)

PRODUCT = 8192  # rows and columns of the matrices
COPY = 1 << 29  # fp32 elements of the copy: 2 GiB read, 2 GiB written


def measure():
    """What the machine reaches: device copy, and 8192³ products over a short and a long run, with clock and power."""
    import torch

    need_gpu()
    torch.manual_seed(SEED)
    with at("ceilings，显存拷贝"):
        found = {"copy_gbps": figure(_copy_gbps(), "GB/s")}
    absent = {}
    for name, dtype, tolerance in (("fp16", torch.float16, 2e-3), ("bf16", torch.bfloat16, 1e-2)):
        with at(f"ceilings，{name} 8192³ 矩阵乘"):
            found |= _product(name, dtype, tolerance, absent)
    return found | absent_note(absent)


def _copy_gbps():
    """GB/s of a copy within device memory, 2 GiB read and 2 GiB written."""
    import torch

    source = torch.randn(COPY, device=DEVICE)
    target = torch.empty_like(source)
    ms = median_ms(lambda: target.copy_(source), rep=200)
    if not torch.equal(source, target):
        raise AssertionError("拷贝的结果与来源不同")
    return gbps(2 * source.nbytes, ms)


def _product(name, dtype, tolerance, absent):
    """Figures of a PRODUCT³ product: the first 0.1 s after a pause, after 3 s of load, the drop, nvidia-smi under that load."""
    import subprocess
    import time

    import torch

    size = PRODUCT
    a, b = (torch.randn(size, size, device=DEVICE, dtype=dtype) for _ in range(2))
    out = torch.empty_like(a)

    def product():
        return torch.mm(a, b, out=out)

    check_close(product()[:256], a[:256].double() @ b.double(), tolerance, f"{name} 矩阵乘")
    torch.cuda.synchronize()
    time.sleep(1)  # let the card cool and raise its clock again: the short figure is that of a rested card
    short, late = (tflops(2 * size**3, ms) for ms in early_and_late(sustained(product)))
    figures = {
        f"{name}_short_tflops": figure(short, "TFLOP/s"),
        f"{name}_sustained_tflops": figure(late, "TFLOP/s"),
        f"{name}_drop_percent": figure(100 * (1 - late / short), "%"),
    }
    try:
        figures |= {f"{name}_{key}": told for key, told in smi_under_load(product, calls=600).items()}
    except (OSError, subprocess.SubprocessError) as error:
        absent["nvidia-smi"] = type(error).__name__
    return figures
