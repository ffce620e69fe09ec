"""Errors and warnings. The message of an error says in one line what is wrong and what to do."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from veracity.core.aliases import SAME, squeezed

CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
"""Line breaks, terminal control characters and lone surrogates."""
LONGEST_MESSAGE = 1200
LONGEST_LIST = 600
"""How many characters of a list of names an error shows."""


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


THROUGH = ("contextlib", "functools")
"""Modules that stand between our functions and their callers."""


def warn(text: str) -> None:
    """Warn with a Note at the line that called this package, which is what the user wrote."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_back is not None and ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    if frame is None:
        warnings.warn(text, Note, stacklevel=2)
        return
    known = frame.f_globals
    place = {"filename": frame.f_code.co_filename, "lineno": frame.f_lineno, "module": known.get("__name__", "")}
    warnings.warn_explicit(text, Note, **place, registry=known.setdefault("__warningregistry__", {}))


def ours(module: str) -> bool:
    """Whether a module belongs to this package, or only passes calls on."""
    return module in THROUGH or module.partition(".")[0] == __name__.partition(".")[0]


def unknown(kind: str, name: str, known: Iterable[str], listing: str = "") -> SpecError:
    """The error for an unknown name, with the most similar known one.

    >>> print(unknown("measure", "cosin", ["cosine", "l1"]))
    Unknown measure 'cosin'. Did you mean 'cosine'?
    """
    names, name = sorted(known), " ".join(repr(str(name))[1:-1].split())[:80]
    found = meant(name, names, kind)
    hint = f"Did you mean '{found}'?" if found else f"Known: {listed(names)}."
    see = f" See: veracity ls {listing}" if listing else ""
    return SpecError(f"Unknown {kind} '{name}'. {hint}{see}")


def meant(name: str, names: Sequence[str], kind: str = "") -> str:
    """The known name that was meant: the same but for its spelling, what Quantus calls so, or the most similar; "" if there is none.

    >>> meant("Max Sensitivity", ["max_sensitivity"]), meant("ModelParameterRandomisation", ["mprt"], "score")
    ('max_sensitivity', 'mprt')
    """
    key = squeezed(name)
    same = next((one for one in names if squeezed(one) == key), "") if key else ""
    alias = SAME.get(key, "") if kind == "score" else ""
    return same or (alias if alias in names else "") or next(iter(get_close_matches(name, names, n=1, cutoff=0.5)), "")


def listed(names: Sequence[str]) -> str:
    """Names with commas between them, the first ones if there are many.

    >>> listed(["a", "b"])
    'a, b'
    """
    shown, text = list(names), ", ".join(names)
    while len(text) > LONGEST_LIST and len(shown) > 1:
        shown.pop()
        text = f"{', '.join(shown)} and {len(names) - len(shown)} more"
    return text[: 2 * LONGEST_LIST]


def missing_extra(package: str, extra: str, distribution: str = "veracity") -> SpecError:
    """The error for an optional dependency that is not installed."""
    return SpecError(f"This needs {package}, which is not installed: pip install '{distribution}[{extra}]'")


def error_text(error: Exception) -> str:
    """The message of an error; with the name of its class unless it is a VeracityError.

    >>> error_text(SpecError("Give two.")), error_text(ValueError("no"))
    ('Give two.', 'ValueError: no')
    """
    return str(error) if isinstance(error, VeracityError) else f"{type(error).__name__}: {error}"
