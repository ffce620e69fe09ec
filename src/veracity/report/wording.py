"""Numbers and names as a reader sees them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime

MINUS = "\N{MINUS SIGN}"
UNDEFINED = "undefined"

DEFINITIONS = {
    "equivariance": (
        "How well an explanation moves with its input: the mean, over transforms g, of how alike e(g x), the explanation of the "
        "transformed input, and g e(x), the transformed explanation of the input, are."
    ),
    "invariance": (
        "How little an explanation changes when its input moves: the mean, over transforms g, of how alike e(g x) and e(x) are. It "
        "suits explanations that do not live in the input's frame."
    ),
    "model_invariance": "The mean, over transforms g, of how alike the model's output for g x and for x are.",
    "action_floor": (
        "What the transform itself costs: how alike x and x moved there and back again are. Where that is not perfect, no score of an "
        "explanation can be read more finely."
    ),
}


def title_of(score: str) -> str:
    """A score's name as a heading.

    >>> title_of("model_invariance")
    'Model invariance'
    """
    return score.replace("_", " ").capitalize()


def number(value: float, digits: int = 3) -> str:
    """A number for the page: a fixed count of decimals, a true minus sign, and a word where there is none.

    >>> number(0.98449), number(float("nan"))
    ('0.984', 'undefined')
    >>> number(1234567.0)
    '1.23e+06'
    """
    if not math.isfinite(value):
        return UNDEFINED
    text = f"{value:.{digits}f}" if abs(value) < 1e4 else f"{value:.3g}"
    return f"{MINUS}{text[1:]}" if text.startswith("-") and float(text) != 0 else text.lstrip("-")


def decimals(values: Iterable[float]) -> int:
    """How many decimals tell a score's values apart: three, and more where all of them are small.

    >>> decimals([0.2, 1.0]), decimals([0.00021])
    (3, 6)
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=1.0)
    return 3 if largest >= 0.1 or largest == 0 else min(2 - math.floor(math.log10(largest)), 12)


def interval(low: float, high: float, digits: int = 3) -> str:
    """An interval for the page.

    >>> interval(0.25, 0.5)
    '0.250 to 0.500'
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        return UNDEFINED
    return f"{number(low, digits)} to {number(high, digits)}"


def count(quantity: int, one: str, many: str = "") -> str:
    """A quantity with its noun.

    >>> count(1, "sample"), count(3, "sample")
    ('1 sample', '3 samples')
    """
    return f"{quantity:,} {one if quantity == 1 else many or one + 's'}"


def compact(value: float) -> str:
    """A number in as few letters as it needs.

    >>> compact(3.0), compact(-0.5)
    ('3', '−0.5')
    """
    return f"{value:.4g}".replace("-", MINUS) if math.isfinite(value) else UNDEFINED


def day(created: str) -> str:
    """An ISO time as a date and an hour; anything else as it is.

    >>> day("2025-03-04T05:06:07+00:00")
    '4 March 2025, 05:06 UTC'
    """
    try:
        moment = datetime.fromisoformat(created)
    except ValueError:
        return created
    zone = f" {moment.tzname()}" if moment.tzinfo else ""
    return f"{moment.day} {moment:%B %Y, %H:%M}{zone}"
