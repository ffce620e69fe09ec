"""Explanations under permutations, as in the symmetry paper: words of reviews, points of clouds, atoms of molecules."""

from __future__ import annotations

from pathlib import Path

import torch

from veracity.audit import Audit
from veracity.perturb import NodePermutations, Permutations
from veracity.recipe import Scale, recipe
from veracity_papers.data.imdb import imdb
from veracity_papers.data.modelnet import modelnet
from veracity_papers.data.mutagenicity import mutagenicity
from veracity_papers.recipes.symmetry_methods import GRADIENTS, PAPER, feature_methods, symmetry_audit
from veracity_papers.zoo.symmetry import BAG, DEEP_SETS, GNN

REVIEWS = {Scale.SMOKE: (3, 2, 600), Scale.SMALL: (24, 5, 4000), Scale.PAPER: (500, 50, 5000)}


@recipe("symmetry-imdb", reference=f"{PAPER}, Figure 3 and appendix F")
def symmetry_imdb(folder: Path, scale: Scale) -> Audit:
    """Feature, example and concept explanations of a bag-of-words network under permutations of a review's tokens.

    A review is 128 one-hot tokens from a vocabulary of 1,000. The network adds up the tokens in its first layer, so it has no
    equivariant layer. Small: 24 reviews, 5 permutations each. Paper: 500 reviews, 50 permutations.
    """
    samples, draws, examples = REVIEWS[scale]
    test, train = imdb("test").some(samples), imdb("train").some(examples)
    others = train.inputs.take(torch.arange(10)).values
    return symmetry_audit(
        "symmetry-imdb",
        scale,
        "Do explanations of a review classifier follow reordered words?",
        networks={"bag-of-words": BAG},
        inputs=test.inputs,
        targets=test.labels,
        features=feature_methods(scale, ("gradient", "input_x_gradient"), GRADIENTS, others=others, steps=20),
        training=train.training(),
        symmetry=Permutations(axis=-2),
        draws=draws,
    )


CLOUDS = {Scale.SMOKE: (4, 2, 300, 30), Scale.SMALL: (60, 10, 1000, 100), Scale.PAPER: (297, 50, 1186, 500)}


@recipe("symmetry-modelnet", reference=f"{PAPER}, Figure 3 and Table 8")
def symmetry_modelnet(folder: Path, scale: Scale) -> Audit:
    """Feature, example and concept explanations of a Deep Sets network under permutations of a cloud's points.

    Only three classes of ModelNet40 are available, bench, chair and monitor, with 1,483 different shapes. Clouds have 256 points
    here and 1,000 in the paper. Small: 60 clouds, 10 permutations each, no perturbation of single coordinates (768 passes
    per map).
    """
    samples, draws, examples, per_side = CLOUDS[scale]
    test, train = modelnet("test").some(samples), modelnet("train").some(examples)
    others = train.inputs.take(torch.arange(50)).values
    perturbing = ("feature_ablation", "feature_permutation")
    return symmetry_audit(
        "symmetry-modelnet",
        scale,
        "Do explanations of a point cloud classifier follow reordered points?",
        networks={"deep-sets": DEEP_SETS},
        inputs=test.inputs,
        targets=test.labels,
        features=feature_methods(scale, ("gradient", "input_x_gradient"), GRADIENTS, perturbing, others=others),
        training=train.training(),
        symmetry=Permutations(axis=-2),
        draws=draws,
        per_side=per_side,
    )


MOLECULES = {Scale.SMOKE: (4, 2, 300, 50), Scale.SMALL: (60, 10, 3000, 500), Scale.PAPER: (433, 50, 3471, 500)}


@recipe("symmetry-mutagenicity", reference=f"{PAPER}, Figure 3 and Table 7")
def symmetry_mutagenicity(folder: Path, scale: Scale) -> Audit:
    """Feature, example and concept explanations of a graph network under permutations of a molecule's atoms.

    Graphs of different sizes have no equivariant layer of fixed size (Table 12). The 433 test molecules are not in the
    training set. Small: 60 of them, 10 permutations each, no ablation of single numbers. Paper: all, 50 permutations.
    """
    samples, draws, examples, per_side = MOLECULES[scale]
    test, train = mutagenicity("test").some(samples), mutagenicity("train").some(examples)
    smoke, small = ("gradient", "deep_lift", "gradient_shap"), ("input_x_gradient", "integrated_gradients")
    return symmetry_audit(
        "symmetry-mutagenicity",
        scale,
        "Do explanations of a mutagenicity classifier follow renumbered atoms?",
        networks={"gnn": GNN},
        inputs=test.inputs,
        targets=test.labels,
        features=feature_methods(scale, smoke, small, ("feature_ablation",)),
        training=train.training(),
        symmetry=NodePermutations(),
        draws=draws,
        per_side=per_side,
    )
