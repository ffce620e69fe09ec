"""Film reviews as in the symmetry paper: permutations of the tokens, a bag-of-words network, three kinds of explanation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from veracity.audit import Audit
from veracity.explain import GradientShap, IntegratedGradients
from veracity.perturb import Permutations
from veracity.recipe import Scale, recipe
from veracity.walk import MonteCarlo
from veracity_papers.data.imdb import imdb
from veracity_papers.recipes.kinds import EXAMPLES, by_concept, by_example
from veracity_papers.zoo.bag import INVARIANT, checkpoints, pretrained

SIZES = {Scale.SMOKE: (3, 2, 600), Scale.SMALL: (24, 5, 4000), Scale.PAPER: (500, 50, 5000)}


@recipe("symmetry-imdb", reference="Crabbé & van der Schaar 2023, Figure 3 and appendix F")
def symmetry_imdb(folder: Path, scale: Scale) -> Audit:
    """Feature, example and concept explanations of a bag-of-words network under permutations of a review's tokens.

    A review is 128 one-hot tokens of a vocabulary of 1,000. The network adds the tokens up at once, so that it has no
    equivariant layer. Small: 24 reviews, 5 permutations each. Paper: 500 reviews, 50 permutations.
    """
    samples, draws, examples = SIZES[scale]
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
        models={"bag-of-words": pretrained()},
        inputs=test.inputs,
        targets=test.labels,
        explainers={**explainers, **by_example(INVARIANT), **by_concept(INVARIANT)},
        training=train.training(),
        examples=EXAMPLES[scale],
        checkpoints={"bag-of-words": checkpoints()},
        symmetry=Permutations(axis=-2),
        walk=MonteCarlo(draws=draws),
        scores=["symmetry", "model_invariance"],
        about={"recipe": "symmetry-imdb", "scale": scale.value},
    )
