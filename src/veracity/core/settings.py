"""Settings are checked against their declared types whenever a component is made.

`Within` and the types built from it declare ranges, `kind_of_hint` turns a type hint into a check, `check_settings` and
`check_fields` apply the checks, and the metaclass `Checking` calls them for every component.
"""

from __future__ import annotations

import inspect
import math
import operator
import re
import sys
import typing
from abc import ABCMeta
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import numpy as np
import torch
from torch import Tensor

from veracity.core.errors import SpecError, unknown

LARGEST_INT = 2**63 - 1
WRONG: Any = object()
"""What a check returns for an invalid value."""


@dataclass(frozen=True)
class Within:
    """The range of a setting, next to its type: `patch: Annotated[int, Within(least=1)] = 4`."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def ends(self) -> list[tuple[Callable[[Any, Any], bool], float]]:
        """The comparisons that a number must pass, each with an end of the range."""
        sides = ((operator.ge, self.least), (operator.le, self.most), (operator.gt, self.above), (operator.lt, self.below))
        return [(compare, end) for compare, end in sides if end is not None]

    def words(self) -> str:
        """The range as the end of "a number ...".

        >>> Within(least=1).words(), Within(least=0.0, most=1.0).words(), Within(above=0.0, most=0.5).words()
        ('of at least 1', 'from 0 to 1', 'above 0 and at most 0.5')
        """
        if self.least is not None and self.most is not None:
            return f"from {self.least:g} to {self.most:g}"
        named = (("above", self.above), ("of at least", self.least), ("at most", self.most), ("below", self.below))
        return " and ".join(f"{word} {end:g}" for word, end in named if end is not None)


Count = Annotated[int, Within(least=1)]
"""A whole number of at least 1."""
Whole = Annotated[int, Within(least=0)]
"""A whole number of at least 0."""
Positive = Annotated[float, Within(above=0)]
NonNegative = Annotated[float, Within(least=0)]
Share = Annotated[float, Within(least=0, most=1)]
"""A number from 0 to 1, both included."""
Fraction = Annotated[float, Within(above=0, most=1)]
"""A number above 0, up to 1."""
Portion = Count | Fraction
"""A number of items, or a share of them."""
Inside = Annotated[float, Within(above=0, below=1)]
"""A number between 0 and 1, neither included, such as a level of confidence."""


class Kind(NamedTuple):
    """A check: `accept` returns the value to store, or WRONG; `words` and `several` (plural) say what is expected."""

    accept: Callable[[Any], Any]
    words: str
    several: str = ""


def accept_whole(value: Any) -> Any:
    """A whole number of Python, NumPy or torch that fits into 64 bits; not a bool."""
    if type(value) is not int:
        value = value.item() if is_scalar(value) else value
        if isinstance(value, bool) or not isinstance(value, int):
            return WRONG
        value = int(value)
    return value if -LARGEST_INT <= value <= LARGEST_INT else WRONG


def accept_number(value: Any) -> Any:
    """A finite number of Python, NumPy or torch; not a bool."""
    if type(value) is not float:
        value = value.item() if is_scalar(value) else value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return WRONG
        if isinstance(value, int):
            return accept_whole(value)
        value = float(value)
    return value if math.isfinite(value) else WRONG


def accept_truth(value: Any) -> Any:
    """True or False of Python, NumPy or torch."""
    value = value.item() if is_scalar(value) else value
    return value if isinstance(value, bool) else WRONG


def is_scalar(value: Any) -> bool:
    """Whether a value is a single number of NumPy or torch."""
    if isinstance(value, np.generic):
        return True
    return (isinstance(value, np.ndarray) and value.ndim == 0) or (isinstance(value, Tensor) and value.ndim == 0 and not value.is_meta)


def accept_tensor(value: Any) -> Any:
    """A tensor; arrays and lists of numbers are converted."""
    if isinstance(value, Tensor):
        return value if value.layout is torch.strided and not (value.is_meta or value.is_quantized or value.is_nested) else WRONG
    if isinstance(value, (np.ndarray, list, tuple)):
        try:
            return torch.as_tensor(np.asarray(value).copy())
        except (TypeError, ValueError, RuntimeError, OverflowError):
            return WRONG
    return WRONG


PLAIN_KINDS = {
    int: Kind(accept_whole, "a whole number", "whole numbers"),
    float: Kind(accept_number, "a number", "numbers"),
    bool: Kind(accept_truth, "True or False"),
    str: Kind(lambda value: value if isinstance(value, str) else WRONG, "text", "texts"),
    NoneType: Kind(lambda value: value if value is None else WRONG, "None"),
    Tensor: Kind(accept_tensor, "a tensor", "tensors"),
}
ANYTHING = Kind(lambda value: value, "anything")


def kind_of_hint(hint: Any) -> Kind:
    """The check for a type hint; an unknown hint accepts anything.

    >>> kind_of_hint(tuple[int, ...]).words, kind_of_hint(float | Tensor | None).words, kind_of_hint(Count).accept(0) is WRONG
    ('a list of whole numbers', 'a number, a tensor or None', True)
    """
    try:
        return build_kind(hint)
    except TypeError:
        return ANYTHING


@cache
def build_kind(hint: Any) -> Kind:
    """The check for a hashable type hint, built once."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint in PLAIN_KINDS:
        return PLAIN_KINDS[hint]
    if hint in (Any, object):
        return ANYTHING
    if origin is Annotated:
        return number_in_range(kind_of_hint(parts[0]), [one for one in parts[1:] if isinstance(one, Within)])
    if origin in (Union, UnionType):
        return union_of([kind_of_hint(part) for part in parts])
    if origin is Literal:
        return Kind(lambda value: value if isinstance(value, (str, int)) and value in parts else WRONG, join_or(list(map(repr, parts))))
    if hint is Callable or origin is Callable:
        return Kind(lambda value: value if callable(value) else WRONG, "a function", "functions")
    if origin is type:
        return Kind(lambda value: value if isinstance(value, type) else WRONG, "a class", "classes")
    base = origin or hint
    if base is tuple and parts and parts[-1] is not Ellipsis:
        return tuple_of([kind_of_hint(part) for part in parts])
    if isinstance(base, type) and issubclass(base, (tuple, list, Sequence, Set)) and not issubclass(base, (str, bytes)):
        return sequence_of(kind_of_hint(parts[0]) if parts else ANYTHING, base)
    if isinstance(base, type) and issubclass(base, Mapping):
        return mapping_of(*(kind_of_hint(part) for part in parts)) if parts else mapping_of(ANYTHING, ANYTHING)
    if isinstance(base, type) and not getattr(base, "_is_protocol", False):
        return instance_of(base)
    return ANYTHING


