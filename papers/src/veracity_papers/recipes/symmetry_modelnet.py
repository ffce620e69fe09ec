"""Point clouds as in the symmetry paper: permutations of the points, a Deep Sets network, three kinds of explanation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from veracity.audit import Audit
from veracity.explain import FeaturePermutation, GradientShap, IntegratedGradients
from veracity.perturb import Permutations
from veracity.recipe import Scale, recipe
from veracity.walk import MonteCarlo
from veracity_papers.data.modelnet import modelnet
from veracity_papers.recipes.kinds import EXAMPLES, by_concept, by_example
from veracity_papers.zoo.sets import EQUIVARIANT, INVARIANT, checkpoints, pretrained

SIZES = {Scale.SMOKE: (4, 2, 300, 30), Scale.SMALL: (60, 10, 1000, 100), Scale.PAPER: (297, 50, 1186, 500)}


@recipe("symmetry-modelnet", reference="Crabbé & van der Schaar 2023, Figure 3 and Table 8")
def symmetry_modelnet(folder: Path, scale: Scale) -> Audit:
    """Feature, example and concept explanations of a Deep Sets network under permutations of a cloud's points.

    Of ModelNet40 three classes are at hand, bench, chair and monitor, with 1,483 different shapes; clouds have 256 points
    here and 1,000 in the paper. Small: 60 clouds, 10 permutations each, no perturbation of single coordinates (768 passes
    a map).
    """
    samples, draws, examples, per_side = SIZES[scale]
    test, train = modelnet("test").some(samples), modelnet("train").some(examples)
    others = train.inputs.take(torch.arange(50)).values
    explainers: dict[str, Any] = {"gradient": "gradient", "input_x_gradient": "input_x_gradient"}
    if scale is not Scale.SMOKE:
        explainers |= {
            "integrated_gradients": IntegratedGradients(steps=50 if scale is Scale.PAPER else 20),
            "gradient_shap": GradientShap(),
            "gradient_shap-data": GradientShap(baselines=others),
        }
    if scale is Scale.PAPER:
        explainers |= {"feature_ablation": "feature_ablation", "feature_permutation": FeaturePermutation(reference_set=others)}
    return Audit(
        title="Do explanations of a point cloud classifier follow reordered points?",
        models={"deep-sets": pretrained()},
        inputs=test.inputs,
        targets=test.labels,
        explainers={**explainers, **by_example(INVARIANT, EQUIVARIANT), **by_concept(INVARIANT, EQUIVARIANT, per_side)},
        training=train.training(),
        examples=EXAMPLES[scale],
        checkpoints={"deep-sets": checkpoints()},
        symmetry=Permutations(axis=-2),
        walk=MonteCarlo(draws=draws),
        scores=["symmetry", "model_invariance"],
        about={"recipe": "symmetry-modelnet", "scale": scale.value},
    )
