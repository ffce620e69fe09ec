"""The three kinds of explanation that the symmetry paper compares, with the settings of its appendix F."""

from __future__ import annotations

from veracity.core.explainers import Explainer
from veracity.explain import CAR, CAV, InfluenceFunctions, RepresentationSimilarity, SimplEx, TracIn
from veracity.recipe import Scale

EXAMPLES = {Scale.SMOKE: 10, Scale.SMALL: 100, Scale.PAPER: 100}
"""How many training examples explanations by example refer to."""


def by_example(invariant: str, equivariant: str | None = None) -> dict[str, Explainer]:
    """Loss-based explanations at the last layer, representation-based ones at the Inv layer and, where there is one, the Equiv layer."""
    found: dict[str, Explainer] = {"influence_functions": InfluenceFunctions(), "tracin": TracIn()}
    for place, layer in places(invariant, equivariant).items():
        found[f"simplex-{place}"] = SimplEx(layer=layer)
        found[f"similarity-{place}"] = RepresentationSimilarity(layer=layer)
    return found


def by_concept(invariant: str, equivariant: str | None = None, per_side: int = 100) -> dict[str, Explainer]:
    """CAV and CAR at the Inv layer and, where there is one, at the Equiv layer."""
    found: dict[str, Explainer] = {}
    for place, layer in places(invariant, equivariant).items():
        found[f"cav-{place}"] = CAV(layer=layer, per_side=per_side)
        found[f"car-{place}"] = CAR(layer=layer, per_side=per_side)
    return found


def places(invariant: str, equivariant: str | None) -> dict[str, str]:
    """The layers by the paper's names for them."""
    return {"inv": invariant, **({} if equivariant is None else {"equiv": equivariant})}
