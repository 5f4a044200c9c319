"""The proofs have teeth: each fault put into a kernel's text makes a case of its proof fail."""

import contextlib
import importlib
import importlib.util
from pathlib import Path

import pytest
import torch

from .test_softmax import split_in_two_passes

KERNELS = Path(__file__).parents[2] / "kernels"
# what is broken: kernel, the text, what stands there instead (as often as it occurs)
FAULTS = {
    "add: no mask": ("vector_add", "mask = offsets < n_elements", "mask = offsets >= 0"),
    "add: one block": ("vector_add", "pid * BLOCK_SIZE", "0 * BLOCK_SIZE"),
    "add: operand": ("vector_add", "x + y, mask", "x + x, mask"),
    "softmax: no maximum": ("softmax", "x - tl.max(x, axis=1)[:, None]", "x"),
    "softmax: padded with 0": ("softmax", '0, cols), mask=mask, other=float("-inf")', "0, cols), mask=mask, other=0.0"),
    "softmax: row stride": ("softmax", "inner * strides[1]", "inner * 7"),
    "softmax: outer stride": ("softmax", "outer * strides[0]", "outer * 7"),
    "softmax: column stride": ("softmax", "tl.cast(strides[2], tl.int64)", "1"),
    "softmax: output's strides": ("softmax", "at(out_ptr, out_strides", "at(out_ptr, x_strides"),
    "softmax: store without mask": ("softmax", "0, cols), y, mask=mask)", "0, cols), y)"),
    "softmax: rows not masked": ("softmax", "(inner < n_inner) & (cols < n_cols)", "cols < n_cols"),
    "softmax: a tile too few": ("softmax", "triton.cdiv(n_inner, how.ROWS)", "max(n_inner // how.ROWS, 1)"),
    "softmax: axes merged that do not": ("softmax", "merged[-1][1] == [size * step for step in steps]", "True"),
    "online: no correction": ("softmax", "l_i * tl.exp2((m_i - m_safe) * LOG2E)", "l_i"),
    "halves-masked: no guard": ("softmax", 'tl.where(m_new == float("-inf"), 0.0, m_new)', "m_new"),
    "online: padded with 0": ("softmax", 'other=float("-inf"), eviction_policy="evict_last"', "other=0.0"),
    "online: not divided": ("softmax", "LOG2E) * scale", "LOG2E)"),
    "online: store without mask": ("softmax", 'y, mask=mask, cache_modifier=".cs"', 'y, cache_modifier=".cs"'),
    "online: last block left out": ("softmax", "(n_cols - 1) // BLOCK_SIZE *", "(n_cols // BLOCK_SIZE - 1) *"),
    "backward: no sum": ("softmax", "dy - tl.sum(y * dy, axis=1)[:, None]", "dy"),
    "backward: sum of dy": ("softmax", "tl.sum(y * dy, axis=1)[:, None]", "tl.sum(dy, axis=1)[:, None]"),
    "backward: not times y": ("softmax", "y * (dy - tl.sum", "(dy - tl.sum"),
    "backward: y's strides for dy": ("softmax", "at(dy_ptr, dy_strides", "at(dy_ptr, y_strides"),
    "wide backward: last step only": ("softmax", "total += tl.sum", "total = tl.sum"),
    "wide backward: no sum": ("softmax", "dy - total[:, None]", "dy"),
    "wide backward: store without mask": ("softmax", 'dx, mask=mask, cache_modifier=".cs"', 'dx, cache_modifier=".cs"'),
    "mask: strict": ("flash_attention", "<= offs_m[:, None] +", "< offs_m[:, None] +"),
    "mask: top-left": ("flash_attention", "offs_m[:, None] + (S_kv - S_q)", "offs_m[:, None]"),
    "mask: none": ("flash_attention", "if BLOCK_D > 128 or start_n >= whole:", "if False:"),
    "mask: last keys": ("flash_attention", "if not WHOLE:", "if False:"),
    "mask: taken for whole": ("flash_attention", "WHOLE=S_kv % blocks.BLOCK_N == 0", "WHOLE=True"),
    "mask: a tile too few": ("flash_attention", "start_m + BLOCK_M + S_kv - S_q", "start_m + S_kv - S_q"),
    "mask: finite": ("flash_attention", '(S_kv - S_q), s, float("-inf"))', "(S_kv - S_q), s, -1e4)"),
    "mask: whole tiles one too many": ("flash_attention", "tl.maximum(start_m + 1 + S_kv", "tl.maximum(start_m + BLOCK_N + S_kv"),
    "scale: none": ("flash_attention", "s * qk_scale - m_new", "s - m_new"),
    "scale: of the maximum": ("flash_attention", "tl.max(s, axis=1) * qk_scale", "tl.max(s, axis=1)"),
    "scale: sign": ("flash_attention", "q if sm_scale >= 0 else dense_rows(-q)", "q"),
    "scale: zero": ("flash_attention", "abs(sm_scale) * LOG2E, TINY", "abs(sm_scale) * LOG2E, 0.0"),
    "scale: without log2 e": ("flash_attention", "abs(sm_scale) * LOG2E", "abs(sm_scale)"),
    "scale: 1 / D": ("flash_attention", "1 / math.sqrt(q.shape[3])", "1 / q.shape[3]"),
    "scale: padded D": ("flash_attention", "1 / math.sqrt(q.shape[3])", "1 / math.sqrt(padded(q.shape[3]))"),
    "correction: l": ("flash_attention", "l_i * alpha", "l_i"),
    "correction: acc": ("flash_attention", "acc * alpha[:, None]", "acc"),
    "correction: inverse": ("flash_attention", "tl.exp2(m_i - m_new)", "tl.exp2(m_new - m_i)"),
    "maximum: of the tile only": ("flash_attention", "tl.maximum(m_i, tl.max(s, axis=1) * qk_scale)", "tl.max(s, axis=1) * qk_scale"),
    "heads: interleaved": ("flash_attention", "h // group", "h % (H_q // group)"),
    "heads: first only": ("flash_attention", "h // group", "h * 0"),
    "heads: batch": ("flash_attention", "head // H_q, head % H_q", "head // H_q * 0, head % H_q"),
    "output: not divided": ("flash_attention", "acc * (1.0 / l_safe)[:, None]", "acc"),
    "output: 0 / 0": ("flash_attention", "tl.where(l_i == 0.0, 1.0, l_i)", "l_i"),
    "output: past the rows": ("flash_attention", "lse, mask=offs_m < S_q)", "lse)"),
    "d-1: descriptor's row": ("flash_attention", "o_ptr.store([b, h, start_m, 0]", "o_ptr.store([b, h, 0, 0]"),
    "d-1: descriptor's batch": ("flash_attention", "o_ptr.store([b, h, start_m, 0]", "o_ptr.store([0, h, start_m, 0]"),
    "overlapping: empty_like": ("flash_attention", "o = output_like(q)", "o = torch.empty_like(q)"),
    "place: tile": ("flash_attention_tiles", "within >> together_log2,", "within // 2,"),
    "heads-odd: past the last": ("flash_attention", "if head >= heads:", "if head > heads:"),
    "at-minus-inf: lse": ("flash_attention", 'tl.where(l_i == 0.0, float("-inf"), ', "tl.where(False, 0.0, "),
    "at-minus-inf: maximum": ("flash_attention", "LOWEST, tl.float32", 'float("-inf"), tl.float32'),
    "lse: base 2": ("flash_attention", "* 0.6931471805599453", "* 1.0"),
    "lse: maximum only": ("flash_attention", "m_i + tl.log2(l_safe)", "m_i"),
    "lse: head": ("flash_attention", "head.to(tl.int64) * S_q", "h.to(tl.int64) * S_q"),
    "strides: q's for o": ("flash_attention", "store_tile(o_ptr, strides_o", "store_tile(o_ptr, strides_q"),
    "d-not-contiguous: strides": ("flash_attention", "map(dense_rows, (q, k, v))\n    o =", "(q, k, v)\n    o ="),
    "tiles: columns": ("flash_attention_tiles", "(tl.arange(0, BLOCK_D) < D)[None, :]", "(tl.arange(0, BLOCK_D) >= 0)[None, :]"),
    "tiles: rows": ("flash_attention_tiles", "(tl.arange(0, ROWS) < S - start)", "(tl.arange(0, ROWS) < S)"),
    "one-tile: row stride": ("flash_attention_tiles", "rows[:, None] * strides[2]", "rows[:, None] * strides[1]"),
    "tiles: head of the batch": ("flash_attention_tiles", "tl.cast(b, tl.int64) * strides[0]", "tl.cast(b, tl.int64) * strides[1]"),
    "tiles: descriptor's row": ("flash_attention_tiles", "x.load([b, h, start, 0])", "x.load([b, h, 0, 0])"),
    "dq: delta": ("flash_attention_backward", "ds = p * (dp - delta[:, None])", "ds = p * dp"),
    "dq: lse": ("flash_attention_backward", "s * qk_scale - lse[:, None]", "s * qk_scale"),
    "dq: mask": ("flash_attention_backward", "<= offs_m[:, None] + (S_kv - S_q), p, 0.0", "<= offs_m[:, None], p, 0.0"),
    "scores-far-below-0: last keys": ("flash_attention_backward", "(offs_n < S_kv - start_n)[None, :], p, 0.0", "(offs_n >= 0)[None, :], p, 0.0"),
    "dq: scale": ("flash_attention_backward", "dq * sm_scale", "dq"),
    "dq: key head": ("flash_attention_backward", "h_kv = h // group", "h_kv = h % (H_q // group)"),
    "delta: dlse": ("flash_attention_backward", "delta -= tl.load(dlse_ptr", "delta += tl.load(dlse_ptr"),
    "delta: rows": ("flash_attention_backward", "delta_ptr + head.to(tl.int64) * S_pad", "delta_ptr + h.to(tl.int64) * S_pad"),
    "dkdv: mask": ("flash_attention_backward", "(start_m + offs_m)[None, :] + (S_kv - S_q)", "(start_m + offs_m)[None, :]"),
    "dkdv: first rows": ("flash_attention_backward", "tl.maximum(start_n + S_q - S_kv, 0)", "tl.maximum(start_n, 0)"),
    "dkdv: rows that see all": ("flash_attention_backward", "start_n + BLOCK_N - 1 + S_q - S_kv", "start_n + S_q - S_kv"),
    "dkdv: one head of a group": ("flash_attention_backward", "for one in range(group)", "for one in range(1)"),
    "dkdv: scale": ("flash_attention_backward", "dk * sm_scale", "dk"),
    "dkdv: delta": ("flash_attention_backward", "dp - delta[None, :]", "dp"),
    "backward: strides of dO": ("flash_attention_backward", "dense_rows, (q, k, v, do, o)", "lambda x: x, (q, k, v, do, o)"),
    "split: segment": ("flash_attention_decode", "begin = split * segment", "begin = 0"),
    "split: last keys": ("flash_attention_decode", "seen = (offs_n < S_kv - start_n)", "seen = (offs_n >= 0)"),
    "grouped-rows-causal: mask": ("flash_attention_decode", "<= i[:, None] + (S_kv - S_q)", "<= rows[:, None] + (S_kv - S_q)"),
    "heads-enough: base 2": ("flash_attention_decode", "lse *= 0.6931471805599453", "lse *= 1.0"),
    "heads-enough: head": ("flash_attention_decode", "        o_offsets = b.to(tl.int64) * strides_o[0]", "        o_offsets = 0 * strides_o[0]"),
    "merge: unweighted": ("flash_attention_decode", "tl.sum(w[:, None] * part, axis=0)", "tl.sum(part, axis=0)"),
    "segments-unseen: correction of the merge": ("flash_attention_decode", "acc = acc * alpha + tl.sum(w", "acc = acc + tl.sum(w"),
    "segments-unseen: first segments only": ("flash_attention_decode", "range(0, splits, BLOCK_S)", "range(0, 2, BLOCK_S)"),
    "merge: lse": ("flash_attention_decode", "(m_i + tl.log2(l_safe)) * 0.6931471805599453", "m_i * 0.6931471805599453"),
    "at-minus-inf: maximum of a segment": ("flash_attention_decode", "m_i = tl.full([ROWS], LOWEST", 'm_i = tl.full([ROWS], float("-inf")'),
    "at-minus-inf: lse of a segment": ("flash_attention_decode", 'lse = tl.where(l_i == 0.0, float("-inf"), ', "lse = tl.where(False, 0.0, "),
    "at-minus-inf: maximum of the merge": ("flash_attention_decode", "tl.full([], LOWEST", 'tl.full([], float("-inf")'),
    "at-minus-inf: lse of the merge": ("flash_attention_decode", 'pid, tl.where(l_i == 0.0, float("-inf"), ', "pid, tl.where(False, 0.0, "),
    "row-at-minus-inf: lse": ("flash_attention_backward", 'tl.where(lse == float("-inf"), float("inf"), lse)', "lse"),
}
IN_PARTS = {  # in the split kernels of softmax, which the proof leaves to a GPU: the text, what stands there instead
    "maximum of this part": ("l_each * tl.exp2((m_each - m)", "l_each * tl.exp2((m_each - m_i)"),
    "maximum not merged": ("    m = tl.max(", "    m = tl.min("),
    "maximum of parts that are none": ('PARTS, m_each, float("-inf"))', "PARTS, m_each, 0.0)"),
    "sums not scaled": ("l_each * tl.exp2((m_each - m) * LOG2E)", "l_each"),
    "exponentials not scaled": ("e * (tl.exp2((m_i - m) * LOG2E) / l)", "e / l"),
    "no guard": ('tl.where(m_i == float("-inf"), 0.0, m_i)', "m_i"),
    "padded with 0": ('cols), mask=mask, other=float("-inf")).to(tl.float32)', "cols), mask=mask, other=0.0).to(tl.float32)"),
    "store without mask": ("start, cols), y, mask=mask)", "start, cols), y)"),
    "numbers swapped": ("share(words_ptr, part, m_i, tl.sum(e, axis=0))", "share(words_ptr, part, tl.sum(e, axis=0), m_i)"),
    "first number shifted too little": ("high << 32", "high << 31"),
    "first number lost": ("(high << 32) |", "(1 << 32) |"),
    "second number lost": ("| (low & 0xFFFFFFFF)", ""),
    "first number read elsewhere": ("words >> 32", "words >> 31"),
    "words of the first row": ("words_ptr += row.to(tl.int64) * PARTS", "words_ptr += 0"),
    "words of the row before too": ("words_ptr += row.to(tl.int64) * PARTS", "words_ptr += row.to(tl.int64) * (PARTS - 1)"),
    "word of the first part": ("words_ptr + part", "words_ptr"),
    "a part too few": ("words = tl.where(each < PARTS, words, 0)", "words = tl.where(each < PARTS - 1, words, 0)"),
    "a word of 0": ("tl.full([], 1.0, tl.float32)", "tl.full([], 0.0, tl.float32)"),
    "backward, sum of this part": ("dy - tl.sum(each, axis=0)", "dy - total"),
    "backward, sum of dy": ("total = tl.sum(y * dy, axis=0)", "total = tl.sum(dy, axis=0)"),
    "backward, store without mask": ("y * (dy - tl.sum(each, axis=0)), mask=mask)", "y * (dy - tl.sum(each, axis=0)))"),
}
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def load(path, name):
    """What a file defines: its kernel's function, or the module where name is None."""
    spec = importlib.util.spec_from_file_location(f"mutated_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module if name is None else getattr(module, {"vector_add": "add"}.get(name, name))


PARTS = ("flash_attention", "flash_attention_backward", "flash_attention_decode", "flash_attention_tiles")


def install(name, part, monkeypatch):
    """Put the functions of a mutated part of flash_attention wherever the modules have those of the part itself."""
    original = importlib.import_module(f"kernels.{name}")
    modules = [importlib.import_module(f"kernels.{other}") for other in PARTS]
    for key, value in vars(original).items():
        if getattr(getattr(value, "fn", value), "__module__", None) == original.__name__:  # fn: of a kernel
            for module in modules:
                if vars(module).get(key) is value:
                    monkeypatch.setattr(module, key, getattr(part, key))


def first_failure(name, function=None, likely=""):
    """Name of a case that the function fails, None if it passes all; without one, the module's own is proved.

    likely: what the names of cases begin with that are tried before the others.
    """
    cases = importlib.import_module(f"kernels.proof.{name}").cases("cpu", *filter(None, [function]))
    for case in sorted(cases, key=lambda case: not case.name.startswith(likely)):
        try:
            case.check("cpu")
        except AssertionError:
            return case.name
    return None


@pytest.mark.parametrize("broken", FAULTS)
def test_caught(broken, tmp_path, monkeypatch):
    name, text, fault = FAULTS[broken]
    source = (KERNELS / f"{name}.py").read_text("utf-8")
    assert text in source, "the kernel's text has changed; change the fault with it"
    path = tmp_path / f"{name}.py"
    path.write_text(source.replace(text, fault), "utf-8")
    if name in PARTS[1:]:
        install(name, load(path, None), monkeypatch)
        function, name = None, "flash_attention" if name == "flash_attention_tiles" else name
    else:
        function = load(path, name)
    found = first_failure(name, function, likely=broken.partition(":")[0])
    assert found, "every case passed all the same"


@pytest.mark.parametrize("broken", ["nothing", *IN_PARTS])
def test_caught_in_parts(broken, tmp_path):
    """`nothing`: what is changed for all of them, that no program waits, is no fault."""
    text, fault = IN_PARTS.get(broken, ("", ""))
    source, path = (KERNELS / "softmax.py").read_text("utf-8"), tmp_path / "softmax.py"
    waiting = "while tl.min((words != 0).to(tl.int32), axis=0) == 0:"
    assert text in source and waiting in source, "the kernel's text has changed; change the fault with it"
    path.write_text((source.replace(text, fault) if text else source).replace(waiting, "if False:"), "utf-8")
    with contextlib.nullcontext() if broken == "nothing" else pytest.raises(AssertionError):
        split_in_two_passes(load(path, None), (2, 2), 41, 5, torch.float32)
