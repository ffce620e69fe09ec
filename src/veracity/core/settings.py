"""Settings are checked by their declared types, in one place: when a component is made, whoever makes it."""

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

LARGEST = 2**63 - 1
WRONG: Any = object()
"""What a check returns for a value that does not fit."""


@dataclass(frozen=True)
class Within:
    """The range of a setting, written beside its type: `patch: Annotated[int, Within(least=1)] = 4`."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def ends(self) -> list[tuple[Callable[[Any, Any], bool], float]]:
        """What must hold between a number and each end of the range."""
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
"""How many of something, or which share of it."""
Inside = Annotated[float, Within(above=0, below=1)]
"""A number between 0 and 1, neither included, such as a level of confidence."""


class Kind(NamedTuple):
    """A declared type: `accept` gives the value as it is stored, or WRONG; `words` say what is expected, of one and of several."""

    accept: Callable[[Any], Any]
    words: str
    several: str = ""


def whole(value: Any) -> Any:
    """A whole number that fits into 64 bits, NumPy's and torch's among them; True is none."""
    if type(value) is not int:
        value = value.item() if scalar(value) else value
        if isinstance(value, bool) or not isinstance(value, int):
            return WRONG
        value = int(value)
    return value if -LARGEST <= value <= LARGEST else WRONG


def number(value: Any) -> Any:
    """A finite number, NumPy's and torch's among them; True is none."""
    if type(value) is not float:
        value = value.item() if scalar(value) else value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return WRONG
        if isinstance(value, int):
            return whole(value)
        value = float(value)
    return value if math.isfinite(value) else WRONG


def truth(value: Any) -> Any:
    """True or False, NumPy's and torch's among them."""
    value = value.item() if scalar(value) else value
    return value if isinstance(value, bool) else WRONG


def scalar(value: Any) -> bool:
    """Whether this is one number of NumPy's or torch's."""
    if isinstance(value, np.generic):
        return True
    return (isinstance(value, np.ndarray) and value.ndim == 0) or (isinstance(value, Tensor) and value.ndim == 0 and not value.is_meta)


def tensor(value: Any) -> Any:
    """A tensor as it is; an array or a list of numbers as one."""
    if isinstance(value, Tensor):
        return value if value.layout is torch.strided and not (value.is_meta or value.is_quantized or value.is_nested) else WRONG
    if isinstance(value, (np.ndarray, list, tuple)):
        try:
            return torch.as_tensor(np.asarray(value).copy())
        except (TypeError, ValueError, RuntimeError, OverflowError):
            return WRONG
    return WRONG


PLAIN = {
    int: Kind(whole, "a whole number", "whole numbers"),
    float: Kind(number, "a number", "numbers"),
    bool: Kind(truth, "True or False"),
    str: Kind(lambda value: value if isinstance(value, str) else WRONG, "text", "texts"),
    NoneType: Kind(lambda value: value if value is None else WRONG, "None"),
    Tensor: Kind(tensor, "a tensor", "tensors"),
}
ANYTHING = Kind(lambda value: value, "anything")


def kind_of(hint: Any) -> Kind:
    """The check of a type hint; what it cannot read is not checked.

    >>> kind_of(tuple[int, ...]).words, kind_of(float | Tensor | None).words, kind_of(Count).accept(0) is WRONG
    ('a list of whole numbers', 'a number, a tensor or None', True)
    """
    try:
        return known_kind(hint)
    except TypeError:
        return ANYTHING


@cache
def known_kind(hint: Any) -> Kind:
    """The check of a type hint, made once."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if hint in (Any, object):
        return ANYTHING
    if origin is Annotated:
        return ranged(kind_of(parts[0]), [one for one in parts[1:] if isinstance(one, Within)])
    if origin in (Union, UnionType):
        return any_of([kind_of(part) for part in parts])
    if origin is Literal:
        return Kind(lambda value: value if isinstance(value, (str, int)) and value in parts else WRONG, listed(list(map(repr, parts))))
    if hint is Callable or origin is Callable:
        return Kind(lambda value: value if callable(value) else WRONG, "a function", "functions")
    if origin is type:
        return Kind(lambda value: value if isinstance(value, type) else WRONG, "a class", "classes")
    base = origin or hint
    if base is tuple and parts and parts[-1] is not Ellipsis:
        return row_of([kind_of(part) for part in parts])
    if isinstance(base, type) and issubclass(base, (tuple, list, Sequence, Set)) and not issubclass(base, (str, bytes)):
        return list_of(kind_of(parts[0]) if parts else ANYTHING, base)
    if isinstance(base, type) and issubclass(base, Mapping):
        return table_of(*(kind_of(part) for part in parts)) if parts else table_of(ANYTHING, ANYTHING)
    if isinstance(base, type) and not getattr(base, "_is_protocol", False):
        return one_of_class(base)
    return ANYTHING


