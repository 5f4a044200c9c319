"""snippets.compiled: counts by source line from a small text, and from what Triton makes of the kernel for sm_90."""

import math
import re
from pathlib import Path

import pytest

from kernels.proof.flash_attention import variants
from snippets import compiled

SOURCE = (Path(compiled.ROOT) / "kernels/flash_attention.py").read_text("utf-8").splitlines()


def test_places():
    text = "\n".join(
        [
            "\twgmma.fence.sync.aligned;",
            "\t.loc\t1 76 22   // flash_attention.py:76:22",
            "\twgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%r1}, %rd1;",
            "\t.loc\t1 76 0   // flash_attention.py:76",
            "\twgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%r1}, %rd1;",
            "\t.loc\t2 9 4    // flash_attention_tiles.py:9:4 @[ flash_attention.py:75:12 ]",
            "\tcp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1];",
            "\tcp.async.bulk.commit_group;",
            "\tcp.async.commit_group;",
        ]
    )
    assert {name: dict(lines) for name, lines in compiled.places(text).items() if lines} == {"wgmma": {76: 2}, "TMA": {75: 1}}


@pytest.fixture(scope="module")
def sm_90():
    return compiled.ptx(90)[90]


def test_the_products_come_from_the_dots(sm_90):
    lines = compiled.places(sm_90)["wgmma"]
    assert len(lines) == 2 and all("tl.dot" in SOURCE[line - 1] for line in lines)


def test_shapes_times_warpgroups_make_the_tile(sm_90):
    """What the page has the reader work out: both products of a tile, BLOCK_M x BLOCK_N x D each."""
    shapes = re.findall(r"wgmma\.mma_async\S*?\.m(\d+)n(\d+)k(\d+)", sm_90)
    warpgroups = int(re.search(r"\.reqntid (\d+)", sm_90)[1]) // 128
    tile = next(v for v in variants() if not getattr(v, "targets", ()) or 90 in v.targets).constexprs
    each = tile["BLOCK_M"] * tile["BLOCK_N"] * tile["D"]
    assert warpgroups * sum(math.prod(map(int, shape)) for shape in shapes) == 2 * each


def test_a_failure_is_told():
    with pytest.raises(RuntimeError, match="编译失败"):
        compiled.ptx("none")
