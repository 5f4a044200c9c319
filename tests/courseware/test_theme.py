"""The theme's files: unused rules go, used ones stay, preformatted text is not touched."""

import pytest

from courseware.theme import MENDS, WITHOUT_SCRIPTS, lighten, minified, smaller, squeezed, trimmed

USED = {"a", "b", "md-x", "slate"}


@pytest.mark.parametrize(
    ("css", "kept"),
    [
        (".a{x:1}", ".a{x:1}"),
        (".gone{x:1}", ""),
        (".a,.gone{x:1}", ".a{x:1}"),
        (".a .gone{x:1}p{y:2}", "p{y:2}"),
        ("p>a:hover{x:1}", "p>a:hover{x:1}"),
        (".a:not(.gone){x:1}", ".a:not(.gone){x:1}"),
        (":is(.gone,.a) p{x:1}", ":is(.gone,.a) p{x:1}"),
        ("[dir=rtl] .a{x:1}[dir=ltr] .a{x:2}", "[dir=ltr] .a{x:2}"),
        ("@media print{.a{x:1}.gone{x:2}}", "@media print{.a{x:1}}"),
        ("@media print{.gone{x:2}}.b{x:1}", ".b{x:1}"),
        ("@media a{@supports (b:c){.gone{x:2}}}", ""),
        ("@keyframes k{0%{x:1}to{x:2}}", "@keyframes k{0%{x:1}to{x:2}}"),
        ("[data-md-color-scheme=slate]{x:1}[data-md-color-primary=red]{x:2}", "[data-md-color-scheme=slate]{x:1}"),
        ('@charset "UTF-8";.gone{x:1}.a{x:2}', '@charset "UTF-8";.a{x:2}'),
        (":root{--i:url('data:image/svg+xml;utf8,<svg>')}", ":root{--i:url('data:image/svg+xml;utf8,<svg>')}"),
    ],
)
def test_trimmed(css, kept):
    assert trimmed(css, USED) == kept


@pytest.mark.parametrize(
    ("css", "minimal"),
    [
        ("/* why */\n.a {\n  x: 1px 2px;\n  y: 2;\n}\n\n.b > .c :is(p) { z: 3 }\n", ".a{x:1px 2px;y:2}.b>.c :is(p){z:3}"),
        ("@media print {\n  .a { x: 1 }\n}\n", "@media print{.a{x:1}}"),
        (':root { --i: url("data:image/svg+xml;utf8,<svg a=\'b c\'/>"); }', ':root{--i:url("data:image/svg+xml;utf8,<svg a=\'b c\'/>")}'),
    ],
)
def test_minified(css, minimal):
    assert minified(css) == minimal


def test_dark_without_scripts(tmp_path):
    (tmp_path / "index.html").write_text('<input data-md-color-scheme="slate">')
    for name, css in {
        "stylesheets/palette.1.css": "@media screen{[data-md-color-scheme=slate]{a:1;b:2}[data-md-color-scheme=slate] img{x:1}}",
        "css/ours.css": '@media screen {\n  [data-md-color-scheme="slate"] { b: 3; }\n  [data-md-color-scheme="default"] { b: 4; }\n}\n',
    }.items():
        path = tmp_path / "assets" / name
        path.parent.mkdir(parents=True)
        path.write_text(css)
    lighten(tmp_path)
    told = (tmp_path / WITHOUT_SCRIPTS).read_text()
    assert told == "@media screen and (prefers-color-scheme:dark){body[data-md-color-scheme]{a:1;b:2;b:3}}"


def test_squeezed_keeps_preformatted_text():
    page = "<p>\n    x\n\n  y</p><pre>\n    x\n\n  y</pre>\n  <script>\n   z</script>\n  end"
    assert squeezed(page) == "<p>\nx\ny</p><pre>\n    x\n\n  y</pre>\n<script>\n   z</script>\nend"


@pytest.mark.parametrize(("pattern", "old", "new"), [mend[:3] for mend in MENDS], ids=[mend[3] for mend in MENDS])
@pytest.mark.parametrize(("times", "faults"), [(1, 0), (0, 1), (2, 1)])
def test_a_script_is_mended_or_the_build_says_so(tmp_path, pattern, old, new, times, faults):
    script = tmp_path / pattern.replace("*", "1")
    script.parent.mkdir(parents=True)
    others = "".join(text for where, text, _, _ in MENDS if where == pattern and text != old)
    script.write_text(f"{others}a;{old * times}b")
    assert len(lighten(tmp_path)) == faults
    assert (f"a;{new}b" in script.read_text()) == (not faults)
    assert (f"a;{old * times}b" in script.read_text()) == bool(faults)


def test_smaller_leaves_no_comment_and_every_text():
    script = '// file\n/** what\n * it does */\nexport function f(a) {\n  // why\n  return g(a, "// text"); // after\n}\n'
    assert smaller(script, module=True) == "export function f(a){return g(a,`// text`)}"
