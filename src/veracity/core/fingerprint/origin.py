"""Where code comes from: Python, an installed distribution, this package, or the user.

User code is everything else: scripts, notebooks, modules on the path, and projects in editable mode, whose files are not in the
folders of installed distributions.
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
"""The user's script or notebook, even if a distribution (pytest, a profiler) runs it."""
INSTALLED = ("site-packages", "dist-packages")
HEAP = 1 << 9
"""The flag of classes that are created at run time."""
Claims = dict[tuple[str, str], list[Distribution]]
"""Distributions by (folder, top-level name)."""


def origin(module: str) -> str | None:
    """What a module counts by: its top-level name if it is Python's, its distribution and version if installed, None if it is the user's.

    This package counts by its name alone: `engine/plan.py` says when a change in it changes numbers.

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
    found = distribution_of(file)
    return top if found == PYTHON else found


def origin_of(kind: type) -> str | None:
    """What a class counts by, as for `origin`. A class that Python creates for a caller (`types.new_class`) is the user's."""
    place = origin(str(kind.__module__))
    made = place in sys.stdlib_module_names and kind.__flags__ & HEAP and not defined_in_module(kind)
    return None if made else place


def defined_in_module(item: type | types.FunctionType) -> bool:
    """Whether a class or a function is found in its module under its own name."""
    held: object = sys.modules.get(str(item.__module__))
    for part in item.__qualname__.split("."):
        held = vars(held).get(part) if isinstance(held, (types.ModuleType, type)) else None
    return (held.__func__ if isinstance(held, (staticmethod, classmethod)) else held) is item


def in_this_package(item: object) -> bool:
    """Whether a class or a function belongs to this package."""
    return (getattr(item, "__module__", None) or "").partition(".")[0] == PACKAGE


def file_of(module: str) -> str | None:
    """The file of an imported module, or the folder of a namespace package."""
    found = sys.modules.get(module)
    file = getattr(found, "__file__", None) or next(iter(getattr(found, "__path__", None) or ()), None)
    return file if isinstance(file, str) else None


@cache
def distribution_of(file: str) -> str | None:
    """The distribution that a file belongs to, with its version; `PYTHON` for the standard library, None for user code."""
    path = os.path.realpath(file)
    claims = claims_on_path(tuple((folder, modification_time(folder)) for folder in sys.path))
    for root in sorted({root for root, _ in claims}, key=len, reverse=True):
        found = claims.get((root, first_name(path, root)))
        if found:
            return ", ".join(sorted({f"{one.name.lower()} {one.version.partition('+')[0]}" for one in found}))
    inside = [first_name(path, os.path.realpath(sysconfig.get_path(kind))) for kind in ("stdlib", "platstdlib")]
    return PYTHON if any(inside) and not set(inside) & set(INSTALLED) else None


def first_name(path: str, root: str) -> str:
    """The first part of a path below a folder, without extension; "" if the path is elsewhere."""
    return path[len(root) :].lstrip(os.sep).split(os.sep)[0].partition(".")[0] if path.startswith(root + os.sep) else ""


def modification_time(folder: str) -> int:
    """When a folder last changed, so that newly installed distributions are noticed; 0 if it does not exist."""
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0


@cache
def claims_on_path(folders: tuple[tuple[str, int], ...]) -> Claims:
    """The distributions that provide each top-level name in each folder on the path.

    A distribution in editable mode lists no code. One without a file list counts by its top-level names, but only in folders of
    installed distributions.
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
