"""The flowchart of appendix A and its five guidelines: from what was measured to the assumption that fails, and to the remedy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from veracity.core.explainers import Explainer, Frame
from veracity.core.registry import EXPLAINERS
from veracity.core.sentences import tell
from veracity.core.spaces import FiniteSpace, InputSpace, Representation
from veracity.explain.symmetrised import Symmetrised
from veracity.perturb import Group

WHOLE = 64
"""An explanation is averaged over the whole group up to this order."""

MORE = 4
"""The factor by which the draws of a noisy explainer, or of a mean over transforms, are raised."""

LARGEST = 256
"""The largest number of draws that is proposed."""


@dataclass(frozen=True)
class Remedy:
    """A changed explainer, if there is one, and the change in words."""

    explainer: Explainer | None
    change: str


def remedy(explainer: Explainer, assumption: Assumption, space: InputSpace, layers: Mapping[str, float]) -> Remedy:
    """The flowchart's next step for an explainer whose `assumption` fails; `layers` are their invariances, in order of execution."""
    if assumption is Assumption.NONE:
        return Remedy(None, "")
    if assumption is Assumption.UNTOLD:
        return Remedy(None, "Measure more samples.")
    if assumption is Assumption.MODEL:
        return Remedy(None, "Explain a model that is invariant by construction; changing the explainer would hide what this model does.")
    if assumption is Assumption.NOISE:
        return symmetrised(explainer, space) if isinstance(explainer, Symmetrised) and explainer.draws else more_draws(explainer)
    if assumption is Assumption.BASELINE:
        return still_baseline(explainer)
    if assumption is Assumption.LAYER:
        return invariant_layer(explainer, space, layers)
    if assumption is Assumption.REPRESENTATION:
        return Remedy(EXPLAINERS.build("gradient"), "Use the plain gradient, which follows every orthogonal representation.")
    return symmetrised(explainer, space)


def more_draws(explainer: Explainer) -> Remedy:
    """More of whatever a random explainer draws."""
    for setting in ("draws", "samples"):
        count = getattr(explainer, setting, None)
        if isinstance(count, int) and count < LARGEST:
            more = min(MORE * count, LARGEST)
            changed = with_settings(explainer, {setting: more})
            return Remedy(changed, f"Raise its {setting} from {count} to {more}, or compare with common_draws.")
    return Remedy(None, "Compare with common random draws (common_draws), and report its agreement with itself beside it.")


def still_baseline(explainer: Explainer) -> Remedy:
    """The zero baseline, which no symmetry of this kind moves."""
    for setting, zero in (("baselines", None), ("baseline", 0.0)):
        if hasattr(explainer, setting):
            return Remedy(with_settings(explainer, {setting: zero}), "Use the zero baseline, which the symmetry leaves in place.")
    return Remedy(
        EXPLAINERS.build("feature_ablation"), "Replace features by zero (feature_ablation): reference rows are not invariant, zero is."
    )


def invariant_layer(explainer: Explainer, space: InputSpace, layers: Mapping[str, float]) -> Remedy:
    """The next invariant layer; a mean over transforms if there is none."""
    names = list(layers)
    current = getattr(explainer, "layer", None)
    after = names[names.index(current) + 1 :] if current in names else names
    best = next((name for name in after if layers[name] >= EXACT), None)
    if best is None:
        return symmetrised(explainer, space)
    return Remedy(with_settings(explainer, {"layer": best}), f"Read the layer '{best}', whose invariance is {layers[best]:.4f}.")


