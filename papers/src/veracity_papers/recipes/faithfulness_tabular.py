"""Are explanations of networks over tables faithful? Adult, COMPAS and Avila beside the paper's Table A.4; German and HELOC as extras."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from veracity.audit import Audit
from veracity.core.scores import Score
from veracity.recipe import Scale, recipe
from veracity.scores import GEF, FastGEF, PublicGEF
from veracity.studies.several import Audits
from veracity_papers.data.avila import avila
from veracity_papers.data.tabular import Table, adult, compas, german, heloc
from veracity_papers.recipes.faithfulness_methods import A4, A4_MODELS, PAPER, SIGMA, local_methods, published, some
from veracity_papers.zoo.tabular import pretrained

REFERENCE = f"{PAPER}, Table A.4"
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
    draws, sigma = 2 if scale is Scale.SMOKE else 5, SIGMA[scale]
    scores: dict[str, Score] = {"gef": GEF(draws=draws, sigma=sigma), "gef_public": PublicGEF(draws=draws, sigma=sigma)}
    chosen = models[:1] if scale is Scale.SMOKE else models
    return Audit(
        title=f"Do explanations of networks over {name.capitalize()} change as much as the networks do?",
        models={one: pretrained(one) for one in chosen},
        inputs=rows.inputs,
        targets=rows.labels,
        explainers=some(local_methods(), scale),
        scores=scores if scale is Scale.SMOKE else {**scores, "fast_gef": FastGEF(draws=draws)},
        about={
            "recipe": f"faithfulness-{name}",
            "scale": scale.value,
            "published": published(A4, A4_MODELS, {one: one for one in chosen}, "gef_public", "Table A.4"),
        },
    )


@recipe("faithfulness-adult", reference=REFERENCE)
def faithfulness_adult(folder: Path, scale: Scale) -> Audit:
    """GEF and Fast-GEF of nine explainers of two networks over Adult, beside the published figures."""
    return table_audit("adult", scale)


@recipe("faithfulness-compas", reference=REFERENCE)
def faithfulness_compas(folder: Path, scale: Scale) -> Audit:
    """GEF and Fast-GEF of nine explainers of two networks over COMPAS, beside the published figures.

    The paper's three-layer network is not public; one of its size and about its accuracy stands for it.
    """
    return table_audit("compas", scale)


@recipe("faithfulness-avila", reference=REFERENCE)
def faithfulness_avila(folder: Path, scale: Scale) -> Audit:
    """GEF and Fast-GEF of nine explainers of a network over Avila, beside the published figures.

    The paper's network is not public; one of its size and about its accuracy stands for it, with sigmoid units, so that
    Guided Backprop is the gradient.
    """
    return table_audit("avila", scale)


@recipe("faithfulness-german", reference=PAPER)
def faithfulness_german(folder: Path, scale: Scale) -> Audit:
    """GEF and Fast-GEF of nine explainers of two networks over German Credit, for which nothing was published."""
    return table_audit("german", scale)


@recipe("faithfulness-heloc", reference=PAPER)
def faithfulness_heloc(folder: Path, scale: Scale) -> Audit:
    """GEF and Fast-GEF of nine explainers of two networks over HELOC, for which nothing was published."""
    return table_audit("heloc", scale)


@recipe("faithfulness-tabular", reference=REFERENCE)
def faithfulness_tabular(folder: Path, scale: Scale) -> Audits:
    """The five recipes over tables one after the other, Adult, COMPAS, Avila, German and HELOC, each in a folder of its own.

    `gef_public` is the variant of the authors' code, beside which the published figures of Table A.4 stand. Small and
    paper: 250 rows of each table.
    """
    names = ("adult", "avila") if scale is Scale.SMOKE else tuple(DATA)
    return Audits(audits={name: table_audit(name, scale) for name in names}, title="Do explanations of tables change as their models do?")
