"""What to change when an assumption fails: another explainer, and a sentence that says what was done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from veracity.core.explainers import Explainer, Frame
from veracity.core.registry import EXPLAINERS
from veracity.core.spaces import FiniteSpace, InputSpace
from veracity.explain.symmetrised import Symmetrised
from veracity.interpret.flowchart import EXACT, Assumption
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
