"""Attention of one query row on many keys, ours beside every peer that PyTorch offers."""

from functools import partial

from kernels.benchmarks import DEVICE, SEED
from kernels.benchmarks.attention import agree, decode_peers, offered, reference
from kernels.timing import absent_note, at, figure, interleaved_ms, launch_us, moved, need_gpu

SIZES = ((1, 8192), (1, 32768), (1, 131072), (16, 8192), (16, 32768), (16, 131072))  # (B, S_kv)
HEADS = (32, 8, 128)  # query heads, key-value heads, d


def measure():
    """One query row against S_kv keys, grouped heads, fp16: ms (20 % to 80 % of the readings: `_low`, `_high`), GB/s of K, V.

    `read`: as many bytes read once and nothing else, by torch's sum; `ours_over_read_…`, `ours_over_sdpa_cudnn_…`: of rates.
    """
    import torch

    need_gpu()
    torch.manual_seed(SEED)
    figures, absent = {}, {}
    H_q, H_kv, d = HEADS
    for B, S_kv in SIZES:
        def draw(H, S, B=B):
            return torch.randn(B, H, S, d, device=DEVICE, dtype=torch.float16)

        q, k, v = draw(H_q, 1), draw(H_kv, S_kv), draw(H_kv, S_kv)
        expected, calls = reference(q, k, v, False), {}
        for peer, run in decode_peers().items():
            call = partial(run, q, k, v)
            with at(f"attention_decode，B={B}，S_kv={S_kv}，{peer}"):
                out = offered(peer, call, absent, f"B={B} S_kv={S_kv}")
                if out is None:
                    continue
                agree(out, expected, peer)
                calls[peer] = call
                if (B, S_kv) == SIZES[0]:
                    figures[f"{peer}_launch_us"] = figure(launch_us(call), "µs")
        calls["read"] = partial(torch.sum, torch.zeros((k.nbytes + v.nbytes) // 4, device=DEVICE))
        with at(f"attention_decode，B={B}，S_kv={S_kv}"):
            times = interleaved_ms(calls)
        for peer in times:
            figures |= moved(f"{peer}_{{}}_{S_kv}_b{B}", k.nbytes + v.nbytes, times[peer])
        for peer in {"read", "sdpa_cudnn"} & times.keys():
            figures[f"ours_over_{peer}_{S_kv}_b{B}"] = figure(times[peer][1] / times["ours"][1], "倍")
        torch.cuda.empty_cache()
    return figures | absent_note(absent)
