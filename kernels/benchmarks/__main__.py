"""Print the figures of the named groups, or of all: `python -m kernels.benchmarks [NAME ...]`."""

import importlib
import sys
from pathlib import Path


def names():
    """Every group, by its module's name."""
    return sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))


def main(wanted):
    unknown = [name for name in wanted if name not in names()]
    if unknown:
        raise SystemExit(f"没有基准组 {'、'.join(unknown)}；可用的是 {'、'.join(names())}")
    for name in wanted or names():
        for key, told in importlib.import_module(f"kernels.benchmarks.{name}").measure().items():
            print(f"{name}#{key} = {told['value']} {told['unit']}".rstrip(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
