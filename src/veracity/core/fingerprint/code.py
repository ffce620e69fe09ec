"""What code counts by: user code by what it does and everything that it names, library code by name and version."""

from __future__ import annotations

import dis
import importlib.util
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

from veracity.core.fingerprint.origin import PACKAGE, defined_in_module, distribution_of, origin, origin_of

MODULE_NAMES = frozenset(
    {"__name__", "__doc__", "__package__", "__loader__", "__spec__", "__path__", "__file__", "__cached__", "__builtins__"}
    | {"__annotations__", "__annotate__", "__conditional_annotations__", "__warningregistry__"}
)
"""Names that Python sets in a module."""
COMPILER_NAMES = ("__builtins_dict__", "__compiled_fn_", "__import_", "__resume_at_")
"""Prefixes of names that `torch.compile` adds to a module."""
CLASS_NAMES = frozenset(
    {"__module__", "__dict__", "__weakref__", "__doc__", "__qualname__", "__firstlineno__", "__static_attributes__"}
    | {"__annotations__", "__annotations_cache__", "__annotate__", "__annotate_func__", "__abstractmethods__", "_abc_impl"}
    | {"__dataclass_params__", "__signature__", "__slotnames__"}
)
"""Names that Python sets in a class, and names that repeat its content."""
FIELDS = ("__dataclass_fields__", "__pydantic_fields__")
"""Where dataclasses and Pydantic keep declared fields."""
ORIGINAL_FUNCTION = "_torchdynamo_orig_callable"
"""Where `torch.compile` and `torch.compiler.disable` keep the original function."""


@dataclass(frozen=True)
class Import:
    """A module that code imports when it runs."""

    name: str


import_of = cache(Import)
"""One object per module, so that modules that import each other are hashed once."""


def function_parts(value: types.FunctionType) -> Iterator[Any]:
    """A function's code, defaults, attributes and closure, and the globals that it names."""
    scope = value.__globals__
    place = origin(str(scope.get("__name__")))
    yield from ("function", place, value.__qualname__)
    if place is not None:
        yield from (scope.get("__name__"), value.__code__.co_qualname)
        yield from decorator_parts(value)
        return
    yield from (value.__defaults__, value.__kwdefaults__, *(value.__closure__ or ()), value.__code__, vars(value))
    names = names_in(value.__code__)
    for name in sorted((names.globals & scope.keys()) - MODULE_NAMES):
        yield name
        yield from global_parts(name, scope[name], names, set())
    yield from imports_of(value.__code__, str(scope.get("__package__") or ""))


def decorator_parts(value: types.FunctionType) -> Iterator[Any]:
    """The user's part in a library function that a decorator made: its closure, defaults and attributes without caches.

    Nothing if the library's module defines the function itself; the original function if it was compiled.
    """
    if origin(str(value.__module__)) is not None and defined_in_module(value):
        return
    if ORIGINAL_FUNCTION in vars(value):
        yield vars(value)[ORIGINAL_FUNCTION]
        return
    cells = dict(zip(value.__code__.co_freevars, value.__closure__ or (), strict=True))
    yield from (value.__defaults__, value.__kwdefaults__)
    yield from ({name: held for name, held in names.items() if "cache" not in name} for names in (cells, vars(value)))


def cell_parts(cell: types.CellType) -> tuple[Any, ...]:
    """The content of a closure variable; nothing before it is set."""
    try:
        return ("cell", cell.cell_contents)
    except ValueError:
        return ("cell",)


def code_parts(value: types.CodeType) -> Iterator[Any]:
    """Byte code with its names and constants, including inner functions; the file and line numbers do not count."""
    arguments = value.co_argcount + value.co_kwonlyargcount
    yield from ("code", value.co_code, value.co_exceptiontable, value.co_flags, value.co_argcount, value.co_posonlyargcount)
    yield from (value.co_names, value.co_varnames[:arguments], value.co_freevars, value.co_consts)


def class_parts(value: type) -> Iterator[Any]:
    """A class's metaclass, bases, methods and attributes; for a library class its name, and user code among its bases and methods."""
    place = origin_of(value)
    yield from ("class", place, value.__qualname__)
    if place is not None:
        yield value.__module__
        for base in value.__mro__:
            yield from patched_methods(base) if origin_of(base) is not None else (base,)
        return
    yield from (type(value), value.__bases__)
    for name, held in sorted(vars(value).items()):
        if name in FIELDS:
            yield {field: [getattr(one, part, None) for part in ("default", "default_factory", "metadata")] for field, one in held.items()}
        elif not (name in CLASS_NAMES or name.startswith("__pydantic_") or (name == "__hash__" and held is None)):
            yield from (name, held)


