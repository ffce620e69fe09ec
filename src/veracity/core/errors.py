"""Every mistake a user can make ends in one of these, as one sentence that says what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
"""Line breaks, characters that steer a terminal, and halves of characters that cannot be written."""
LONGEST = 1200


class VeracityError(Exception):
    """A user's mistake or a broken input: the message is the whole story, in one line whatever the user's own text in it.

    >>> str(VeracityError("No file 'a\\n b'."))
    "No file 'a b'."
    """

    def __init__(self, message: object = "") -> None:
        text = " ".join(CONTROL_CHARACTERS.sub(" ", str(message)).split())
        super().__init__(text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}...")


class InputError(VeracityError):
    """The model, the data or their combination cannot be audited."""


class ChangedModelError(InputError):
    """An explainer changed the model that it explains."""


class SpecError(VeracityError):
    """A component or an audit file is written wrongly."""


class StoreError(VeracityError):
    """A run folder cannot be read or written."""


class Note(UserWarning):
    """Something true about a result that its reader must know."""


def unknown(kind: str, name: str, known: Iterable[str], listing: str = "") -> SpecError:
    """The error for a name that nobody registered, with the nearest one that somebody did.

    >>> print(unknown("measure", "cosin", ["cosine", "l1"]))
    Unknown measure 'cosin'. Did you mean 'cosine'?
    """
    names, name = sorted(known), " ".join(repr(str(name))[1:-1].split())[:80]
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(names)}."
    see = f" See: veracity ls {listing}" if listing else ""
    return SpecError(f"Unknown {kind} '{name}'. {hint}{see}")


def missing_extra(package: str, extra: str, distribution: str = "veracity") -> SpecError:
    """The error for an optional dependency of a distribution that is not installed."""
    return SpecError(f"This needs {package}, which is not installed: pip install '{distribution}[{extra}]'")


def said(error: Exception) -> str:
    """An error as a record: our own sentences as they are, anything else with its kind.

    >>> said(SpecError("Give two.")), said(ValueError("no"))
    ('Give two.', 'ValueError: no')
    """
    return str(error) if isinstance(error, VeracityError) else f"{type(error).__name__}: {error}"
