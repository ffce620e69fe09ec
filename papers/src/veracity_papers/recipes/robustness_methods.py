"""What the robustness recipes share: explainers, scores, seeds, the effort per scale, and the published Tables 6, 7 and 8."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from veracity.audit import Audit
from veracity.core.explainers import Explainer
from veracity.core.scores import Score
from veracity.core.walks import Search
from veracity.explain import DeepLift, GradCam, InputXGradient, IntegratedGradients
from veracity.recipe import Scale
from veracity.results import Result
from veracity.scores import LnPHat, LnPMisclassified, LnPTilde, SolHat, SolTilde, WorstLoss
from veracity.studies.several import bounded
from veracity.walk import Genetic, GradientSearch, Strongest, SubsetSimulation

PAPER = "Huang et al. 2023, SAFARI"
METHODS = ("input_x_gradient", "integrated_gradients", "grad_cam", "deep_lift")
MEASURED = ("sol_f_hat", "sol_f_tilde", "ln_p_f_hat", "ln_p_f_tilde")


@dataclass(frozen=True)
class Effort:
    """How many seeds are searched, the walks for worst cases and probabilities, the steps of the integral, and which explainers."""

    seeds: int
    worst: Search
    rare: Search
    steps: int = 20
    explainers: tuple[str, ...] = METHODS


def both(population: int, generations: int, restarts: int, climbs: int) -> Strongest:
    """A genetic and a gradient search, of which the worse result counts; a tenth of the population are elites.

    >>> [one.length(None) for one in both(100, 40, 10, 50).parts()]
    [3700, 500]
    """
    elites = max(1, population // 10)
    return Strongest(
        searches=(
            Genetic(population=population, generations=generations, elites=elites),
            GradientSearch(population=restarts, steps=climbs),
        )
    )


EFFORT = {
    Scale.SMOKE: Effort(2, both(8, 1, 2, 2), SubsetSimulation(population=10, steps=1, floor=-2.0), steps=3),
    Scale.SMALL: Effort(10, both(30, 20, 4, 25), SubsetSimulation(population=50, steps=3, floor=-40.0), steps=10),
    Scale.PAPER: Effort(100, both(100, 40, 10, 50), SubsetSimulation(population=150, steps=5, floor=-100.0)),
}
"""By scale, for a network that takes a fraction of a millisecond."""


def methods(layer: str, steps: int = 20) -> dict[str, Explainer]:
    """Gradient x Input, integrated gradients, Grad-CAM at a layer, and DeepLift.

    >>> list(methods("conv2"))
    ['input_x_gradient', 'integrated_gradients', 'grad_cam', 'deep_lift']
    """
    return {
        "input_x_gradient": InputXGradient(),
        "integrated_gradients": IntegratedGradients(steps=steps),
        "grad_cam": GradCam(layer=layer),
        "deep_lift": DeepLift(),
    }


def first_correct(models: Iterable[nn.Module], data: tuple[Tensor, Tensor], count: int) -> tuple[Tensor, Tensor]:
    """The first `count` samples and labels that every model classifies correctly, looked for among the first 4 count + 20."""
    x, y = (part[: 4 * count + 20] for part in data)
    with torch.no_grad():
        right = torch.stack([model(x).argmax(dim=1) == y for model in models]).all(dim=0)
    chosen = right.nonzero()[:count, 0]
    return x[chosen], y[chosen]


def explanation_scores(effort: Effort, radius: float, span: tuple[float, float]) -> dict[str, Score]:
    """sol_F-hat, sol_F-tilde, ln P_F-hat and ln P_F-tilde in one ball."""
    where: dict[str, Any] = {"radius": radius, "range": span}
    found: tuple[Score, ...] = (
        SolHat(walk=effort.worst, **where),
        SolTilde(walk=effort.worst, **where),
        LnPHat(walk=effort.rare, **where),
        LnPTilde(walk=effort.rare, **where),
    )
    return {one.name: one for one in found}


def model_scores(effort: Effort, radius: float, span: tuple[float, float]) -> dict[str, Score]:
    """The model's side: the worst prediction loss, and ln P of misclassification."""
    return {
        "worst_loss": WorstLoss(walk=effort.worst, radius=radius, range=span),
        "ln_p_misclassified": LnPMisclassified(walk=effort.rare, radius=radius, range=span),
    }


def search_audit(title: str, models: Mapping[str, nn.Module], data: tuple[Tensor, Tensor], **settings: Any) -> Audit:
    """An audit of robustness: controls, which do not look at the model, and companions are left out."""
    x, y = data
    return Audit(title=title, models=models, inputs=x, targets=y, controls=False, companions=False, **settings)


