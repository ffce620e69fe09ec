"""GEF and Fast-GEF of local explainers: tables (Table A.4; German and HELOC are extras) and images (Table A.5)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from veracity.audit import Audit
from veracity.core.scores import Score
from veracity.recipe import Scale, recipe
from veracity.scores import GEF, FastGEF, PublicFastGEF, PublicGEF
from veracity.studies.several import Audits
from veracity_papers.data.mnist import fashion_mnist as fashion_images
from veracity_papers.data.mnist import mnist as digit_images
from veracity_papers.data.tabular import Table, adult, avila, compas, german, heloc
from veracity_papers.recipes.faithfulness_methods import PAPER, SAMPLES, SIGMA, first_two, local_methods
from veracity_papers.recipes.published import published
from veracity_papers.zoo.lenet import LAYER
from veracity_papers.zoo.lenet import pretrained as lenet
from veracity_papers.zoo.tabular import pretrained as table_network

TABLE_A5 = f"{PAPER}, Table A.5 and Figures 7, 8 and A.10"


@recipe("faithfulness-mnist", reference=TABLE_A5)
def faithfulness_mnist(folder: Path, scale: Scale) -> Audit:
    """Fast-GEF and GEF of ten explainers of the paper's MNIST LeNet, beside the published figures.

    `fast_gef` has one direction of noise per path; `fast_gef_public` is the authors' variant, in which an explainer that has
    nothing to do with the model already scores .5, and with which the published figures are compared. Table A.5 has none for
    Grad-CAM. Small: 48 images. Paper: 250 images.
    """
    return lenet_audit("mnist", "digits", digit_images("test"), scale)


@recipe("faithfulness-fashion-mnist", reference=TABLE_A5)
def faithfulness_fashion_mnist(folder: Path, scale: Scale) -> Audit:
    """Fast-GEF and GEF of ten explainers of the paper's FashionMNIST LeNet, beside the published figures.

    As `faithfulness-mnist`. Small: 48 images. Paper: 250 images.
    """
    return lenet_audit("fashion-mnist", "clothing", fashion_images("test", padding=0), scale)


def lenet_audit(name: str, what: str, data: tuple[Tensor, Tensor], scale: Scale) -> Audit:
    """The audit of the LeNet for one of the two data sets."""
    x, y = (part[: SAMPLES[scale]] for part in data)
    draws, sigma = 2 if scale is Scale.SMOKE else 5, SIGMA[scale]
    scores: dict[str, Score] = {"fast_gef": FastGEF(draws=draws, sigma=sigma), "fast_gef_public": PublicFastGEF(draws=draws, sigma=sigma)}
    return Audit(
        title=f"Do explanations of a classifier of {what} change as much as the network does?",
        models={"lenet": lenet(name)},
        inputs=x,
        targets=y,
        explainers=first_two(local_methods(LAYER), scale),
        scores=scores if scale is Scale.SMOKE else {**scores, "gef": GEF(draws=draws)},
        about={"recipe": f"faithfulness-{name}", "scale": scale.value, "published": published("faithfulness A.5", {name: "lenet"})},
    )


TABLE_A4 = f"{PAPER}, Table A.4"
ROWS = {Scale.SMOKE: 12, Scale.SMALL: 250, Scale.PAPER: 250}
"""How many explanations are scored; with fewer, the noise that leaves two classes to chance is not found reliably."""

DATA: dict[str, tuple[Callable[[str], Table], tuple[str, ...]]] = {
    "adult": (adult, ("adult-mlp3", "adult-lr")),
    "compas": (compas, ("compas-mlp3", "compas-lr")),
    "avila": (avila, ("avila-sigmoid",)),
    "german": (german, ("german-mlp2", "german-lr")),
    "heloc": (heloc, ("heloc-mlp2", "heloc-lr")),
}
"""Each table, and the networks over it. The paper has no figures for the last two."""


def table_audit(name: str, scale: Scale) -> Audit:
    """The audit of the networks over one table; without grids there is no Grad-CAM."""
    read, models = DATA[name]
    rows = read("test").labelled.some(ROWS[scale])
    draws, segments = (2, 2) if scale is Scale.SMOKE else (5, 5)
    path: dict[str, Any] = {"draws": draws, "segments": segments, "sigma": SIGMA[scale]}
    scores: dict[str, Score] = {"gef": GEF(**path), "gef_public": PublicGEF(**path)}
    chosen = models[:1] if scale is Scale.SMOKE else models
    return Audit(
        title=f"Do explanations of networks over {name.capitalize()} change as much as the networks do?",
        models={one: table_network(one) for one in chosen},
        inputs=rows.inputs,
        targets=rows.labels,
        explainers=first_two(local_methods(), scale),
        scores=scores if scale is Scale.SMOKE else {**scores, "fast_gef": FastGEF(draws=draws)},
        about={
            "recipe": f"faithfulness-{name}",
            "scale": scale.value,
            "published": published("faithfulness A.4", {one: one for one in chosen}),
        },
    )


@recipe("faithfulness-adult", reference=TABLE_A4)
def faithfulness_adult(folder: Path, scale: Scale) -> Audit:
    """GEF and Fast-GEF of nine explainers of two networks over Adult, beside the published figures."""
    return table_audit("adult", scale)


@recipe("faithfulness-compas", reference=TABLE_A4)
def faithfulness_compas(folder: Path, scale: Scale) -> Audit:
    """GEF and Fast-GEF of nine explainers of two networks over COMPAS, beside the published figures.

    The paper's three-layer network is not public; one of the same size and about the same accuracy stands in for it.
    """
    return table_audit("compas", scale)


@recipe("faithfulness-avila", reference=TABLE_A4)
def faithfulness_avila(folder: Path, scale: Scale) -> Audit:
    """GEF and Fast-GEF of nine explainers of a network over Avila, beside the published figures.

    The paper's network is not public; one of the same size and about the same accuracy stands in for it, with sigmoid units.
    Guided Backprop is the gradient there.
    """
    return table_audit("avila", scale)


@recipe("faithfulness-german", reference=PAPER)
def faithfulness_german(folder: Path, scale: Scale) -> Audit:
    """GEF and Fast-GEF of nine explainers of two networks over German Credit, without published figures."""
    return table_audit("german", scale)


@recipe("faithfulness-heloc", reference=PAPER)
def faithfulness_heloc(folder: Path, scale: Scale) -> Audit:
    """GEF and Fast-GEF of nine explainers of two networks over HELOC, without published figures."""
    return table_audit("heloc", scale)


@recipe("faithfulness-tabular", reference=TABLE_A4)
def faithfulness_tabular(folder: Path, scale: Scale) -> Audits:
    """The five recipes over tables one after the other, Adult, COMPAS, Avila, German and HELOC, each in its own folder.

    `gef_public` is the variant of the authors' code, with which the published figures of Table A.4 are compared. Small and
    paper: 250 rows of each table.
    """
    names = ("adult", "avila") if scale is Scale.SMOKE else tuple(DATA)
    return Audits(audits={name: table_audit(name, scale) for name in names}, title="Do explanations of tables change as their models do?")
