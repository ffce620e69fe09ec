"""Packages that import their public names on first use. Each name is written once, under TYPE_CHECKING in the package's __init__:

    if TYPE_CHECKING:
        from veracity.studies.advice import Advice, advise

    __getattr__, __dir__ = lazy(__name__)

Type checkers read the imports as they stand; at run time they are read from the source, and carried out when somebody asks.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's `__getattr__` and `__dir__`."""
    where = dict(imports(Path(str(sys.modules[package].__file__)).read_text(encoding="utf-8")))

    def find(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        module = where[name]
        return import_module(f"{package}.{name}") if module == package else getattr(import_module(module), name)

    return find, lambda: sorted(where)


def imports(source: str) -> Iterator[tuple[str, str]]:
    """The names that a source imports under TYPE_CHECKING, each with its module.

    >>> list(imports("if TYPE_CHECKING:\\n    from a.b import C, d"))
    [('C', 'a.b'), ('d', 'a.b')]
    """
    for block in ast.parse(source).body:
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING":
            for line in block.body:
                if isinstance(line, ast.ImportFrom):
                    yield from ((one.name, str(line.module)) for one in line.names)
