"""Are explanations of the paper's LeNets faithful? MNIST and FashionMNIST, beside its Table A.5."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from veracity.audit import Audit
from veracity.core.scores import Score
from veracity.recipe import Scale, recipe
from veracity.scores import GEF, FastGEF, PublicFastGEF
from veracity_papers.data.fashion import fashion_mnist as fashion_images
from veracity_papers.data.mnist import mnist as digit_images
from veracity_papers.recipes.faithfulness_methods import A5, A5_CAVEATS, A5_DATA, PAPER, SAMPLES, SIGMA, local_methods, published, some
from veracity_papers.zoo.lenet import LAYER, pretrained

REFERENCE = f"{PAPER}, Table A.5 and Figures 7, 8 and A.10"


@recipe("faithfulness-mnist", reference=REFERENCE)
def faithfulness_mnist(folder: Path, scale: Scale) -> Audit:
    """Fast-GEF and GEF of ten explainers of the paper's MNIST LeNet, beside the published figures.

    `fast_gef` has one direction of noise a path; `fast_gef_public` is the authors' variant, in which an explainer that has
    nothing to do with the model already scores .5, and beside which the published figures stand. Table A.5 has none for
    Grad-CAM. Small: 48 images. Paper: 250 images.
    """
    return lenet_audit("mnist", "digits", digit_images("test"), scale)


@recipe("faithfulness-fashion-mnist", reference=REFERENCE)
def faithfulness_fashion_mnist(folder: Path, scale: Scale) -> Audit:
    """Fast-GEF and GEF of ten explainers of the paper's FashionMNIST LeNet, beside the published figures.

    As `faithfulness-mnist`. Small: 48 images. Paper: 250 images.
    """
    return lenet_audit("fashion-mnist", "clothing", fashion_images("test", padding=0), scale)


def lenet_audit(name: str, what: str, data: tuple[Tensor, Tensor], scale: Scale) -> Audit:
    """The audit of the LeNet for one of the two data sets."""
    x, y = (part[: SAMPLES[scale]] for part in data)
    draws, sigma = 2 if scale is Scale.SMOKE else 5, SIGMA[scale]
    scores: dict[str, Score] = {
        "fast_gef": FastGEF(draws=draws, sigma=sigma),
        "fast_gef_public": PublicFastGEF(draws=draws, sigma=sigma),
    }
    return Audit(
        title=f"Do explanations of a classifier of {what} change as much as the network does?",
        models={"lenet": pretrained(name)},
        inputs=x,
        targets=y,
        explainers=some(local_methods(LAYER), scale),
        scores=scores if scale is Scale.SMOKE else {**scores, "gef": GEF(draws=draws)},
        about={
            "recipe": f"faithfulness-{name}",
            "scale": scale.value,
            "published": published(A5, A5_DATA, {name: "lenet"}, "fast_gef_public", "Table A.5", A5_CAVEATS),
        },
    )
