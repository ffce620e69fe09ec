"""Numbers, counts and dates as a reader sees them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime

MINUS = "\N{MINUS SIGN}"
AT_MOST = "\N{LESS-THAN OR EQUAL TO}"
AT_LEAST = "\N{GREATER-THAN OR EQUAL TO}"
SIGNS = {"": "", "at most": f"{AT_MOST} ", "at least": f"{AT_LEAST} "}
"""What stands before a number of which no more is known."""
UNDEFINED = "undefined"
LARGE = 100.0
"""From here on a number needs fewer decimals."""
HUGE = 1e6
"""From here on a number is written by its power of ten."""


def number(value: float, digits: int = 3) -> str:
    """A number for the page: a fixed count of decimals, fewer of large ones, a true minus sign, and a word where there is none.

    >>> number(0.98449), number(float("nan"))
    ('0.984', 'undefined')
    >>> number(123.456), number(47033.04), number(1234567.0)
    ('123.5', '47033', '1.23e+06')
    """
    if not math.isfinite(value):
        return UNDEFINED
    size = abs(value)
    shown = digits if size < LARGE else min(digits, max(0, 3 - math.floor(math.log10(size))))
    text = f"{value:.{shown}f}" if size < HUGE else f"{value:.3g}"
    return f"{MINUS}{text[1:]}" if text.startswith("-") and float(text) != 0 else text.lstrip("-")


def joined(parts: Sequence[str], link: str = "and") -> str:
    """Parts of a sentence in a row.

    >>> joined(["a", "b", "c"]), joined(["a", "b"], "or"), joined([])
    ('a, b and c', 'a or b', '')
    """
    return f" {link} ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)


def decimals(values: Iterable[float]) -> int:
    """How many decimals tell a score's values apart: three, and more where all of them are small.

    >>> decimals([0.2, 1.0]), decimals([0.00021])
    (3, 6)
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=1.0)
    return 3 if largest >= 0.1 or largest == 0 else min(2 - math.floor(math.log10(largest)), 12)


UNSEEN = (
    "Unseen: where every sample has the same value, the interval has no width; this is then the largest share of the population that "
    "may differ without having been seen{draws}."
)
SHARED = ", for these draws where samples share them"


def interval(low: float, high: float, digits: int = 3, link: str = " to ", *, unseen: float = math.nan) -> str:
    """An interval for the page; an infinite end is one that is not known. Where all samples are equal, what that leaves `unseen`.

    >>> interval(0.25, 0.5), interval(-math.inf, -8.0), interval(80.0, math.inf, 1)
    ('0.250 to 0.500', '≤ −8.000', '≥ 80.0')
    >>> interval(1.0, 1.0, unseen=0.1129)
    'all equal, unseen ≤ 11.3 %'
    """
    if math.isnan(low) or math.isnan(high):
        return UNDEFINED
    if math.isfinite(unseen):
        return f"all equal, unseen {AT_MOST} {percentage(unseen)}"
    ends = [number(end, digits) for end in (low, high) if math.isfinite(end)]
    return SIGNS["at most" if math.isinf(low) else "at least"] + ends[0] if len(ends) == 1 else link.join(ends) or "not known"


def percentage(share: float) -> str:
    """A share that is an upper bound, rounded up to three digits.

    >>> percentage(0.1129), percentage(0.00299), percentage(0.6316)
    ('11.3 %', '0.299 %', '63.2 %')
    """
    percent = 100 * share
    step = 10.0 ** (math.floor(math.log10(percent)) - 2) if percent > 0 else 1.0
    return f"{math.ceil(percent / step - 1e-9) * step:.12g} %"


def centre(value: float, bound: str = "", digits: int = 3) -> str:
    """The middle of all samples for the page: a number, or what it is "at most" or "at least" where that is all that is known.

    >>> centre(-100.0, "at most"), centre(0.25)
    ('≤ −100.0', '0.250')
    """
    return f"{SIGNS[bound] if math.isfinite(value) else ''}{number(value, digits)}"


def count(quantity: int, one: str, many: str = "") -> str:
    """A quantity with its noun.

    >>> count(1, "sample"), count(3, "sample")
    ('1 sample', '3 samples')
    """
    return f"{quantity:,} {one if quantity == 1 else many or one + 's'}"


def compact(value: float) -> str:
    """A number in as few letters as it needs.

    >>> compact(3.0), compact(-0.5), compact(20000.0)
    ('3', '−0.5', '20000')
    """
    if not math.isfinite(value):
        return UNDEFINED
    whole = value == round(value) and abs(value) < 1e6
    return (f"{value:.0f}" if whole else f"{value:.4g}").replace("-", MINUS)


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


def duration(seconds: float) -> str:
    """A time in words.

    >>> duration(42), duration(125), duration(7300)
    ('42 s', '2 min 5 s', '2 h 1 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
