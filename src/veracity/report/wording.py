"""Numbers and names as a reader sees them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import datetime


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


