def ranged(kind: Kind, ranges: Sequence[Within]) -> Kind:
    """A number within ranges."""
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


def any_of(kinds: Sequence[Kind]) -> Kind:
    """The first kind that takes the value as it is; else the first that can turn it into its own."""

    def accept(value: Any) -> Any:
        fitting = WRONG
        for kind in kinds:
            found = kind.accept(value)
            if found is value:
                return found
            fitting = found if fitting is WRONG else fitting
        return fitting

    return Kind(accept, listed([kind.words for kind in kinds]))


def items_of(value: Any) -> list[Any] | None:
    """The items of a list or tuple; None for anything else."""
    return list(value) if isinstance(value, (Sequence, Set)) and not isinstance(value, (str, bytes, bytearray, memoryview)) else None


def same(found: Sequence[Any], value: Any) -> bool:
    """Whether nothing changed on the way through a check."""
    return all(one is other for one, other in zip(found, value, strict=True))


def list_of(item: Kind, base: type) -> Kind:
    """A list, a tuple or a set of any length, stored as a tuple unless it was declared as something else."""
    stored: Any = base if base in (list, set, frozenset) else tuple

    def accept(value: Any) -> Any:
        items = items_of(value)
        if items is None:
            return WRONG
        found = [item.accept(one) for one in items]
        if any(one is WRONG for one in found):
            return WRONG
        return value if isinstance(value, stored) and same(found, value) else stored(found)

    if item.several or item is ANYTHING:
        return Kind(accept, f"a list of {item.several}" if item.several else "a list")
    return Kind(accept, f"a list, each item {item.words}")


def row_of(kinds: Sequence[Kind]) -> Kind:
    """A tuple with one item of each kind."""

    def accept(value: Any) -> Any:
        items = items_of(value)
        if items is None or len(items) != len(kinds):
            return WRONG
        found = [kind.accept(one) for kind, one in zip(kinds, items, strict=True)]
        if any(one is WRONG for one in found):
            return WRONG
        return value if isinstance(value, tuple) and same(found, value) else tuple(found)

    shared = kinds[0].several if kinds and len({kind.words for kind in kinds}) == 1 else ""
    return Kind(accept, f"a list of {len(kinds)} {shared or 'items: ' + ', '.join(kind.words for kind in kinds)}")


