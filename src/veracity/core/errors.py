"""Errors and warnings. The message of an error says in one line what is wrong and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
"""Line breaks, terminal control characters and lone surrogates."""
LONGEST_MESSAGE = 1200


class VeracityError(Exception):
    """A user's mistake or a broken input. The message is one line, even if it quotes text with line breaks.

    >>> str(VeracityError("No file 'a\\n b'."))
    "No file 'a b'."
    """

    def __init__(self, message: object = "") -> None:
        text = " ".join(CONTROL_CHARACTERS.sub(" ", str(message)).split())
        super().__init__(text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 3]}...")


class InputError(VeracityError):
    """The model and the data cannot be audited."""


class ChangedModelError(InputError):
    """An explainer changed the model that it explains."""


class SpecError(VeracityError):
    """A component or an audit file has a wrong name or setting."""


class StoreError(VeracityError):
    """A run folder cannot be read or written."""


class Note(UserWarning):
    """A warning that readers of the result must know."""


def unknown(kind: str, name: str, known: Iterable[str], listing: str = "") -> SpecError:
    """The error for an unknown name, with the most similar known one.

    >>> print(unknown("measure", "cosin", ["cosine", "l1"]))
    Unknown measure 'cosin'. Did you mean 'cosine'?
    """
    names, name = sorted(known), " ".join(repr(str(name))[1:-1].split())[:80]
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(names)}."
    see = f" See: veracity ls {listing}" if listing else ""
    return SpecError(f"Unknown {kind} '{name}'. {hint}{see}")


def missing_extra(package: str, extra: str, distribution: str = "veracity") -> SpecError:
    """The error for an optional dependency that is not installed."""
    return SpecError(f"This needs {package}, which is not installed: pip install '{distribution}[{extra}]'")


def error_text(error: Exception) -> str:
    """The message of an error; with the name of its class unless it is a VeracityError.

    >>> error_text(SpecError("Give two.")), error_text(ValueError("no"))
    ('Give two.', 'ValueError: no')
    """
    return str(error) if isinstance(error, VeracityError) else f"{type(error).__name__}: {error}"
