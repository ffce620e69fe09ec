"""What the robustness recipes share: explainers, scores, seeds and the effort per scale."""

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
Ball = Mapping[str, Any]
"""The `radius` and the `range` of the inputs, as scores take them."""
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
    """A genetic and a gradient search, of which the worse result counts; one tenth of the population are elites.

    >>> [one.length(None) for one in both(100, 40, 10, 50).parts()]
    [3700, 500]
    """
    genetic = Genetic(population=population, generations=generations, elites=max(1, population // 10))
    return Strongest(searches=(genetic, GradientSearch(population=restarts, steps=climbs)))


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


def explanation_scores(effort: Effort, ball: Ball) -> dict[str, Score]:
    """sol_F-hat, sol_F-tilde, ln P_F-hat and ln P_F-tilde in one ball."""
    worst: list[Score] = [kind(walk=effort.worst, **ball) for kind in (SolHat, SolTilde)]
    rare: list[Score] = [kind(walk=effort.rare, **ball) for kind in (LnPHat, LnPTilde)]
    return {one.name: one for one in worst + rare}


def search_audit(title: str, models: Mapping[str, nn.Module], data: tuple[Tensor, Tensor], **settings: Any) -> Audit:
    """An audit of robustness: controls, which do not look at the model, and companions are left out."""
    x, y = data
    return Audit(title=title, models=models, inputs=x, targets=y, controls=False, companions=False, **settings)


def comparison(
    title: str, model: nn.Module, data: tuple[Tensor, Tensor], ball: Ball, layer: str, effort: Effort, name: str = "lenet"
) -> Audit:
    """The four explainers of a model in a ball, and the model itself: its worst prediction loss, and ln P of misclassification."""
    return search_audit(
        title,
        {name: model},
        data,
        explainers={label: one for label, one in methods(layer, effort.steps).items() if label in effort.explainers},
        scores={
            **explanation_scores(effort, ball),
            "worst_loss": WorstLoss(walk=effort.worst, **ball),
            "ln_p_misclassified": LnPMisclassified(walk=effort.rare, **ball),
        },
    )


def robustness_table(results: Mapping[str, Result]) -> pd.DataFrame:
    """One row per audit, model and explainer: the four figures, the seeds for which F-tilde was found, and how many ln P are censored."""
    rows = []
    for name, result in results.items():
        table = result.table()
        for (model, explainer), own in table[table["score"].isin(MEASURED)].groupby(["model", "explainer"], sort=False):
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
