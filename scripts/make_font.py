"""Cut the site's mathematics font out of STIX Two Math: the characters a formula needs, as WOFF2.

Run by hand when the character list changes; docs/assets/fonts/README.txt gives the whole command.
Needs fonttools and brotli, which the site itself does not.
"""

import hashlib
import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

TARGET = Path(__file__).parent.parent / "docs/assets/fonts/stix-two-math.woff2"

# The font of the release named in README.txt; any other gives other bytes, so it is refused.
SOURCE_SHA256 = "8f42cb183a85043a4dc3f8e41ac3821eb27bf178d68ace929ba439523622323c"

# First and last code point of each range kept. √ (U+221A) lies in the operators: no MathML text
# contains it, yet <msqrt> draws it, so a list made from the pages' characters would lose it.
RANGES = [
    (0x0020, 0x007E),  # Latin, digits
    (0x00A0, 0x00A0), (0x00AC, 0x00AC), (0x00AF, 0x00B1), (0x00B4, 0x00B4), (0x00B7, 0x00B7),
    (0x00D7, 0x00D7), (0x00F7, 0x00F7),  # ¬ ± · × ÷
    (0x02C6, 0x02C7), (0x02D8, 0x02DA), (0x02DC, 0x02DC),  # accents, standing alone as MathML has them
    (0x0300, 0x0305), (0x0307, 0x0308), (0x030A, 0x030C), (0x0332, 0x0333), (0x0338, 0x0338),
    (0x0391, 0x03C9), (0x03D1, 0x03D1), (0x03D5, 0x03D6), (0x03F1, 0x03F1), (0x03F5, 0x03F5),  # Greek
    (0x2010, 0x2016), (0x2018, 0x201D), (0x2020, 0x2022), (0x2026, 0x2026),  # dashes, quotes, dots
    (0x2032, 0x2035), (0x203E, 0x203E), (0x2044, 0x2044), (0x2057, 0x2057),  # primes, bars
    (0x2061, 0x2064),  # invisible operators
    (0x20D7, 0x20D7),  # vector arrow
    (0x2102, 0x2102), (0x210B, 0x2113), (0x2115, 0x2115), (0x2118, 0x211D), (0x2124, 0x2124),
    (0x212C, 0x2134),  # ℂ ℋ ℓ ℕ ℝ ℤ: letters that stand outside their alphabets' blocks
    (0x2190, 0x22FF),  # arrows, operators
    (0x2308, 0x230B), (0x23B4, 0x23B5), (0x23DC, 0x23DF),  # ⌈⌉⌊⌋, brackets and braces over and under
    (0x27E8, 0x27E9), (0x27F5, 0x27FA),  # ⟨⟩, long arrows
    (0x2A7D, 0x2A7E), (0x2AAF, 0x2AB0),  # slanted ≤ ≥, precedes or equal
    (0x1D400, 0x1D467), (0x1D49C, 0x1D4B5), (0x1D538, 0x1D550),  # bold, italic, script and double-struck capitals
    (0x1D6A4, 0x1D6A5), (0x1D6A8, 0x1D6A8), (0x1D6E2, 0x1D71B),  # dotless i j, Greek italic
    (0x1D7CE, 0x1D7D9),  # bold digits, double-struck 1
    (0xFE00, 0xFE00),  # picks the calligraphic shape of a script capital (\mathcal)
]


def options() -> subset.Options:
    """The subsetter's settings: WOFF2 without hints, with what MathML needs of the layout tables.

    ssty draws indices in their own shapes (keep_prime_shapes says of which), dtls takes the dot off an
    accented i, flac lowers accents over capitals (MathML Core, section 3.2). The MATH table and the
    larger variants it names stay.
    """
    chosen = subset.Options()
    chosen.flavor = "woff2"
    chosen.hinting = False
    chosen.layout_features = ["ssty", "dtls", "flac"]
    chosen.name_IDs = [0, 1, 2, 3, 5, 7, 13, 14]  # copyright and licence stay in the file
    chosen.notdef_outline = True
    chosen.recalc_timestamp = False  # the same source gives the same bytes
    return chosen


def keep_prime_shapes(font: TTFont) -> None:
    """Drop ssty's own shapes of every glyph but the primes, in place: 52 KB of 116.

    A browser without such a shape makes an index from the letter, smaller, which reads as well; a
    prime is drawn raised and large, and without its index shape f′ would carry it twice as high.
    """
    primes = {font.getBestCmap()[code] for code in (0x2032, 0x2033, 0x2034, 0x2035, 0x2057)}
    table = font["GSUB"].table
    lookups = {i for record in table.FeatureList.FeatureRecord if record.FeatureTag == "ssty"
               for i in record.Feature.LookupListIndex}
    for index in lookups:
        for part in table.LookupList.Lookup[index].SubTable:
            shapes = getattr(part, "ExtSubTable", part)
            shapes.alternates = {name: own for name, own in shapes.alternates.items() if name in primes}


def make(source: Path, target: Path) -> int:
    """Write the subset of `source` (a TTF path) to `target` and return its size in bytes.

    Raises ValueError when `source` is not the font that README.txt names.
    """
    found = hashlib.sha256(source.read_bytes()).hexdigest()
    if found != SOURCE_SHA256:
        raise ValueError(f"{source}: 不是 README.txt 所指的字体（sha256 {found}）；请取 STIX Two Math 2.11 b159")
    chosen = options()
    font = subset.load_font(str(source), chosen)
    keep_prime_shapes(font)
    cutter = subset.Subsetter(chosen)
    cutter.populate(unicodes=[code for first, last in RANGES for code in range(first, last + 1)])
    cutter.subset(font)
    subset.save_font(font, str(target), chosen)
    return target.stat().st_size


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("用法：python scripts/make_font.py STIXTwoMath-Regular.ttf")
    print(f"{TARGET}: {make(Path(sys.argv[1]), TARGET)} bytes")
