"""Attention backward, ours beside every peer that PyTorch offers."""

from kernels.benchmarks import SEED
from kernels.benchmarks.attention import agree, backward_peers, backward_shapes, compared, offered, prepare, reference_gradients, timed
from kernels.timing import absent_note, at, need_gpu


def measure():
    """Backward alone, dq, dk and dv, fp16: ms and TFLOP/s of each peer; gradients checked by the criterion, factor 3."""
    import torch

    need_gpu()
    torch.manual_seed(SEED)
    prepare("backward")
    figures, absent = {}, {}
    for shape in backward_shapes():
        q, k, v, do = shape.draw(4)
        inputs = [x.requires_grad_() for x in (q, k, v)]
        expected = reference_gradients(q, k, v, do, shape.causal)
        for peer, run in backward_peers(shape).items():
            with at(f"attention_backward，{shape}，{peer}"):
                out = offered(peer, lambda: run(*inputs), absent, str(shape))
                if out is None:
                    continue

                def gradients(out=out):
                    return torch.autograd.grad(out, inputs, do, retain_graph=True)

                found = offered(peer, gradients, absent, str(shape))
                if found is None:
                    continue
                for name, got, wanted in zip("qkv", found, expected, strict=True):
                    agree(got, wanted, f"{peer} d{name}", factor=3)
                del found
                figures |= timed(peer, shape, gradients, 2.5)
                del out, gradients
        torch.cuda.empty_cache()
    figures |= compared(figures, backward_shapes(), "ours", "flex") | compared(figures, backward_shapes(), "ours", "sdpa_cudnn")
    return figures | absent_note(absent)
