"""What the symmetry recipes share: the three kinds of explanation that the paper compares, with the settings of its appendix F."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from veracity.audit import Audit
from veracity.core.explainers import Explainer
from veracity.explain import (
    CAR,
    CAV,
    FeaturePermutation,
    GradientShap,
    InfluenceFunctions,
    IntegratedGradients,
    RepresentationSimilarity,
    SimplEx,
    TracIn,
)
from veracity.recipe import Scale
from veracity.walk import Exhaustive, MonteCarlo
from veracity_papers.zoo.storage import Shipped

PAPER = "Crabbé & van der Schaar 2023"
EXAMPLES = {Scale.SMOKE: 10, Scale.SMALL: 100, Scale.PAPER: 100}
"""How many training examples explanations by example refer to."""
GRADIENTS = ("integrated_gradients", "gradient_shap", "gradient_shap-data")


def symmetry_audit(
    name: str,
    scale: Scale,
    title: str,
    *,
    networks: Mapping[str, Shipped[Any]],
    features: Mapping[str, Any],
    draws: int | None,
    per_side: int = 100,
    **settings: Any,
) -> Audit:
    """Feature, example and concept explanations of networks with the same layers, under `draws` elements of a symmetry, or all."""
    first = next(iter(networks.values()))
    layers = (first.invariant, first.equivariant)
    return Audit(
        title=title,
        models={label: network.pretrained() for label, network in networks.items()},
        checkpoints={label: network.checkpoints() for label, network in networks.items()},
        explainers={**features, **by_example(*layers), **by_concept(*layers, per_side=per_side)},
        examples=EXAMPLES[scale],
        walk=Exhaustive() if draws is None else MonteCarlo(draws=draws),
        scores=["symmetry", "model_invariance"],
        about={"recipe": name, "scale": scale.value},
        **settings,
    )


def feature_methods(
    scale: Scale,
    smoke: tuple[str, ...],
    small: tuple[str, ...],
    paper: tuple[str, ...] = (),
    *,
    others: Tensor | None = None,
    steps: int = 50,
) -> dict[str, Any]:
    """Feature explanations by name, where a larger scale adds to the smaller ones.

    `others` are training samples for baselines and permutations, `steps` the steps of integrated gradients at the paper's scale.

    >>> feature_methods(Scale.SMALL, ("gradient",), ("integrated_gradients",), ("occlusion",))
    {'gradient': 'gradient', 'integrated_gradients': IntegratedGradients(steps=20, method='gausslegendre', baseline=None)}
    """
    names = {Scale.SMOKE: smoke, Scale.SMALL: smoke + small, Scale.PAPER: smoke + small + paper}[scale]
    known = {
        "integrated_gradients": IntegratedGradients(steps=steps if scale is Scale.PAPER else 20),
        "gradient_shap": GradientShap(),
        "gradient_shap-data": GradientShap(baselines=others),
        "feature_permutation": FeaturePermutation(reference_set=others),
    }
    return {name: known.get(name, name) for name in names}


def by_example(invariant: str, equivariant: str | None = None) -> dict[str, Explainer]:
    """Loss-based explanations at the last layer, representation-based ones at the Inv layer and, where there is one, the Equiv layer."""
    found: dict[str, Explainer] = {"influence_functions": InfluenceFunctions(), "tracin": TracIn()}
    for place, layer in (("inv", invariant), ("equiv", equivariant)):
        if layer is not None:
            found |= {f"simplex-{place}": SimplEx(layer=layer), f"similarity-{place}": RepresentationSimilarity(layer=layer)}
    return found


def by_concept(invariant: str, equivariant: str | None = None, *, per_side: int = 100) -> dict[str, Explainer]:
    """CAV and CAR at the Inv layer and, where there is one, at the Equiv layer."""
    found: dict[str, Explainer] = {}
    for place, layer in (("inv", invariant), ("equiv", equivariant)):
        if layer is not None:
            found |= {f"cav-{place}": CAV(layer=layer, per_side=per_side), f"car-{place}": CAR(layer=layer, per_side=per_side)}
    return found