def symmetrised(explainer: Explainer, space: InputSpace) -> Remedy:
    """A mean over transforms: over the whole group if it is small, over more transforms if the explainer is such a mean already."""
    if explainer.frame is Frame.INPUT and not isinstance(space, Group):
        return Remedy(None, f"A mean over {space.name} does not help, since its transforms cannot be undone: choose another method.")
    order = space.order if isinstance(space, FiniteSpace) else math.inf
    if not isinstance(explainer, Symmetrised):
        draws, words = (None, "the whole group") if order <= WHOLE else (MORE, f"{MORE} transforms")
        mean = "e_equi" if explainer.frame is Frame.INPUT else "e_inv"
        return Remedy(Symmetrised(explainer=explainer, draws=draws), f"Average it over {words} ({mean}, Proposition 2.3).")
    count = explainer.draws
    if count is None or count >= LARGEST:
        return Remedy(None, "It is a mean over transforms already: choose a method that is robust by design.")
    more = min(MORE * count, LARGEST)
    draws, words = (None, "the whole group") if MORE * count >= order else (more, f"{more} transforms")
    return Remedy(replace(explainer, draws=draws), f"Average over {words} instead of {count} (Proposition 2.3).")


def with_settings(explainer: Explainer, changes: dict[str, Any]) -> Explainer:
    """The explainer with other settings, inside a mean over transforms too."""
    if isinstance(explainer, Symmetrised):
        return replace(explainer, explainer=replace(explainer.inner, **changes))
    return replace(explainer, **changes)


KEPT = 0.99
"""A symmetry counts as kept from this score on."""

EXACT = 1.0 - 1e-4
"""A layer counts as invariant from this value on: representations share a mean, so even very different ones have a high cosine."""

SLACK = 0.01
"""An explainer is merely noisy if its score is at most this far below its agreement with itself."""

STILL = 1e-5
"""A baseline is invariant if it moves by at most this share of its size."""


class Assumption(Enum):
    """The assumption of a guarantee of robustness that fails."""

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
class Symptoms:
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
    """The assumption that fails, the guideline, the measurement that shows it, and the reason in words."""

    assumption: Assumption
    guideline: int
    measured: str
    reason: str


def diagnose(found: Symptoms) -> Diagnosis:
    """Follow the flowchart (Figure 6): is the model invariant, is the explanation robust, and if not, why not?

    >>> bad = Symptoms(frame=Frame.INPUT, score=0.3, low=0.2, high=0.4, self_agreement=1.0, model_invariance=1.0, baseline_motion=1.2)
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
    guideline = {Frame.TRAINING: 2, Frame.CONCEPTS: 3}.get(found.frame, 1)
    noise = found.stochastic and math.isfinite(found.self_agreement) and found.high >= found.self_agreement - SLACK
    turned = found.representation is not Representation.PERMUTATION and found.frame is Frame.INPUT and found.needs_permutation
    model = f", model invariance {found.model_invariance:.3f}"
    baseline = f", baselines move by {found.baseline_motion:.2f} of their size"
    layer = f", invariance of layer '{found.layer}' {found.layer_invariance:.4f}"
    by_layer = 2 if found.frame is Frame.TRAINING else 3
    kind = f", the representation is {found.representation.value}"
    questions: tuple[tuple[bool, Assumption, int, str, str], ...] = (
        (found.low >= KEPT, Assumption.NONE, guideline, "", tell("flowchart.robust", intervals=1)),
        (found.model_invariance < KEPT, Assumption.MODEL, 5, model, tell("flowchart.model", intervals=1)),
        (found.baseline_motion > STILL, Assumption.BASELINE, 1, baseline, tell("flowchart.baseline", intervals=1)),
        (noise, Assumption.NOISE, 1, f", agreement with itself {found.self_agreement:.3f}", tell("flowchart.noise", agreements=1)),
        (found.layer_invariance < EXACT, Assumption.LAYER, by_layer, layer, tell("flowchart.layer", intervals=1)),
        (turned, Assumption.REPRESENTATION, 1, kind, tell("flowchart.representation", intervals=1)),
        (True, Assumption.UNKNOWN, 4, "", tell("flowchart.unknown", intervals=1)),
    )
    _, assumption, number, detail, reason = next(answer for answer in questions if answer[0])
    return Diagnosis(assumption=assumption, guideline=number, measured=seen + detail, reason=reason)