def comparison(
    title: str,
    model: tuple[str, nn.Module],
    data: tuple[Tensor, Tensor],
    ball: tuple[float, tuple[float, float]],
    layer: str,
    effort: Effort,
) -> Audit:
    """The four explainers of a (named) model in a ball (radius, range), and the model itself."""
    return search_audit(
        title,
        dict([model]),
        data,
        explainers={name: one for name, one in methods(layer, effort.steps).items() if name in effort.explainers},
        scores={**explanation_scores(effort, *ball), **model_scores(effort, *ball)},
    )


def standing(results: Mapping[str, Result]) -> pd.DataFrame:
    """One row an audit, model and explainer: the four figures, around how many seeds F-tilde was found, how many ln P are censored."""
    return pd.concat([one_standing(name, result) for name, result in results.items()], ignore_index=True)


def one_standing(name: str, result: Result) -> pd.DataFrame:
    """The rows of one audit."""
    table = result.table()
    table = table[table["score"].isin(MEASURED)]
    rows = []
    for (model, explainer), own in table.groupby(["model", "explainer"], sort=False):
        by = own.set_index("score")
        seeds = int((by["n"] + by["undefined"]).max())
        rows.append(
            {
                "audit": name,
                "model": model,
                "explainer": explainer,
                **{score: bounded(dict(by.loc[score])) if score in by.index else "" for score in MEASURED},
                "seeds": seeds,
                "F-tilde found": seeds - int(by["infeasible"].get("sol_f_tilde", seeds)),
                **{f"{score} censored": int(by["censored"].get(score, 0)) for score in MEASURED[2:]},
                "evaluations": int(own["evaluations"].sum()),
            }
        )
    return pd.DataFrame(rows)


Figures = Mapping[str, tuple[tuple[float, ...], ...]]

TABLE_6 = {
    "lime+50": (0.0002, 0.9886, -0.46, -12.96),
    "lime+200": (6.88e-05, 0.9350, -0.37, -14.59),
    "lime+500": (8.59e-06, 0.8360, -0.31, -16.98),
    "shap+50": (4.11e-05, 0.9648, -0.36, -14.78),
    "shap+200": (0.0011, 0.9708, -0.39, -14.44),
    "shap+500": (0.0005, 0.9851, -0.34, -14.41),
}
"""Table 6, MNIST: sol_F-hat, sol_F-tilde, ln P_F-hat and ln P_F-tilde by explainer and its number of samples."""

TABLE_7 = {"lime+200, fixed": (0.3632, 0.8892, -34.22, -17.38)}
"""Table 7, MNIST: the same four for superpixels that stay those of the unperturbed image."""

TABLE_8: Figures = {
    "resnet20": (
        (0.0166, 0.0375, 0.0044, 0.0212),
        (0.8562, 0.8308, 0.8079, 0.8551),
        (-20.32, -45.05, -35.93, -21.22),
        (-80.73, -87.64, -68.27, -81.81),
    ),
    "mobile": (
        (0.0552, 0.1167, 0.0523, 0.0712),
        (0.7689, 0.7885, 0.7085, 0.7707),
        (-12.75, -34.99, -16.01, -8.70),
        (-70.32, -62.19, -82.17, -68.38),
    ),
    "vgg": (
        (0.0767, 0.1227, 0.1133, 0.0206),
        (0.7813, 0.8240, 0.8637, 0.8358),
        (-14.42, -53.48, -47.52, -44.25),
        (-59.74, -54.155, -49.90, -66.02),
    ),
}
"""Table 8, CIFAR-10: for each network the four figures, each for the four explainers; "mobile" is MobileNetV2 there, "vgg" VGG16."""

THERE = {"resnet20": "ResNet20", "mobile": "MobileNetV2", "vgg": "VGG16"}


def by_network(model: str, explainers: tuple[str, ...] = METHODS) -> list[dict[str, Any]]:
    """The figures of Table 8 for some explainers of a network, if it has any.

    >>> by_network("resnet20")[0]["where"], len(by_network("vgg")), by_network("resnet32")
    ('Table 8, ResNet20', 16, [])
    """
    return [
        entry(model, explainer, score, value, f"Table 8, {THERE[model]}")
        for score, values in zip(MEASURED, TABLE_8.get(model, ()), strict=False)
        for explainer, value in zip(METHODS, values, strict=True)
        if explainer in explainers
    ]


def by_explainer(model: str, table: Mapping[str, tuple[float, ...]], where: str) -> list[dict[str, Any]]:
    """The figures of Table 6 or 7 under a model's label.

    >>> by_explainer("lenet", TABLE_7, "Table 7")[2]
    {'model': 'lenet', 'explainer': 'lime+200, fixed', 'score': 'ln_p_f_hat', 'value': -34.22, 'where': 'Table 7'}
    """
    return [
        entry(model, explainer, score, value, where)
        for explainer, values in table.items()
        for score, value in zip(MEASURED, values, strict=True)
    ]


def entry(model: str, explainer: str, score: str, value: float, where: str) -> dict[str, Any]:
    """One figure."""
    return {"model": model, "explainer": explainer, "score": score, "value": value, "where": where}
