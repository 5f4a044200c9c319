"""mkdocs.yml: its `nav` names files that there are and leaves no page out, as far as the build insists on either."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from urllib.parse import urlsplit

import yaml
from pathspec.gitignore import GitIgnoreSpec

from courseware.check.context import Context, Loader, nearest
from courseware.problem import Problem


def problems(context: Context) -> Iterator[Problem]:
    path = context.root / "mkdocs.yml"
    if not path.is_file():
        return
    try:
        text = path.read_text("utf-8")
        document = yaml.compose(text, Loader)
    except yaml.MarkedYAMLError as error:
        line = min(error.problem_mark.line + 1 if error.problem_mark else 1, len(text.splitlines()))
        yield Problem(context.shown(path), line, f"不是有效的 YAML：{error.problem}", "改正这一行或它的上一行")
        return
    settings = context.settings
    ours = (context.root / str(settings.get("docs_dir") or "docs")).resolve() == context.docs
    nav = next((value for key, value in getattr(document, "value", ()) if key.value == "nav"), None)
    if nav is None or not ours or "INHERIT" in settings:  # without one MkDocs takes every page
        return
    listed = [(line, target) for line, target in _targets(nav) if not _elsewhere(target)]
    names = {posixpath.normpath(target.lstrip("/")) for _, target in listed}
    if _level(settings, "not_found", "warn") == "warn":
        yield from _missing(context, context.shown(path), listed, names)
    if _level(settings, "omitted_files", "info") == "warn":
        yield from _omitted(context, settings, names)


def _targets(node: yaml.Node) -> Iterator[tuple[int, str]]:
    """(line, target) of each entry, in sections too."""
    if isinstance(node, yaml.ScalarNode):
        if node.value and not node.tag.endswith(":null"):
            yield node.start_mark.line + 1, node.value
        return
    for child in node.value:
        yield from _targets(child[1] if isinstance(child, tuple) else child)


def _elsewhere(target: str) -> bool:
    parts = urlsplit(target)
    return bool(parts.scheme or parts.netloc)


def _level(settings: dict, name: str, default: str) -> str:
    """What MkDocs makes of such a fault: `validation: {nav: {NAME: …}}`, or `validation: {NAME: …}` for all places."""
    common = settings.get("validation")
    common = common if isinstance(common, dict) else {}
    special = common.get("nav")
    return str((special if isinstance(special, dict) else {}).get(name, common.get(name, default)))


def _missing(context: Context, shown: str, listed: list[tuple[int, str]], names: set[str]) -> Iterator[Problem]:
    pages = [name for name in sorted(context.files) if name.endswith((".md", ".ipynb"))]
    for line, target in listed:
        name = posixpath.normpath(target.lstrip("/"))
        if target.startswith("/") or (context.docs / name).is_file():  # a file left out by `exclude_docs` is no fault
            continue
        yield Problem(shown, line, f"nav 里的 {target} 不存在", nearest(name, [n for n in pages if n not in names] or pages))


def _omitted(context: Context, settings: dict, names: set[str]) -> Iterator[Problem]:
    patterns = [line for key in ("not_in_nav", "draft_docs") for line in str(settings.get(key) or "").splitlines()]
    spared = GitIgnoreSpec.from_lines(patterns)
    for name in sorted(context.files):
        folder, file = posixpath.split(name)
        twin = file == "README.md" and posixpath.join(folder, "index.md") in context.files  # MkDocs leaves it out
        if name.endswith(".md") and name not in names and not spared.match_file(name) and not twin:
            yield Problem(context.shown(context.docs / name), 1, "不在 mkdocs.yml 的 nav 里", f"加一行 - 标题: {name}")
