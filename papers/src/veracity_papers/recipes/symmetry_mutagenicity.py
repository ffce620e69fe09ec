"""Molecules as in the symmetry paper: permutations of the atoms, a graph network, three kinds of explanation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from veracity.audit import Audit
from veracity.explain import GradientShap, IntegratedGradients
from veracity.perturb import NodePermutations
from veracity.recipe import Scale, recipe
from veracity.walk import MonteCarlo
from veracity_papers.data.mutagenicity import mutagenicity
from veracity_papers.recipes.kinds import EXAMPLES, by_concept, by_example
from veracity_papers.zoo.graph import INVARIANT, checkpoints, pretrained

SIZES = {Scale.SMOKE: (4, 2, 300, 50), Scale.SMALL: (60, 10, 3000, 500), Scale.PAPER: (433, 50, 3471, 500)}


@recipe("symmetry-mutagenicity", reference="Crabbé & van der Schaar 2023, Figure 3 and Table 7")
def symmetry_mutagenicity(folder: Path, scale: Scale) -> Audit:
    """Feature, example and concept explanations of a graph network under permutations of a molecule's atoms.

    Graphs of different sizes have no equivariant layer of fixed size (Table 12). The 433 test molecules are not in the
    training set. Small: 60 of them, 10 permutations each, no ablation of single numbers. Paper: all, 50 permutations.
    """
    samples, draws, examples, per_side = SIZES[scale]
    test, train = mutagenicity("test").some(samples), mutagenicity("train").some(examples)
    explainers: dict[str, Any] = {"gradient": "gradient", "deep_lift": "deep_lift", "gradient_shap": GradientShap()}
    if scale is not Scale.SMOKE:
        steps = 50 if scale is Scale.PAPER else 20
        explainers |= {"input_x_gradient": "input_x_gradient", "integrated_gradients": IntegratedGradients(steps=steps)}
    if scale is Scale.PAPER:
        explainers["feature_ablation"] = "feature_ablation"
    return Audit(
        title="Do explanations of a mutagenicity classifier follow renumbered atoms?",
        models={"gnn": pretrained()},
        inputs=test.inputs,
        targets=test.labels,
        explainers={**explainers, **by_example(INVARIANT), **by_concept(INVARIANT, per_side=per_side)},
        training=train.training(),
        examples=EXAMPLES[scale],
        checkpoints={"gnn": checkpoints()},
        symmetry=NodePermutations(),
        walk=MonteCarlo(draws=draws),
        scores=["symmetry", "model_invariance"],
        about={"recipe": "symmetry-mutagenicity", "scale": scale.value},
    )
