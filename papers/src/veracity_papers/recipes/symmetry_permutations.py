"""Explanations under permutations, as in the symmetry paper: words of reviews, points of clouds, atoms of molecules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from veracity.audit import Audit
from veracity.explain import FeaturePermutation, GradientShap, IntegratedGradients
from veracity.perturb import NodePermutations, Permutations
from veracity.recipe import Scale, recipe
from veracity.walk import MonteCarlo
from veracity_papers.data.imdb import imdb
from veracity_papers.data.modelnet import modelnet
from veracity_papers.data.mutagenicity import mutagenicity
from veracity_papers.recipes.symmetry_methods import EXAMPLES, by_concept, by_example
from veracity_papers.zoo import bag, graph, sets

REVIEWS = {Scale.SMOKE: (3, 2, 600), Scale.SMALL: (24, 5, 4000), Scale.PAPER: (500, 50, 5000)}


@recipe("symmetry-imdb", reference="Crabbé & van der Schaar 2023, Figure 3 and appendix F")
def symmetry_imdb(folder: Path, scale: Scale) -> Audit:
    """Feature, example and concept explanations of a bag-of-words network under permutations of a review's tokens.

    A review is 128 one-hot tokens of a vocabulary of 1,000. The network adds the tokens up at once, so that it has no
    equivariant layer. Small: 24 reviews, 5 permutations each. Paper: 500 reviews, 50 permutations.
    """
    samples, draws, examples = REVIEWS[scale]
    test, train = imdb("test").some(samples), imdb("train").some(examples)
    others = train.inputs.take(torch.arange(10)).values
    explainers: dict[str, Any] = {"gradient": "gradient", "input_x_gradient": "input_x_gradient"}
    if scale is not Scale.SMOKE:
        explainers |= {
            "integrated_gradients": IntegratedGradients(steps=20),
            "gradient_shap": GradientShap(),
            "gradient_shap-data": GradientShap(baselines=others),
        }
    return Audit(
        title="Do explanations of a review classifier follow reordered words?",
        models={"bag-of-words": bag.pretrained()},
        inputs=test.inputs,
        targets=test.labels,
        explainers={**explainers, **by_example(bag.INVARIANT), **by_concept(bag.INVARIANT)},
        training=train.training(),
        examples=EXAMPLES[scale],
        checkpoints={"bag-of-words": bag.checkpoints()},
        symmetry=Permutations(axis=-2),
        walk=MonteCarlo(draws=draws),
        scores=["symmetry", "model_invariance"],
        about={"recipe": "symmetry-imdb", "scale": scale.value},
    )


CLOUDS = {Scale.SMOKE: (4, 2, 300, 30), Scale.SMALL: (60, 10, 1000, 100), Scale.PAPER: (297, 50, 1186, 500)}


@recipe("symmetry-modelnet", reference="Crabbé & van der Schaar 2023, Figure 3 and Table 8")
def symmetry_modelnet(folder: Path, scale: Scale) -> Audit:
    """Feature, example and concept explanations of a Deep Sets network under permutations of a cloud's points.

    Of ModelNet40 three classes are at hand, bench, chair and monitor, with 1,483 different shapes; clouds have 256 points
    here and 1,000 in the paper. Small: 60 clouds, 10 permutations each, no perturbation of single coordinates (768 passes
    a map).
    """
    samples, draws, examples, per_side = CLOUDS[scale]
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
        models={"deep-sets": sets.pretrained()},
        inputs=test.inputs,
        targets=test.labels,
        explainers={**explainers, **by_example(sets.INVARIANT, sets.EQUIVARIANT), **by_concept(sets.INVARIANT, sets.EQUIVARIANT, per_side)},
        training=train.training(),
        examples=EXAMPLES[scale],
        checkpoints={"deep-sets": sets.checkpoints()},
        symmetry=Permutations(axis=-2),
        walk=MonteCarlo(draws=draws),
        scores=["symmetry", "model_invariance"],
        about={"recipe": "symmetry-modelnet", "scale": scale.value},
    )


MOLECULES = {Scale.SMOKE: (4, 2, 300, 50), Scale.SMALL: (60, 10, 3000, 500), Scale.PAPER: (433, 50, 3471, 500)}


@recipe("symmetry-mutagenicity", reference="Crabbé & van der Schaar 2023, Figure 3 and Table 7")
def symmetry_mutagenicity(folder: Path, scale: Scale) -> Audit:
    """Feature, example and concept explanations of a graph network under permutations of a molecule's atoms.

    Graphs of different sizes have no equivariant layer of fixed size (Table 12). The 433 test molecules are not in the
    training set. Small: 60 of them, 10 permutations each, no ablation of single numbers. Paper: all, 50 permutations.
    """
    samples, draws, examples, per_side = MOLECULES[scale]
    test, train = mutagenicity("test").some(samples), mutagenicity("train").some(examples)
    explainers: dict[str, Any] = {"gradient": "gradient", "deep_lift": "deep_lift", "gradient_shap": GradientShap()}
    if scale is not Scale.SMOKE:
        steps = 50 if scale is Scale.PAPER else 20
        explainers |= {"input_x_gradient": "input_x_gradient", "integrated_gradients": IntegratedGradients(steps=steps)}
    if scale is Scale.PAPER:
        explainers["feature_ablation"] = "feature_ablation"
    return Audit(
        title="Do explanations of a mutagenicity classifier follow renumbered atoms?",
        models={"gnn": graph.pretrained()},
        inputs=test.inputs,
        targets=test.labels,
        explainers={**explainers, **by_example(graph.INVARIANT), **by_concept(graph.INVARIANT, per_side=per_side)},
        training=train.training(),
        examples=EXAMPLES[scale],
        checkpoints={"gnn": graph.checkpoints()},
        symmetry=NodePermutations(),
        walk=MonteCarlo(draws=draws),
        scores=["symmetry", "model_invariance"],
        about={"recipe": "symmetry-mutagenicity", "scale": scale.value},
    )
