"""Numbers and names as a reader sees them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime

MINUS = "\N{MINUS SIGN}"
UNDEFINED = "undefined"
LARGE = 100.0
"""From here on a number needs fewer decimals."""
HUGE = 1e6
"""From here on a number is written by its power of ten."""

DEFINITIONS = {
    "equivariance": (
        "How well an explanation moves with its input: the mean, over transforms g, of how alike e(g x), the explanation of the "
        "transformed input, and g e(x), the transformed explanation of the input, are."
    ),
    "invariance": (
        "How little an explanation changes when its input moves: the mean, over transforms g, of how alike e(g x) and e(x) are. It "
        "suits explanations that do not live in the input's frame."
    ),
    "symmetry": (
        "How well an explanation does what its kind asks when the input moves. A feature map should move along: the mean, over "
        "transforms g, of how alike e(g x) and g e(x) are, its equivariance. Examples and concepts should stay: the mean of how alike "
        "e(g x) and e(x) are, their invariance."
    ),
    "max_sensitivity": (
        "How far a small change of the input can move an explanation: the largest distance |e(x') - e(x)| among random inputs x' in a "
        "small ball around x. Smaller is better; it is measured in the explanation's own units, so that it compares samples and "
        "models before it compares explainers."
    ),
    "model_invariance": "The mean, over transforms g, of how alike the model's output for g x and for x are.",
    "action_floor": (
        "What the transform itself costs: how alike x and x moved there and back again are. Where that is not perfect, no score of an "
        "explanation can be read more finely."
    ),
}

FRAMES = {
    "input": "Feature maps",
    "training set": "Examples",
    "concepts": "Concepts",
    "output": "Outputs",
    "global": "Whole models",
}
"""What explanations are called by the frame in which they live, in the order of the page."""

NAMES = {
    "gef": "GEF",
    "fast_gef": "Fast-GEF",
    "gef_public": "GEF (public variant)",
    "fast_gef_public": "Fast-GEF (public variant)",
    "mprt": "MPRT",
    "smooth_mprt": "SmoothMPRT",
    "efficient_mprt": "EfficientMPRT",
    "mu_fidelity": "MuFidelity",
}
"""Scores that are called by a name of their own."""

ARROWS = {"higher": "\N{UPWARDS ARROW}", "lower": "\N{DOWNWARDS ARROW}"}
"""Which way is better."""

GUIDELINES = {
    1: "A feature map moves along with its input only if the baseline that the input is held against stays the same under the transforms.",
    2: "Examples ranked by the loss keep still by themselves; examples ranked by a representation do so on an invariant layer alone.",
    3: "Concept classifiers keep still on an invariant layer.",
    4: "Any explanation can be made symmetric by its mean over transforms; take as many as the target needs, and no more.",
    5: "An explainer that is robust on an invariant model may fail on one that is only nearly invariant: measure it there.",
}
"""The five guidelines of Crabbé and van der Schaar (2023), each in a sentence."""


def frame_title(frame: str) -> str:
    """What explanations of a frame are called.

    >>> frame_title("training set"), frame_title("folds")
    ('Examples', 'Folds')
    """
    return FRAMES.get(frame) or frame.capitalize() or "Other"


def in_order(frames: Iterable[str]) -> list[str]:
    """Frames, each once, in the order of the page; unknown ones last.

    >>> in_order(["concepts", "folds", "input", "concepts"])
    ['input', 'concepts', 'folds']
    """
    known = list(FRAMES)
    return sorted(dict.fromkeys(frames), key=lambda frame: known.index(frame) if frame in known else len(known))


def title_of(score: str) -> str:
    """A score's name as a heading.

    >>> title_of("model_invariance"), title_of("fast_gef"), title_of("RIS, no floor")
    ('Model invariance', 'Fast-GEF', 'RIS, no floor')
    """
    text = word_of(score)
    return text[:1].upper() + text[1:]


def word_of(score: str) -> str:
    """A score's name within a sentence.

    >>> word_of("model_invariance"), word_of("fast_gef")
    ('model invariance', 'Fast-GEF')
    """
    return NAMES.get(score) or score.replace("_", " ")


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
