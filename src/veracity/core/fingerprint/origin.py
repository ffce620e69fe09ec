"""Whose code is it: Python's own, an installed distribution's, this package's, or the user's?

The user's own code is all that is none of the others: scripts, notebooks, modules on the path, and projects in editable mode,
whose files do not lie where distributions are installed.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
import sysconfig
import types
from functools import cache
from importlib.metadata import Distribution

PACKAGE = __name__.partition(".")[0]
PYTHON = "python"
MAIN = ("__main__", "__mp_main__")
"""The user's script or notebook, also where a distribution (pytest, a profiler) runs it."""
INSTALLED = ("site-packages", "dist-packages")
HEAP = 1 << 9
"""The flag of classes that are made while Python runs."""
Claims = dict[tuple[str, str], list[Distribution]]
"""The distributions behind every top-level name of every folder that they are installed in."""


def origin(module: str) -> str | None:
    """What a module counts by: its top-level name if Python's own, the distribution and its version if installed; None if it is the
    user's own. This package counts by its name alone, since `engine/plan.py` says when a change of it changes numbers.

    >>> origin("json.decoder"), origin("veracity.core"), origin("__main__.mine")
    ('json', 'veracity', None)
    """
    top = module.partition(".")[0]
    if top == PACKAGE:
        return PACKAGE
    if top in MAIN:
        return None
    file = file_of(module) or file_of(top)
    if file is None:
        return top if top in sys.stdlib_module_names else None
    found = owner(file)
    return top if found == PYTHON else found


def origin_of(kind: type) -> str | None:
    """What a class counts by, as above. One that Python's own code makes for a caller (`types.new_class`) names the module of that code,
    which does not hold it: it is the user's own.
    """
    place = origin(str(kind.__module__))
    made = place in sys.stdlib_module_names and kind.__flags__ & HEAP and not named(kind)
    return None if made else place


def named(item: type | types.FunctionType) -> bool:
    """Whether a module holds a class or a function under its own name, as it does what it defines itself."""
    held: object = sys.modules.get(str(item.__module__))
    for part in item.__qualname__.split("."):
        held = vars(held).get(part) if isinstance(held, (types.ModuleType, type)) else None
    return (held.__func__ if isinstance(held, (staticmethod, classmethod)) else held) is item


def ours(item: object) -> bool:
    """Whether a class or a function is part of this package."""
    return (getattr(item, "__module__", None) or "").partition(".")[0] == PACKAGE


def file_of(module: str) -> str | None:
    """The file of an imported module; of a package without one, its folder."""
    found = sys.modules.get(module)
    file = getattr(found, "__file__", None) or next(iter(getattr(found, "__path__", None) or ()), None)
    return file if isinstance(file, str) else None


@cache
def owner(file: str) -> str | None:
    """The distribution that a file with code belongs to, with its version; `PYTHON` for the standard library, None for the user."""
    path = os.path.realpath(file)
    claims = claimed(tuple((folder, modified(folder)) for folder in sys.path))
    for root in sorted({root for root, _ in claims}, key=len, reverse=True):
        found = claims.get((root, first_name(path, root)))
        if found:
            return ", ".join(sorted({f"{one.name.lower()} {one.version.partition('+')[0]}" for one in found}))
    inside = [first_name(path, os.path.realpath(sysconfig.get_path(kind))) for kind in ("stdlib", "platstdlib")]
    return PYTHON if any(inside) and not set(inside) & set(INSTALLED) else None


def first_name(path: str, root: str) -> str:
    """The first part of a path below a folder, without ending; empty if it lies elsewhere."""
    return path[len(root) :].lstrip(os.sep).split(os.sep)[0].partition(".")[0] if path.startswith(root + os.sep) else ""


def modified(folder: str) -> int:
    """When a folder changed last, so that a distribution installed in the meantime is seen."""
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0


@cache
def claimed(folders: tuple[tuple[str, int], ...]) -> Claims:
    """Which distributions on the path hold which top-level names.

    One in editable mode lists no code. One without a list is taken by its top-level names where distributions are installed, and
    not in the folder of a project.
    """
    claims: Claims = {}
    for one in importlib.metadata.distributions():
        root = os.path.realpath(str(one.locate_file("")))
        listed = one.read_text("RECORD")
        if listed is None and os.path.basename(root) in INSTALLED:
            listed = one.read_text("top_level.txt")
        for name in {line.partition("/")[0].partition(",")[0].partition(".")[0] for line in (listed or "").splitlines()} - {""}:
            claims.setdefault((root, name), []).append(one)
    return claims