def number_in_range(kind: Kind, ranges: Sequence[Within]) -> Kind:
    """A number that lies within all ranges."""
    if not ranges:
        return kind
    ends = [end for one in ranges for end in one.ends()]

    def accept(value: Any) -> Any:
        found = kind.accept(value)
        if found is not WRONG:
            for holds, end in ends:
                if not holds(found, end):
                    return WRONG
        return found

    if list(ranges) == [Within(above=0)]:
        return Kind(accept, kind.words.replace("a ", "a positive ", 1), f"positive {kind.several}" if kind.several else "")
    words = " and ".join(one.words() for one in ranges)
    return Kind(accept, f"{kind.words} {words}", f"{kind.several} {words}" if kind.several else "")


def union_of(kinds: Sequence[Kind]) -> Kind:
    """The first kind that accepts the value unchanged, else the first that can convert it."""

    def accept(value: Any) -> Any:
        fitting = WRONG
        for kind in kinds:
            found = kind.accept(value)
            if found is value:
                return found
            fitting = found if fitting is WRONG else fitting
        return fitting

    return Kind(accept, join_or([kind.words for kind in kinds]))


def items_of(value: Any) -> list[Any] | None:
    """The items of a list, tuple or set; None for anything else."""
    return list(value) if isinstance(value, (Sequence, Set)) and not isinstance(value, (str, bytes, bytearray, memoryview)) else None


def same_items(found: Sequence[Any], value: Any) -> bool:
    """Whether a check has left every item unchanged."""
    return all(one is other for one, other in zip(found, value, strict=True))


