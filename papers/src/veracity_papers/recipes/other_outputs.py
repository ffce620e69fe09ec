"""Models that do not give one class per sample: a class for every pixel, and a number."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from veracity.audit import Audit
from veracity.core.scores import Score
from veracity.core.training import CrossTrained
from veracity.perturb import CyclicShift
from veracity.recipe import Scale, recipe
from veracity.scores import Equivariance, FaithfulnessCorrelation, FastGEF, ModelEquivariance, ModelInvariance, PixelFlipping
from veracity.walk import MonteCarlo
from veracity_papers.data.shapes import shapes
from veracity_papers.recipes.faithfulness_methods import PAPER as GEF_PAPER
from veracity_papers.recipes.smoke import trained_classifier
from veracity_papers.recipes.symmetry_methods import PAPER as SYMMETRY_PAPER
from veracity_papers.zoo.pixels import pixel_network, value_network

IMAGES = {Scale.SMOKE: (4, 2, 256, 4), Scale.SMALL: (24, 10, 1024, 20), Scale.PAPER: (200, 50, 4096, 40)}
PADDINGS: tuple[Literal["circular"], Literal["zeros"]] = ("circular", "zeros")
EXPLAINERS = ("gradient", "input_x_gradient", "integrated_gradients", "occlusion")


@recipe("segmentation-shapes", reference=f"{SYMMETRY_PAPER}, section 2.1, for outputs that move")
def segmentation_shapes(folder: Path, scale: Scale) -> Audit:
    """Symmetry, GEF and masking scores of two segmentation networks on generated circles and squares.

    The explained number is the mean score of the shape's class over all pixels. With circular padding the class map moves exactly
    with cyclic shifts of the image, so this mean does not change, and gradients must move along. Zero padding breaks the symmetry at
    the borders. Both are trained on the spot. Small: 24 images, 10 shifts each.
    """
    samples, draws, examples, epochs = IMAGES[scale]
    data, (x, y) = shapes(examples, seed=1), shapes(samples, seed=2)
    smoke = scale is Scale.SMOKE
    networks: dict[str, nn.Module | CrossTrained] = {
        name: trained_classifier(folder, name, partial(pixel_network, name), data, epochs=epochs, batch=64) for name in PADDINGS
    }
    masks: list[Score] = [
        FaithfulnessCorrelation(subset_size=40, nr_runs=20 if smoke else 100),
        PixelFlipping(softmax=False, features_in_step=40),
    ]
    return Audit(
        title="Do explanations of a segmentation network follow a shifted image?",
        models=networks,
        inputs=x,
        targets=y,
        explainers=EXPLAINERS[: 2 if smoke else None],
        symmetry=CyclicShift(axes=(-2, -1)),
        walk=MonteCarlo(draws=draws),
        scores=[
            ModelEquivariance(),
            ModelInvariance(),
            Equivariance(),
            FastGEF(sigma=1.0 if smoke else None, draws=2 if smoke else 5),
            *masks,
        ],
        about={"recipe": "segmentation-shapes", "scale": scale.value},
    )


ROWS = {Scale.SMOKE: (8, 20), Scale.SMALL: (64, 60), Scale.PAPER: (142, 60)}


def diabetes() -> tuple[Tensor, Tensor]:
    """Values (442, 10) and the progression of the disease a year later (442,), each with mean 0 and deviation 1 (Efron et al. 2004)."""
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes()
    values, progression = (torch.as_tensor(part, dtype=torch.float32) for part in (bunch.data, bunch.target))
    return tuple((part - part.mean(0)) / part.std(0) for part in (values, progression))  # type: ignore[return-value]


def squared_error(model: nn.Module, values: Tensor, truth: Tensor, generator: torch.Generator) -> Tensor:
    """The mean squared error of one output (N, 1)."""
    return functional.mse_loss(model(values)[:, 0], truth)


@recipe("regression-diabetes", reference=f"{GEF_PAPER}, with a number in place of a class")
def regression_diabetes(folder: Path, scale: Scale) -> Audit:
    """GEF and masking scores of a regression network over ten measurements of diabetes patients.

    The explained number is the prediction itself, and a masked measurement is set to its mean. Three hundred patients are for the
    training, which takes seconds. Small: 64 of the other patients. Paper: all 142.
    """
    samples, epochs = ROWS[scale]
    values, truth = diabetes()
    smoke = scale is Scale.SMOKE
    data = values[:300], truth[:300]
    network = partial(value_network, values.shape[1])
    model = trained_classifier(folder, "mlp", network, data, epochs=epochs, batch=50, decay=0.1, loss=squared_error)
    masks: list[Score] = [
        FaithfulnessCorrelation(subset_size=3, nr_runs=20 if smoke else 100, perturb_baseline=0.0),
        PixelFlipping(softmax=False, perturb_baseline=0.0),
    ]
    return Audit(
        title="Do explanations of predicted diabetes progression tell the truth about the network?",
        models={"mlp": model},
        inputs=values[300 : 300 + samples],
        targets=truth[300 : 300 + samples],
        explainers=EXPLAINERS[: 2 if smoke else 3],
        scores=[FastGEF(sigma=1.0 if smoke else None, draws=2 if smoke else 5), *masks],
        about={"recipe": "regression-diabetes", "scale": scale.value},
    )
