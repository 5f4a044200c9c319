"""Load a script of scripts/ as a module: the folder is no package, its files are run by name."""

import importlib.util
from pathlib import Path
from types import ModuleType


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
