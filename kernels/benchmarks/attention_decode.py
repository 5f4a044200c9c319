"""Attention of one query row on many keys, ours beside every peer that PyTorch offers."""

from kernels.benchmarks import DEVICE, SEED
from kernels.benchmarks.attention import agree, decode_peers, offered, reference
from kernels.timing import absent_note, at, cache_bytes, figure, gbps, graph_ms, need_gpu, rotation

SIZES = ((1, 8192), (1, 32768), (1, 131072), (16, 8192), (16, 32768), (16, 131072))  # (B, S_kv)
HEADS = (32, 8, 128)  # query heads, key-value heads, d


def measure():
    """One query row against S_kv keys, grouped heads, fp16: ms, and GB/s of reading K and V once."""
    import torch

    need_gpu()
    torch.manual_seed(SEED)
    figures, absent = {}, {}
    H_q, H_kv, d = HEADS
    for B, S_kv in SIZES:
        def draw(H, S, B=B):
            return torch.randn(B, H, S, d, device=DEVICE, dtype=torch.float16)

        moved = 2 * B * H_kv * S_kv * d * 2  # bytes of K and V
        sets = [(draw(H_q, 1), draw(H_kv, S_kv), draw(H_kv, S_kv)) for _ in range(rotation(moved, cache_bytes()))]
        expected = reference(*sets[0], False)
        for peer, run in decode_peers().items():
            with at(f"attention_decode，B={B}，S_kv={S_kv}，{peer}"):
                out = offered(peer, lambda: run(*sets[0]), absent, f"B={B} S_kv={S_kv}")
                if out is None:
                    continue
                agree(out, expected, peer)
                ms = graph_ms([lambda run=run, qkv=qkv: run(*qkv) for qkv in sets])  # launches take as long as the work
                figures[f"{peer}_ms_{S_kv}_b{B}"] = figure(ms, "ms")
                figures[f"{peer}_gbps_{S_kv}_b{B}"] = figure(gbps(moved, ms), "GB/s")
        del sets
        torch.cuda.empty_cache()
    return figures | absent_note(absent)
