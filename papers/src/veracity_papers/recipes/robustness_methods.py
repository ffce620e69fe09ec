"""What the robustness recipes share: the paper's four explainers and scores, the seeds, and how hard each scale searches."""

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
    """How many seeds are searched, and how hard: for the worst case, and for a probability; steps of the integral; which explainers."""

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


def explained(effort: Effort, radius: float, span: tuple[float, float]) -> dict[str, Score]:
    """sol_F-hat, sol_F-tilde, ln P_F-hat and ln P_F-tilde in one ball."""
    where: dict[str, Any] = {"radius": radius, "range": span}
    found: tuple[Score, ...] = (
        SolHat(walk=effort.worst, **where),
        SolTilde(walk=effort.worst, **where),
        LnPHat(walk=effort.rare, **where),
        LnPTilde(walk=effort.rare, **where),
    )
    return {one.name: one for one in found}


def predicted(effort: Effort, radius: float, span: tuple[float, float]) -> dict[str, Score]:
    """The model's side: the worst prediction loss, and ln P of misclassification."""
    return {
        "worst_loss": WorstLoss(walk=effort.worst, radius=radius, range=span),
        "ln_p_misclassified": LnPMisclassified(walk=effort.rare, radius=radius, range=span),
    }


def searched(title: str, models: Mapping[str, nn.Module], data: tuple[Tensor, Tensor], **settings: Any) -> Audit:
    """An audit of robustness: controls, which do not look at the model, and companions are left out."""
    x, y = data
    return Audit(title=title, models=models, inputs=x, targets=y, controls=False, companions=False, **settings)


def compared(
    title: str,
    model: tuple[str, nn.Module],
    data: tuple[Tensor, Tensor],
    ball: tuple[float, tuple[float, float]],
    layer: str,
    effort: Effort,
) -> Audit:
    """The four explainers of a (named) model in a ball (radius, range), and the model itself."""
    return searched(
        title,
        dict([model]),
        data,
        explainers={name: one for name, one in methods(layer, effort.steps).items() if name in effort.explainers},
        scores={**explained(effort, *ball), **predicted(effort, *ball)},
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
