"""Run every benchmark, or some: python -m benchmarks [NAME ...]"""

from __future__ import annotations

import argparse
from importlib import import_module

NAMES = ("symmetry", "examples", "faithfulness", "robustness", "stability", "orbits", "keys")


def main() -> None:
    """Read the names and run these benchmarks, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Run every benchmark, or those that are named.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)}")
    given = parser.parse_args().names
    for name in given:
        if name not in NAMES:
            parser.error(f"unknown benchmark '{name}': choose from {', '.join(NAMES)}")
    for name in given or NAMES:
        settings = {"samples": 1000} if name == "orbits" else {}
        import_module(f"benchmarks.{name}").main(**settings)


if __name__ == "__main__":
    main()
