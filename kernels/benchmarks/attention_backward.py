"""Attention backward, ours beside every peer that PyTorch offers."""

from functools import partial

from kernels.benchmarks import SEED
from kernels.benchmarks.attention import (
    agree, backward_peers, backward_shapes, compared, offered, prepare, reference_gradients, timed,
)
from kernels.timing import absent_note, at, figure, launch_us, need_gpu


def measure():
    """Backward alone, dq, dk and dv, fp16: ms and TFLOP/s of each peer; gradients checked by the criterion, factor 3.

    `..._launch_us`: what the host spends in a call of the shortest shape.
    """
    import torch

    need_gpu()
    torch.manual_seed(SEED)
    prepare("backward")
    figures, absent = {}, {}
    for shape in backward_shapes():
        q, k, v, do = shape.draw(4)
        inputs = [x.requires_grad_() for x in (q, k, v)]
        expected, calls = reference_gradients(q, k, v, do, shape.causal), {}
        for peer, run in backward_peers(shape).items():
            with at(f"attention_backward，{shape}，{peer}"):
                out = offered(peer, partial(run, *inputs), absent, str(shape))
                if out is None:
                    continue
                call = partial(torch.autograd.grad, out, inputs, do, retain_graph=True)
                found = offered(peer, call, absent, str(shape))
                if found is None:
                    continue
                for name, got, wanted in zip("qkv", found, expected, strict=True):
                    agree(got, wanted, f"{peer} d{name}", factor=3)
                if shape == backward_shapes()[0]:
                    figures[f"{peer}_launch_us"] = figure(launch_us(call), "µs")
                calls[peer] = call
                del found
        with at(f"attention_backward，{shape}"):
            figures |= timed(shape, calls, 2.5)
        del calls, call, out
        torch.cuda.empty_cache()
    figures |= compared(figures, backward_shapes(), "ours", "flex")
    figures |= compared(figures, backward_shapes(), "ours", "sdpa_cudnn")
    return figures | absent_note(absent)