def table_of(key: Kind, item: Kind) -> Kind:
    """A mapping whose keys and values are of their kinds."""

    def accept(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return WRONG
        found = [(key.accept(name), item.accept(one)) for name, one in value.items()]
        if any(one is WRONG for pair in found for one in pair):
            return WRONG
        return value if same([one for _, one in found], value.values()) else dict(found)

    return Kind(accept, "a table" if item is ANYTHING else f"a table, each value {item.words}")


def one_of_class(base: type) -> Kind:
    """An object of a class; the value of an Enum; a component's name, or {name, settings}, where the class can look it up."""
    if issubclass(base, Enum):
        values = {one.value: one for one in base}
        words = listed(list(map(repr, values)))

        def member(value: Any) -> Any:
            return value if isinstance(value, base) else values.get(value, WRONG) if isinstance(value, str) else WRONG

        return Kind(member, words)
    named: Callable[[Any], Any] | None = getattr(base, "named", None) if getattr(base, "role", "") else None

    def accept(value: Any) -> Any:
        if named is not None and isinstance(value, (str, Mapping)):
            value = named(value)
        return value if isinstance(value, base) else WRONG

    article, by_name = "an" if base.__name__[0] in "AEIOU" else "a", " (an object, a name or a table with a name)" if named else ""
    return Kind(accept, f"{article} {base.__name__}{by_name}", f"{base.__name__} objects")


def listed(words: Sequence[str]) -> str:
    """Words with "or" before the last, None at the end.

    >>> listed(["None", "a number", "text"])
    'a number, text or None'
    """
    words = sorted(dict.fromkeys(words), key=lambda one: one == "None")
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def checked(value: Any, hint: Any, what: str) -> Any:
    """A value as its declared type stores it; raises if it is of another one.

    >>> checked([1, 2], tuple[int, ...], "The setting 'sizes'")
    (1, 2)
    >>> checked(0, Count, "The setting 'patch' of explainer 'kernel_shap'")
    Traceback (most recent call last):
    veracity.core.errors.SpecError: The setting 'patch' of explainer 'kernel_shap' must be a whole number of at least 1, not 0.
    """
    kind = kind_of(hint)
    found = kind.accept(value)
    if found is WRONG:
        finite = isinstance(value, float) and not math.isfinite(value)
        words = re.sub(r"(a|positive) number", r"\1 finite number", kind.words) if finite else kind.words
        raise SpecError(f"{what} must be {words}, not {shown(value)}.")
    return found


def shown(value: Any) -> str:
    """A value in a sentence: short, on one line, and a tensor by its shape."""
    if isinstance(value, (Tensor, np.ndarray)) and value.ndim:
        return f"{'a tensor' if isinstance(value, Tensor) else 'an array'} of shape {tuple(value.shape)}"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST:
        return f"a number of {value.bit_length()} bits"
    try:
        text = " ".join(repr(value).split())
    except Exception:
        text = f"an object of type {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


class Declared(NamedTuple):
    """What a class takes: names with their kinds and type hints, which of them must be given, and whether it takes any other."""

    kinds: Mapping[str, Kind]
    hints: Mapping[str, Any]
    needed: tuple[str, ...]
    open: bool


@cache
def declared(made: Callable[..., Any], given: int = 0) -> Declared:
    """What a constructor takes, or a function after its first arguments, of which so many are given by others."""
    try:
        called, first = (made.__init__, 1) if isinstance(made, type) else (made, given)  # type: ignore[misc]
        parameters = list(inspect.signature(called).parameters.values())[first:]
    except (TypeError, ValueError):
        return Declared({}, {}, (), open=True)
    hints = hints_of(made)
    if any(one.name not in hints for one in parameters):
        hints = {**hints_of(called), **hints}
    named = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    needed = tuple(one.name for one in named if one.default is one.empty)
    taken = {one.name: hints.get(one.name, Any) for one in named}
    return Declared({key: kind_of(hint) for key, hint in taken.items()}, taken, needed, len(named) < len(parameters))


def hints_of(made: Any) -> dict[str, Any]:
    """Type hints by name; one that cannot be resolved, such as a local class's, is Any.

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
            except Exception:  # whatever the text of a hint does when it is looked up
                found[name] = Any
    return found


def check_settings(made: Callable[..., Any], settings: Mapping[str, Any], what: str = "", given: int = 0) -> dict[str, Any]:
    """The settings of a class or function as their declared types store them; raises on one that is unknown, missing or of another type."""
    known = declared(made, given)
    found = {}
    for key, value in settings.items():
        kind = known.kinds.get(key, ANYTHING if known.open else None)
        if kind is None:
            raise unknown(f"setting of {what or described(made)}", str(key), known.hints or ["(it takes none)"])
        found[key] = kind.accept(value)
        if found[key] is WRONG:
            checked(value, known.hints[key], f"The setting '{key}' of {what or described(made)}")
    for key in known.needed:
        if key not in settings and not given:
            raise SpecError(f"The {what or described(made)} needs the setting '{key}', {known.kinds[key].words}.")
    return found


def check_fields(one: Any, what: str, others: Iterable[str] = ()) -> None:
    """Check every field of a frozen dataclass but `others`, and store it as its declared type does."""
    made: Callable[..., Any] = type(one)
    hints, skipped = declared(made).hints, frozenset(others)
    for item in fields(one):
        if item.name not in skipped:
            value = getattr(one, item.name)
            found = checked(value, hints.get(item.name, Any), f"The setting '{item.name}' of {what}")
            if found is not value:
                object.__setattr__(one, item.name, found)


class Checking(ABCMeta):
    """The type of classes whose settings are checked before they are made, so that no class can forget to."""

    def __call__(cls, *args: Any, **settings: Any) -> Any:
        """An object with checked settings."""
        if args and is_dataclass(cls):
            first = next(iter(declared(cls).hints), "setting")
            raise SpecError(f"The {described(cls)} takes its settings by name, such as {first}=..., not by their place.")
        return super().__call__(*args, **check_settings(cls, settings))


def described(made: Any) -> str:
    """A class in a sentence: what it is and its name.

    >>> described(Within)
    'Within'
    """
    role, name = getattr(made, "role", ""), getattr(made, "name", "")
    return f"{role} '{name}'" if role and isinstance(name, str) and name else str(made.__name__)
