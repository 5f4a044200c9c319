"""The GPU's memories: how much each holds and how fast it is read, for the whole chip.

Sources: L1 and shared memory per SM from NVIDIA's Ampere and Hopper tuning guides; 19 TB/s from FlashAttention (arXiv
2205.14135), an estimate; of the H100, 31 TB/s, the L2 and the registers from FlashAttention-3 (arXiv 2407.08608, table
1), which gives the registers no bandwidth; HBM from the data sheets.
"""

from typing import NamedTuple

from snippets.roofline import GPUS

KiB, MiB = 1024, 1024**2


class Chip(NamedTuple):
    """Number of SMs; of each, L1 and shared memory together in bytes; their bytes/s over the chip; bytes of HBM."""

    sms: int
    sram_per_sm: int
    sram_bandwidth: float
    hbm: int

    @property
    def sram(self):
        """Bytes of L1 and shared memory over the chip."""
        return self.sms * self.sram_per_sm


CHIPS = {
    "A100 40 GB SXM": Chip(108, 192 * KiB, 19e12, 40 * 10**9),
    "A100 80 GB SXM": Chip(108, 192 * KiB, 19e12, 80 * 10**9),
    "H100 SXM": Chip(132, 256 * KiB, 31e12, 80 * 10**9),
    "H200 SXM": Chip(132, 256 * KiB, 31e12, 141 * 10**9),
}
H100_REGISTERS_PER_SM = 256 * KiB
H100_L2 = 50 * MiB, 12e12  # bytes, bytes/s


def faster(gpu):
    """How many times the bandwidth of HBM is that of L1 and shared memory. KeyError: unknown GPU."""
    return CHIPS[gpu].sram_bandwidth / GPUS[gpu].bandwidth


def smaller(gpu):
    """How many times HBM holds what L1 and shared memory hold. KeyError: unknown GPU."""
    return CHIPS[gpu].hbm / CHIPS[gpu].sram


def frame():
    """Data of the picture `memory-hierarchy`, JSON-plain: the H100's levels in bytes and bytes/s (None: not given)."""
    gpu = "H100 SXM"
    chip = CHIPS[gpu]
    l2, l2_bandwidth = H100_L2
    return {
        "gpu": gpu, "sms": chip.sms, "faster": faster(gpu), "smaller": smaller(gpu),
        "registers": {"bytes": chip.sms * H100_REGISTERS_PER_SM, "bandwidth": None},
        "sram": {"bytes": chip.sram, "bandwidth": chip.sram_bandwidth},
        "l2": {"bytes": l2, "bandwidth": l2_bandwidth},
        "hbm": {"bytes": chip.hbm, "bandwidth": GPUS[gpu].bandwidth},
    }
