"""Which explanations survive leaving a fold out? The demo of stability, on handwritten digits."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from veracity.audit import Audit
from veracity.demo import digits
from veracity.recipe import Scale, recipe
from veracity.trainers.small_cnn import SmallCNN
from veracity_papers.data.whole import whole
from veracity_papers.recipes.stability_methods import PAPER, TINY, Effort, cross_trained_audit, described

NARROW = SmallCNN(width=4, epochs=6)
"""A network that still errs, .92 of the time right: without pairs of models that disagree there is no consistency to measure."""
EFFORTS = {Scale.SMOKE: TINY, Scale.SMALL: Effort(500), Scale.PAPER: Effort(1797)}


@recipe("stability-digits", reference=f"{PAPER}, Algorithm 1")
def stability_digits(folder: Path, scale: Scale) -> Audit:
    """MeGe, ReCo and muF of seven explainers and a random one, on a small network trained without each fifth of scikit-learn's digits.

    All 1,797 digits are learnt from. Smoke: two folds and 24 digits explained. Small: 500 digits explained, 100 of each fold.
    Paper: every digit.
    """
    fit = SmallCNN(epochs=2, batch=32, patience=None) if scale is Scale.SMOKE else NARROW
    title = "Which explanations of digit classifiers survive leaving a fold out?"
    data = whole(partial(digits, padding=0))
    return cross_trained_audit(title, {"small_cnn": fit}, data, EFFORTS[scale], described("stability-digits", scale))
