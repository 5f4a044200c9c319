"""kernels.flash_attention as an operator of torch: what autograd, torch.compile and torch.library make of it."""

import pytest
import torch

from kernels import flash_attention as module
from kernels.flash_attention import flash_attention
from kernels.proof.flash_attention import LAYOUTS

UNSEEN = pytest.mark.filterwarnings("ignore::UserWarning")  # torch's own, of its compiler


def leaves(H=4, S_q=9, S_kv=12):
    """q, k and v that want gradients, two query heads a key-value head."""
    return [torch.randn(1, heads, S, 8, requires_grad=True) for heads, S in ((H, S_q), (H // 2, S_kv), (H // 2, S_kv))]


@UNSEEN
@pytest.mark.parametrize("layout", ["plain", "token-major", "expanded", "overlapping"])
@pytest.mark.parametrize("D", [8, 1])
def test_forward_passes_opcheck(layout, D):
    q, k, v = drawn(layout, D)
    torch.library.opcheck(module.attention_op, (q, k, v, True, 0.3))


def drawn(layout, D):
    """q [2, 4, 9, D], k and v [2, 2, 12, D] in a layout; they want gradients unless elements are shared, which opcheck refuses."""
    shared = layout in ("expanded", "overlapping")
    return [LAYOUTS[layout](2, H, S, D, torch.randn).requires_grad_(not shared) for H, S in ((4, 9), (2, 12), (2, 12))]


@UNSEEN
@pytest.mark.parametrize("of_lse", [False, True])
@pytest.mark.parametrize("layout", ["plain", "token-major", "expanded", "overlapping"])
@pytest.mark.parametrize("D", [8, 1])
def test_backward_passes_opcheck(of_lse, layout, D):
    q, k, v = (x.detach() for x in drawn(layout, D))
    o, lse = module.attention_op(q, k, v, True, 0.3)
    dlse = torch.randn_like(lse) if of_lse else None
    torch.library.opcheck(module.gradients_op, (torch.randn_like(o), dlse, q, k, v, o, lse, True, 0.3))


@UNSEEN
def test_torch_compile_traces_it_whole():
    def loss(q, k, v):
        return flash_attention(q * 2, k, v, causal=True).square().sum()

    inputs = leaves()
    traced = torch.autograd.grad(torch.compile(loss, backend="aot_eager", fullgraph=True)(*inputs), inputs)
    for found, expected in zip(traced, torch.autograd.grad(loss(*inputs), inputs)):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("written", ["q", "k", "v", "o"])
def test_a_write_in_place_before_backward_raises(written):
    tensors = dict(zip("qkv", [x * 1 for x in leaves()]))
    tensors["o"] = flash_attention(**tensors)
    tensors[written].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        tensors["o"].sum().backward()


def test_a_second_gradient_is_refused():
    q, k, v = leaves()
    (dq,) = torch.autograd.grad(flash_attention(q, k, v).square().sum(), q, create_graph=True)
    with pytest.raises(NotImplementedError, match="只有一阶梯度"):
        dq.sum().backward()


def test_gradients_without_the_log_sum_exp_and_of_one_input():
    q, k, v = leaves()
    o = flash_attention(q, k.detach(), v.detach())
    o.sum().backward()
    assert q.grad.shape == q.shape and q.grad.isfinite().all() and k.grad is None


def test_no_graph_is_kept_without_gradients():
    with torch.no_grad():
        assert not flash_attention(*leaves()).requires_grad


@UNSEEN
def test_a_transform_and_a_mode_see_the_operator():
    """Without gradients the kernel is called past the dispatcher; not where something there wants to see the call."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    q, k, v = (x.detach() for x in leaves())
    with Watch():
        flash_attention(q, k, v)
    assert module.attention_op._opoverload in seen
    one = torch.vmap(lambda *qkv: flash_attention(*qkv, causal=True))(*(x[None] for x in (q, k, v)))
    assert torch.equal(one[0], flash_attention(q, k, v, causal=True))


@UNSEEN
def test_a_negative_scale_lies_as_opcheck_expects():
    q = torch.randn(1, 5, 3, 32)[..., ::2].transpose(1, 2)
    k = v = torch.randn(1, 3, 7, 16)
    torch.library.opcheck(module.attention_op, (q, k, v, False, -0.3))


@UNSEEN
def test_scales_that_change_are_compiled():
    q, k, v = (x.detach() for x in leaves())
    compiled = torch.compile(flash_attention, backend="eager", fullgraph=True)
    for scale in (0.3, 0.4, 1, 2):
        assert torch.equal(compiled(q, k, v, sm_scale=scale), flash_attention(q, k, v, sm_scale=scale))


def test_batched_upstream_gradients():
    """One call for several of them, by the older vmap of autograd."""
    q, k, v = leaves()
    o = flash_attention(q, k, v)
    several = torch.randn(3, *o.shape)
    found = torch.autograd.grad(o, (q, k, v), several, is_grads_batched=True, retain_graph=True)
    each = [torch.autograd.grad(o, (q, k, v), do, retain_graph=True) for do in several]
    for number, x in enumerate(found):
        assert torch.equal(x, torch.stack([one[number] for one in each]))
    lse = flash_attention(q, k, v, return_lse=True)[1]
    several = torch.randn(3, *lse.shape)
    (found,) = torch.autograd.grad(lse, q, several, is_grads_batched=True, retain_graph=True)
    assert torch.equal(found, torch.stack([torch.autograd.grad(lse, q, one, retain_graph=True)[0] for one in several]))


def negative(x):
    """x, bit for bit what -x is elsewhere: its memory holds -x, and torch knows."""
    y = torch._neg_view(-x)
    assert y.is_neg() and torch.equal(y, x)
    return y


def test_the_negative_bit():
    q, k, v = (x.detach() for x in leaves())
    want = flash_attention(q, k, v)
    for seen in ((negative(q), k, v), (q, negative(k), v), (q, k, negative(v))):
        assert torch.equal(flash_attention(*seen), want)
    q, k, v = leaves()
    o, lse = flash_attention(q, k, v, return_lse=True)
    do, dlse = torch.randn_like(o), torch.randn_like(lse)
    want = torch.autograd.grad((o, lse), (q, k, v), (do, dlse), retain_graph=True)
    for a, b in zip(torch.autograd.grad((o, lse), (q, k, v), (negative(do), negative(dlse))), want):
        assert torch.equal(a, b)
