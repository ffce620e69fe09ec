"""Numbers and names as a reader sees them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
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
        "How far a small change of the input can move an explanation, as a share of it: the largest |e(x') - e(x)| / |e(x)| among random "
        "inputs x' in a small ball around x."
    ),
    "sol_f_hat": (
        "The worst misinterpretation found that leaves the label as it is (F-hat): how alike the explanations of the input and of the "
        "most differently explained point close to it are. A search finds a bound: the true worst case can only be worse."
    ),
    "sol_f_tilde": (
        "The worst misinterpretation found that changes the label (F-tilde): how alike the explanations of the input and of the most "
        "similarly explained point of another class close to it are. Samples around which no point of another class was found have "
        "no value and are counted as not feasible."
    ),
    "worst_loss": (
        "The largest prediction loss found close to the input: by how much the score of another class exceeds that of the predicted "
        "one. From 0 on the point is misclassified."
    ),
    "ln_p_f_hat": (
        "How likely it is that a random point close to the input keeps its label and is explained otherwise (F-hat), as the natural "
        "logarithm of that probability. Samples are summed up by their median, since some are only known to lie below a floor."
    ),
    "ln_p_f_tilde": (
        "How likely it is that a random point close to the input changes its label and is explained alike (F-tilde), as the natural "
        "logarithm of that probability. Samples are summed up by their median, since some are only known to lie below a floor."
    ),
    "ln_p_misclassified": (
        "How likely it is that a random point close to the input changes its label, as the natural logarithm of that probability; the "
        "median over samples."
    ),
    "mege": (
        "How little an explanation depends on whether the model learnt from the sample: 1 / (1 + the mean distance in S=), the nearer to 1 "
        "the better (MeGe, mean generalisability). It is one number of the whole data set."
    ),
    "reco": (
        "How far explanations lie apart where models contradict each other, beyond where they agree: the largest TPR + TNR - 1 "
        "over all thresholds on the distance, 1 where one of them separates both sets (ReCo, relative consistency). Few distances at "
        "either end may decide it, so that it is worth no more than what it is above its null."
    ),
    "reco_auc": (
        "Relative consistency as an area: the mean of TPR + TNR - 1 over all thresholds on the distance. It is about 0 where "
        "distances have nothing to do with who is right."
    ),
    "reco_ks": (
        "Relative consistency as a one-sided Kolmogorov-Smirnov distance: the largest gap, over all thresholds, between the share of S= "
        "and the share of S≠ that lies below. No single distance decides it."
    ),
    "model_invariance": "The mean, over transforms g, of how alike the model's output for g x and for x are.",
    "action_floor": (
        "What the transform itself costs: how alike x and x moved there and back again are. Where that is not perfect, no score of an "
        "explanation can be read more finely."
    ),
}

ABSOLUTE = (
    "Here it is not divided by |e(x)|, so it is in each map's own units: a map that is 100 times larger moves 100 times further. Compare "
    "samples and models by it, not explainers."
)
"""What must be said of a relative score that was asked for without the division."""

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
    "mu_f": "muF",
    "mu_fidelity": "MuFidelity",
    "mege": "MeGe",
    "reco": "ReCo",
    "reco_auc": "ReCo (area)",
    "reco_ks": "ReCo (KS)",
    "sol_f_hat": "sol F-hat",
    "sol_f_tilde": "sol F-tilde",
    "ln_p_f_hat": "ln P of F-hat",
    "ln_p_f_tilde": "ln P of F-tilde",
    "ln_p_misclassified": "ln P of misclassification",
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
    >>> title_of("ln_p_f_hat, r = .1")
    'ln P of F-hat, r = .1'
    """
    text = word_of(score)
    return text if text.startswith("ln ") else text[:1].upper() + text[1:]


def word_of(score: str) -> str:
    """A score's name within a sentence.

    >>> word_of("model_invariance"), word_of("fast_gef")
    ('model invariance', 'Fast-GEF')
    >>> word_of("sol_f_hat at r = 0.1")
    'sol F-hat at r = 0.1'
    """
    first = re.match(r"\w*", score)
    known = first.group() if first else ""
    return NAMES[known] + score[len(known) :] if known in NAMES else score.replace("_", " ")


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