def patched_methods(kind: type) -> Iterator[Any]:
    """Methods in a library class that user code has put there."""
    codes = [(name, function_of(held)) for name, held in vars(kind).items()]
    homes = {name: (one.__globals__.get("__name__"), one.__module__) for name, one in codes if isinstance(one, types.FunctionType)}
    own = {home for home in {home for pair in homes.values() for home in pair} if home in sys.modules and origin(str(home)) is None}
    for name in sorted(name for name, pair in homes.items() if own.intersection(pair)) if own else ():
        yield from (name, vars(kind)[name])


def function_of(held: Any) -> Any:
    """The function behind a static method, class method or property."""
    if isinstance(held, (staticmethod, classmethod)):
        return held.__func__
    return held.fget if isinstance(held, property) else held


def module_parts(value: types.ModuleType) -> Iterator[Any]:
    """A module that is held as a value: its name, or everything in it if it is user code."""
    place = origin(value.__name__)
    yield from ("module", place)
    if place is not None:
        yield value.__name__
        return
    for name, held in sorted(vars(value).items()):
        if name not in MODULE_NAMES and not name.startswith(COMPILER_NAMES):
            yield from (name, held)


def global_parts(name: str, value: Any, names: Names, above: set[str]) -> Iterator[Any]:
    """A global of a function. Of a user module, the attributes that the function names; all of it if the function passes it on."""
    if not isinstance(value, types.ModuleType) or origin(value.__name__) is not None or name in names.passed:
        yield value
    elif value.__name__ not in above:
        for inner in sorted(names.all & vars(value).keys()):
            yield inner
            yield from global_parts(inner, vars(value)[inner], names, above | {value.__name__})


def imports_of(one: types.CodeType, package: str) -> Iterator[Import]:
    """The modules that code imports when it runs, sorted by name."""
    for name in sorted({"." * level + name for level, name in names_in(one).imports}):
        try:
            full = importlib.util.resolve_name(name, package)
        except ImportError:
            continue
        yield import_of(full)


def import_parts(name: str) -> Iterator[Any]:
    """A module that may not be loaded yet, by name; for user code, the code in its file. The module is not loaded."""
    found = None if name.partition(".")[0] == PACKAGE else spec_of(name)
    file = (found.origin if found is not None else None) or ""
    place = distribution_of(file) if file else None
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
    """Where Python would load a module from."""
    top, *rest = name.split(".")
    try:
        found = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    for part in rest:
        if found is None or found.submodule_search_locations is None:
            return None
        try:
            found = PathFinder.find_spec(f"{found.name}.{part}", found.submodule_search_locations)
        except KeyError:  # a folder without code, whose package is not loaded
            return None
    return found


@dataclass(frozen=True)
class Names:
    """Names in code and its inner code: globals, names that are passed on whole, all names, and imported modules as (dots, name)."""

    globals: frozenset[str]
    passed: frozenset[str]
    all: frozenset[str]
    imports: frozenset[tuple[int, str]]


LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD")


@cache
def names_in(value: types.CodeType) -> Names:
    """The names that code uses, from its byte code."""
    inner = [names_in(part) for part in value.co_consts if isinstance(part, types.CodeType)]
    found = {name for one in inner for name in one.globals}
    passed = {name for one in inner for name in one.passed}
    every = set(value.co_names).union(*(one.all for one in inner))
    imports = {pair for one in inner for pair in one.imports}
    steps = [step for step in dis.get_instructions(value) if step.opname != "EXTENDED_ARG"]
    for level, names, step, after in zip([None, None, *steps], [None, *steps], steps, [*steps[1:], None], strict=False):
        if step.opname in LOADS and (after is None or not after.opname.endswith(("_ATTR", "_METHOD"))):
            passed.add(step.argval)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            found.add(step.argval)
        elif step.opname == "IMPORT_NAME" and level is not None and names is not None:
            base = f"{step.argval}." if step.argval else ""
            imports.update((level.argval, name) for name in (step.argval, *(base + name for name in names.argval or ())) if name)
    return Names(frozenset(found), frozenset(passed), frozenset(every), frozenset(imports))