def sequence_of(item: Kind, base: type) -> Kind:
    """A list, a tuple or a set of any length, stored as a tuple unless declared as a list or a set."""
    stored: Any = base if base in (list, set, frozenset) else tuple

    def accept(value: Any) -> Any:
        items = items_of(value)
        if items is None:
            return WRONG
        found = [item.accept(one) for one in items]
        if any(one is WRONG for one in found):
            return WRONG
        return value if isinstance(value, stored) and same_items(found, value) else stored(found)

    if item.several or item is ANYTHING:
        return Kind(accept, f"a list of {item.several}" if item.several else "a list")
    return Kind(accept, f"a list, each item {item.words}")


def tuple_of(kinds: Sequence[Kind]) -> Kind:
    """A tuple with one item per kind."""

    def accept(value: Any) -> Any:
        items = items_of(value)
        if items is None or len(items) != len(kinds):
            return WRONG
        found = [kind.accept(one) for kind, one in zip(kinds, items, strict=True)]
        if any(one is WRONG for one in found):
            return WRONG
        return value if isinstance(value, tuple) and same_items(found, value) else tuple(found)

    shared = kinds[0].several if kinds and len({kind.words for kind in kinds}) == 1 else ""
    return Kind(accept, f"a list of {len(kinds)} {shared or 'items: ' + ', '.join(kind.words for kind in kinds)}")


