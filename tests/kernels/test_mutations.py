"""The proofs have teeth: each fault put into a kernel's text makes a case of its proof fail."""

import importlib
import importlib.util
from pathlib import Path

import pytest

KERNELS = Path(__file__).parents[2] / "kernels"
# what is broken: kernel, the text, what stands there instead (as often as it occurs)
FAULTS = {
    "add: no mask": ("vector_add", "mask = offsets < n_elements", "mask = offsets >= 0"),
    "add: one block": ("vector_add", "pid * BLOCK_SIZE", "0 * BLOCK_SIZE"),
    "add: operand": ("vector_add", "x + y, mask", "x + x, mask"),
    "softmax: no maximum": ("softmax", "tl.exp(x - tl.max(x, axis=0))", "tl.exp(x)"),
    "softmax: padded with 0": ("softmax", 'float("-inf")).to(COMPUTE)  # [BLOCK_SIZE]', "0.0).to(COMPUTE)"),
    "softmax: row stride": ("softmax", "row * stride_x", "row * n_cols"),
    "softmax: store without mask": ("softmax", "tl.sum(e, axis=0), mask=mask)", "tl.sum(e, axis=0))"),
    "softmax: dim ignored": ("softmax", "x.movedim(dim, -1) if", "x if"),
    "online: no correction": ("softmax", "l_i * tl.exp(m_i - m_safe)", "l_i"),
    "online: no guard": ("softmax", 'tl.where(m_new == float("-inf"), 0.0, m_new)', "m_new"),
    "online: padded with 0": ("softmax", 'start, other=float("-inf")', "start, other=0.0"),
    "online: not divided": ("softmax", "tl.exp(x - m_i) / l_i", "tl.exp(x - m_i)"),
    "online: store without mask": ("softmax", "/ l_i, mask=mask)", "/ l_i)"),
    "mask: strict": ("flash_attention", "<= offs_m[:, None] +", "< offs_m[:, None] +"),
    "mask: top-left": ("flash_attention", "offs_m[:, None] + (S_kv - S_q)", "offs_m[:, None]"),
    "mask: none": ("flash_attention", "        if CAUSAL:\n            s =", "        if False:\n            s ="),
    "mask: last keys": ("flash_attention", "if not WHOLE:", "if False:"),
    "mask: taken for whole": ("flash_attention", "WHOLE=S_kv % tiles.BLOCK_N == 0", "WHOLE=True"),
    "mask: a tile too few": ("flash_attention", "start_m + BLOCK_M + S_kv - S_q", "start_m + S_kv - S_q"),
    "mask: finite": ("flash_attention", '(S_kv - S_q), s, float("-inf"))', "(S_kv - S_q), s, -1e4)"),
    "scale: none": ("flash_attention", '"ieee") * qk_scale', '"ieee")'),
    "scale: without log2 e": ("flash_attention", "sm_scale * LOG2E", "sm_scale"),
    "scale: 1 / D": ("flash_attention", "1 / math.sqrt(D)", "1 / D"),
    "scale: padded D": ("flash_attention", "1 / math.sqrt(D)", "1 / math.sqrt(padded(D))"),
    "correction: l": ("flash_attention", "l_i * alpha", "l_i"),
    "correction: acc": ("flash_attention", "acc * alpha[:, None]", "acc"),
    "correction: inverse": ("flash_attention", "tl.exp2(m_i - m_safe)", "tl.exp2(m_safe - m_i)"),
    "correction: no guard": ("flash_attention", 'tl.where(m_new == float("-inf"), 0.0, m_new)', "m_new"),
    "maximum: of the tile only": ("flash_attention", "tl.maximum(m_i, tl.max(s, axis=1))", "tl.max(s, axis=1)"),
    "heads: interleaved": ("flash_attention", "h // group", "h % (H_q // group)"),
    "heads: first only": ("flash_attention", "h // group", "h * 0"),
    "heads: batch": ("flash_attention", "(pid // tiles // H_q)", "(pid // tiles // H_q * 0)"),
    "output: not divided": ("flash_attention", "acc / l_safe[:, None]", "acc"),
    "output: 0 / 0": ("flash_attention", "tl.where(l_i == 0.0, 1.0, l_i)", "l_i"),
    "output: past the rows": ("flash_attention", "lse, mask=offs_m < S_q)", "lse)"),
    "lse: base 2": ("flash_attention", "* 0.6931471805599453", "* 1.0"),
    "lse: maximum only": ("flash_attention", "m_i + tl.log2(l_safe)", "m_i"),
    "lse: head": ("flash_attention", "(b * H_q + h) * S_q", "h * S_q"),
    "padding: D of k and v": ("flash_attention", "start_n)[:, None] & (offs_d < D)", "start_n)[:, None] & (offs_d >= 0)"),
    "padding: rows of k and v": ("flash_attention", "offs_n < S_kv - start_n)[:, None]", "offs_n < S_kv)[:, None]"),
    "strides: k's for v": ("flash_attention", "tl.cast(stride_vs, tl.int64)", "tl.cast(stride_ks, tl.int64)"),
    "strides: last one": ("flash_attention", "x if x.stride(-1) == 1 else x.contiguous()", "x"),
}
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def load(path, name):
    """The module of a file, under the name of its kernel's function."""
    spec = importlib.util.spec_from_file_location(f"mutated_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, {"vector_add": "add"}.get(name, name))


def first_failure(name, function):
    """Name of the first case that the function fails, None if it passes all."""
    for case in importlib.import_module(f"kernels.proof.{name}").cases("cpu", function):
        try:
            case.check("cpu")
        except AssertionError:
            return case.name
    return None


@pytest.mark.parametrize("name, text, fault", FAULTS.values(), ids=FAULTS)
def test_caught(name, text, fault, tmp_path):
    source = (KERNELS / f"{name}.py").read_text("utf-8")
    assert text in source, "the kernel's text has changed; change the fault with it"
    path = tmp_path / f"{name}.py"
    path.write_text(source.replace(text, fault), "utf-8")
    assert first_failure(name, load(path, name)), "every case passed all the same"
