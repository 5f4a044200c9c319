"""The source of a record: a hash over the code and every module of the project that it reaches.

A record is stale exactly when this hash has changed; versions and machines are shown beside it but do not enter it.
"""

from __future__ import annotations

import ast
import hashlib
import warnings
from functools import cached_property, lru_cache
from pathlib import Path

PACKAGES = ("snippets", "kernels")
# Code that may reach any module by a name made at run time: every module of the packages counts then.
DYNAMIC = {"importlib", "__import__", "runpy", "pkgutil", "exec", "eval"}


class Sources:
    """The import graph of the project's packages under `root`, read once, never imported."""

    def __init__(self, root: Path, packages: tuple[str, ...] = PACKAGES):
        self.root, self.packages = root, packages
        self._reached: dict[str, set[str]] = {}

    @cached_property
    def modules(self) -> dict[str, str]:
        """Text of each module, by dotted name."""
        found = {}
        for package in self.packages:
            for path in sorted((self.root / package).rglob("*.py")):
                parts = path.relative_to(self.root).with_suffix("").parts
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text("utf-8", "replace")
        return found

    def source(self, *codes: str, kind: str = "") -> str:
        """Hash (hex, 64) over the texts and the modules they reach.

        codes: the block preceded by those it continues, or a module's or template's text.
        """
        digest = hashlib.sha256(kind.encode())
        reached: set[str] = set()
        for code in codes:
            digest.update(b"\0" + code.encode())
            reached |= self.reached_by(code)
        for name in sorted(reached):
            digest.update(f"\0{name}\0{self.modules[name]}".encode())
        return digest.hexdigest()

    def reached_by(self, code: str, package: str = "") -> set[str]:
        """Modules imported by `code` (a module of `package` where that is given), directly or through others."""
        reached: set[str] = set()
        pending = self._imports(code, package)
        while pending:
            name = pending.pop()
            if name not in reached:
                reached.add(name)
                pending |= self._of_module(name) - reached
        return reached

    def _of_module(self, name: str) -> set[str]:
        if name not in self._reached:
            is_package = any(other.startswith(name + ".") for other in self.modules)
            self._reached[name] = self._imports(self.modules[name], name if is_package else name.rpartition(".")[0])
        return self._reached[name]

    def _imports(self, code: str, package: str) -> set[str]:
        """Modules of ours that one text names; all of them where it may import by a computed name."""
        try:
            tree = parse(code)
        except (SyntaxError, ValueError):
            return set()  # it cannot run, and its text is hashed already
        names: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = self._base(node, package)
                names |= {base} | {f"{base}.{alias.name}" for alias in node.names}
                if any(alias.name == "*" for alias in node.names) and base in self.packages:
                    names |= {name for name in self.modules if name.startswith(base + ".")}
            elif isinstance(node, ast.Name) and node.id in DYNAMIC:
                return set(self.modules)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and self._is_ours(node.value):
                module = node.value.removesuffix(".py").replace("/", ".")
                if module not in self.modules:
                    return set(self.modules)
                names.add(module)
        if any(name.split(".")[0] in DYNAMIC for name in names):
            return set(self.modules)
        return {name for full in names for name in self._with_parents(full)}

    def _is_ours(self, text: str) -> bool:
        """A path or dotted name of ours, as in open("snippets/x.py"); prose that mentions a package is harmless."""
        return " " not in text and any(text.startswith((f"{name}/", f"{name}.")) for name in self.packages)

    def _base(self, node: ast.ImportFrom, package: str) -> str:
        if not node.level:
            return node.module or ""
        parts = package.split(".")
        parts = parts[: len(parts) - node.level + 1]
        return ".".join([*parts, node.module] if node.module else parts)

    def _with_parents(self, name: str) -> set[str]:
        """The module and the packages around it: importing a.b runs a first."""
        parts = name.split(".")
        return {name for end in range(1, len(parts) + 1) if (name := ".".join(parts[:end])) in self.modules}


def parse(code: str) -> ast.Module:
    """The syntax tree, without the warnings that running the code gives at its own place. Raises as `ast.parse`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(code)


def libraries(codes: list[str], sources: Sources, names: tuple[str, ...]) -> list[str]:
    """Which of the libraries `names` the codes and the modules they reach import anywhere."""
    texts = {*codes, *(sources.modules[name] for code in codes for name in sources.reached_by(code))}
    used = {name for text in texts for name in _packages(text)}
    return [name for name in names if name in used]


@lru_cache(maxsize=1024)
def _packages(text: str) -> frozenset[str]:
    """Top-level packages that one text imports."""
    try:
        tree = parse(text)
    except (SyntaxError, ValueError):
        return frozenset()
    used = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            used |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            used.add(node.module.split(".")[0])
    return frozenset(used)