def mapping_of(key: Kind, item: Kind) -> Kind:
    """A mapping with keys and values of these kinds."""

    def accept(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return WRONG
        found = [(key.accept(name), item.accept(one)) for name, one in value.items()]
        if any(one is WRONG for pair in found for one in pair):
            return WRONG
        return value if same_items([one for _, one in found], value.values()) else dict(found)

    return Kind(accept, "a table" if item is ANYTHING else f"a table, each value {item.words}")


def instance_of(base: type) -> Kind:
    """An object of a class. An Enum is also given by its value, and a component by its name, its class or {name, settings}."""
    if issubclass(base, Enum):
        values = {one.value: one for one in base}
        words = join_or(list(map(repr, values)))

        def member(value: Any) -> Any:
            return value if isinstance(value, base) else values.get(value, WRONG) if isinstance(value, str) else WRONG

        return Kind(member, words)
    named: Callable[[Any], Any] | None = getattr(base, "named", None) if getattr(base, "role", "") else None

    def accept(value: Any) -> Any:
        if named is not None and isinstance(value, (str, Mapping)):
            value = named(value)
        elif named is not None and isinstance(value, type) and issubclass(value, base):
            value = value()
        return value if isinstance(value, base) else WRONG

    article, by_name = "an" if base.__name__[0] in "AEIOU" else "a", " (an object, a name or a table with a name)" if named else ""
    return Kind(accept, f"{article} {base.__name__}{by_name}", f"{base.__name__} objects")


def join_or(words: Sequence[str]) -> str:
    """Different words with "or" before the last, and "None" at the end.

    >>> join_or(["None", "a number", "text"])
    'a number, text or None'
    """
    words = sorted(dict.fromkeys(words), key=lambda one: one == "None")
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def check_value(value: Any, hint: Any, what: str) -> Any:
    """The value to store for a declared type; raises if the value is invalid.

    >>> check_value([1, 2], tuple[int, ...], "The setting 'sizes'")
    (1, 2)
    >>> check_value(0, Count, "The setting 'patch' of explainer 'kernel_shap'")
    Traceback (most recent call last):
    veracity.core.errors.SpecError: The setting 'patch' of explainer 'kernel_shap' must be a whole number of at least 1, not 0.
    """
    kind = kind_of_hint(hint)
    found = kind.accept(value)
    if found is WRONG:
        finite = isinstance(value, float) and not math.isfinite(value)
        words = re.sub(r"(a|positive) number", r"\1 finite number", kind.words) if finite else kind.words
        raise SpecError(f"{what} must be {words}, not {short_repr(value)}.")
    return found


def short_repr(value: Any) -> str:
    """A value in a sentence: at most 80 characters in one line; a tensor by its shape."""
    if isinstance(value, (Tensor, np.ndarray)) and value.ndim:
        return f"{'a tensor' if isinstance(value, Tensor) else 'an array'} of shape {tuple(value.shape)}"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST_INT:
        return f"a number of {value.bit_length()} bits"
    try:
        text = " ".join(repr(value).split())
    except Exception:
        text = f"an object of type {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


class Parameters(NamedTuple):
    """The parameters of a class: their kinds and type hints, which are required, and whether it takes any others."""

    kinds: Mapping[str, Kind]
    hints: Mapping[str, Any]
    needed: tuple[str, ...]
    open: bool


@cache
def declared_parameters(made: Callable[..., Any], given: int = 0) -> Parameters:
    """The parameters of a constructor, or of a function without its first `given` arguments."""
    try:
        called, first = (made.__init__, 1) if isinstance(made, type) else (made, given)  # type: ignore[misc]
        parameters = list(inspect.signature(called).parameters.values())[first:]
    except (TypeError, ValueError):
        return Parameters({}, {}, (), open=True)
    hints = hints_of(made)
    if any(one.name not in hints for one in parameters):
        hints = {**hints_of(called), **hints}
    named = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    needed = tuple(one.name for one in named if one.default is one.empty)
    taken = {one.name: hints.get(one.name, Any) for one in named}
    return Parameters({key: kind_of_hint(hint) for key, hint in taken.items()}, taken, needed, len(named) < len(parameters))


def hints_of(made: Any) -> dict[str, Any]:
    """Type hints by name; a hint that cannot be resolved, such as a local class, is Any.

    >>> hints_of(Within)["least"]
    float | None
    """
    try:
        return typing.get_type_hints(made, include_extras=True)
    except (NameError, TypeError, AttributeError):
        pass
    found: dict[str, Any] = {}
    for base in reversed(made.__mro__) if isinstance(made, type) else [made]:
        names = vars(sys.modules.get(getattr(base, "__module__", ""), typing))
        for name, hint in getattr(base, "__dict__", {}).get("__annotations__", getattr(base, "__annotations__", {})).items():
            alone = type(name, (), {"__annotations__": {name: hint}})
            try:
                found[name] = typing.get_type_hints(alone, dict(names), dict(vars(base)), include_extras=True)[name]
            except Exception:  # evaluating the text of a hint may raise anything
                found[name] = Any
    return found


def check_settings(made: Callable[..., Any], settings: Mapping[str, Any], what: str = "", given: int = 0) -> dict[str, Any]:
    """The settings to store for a class or function; raises if one is unknown, missing or invalid."""
    known = declared_parameters(made, given)
    found = {}
    for key, value in settings.items():
        kind = known.kinds.get(key, ANYTHING if known.open else None)
        if kind is None:
            raise unknown(f"setting of {what or component_label(made)}", str(key), known.hints or ["(it takes none)"])
        found[key] = kind.accept(value)
        if found[key] is WRONG:
            check_value(value, known.hints[key], f"The setting '{key}' of {what or component_label(made)}")
    for key in known.needed:
        if key not in settings and not given:
            declared = getattr(made, "__dataclass_fields__", {}).get(key)
            words = declared.metadata.get("words") if declared is not None else None
            raise SpecError(f"The {what or component_label(made)} needs the setting '{key}', {words or known.kinds[key].words}.")
    return found


def check_fields(one: Any, what: str, others: Iterable[str] = ()) -> None:
    """Check every field of a frozen dataclass except `others`, and store the converted values."""
    made: Callable[..., Any] = type(one)
    hints, skipped = declared_parameters(made).hints, frozenset(others)
    for item in fields(one):
        if item.name not in skipped:
            value = getattr(one, item.name)
            found = check_value(value, hints.get(item.name, Any), f"The setting '{item.name}' of {what}")
            if found is not value:
                object.__setattr__(one, item.name, found)


class Checking(ABCMeta):
    """Metaclass that checks the settings of every component before it is made."""

    def __call__(cls, *args: Any, **settings: Any) -> Any:
        """Make an object with checked settings."""
        if args and is_dataclass(cls):
            first = next(iter(declared_parameters(cls).hints), "setting")
            raise SpecError(f"The {component_label(cls)} takes its settings by name, such as {first}=..., not by position.")
        return super().__call__(*args, **check_settings(cls, settings))


def component_label(made: Any) -> str:
    """A class in a sentence: its role and name, or its class name.

    >>> component_label(Within)
    'Within'
    """
    role, name = getattr(made, "role", ""), getattr(made, "name", "")
    return f"{role} '{name}'" if role and isinstance(name, str) and name else str(made.__name__)
