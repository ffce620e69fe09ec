"""The flowchart of appendix A and the five guidelines, as a function from what was measured to what is wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from veracity.core.explainers import Frame
from veracity.core.sentences import tell
from veracity.core.spaces import Representation

KEPT = 0.99
"""From this score on a symmetry counts as kept."""

EXACT = 1.0 - 1e-4
"""From this invariance on a layer counts as invariant: representations share a mean, so that even very different ones look alike."""

SLACK = 0.01
"""How near to its own noise ceiling an explainer must be to be called merely noisy."""

STILL = 1e-5
"""A baseline that moves by less than this, relative to its size, is invariant."""


class Assumption(Enum):
    """What a guarantee of robustness rests on, by the thing that fails."""

    NONE = "none fails"
    MODEL = "the model is not invariant"
    NOISE = "the explainer is merely noisy"
    BASELINE = "the baseline is not invariant"
    LAYER = "the layer is not invariant"
    REPRESENTATION = "the representation is not a permutation"
    UNKNOWN = "no guarantee is known for this method"
    UNTOLD = "there is too little data to tell"


BRANCHES = {Frame.INPUT: "feature importance", Frame.TRAINING: "example importance", Frame.CONCEPTS: "concept-based"}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What the flowchart asks about one explainer of one model; NaN where a question does not apply.

    baseline_motion    the largest |g b - b| / |b| over baselines b and transforms g
    layer_invariance   the invariance of the layer that the explanation reads
    needs_permutation  whether the method's guarantee needs a permutation representation (Propositions D.6 and D.8)
    """

    frame: Frame
    score: float
    low: float
    high: float
    self_agreement: float
    model_invariance: float
    stochastic: bool = False
    baseline_motion: float = math.nan
    layer: str = ""
    layer_invariance: float = math.nan
    representation: Representation = Representation.PERMUTATION
    needs_permutation: bool = True


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """Which assumption fails, by which guideline, and how that was seen."""

    assumption: Assumption
    guideline: int
    measured: str
    reason: str


def diagnose(found: Measured) -> Diagnosis:
    """Follow the flowchart (Figure 6): is the model invariant, is the explanation robust, and if not, why not?

    >>> bad = Measured(frame=Frame.INPUT, score=0.3, low=0.2, high=0.4, self_agreement=1.0, model_invariance=1.0, baseline_motion=1.2)
    >>> diagnose(bad).assumption
    <Assumption.BASELINE: 'the baseline is not invariant'>
    """
    what = "equivariance" if found.frame is Frame.INPUT else "invariance"
    seen = f"{what} {found.score:.3f}"
    if not math.isfinite(found.score):
        reason = tell("flowchart.undefined", undefined=1)
        return Diagnosis(assumption=Assumption.UNKNOWN, guideline=4, measured=f"{what} undefined", reason=reason)
    if math.isnan(found.low) or math.isnan(found.high):
        return Diagnosis(assumption=Assumption.UNTOLD, guideline=4, measured=seen, reason=tell("flowchart.untold", samples=1))
    if found.low >= KEPT:
        return robust(found, seen)
    if found.model_invariance < KEPT:
        return Diagnosis(
            assumption=Assumption.MODEL,
            guideline=5,
            measured=f"{seen}, model invariance {found.model_invariance:.3f}",
            reason=tell("flowchart.model", intervals=1),
        )
    if found.baseline_motion > STILL:
        return Diagnosis(
            assumption=Assumption.BASELINE,
            guideline=1,
            measured=f"{seen}, baselines move by {found.baseline_motion:.2f} of their size",
            reason=tell("flowchart.baseline", intervals=1),
        )
    if noise_limited(found):
        return Diagnosis(
            assumption=Assumption.NOISE,
            guideline=1,
            measured=f"{seen}, agreement with itself {found.self_agreement:.3f}",
            reason=tell("flowchart.noise", agreements=1),
        )
    if found.layer_invariance < EXACT:
        return Diagnosis(
            assumption=Assumption.LAYER,
            guideline=2 if found.frame is Frame.TRAINING else 3,
            measured=f"{seen}, invariance of layer '{found.layer}' {found.layer_invariance:.4f}",
            reason=tell("flowchart.layer", intervals=1),
        )
    if found.representation is not Representation.PERMUTATION and found.frame is Frame.INPUT and found.needs_permutation:
        return Diagnosis(
            assumption=Assumption.REPRESENTATION,
            guideline=1,
            measured=f"{seen}, the representation is {found.representation.value}",
            reason=tell("flowchart.representation", intervals=1),
        )
    return Diagnosis(assumption=Assumption.UNKNOWN, guideline=4, measured=seen, reason=tell("flowchart.unknown", intervals=1))


def robust(found: Measured, seen: str) -> Diagnosis:
    """Nothing to do: the flowchart's last node."""
    guideline = {Frame.INPUT: 1, Frame.TRAINING: 2, Frame.CONCEPTS: 3}.get(found.frame, 1)
    return Diagnosis(assumption=Assumption.NONE, guideline=guideline, measured=seen, reason=tell("flowchart.robust", intervals=1))


def noise_limited(found: Measured) -> bool:
    """Whether a random explainer is as far from itself as from the symmetry."""
    return found.stochastic and math.isfinite(found.self_agreement) and found.high >= found.self_agreement - SLACK
