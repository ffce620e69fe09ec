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
"""Up to this order an explanation is averaged over the whole group."""

MORE = 4
"""By how much the draws of a noisy explainer, or of a mean over transforms, grow."""

LARGEST = 256
"""No more draws than this are proposed."""


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
        return Remedy(None, "Explain a model that is invariant by construction; mending the explainer would hide what this model does.")
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
    return Remedy(None, "Compare with common random draws (common_draws), and report it beside its agreement with itself.")


def still_baseline(explainer: Explainer) -> Remedy:
    """A baseline that no symmetry of this kind moves: zero."""
    if hasattr(explainer, "baselines"):
        return Remedy(with_settings(explainer, {"baselines": None}), "Use the zero baseline, which the symmetry leaves in place.")
    if hasattr(explainer, "baseline"):
        return Remedy(with_settings(explainer, {"baseline": 0.0}), "Use the zero baseline, which the symmetry leaves in place.")
    return Remedy(
        EXPLAINERS.build("feature_ablation"), "Replace features by zero (feature_ablation): reference rows are not invariant, zero is."
    )


def invariant_layer(explainer: Explainer, space: InputSpace, layers: Mapping[str, float]) -> Remedy:
    """The first invariant layer after the one that is read; a mean over transforms if there is none."""
    names = list(layers)
    current = getattr(explainer, "layer", None)
    after = names[names.index(current) + 1 :] if current in names else names
    best = next((name for name in after if layers[name] >= EXACT), None)
    if best is None:
        return symmetrised(explainer, space)
    return Remedy(with_settings(explainer, {"layer": best}), f"Read the layer '{best}', whose invariance is {layers[best]:.4f}.")


def symmetrised(explainer: Explainer, space: InputSpace) -> Remedy:
    """The mean over transforms, over the whole group where it is small, and over more of them where it already is a mean."""
    if explainer.frame is Frame.INPUT and not isinstance(space, Group):
        return Remedy(None, f"No mean over {space.name} can mend it, since its transforms cannot be undone: choose another method.")
    order = space.order if isinstance(space, FiniteSpace) else None
    if isinstance(explainer, Symmetrised):
        count = explainer.draws
        if count is None or count >= LARGEST:
            return Remedy(None, "It is a mean over transforms already: choose a method that is robust by design.")
        more = MORE * count
        draws = None if order is not None and more >= order else min(more, LARGEST)
        words = "the whole group" if draws is None else f"{draws} transforms"
        return Remedy(replace(explainer, draws=draws), f"Average over {words} instead of {count} (Proposition 2.3).")
    draws = None if order is not None and order <= WHOLE else MORE
    words = "the whole group" if draws is None else f"{draws} transforms"
    mean = "e_equi" if explainer.frame is Frame.INPUT else "e_inv"
    return Remedy(Symmetrised(explainer=explainer, draws=draws), f"Average it over {words} ({mean}, Proposition 2.3).")


def with_settings(explainer: Explainer, changes: dict[str, Any]) -> Explainer:
    """The explainer with other settings, inside a mean over transforms too."""
    if isinstance(explainer, Symmetrised):
        return replace(explainer, explainer=replace(explainer.inner, **changes))
    return replace(explainer, **changes)


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
    """Which assumption fails, by which guideline, and how that was seen."""

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
    if found.low >= KEPT:
        return robust_diagnosis(found, seen)
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


def robust_diagnosis(found: Symptoms, seen: str) -> Diagnosis:
    """Nothing to do: the flowchart's last node."""
    guideline = {Frame.INPUT: 1, Frame.TRAINING: 2, Frame.CONCEPTS: 3}.get(found.frame, 1)
    return Diagnosis(assumption=Assumption.NONE, guideline=guideline, measured=seen, reason=tell("flowchart.robust", intervals=1))


def noise_limited(found: Symptoms) -> bool:
    """Whether a random explainer is as far from itself as from the symmetry."""
    return found.stochastic and math.isfinite(found.self_agreement) and found.high >= found.self_agreement - SLACK
