"""What code counts by: the user's own by what it does and all that it names, a library's by its name and version."""

from __future__ import annotations

import dis
import importlib.util
import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

from veracity.core.object_parts import PLAIN
from veracity.core.origin import PACKAGE, origin, origin_of, owner


@dataclass(frozen=True)
class Import:
    """A module that code imports only when it runs."""

    name: str


import_of = cache(Import)
"""One object for each module, so that modules that import each other are looked at once."""


def function_parts(value: types.FunctionType) -> Iterator[Any]:
    """A function by its code, its defaults, what it has closed over, and the globals that it names; one of a library by its name,
    and if it was made inside another one, by what it was given there.
    """
    scope = value.__globals__
    place = origin(str(scope.get("__name__")))
    yield from ("function", place, value.__qualname__)
    if place is None or "<locals>" in value.__qualname__:
        yield from (value.__defaults__, value.__kwdefaults__, *(value.__closure__ or ()))
    if place is not None:
        yield scope.get("__name__")
        return
    yield from (value.__code__, {name: held for name, held in vars(value).items() if name != "__wrapped__"})
    names = looked_up(value.__code__)
    for name in sorted(names.globals & scope.keys()):
        if not name.startswith("__"):
            yield name
            yield from used(scope[name], names.all, set())
    yield from imports_of(value.__code__, str(scope.get("__package__") or ""))


def cell_parts(cell: types.CellType) -> tuple[Any, ...]:
    """What a variable that a function has closed over holds; nothing before it is set."""
    try:
        return ("cell", cell.cell_contents)
    except ValueError:
        return ("cell",)


def code_parts(value: types.CodeType) -> Iterator[Any]:
    """Byte code with its names and constants, those of functions inside it too; not the lines and the file that it stands in."""
    arguments = value.co_argcount + value.co_kwonlyargcount
    yield from ("code", value.co_code, value.co_exceptiontable, value.co_flags, value.co_argcount, value.co_posonlyargcount)
    yield from (value.co_names, value.co_varnames[:arguments], value.co_freevars, value.co_consts)


def class_parts(value: type) -> Iterator[Any]:
    """A class by its bases, methods and attributes; one of a library by its name, and by the user's own classes below it."""
    place = origin_of(value)
    yield from ("class", place, value.__qualname__)
    if place is not None:
        yield from (value.__module__, *(base for base in value.__mro__[1:] if origin_of(base) is None))
        return
    yield value.__bases__
    code_types = (types.FunctionType, staticmethod, classmethod, property)
    for name, held in sorted(vars(value).items()):
        if not (name.startswith("__") and name.endswith("__")) or isinstance(held, code_types):
            yield from (name, held)


def module_parts(value: types.ModuleType) -> Iterator[Any]:
    """A module that is held as a value: by all that is defined in it if it is the user's own."""
    place = origin(value.__name__)
    yield from ("module", place)
    if place is not None:
        yield value.__name__
        return
    for name, held in sorted(vars(value).items()):
        if not name.startswith("__") and (type(held) in PLAIN or getattr(held, "__module__", None) == value.__name__):
            yield from (name, held)


def used(value: Any, names: frozenset[str], above: set[str]) -> Iterator[Any]:
    """What a global means to a function: of one of the user's own modules, the attributes that the function names."""
    if not isinstance(value, types.ModuleType) or origin(value.__name__) is not None:
        yield value
    elif value.__name__ not in above:
        for name in sorted(names & vars(value).keys()):
            yield name
            yield from used(vars(value)[name], names, above | {value.__name__})


def imports_of(one: types.CodeType, package: str) -> Iterator[Import]:
    """The modules that code imports when it runs, in the order of their names."""
    for name in sorted({"." * level + name for level, name in looked_up(one).imports}):
        try:
            full = importlib.util.resolve_name(name, package)
        except ImportError:
            continue
        yield import_of(full)


def import_parts(name: str) -> Iterator[Any]:
    """A module that may not be loaded yet, and is not loaded for this: by the code in its file if it is the user's own."""
    found = None if name.partition(".")[0] == PACKAGE else spec_of(name)
    file = (found.origin if found is not None else None) or ""
    place = owner(file) if file else None
    yield from ("import", place)
    if found is None or place is not None or not file.endswith(".py"):
        yield name
        return
    try:
        with open(file, "rb") as source:
            whole = compile(source.read(), file, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError):
        yield name
        return
    yield whole
    yield from imports_of(whole, found.parent or "")


def spec_of(name: str) -> ModuleSpec | None:
    """Where a module would be loaded from."""
    top, *rest = name.split(".")
    try:
        found = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    for part in rest:
        if found is None or found.submodule_search_locations is None:
            return None
        found = PathFinder.find_spec(f"{found.name}.{part}", found.submodule_search_locations)
    return found


@dataclass(frozen=True)
class Names:
    """The names in code and in the code inside it: those looked up as globals, all of them, and modules as (dots, name)."""

    globals: frozenset[str]
    all: frozenset[str]
    imports: frozenset[tuple[int, str]]


@cache
def looked_up(value: types.CodeType) -> Names:
    """The names that code looks up and the modules that it imports."""
    inner = [looked_up(part) for part in value.co_consts if isinstance(part, types.CodeType)]
    found = {name for one in inner for name in one.globals}
    every = set(value.co_names).union(*(one.all for one in inner))
    imports = {pair for one in inner for pair in one.imports}
    steps = [step for step in dis.get_instructions(value) if step.opname != "EXTENDED_ARG"]
    for level, names, step in zip([None, None, *steps], [None, *steps], steps, strict=False):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            found.add(step.argval)
        elif step.opname == "IMPORT_NAME" and level is not None and names is not None:
            base = f"{step.argval}." if step.argval else ""
            imports.update((level.argval, name) for name in (step.argval, *(base + name for name in names.argval or ())) if name)
    return Names(frozenset(found), frozenset(every), frozenset(imports))
