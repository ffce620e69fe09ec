"""Plain settings of an audit: numbers, labels, what the outputs are, further entries of the manifest."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping
from typing import Annotated, Any

from veracity.core.errors import SpecError
from veracity.core.settings import Within, check_value, short_repr
from veracity.core.targets import Outputs
from veracity.engine.store.manifest import Spec, check
from veracity.engine.store.records import DEEPEST, UNPRINTABLE, depth


def as_whole(value: Any, what: str, least: int) -> int:
    """A whole number that is large enough."""
    found: int = check_value(value, Annotated[int, Within(least=least)], what)
    return found


def as_about(about: Any, taken: Container[str] = ()) -> dict[str, Any]:
    """Further entries of the manifest: plain data, under names that the run does not use itself."""
    if not isinstance(about, Mapping):
        raise SpecError(f"about= is a mapping from names to plain data, not {type(about).__name__}.")
    found = {str(name): value for name, value in about.items()}
    for name, value in found.items():
        if name in taken:
            raise SpecError(f"about[{name!r}] would replace what the run itself records under that name: choose another one.")
        try:
            if depth(json.dumps(value, allow_nan=False).encode()) > DEEPEST // 2:
                raise ValueError("it is nested too deeply")
        except (TypeError, ValueError, RecursionError):
            raise SpecError(
                f"about[{name!r}] must be plain data that JSON can write, such as text, numbers and lists of them, not {short_repr(value)}."
            ) from None
    try:
        check(Spec, found)
    except ValueError as error:
        raise SpecError(f"about= is read by the report, which cannot use this: {error}.") from None
    return found


def as_outputs(outputs: str | None) -> Outputs | None:
    """What the outputs are, if the user said it."""
    known = [kind.value for kind in Outputs]
    if outputs is not None and outputs not in known:
        raise SpecError(f"The outputs are one of {', '.join(known)}, not '{outputs}'.")
    return None if outputs is None else Outputs(outputs)


def check_labels(what: str, labels: Iterable[Any]) -> None:
    """Raise unless every label is a word."""
    for label in labels:
        if not isinstance(label, str) or not label.strip():
            raise SpecError(f"A label in {what}s={{'label': ...}} must be a word, not {short_repr(label)}.")
        if UNPRINTABLE.search(label):
            raise SpecError(f"A label in {what}s={{'label': ...}} must be text that can be printed, not {short_repr(label)}.")
