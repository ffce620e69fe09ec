"""What the recipes of stability share: explainers with the paper's settings, scores, subsets, published figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from veracity.audit import Audit
from veracity.core.explainers import Explainer
from veracity.core.training import CrossTrained
from veracity.perturb.folds import members
from veracity.recipe import Scale
from veracity.scores.faithfulness.correlation import MuF
from veracity_papers.recipes.stability_explainers import stability_explainers

PAPER = "Fel, Vigouroux, Cadène and Serre 2022"
SHORT = {
    "integrated_gradients": 0,
    "smooth_grad": 1,
    "saliency": 2,
    "input_x_saliency": 3,
    "grad_cam": 4,
    "grad_cam_plus_plus": 5,
    "rise": 6,
}
"""The column of every explainer in the paper's tables."""
TABLE_2 = {"resnet18": (0.58, 0.46, 0.45, 0.55, 0.72, 0.83, 0.57), "lipschitz": (0.72, 0.60, 0.58, 0.67, 0.75, 0.54, 0.85)}
TABLE_3 = {"resnet18": (0.11, 0.15, 0.15, 0.09, 0.64, 0.49, 0.52), "lipschitz": (0.60, 0.90, 0.81, 0.50, 0.67, 0.24, 0.84)}
TABLE_5 = {"mu_f": (0.11, 0.31, 0.23, 0.10, 0.91, 0.89, 0.84)}
TABLE_6 = {"mege": (0.40, 0.42, 0.41, 0.41, 0.67, 0.67, 0.39), "reco": (0.31, 0.18, 0.18, 0.23, 0.59, 0.64, 0.34)}
TABLE_7 = {"mege": (0.90, 0.36, 0.30, 0.90, 0.77, 0.84, 0.52), "reco": (0.37, 0.13, 0.10, 0.37, 0.52, 0.32, 0.37)}


@dataclass(frozen=True)
class Effort:
    """How many samples are explained, by how many folds' models, with how many masks, points and subsets."""

    samples: int
    folds: int = 5
    masks: int = 1000
    points: int = 60
    subsets: int = 100

    def explainers(self) -> dict[str, Explainer]:
        """The paper's seven methods and the random one."""
        return stability_explainers(masks=self.masks, points=self.points)


TINY = Effort(24, folds=2, masks=20, points=6, subsets=10)


def published(tables: Mapping[str, Mapping[str, tuple[float, ...]]]) -> list[dict[str, Any]]:
    """Figures of the paper by model and score, as an audit carries them."""
    return [
        {"model": model, "explainer": explainer, "score": score, "value": row[column]}
        for model, scores in tables.items()
        for score, row in scores.items()
        for explainer, column in SHORT.items()
    ]


def cross_trained_audit(
    title: str, fits: Mapping[str, Any], data: tuple[Tensor, Tensor], effort: Effort, about: Mapping[str, Any], seed: int = 0
) -> Audit:
    """An audit of learning algorithms on a data set: all of it is learnt from, an equal part of every fold is explained."""
    inputs, labels = data
    folds = members(effort.folds, labels, seed)
    place = some_of_each(folds, effort.samples)
    models = {name: CrossTrained(fit=fit, folds=folds, data=(inputs, labels), place=place, seed=seed) for name, fit in fits.items()}
    return Audit(
        title=title,
        models=models,
        inputs=inputs[place],
        targets=labels[place],
        explainers=effort.explainers(),
        scores=["mege", "reco", "reco_auc", "reco_ks", MuF(nr_runs=effort.subsets)],
        seed=seed,
        about={**about, "trained_on": len(labels)},
    )


def some_of_each(folds: Tensor, count: int) -> Tensor:
    """Where `count` samples stand, as many of each fold as of every other, evenly spread over the data set.

    >>> some_of_each(torch.tensor([0, 0, 0, 1, 1, 1]), 4)
    tensor([0, 2, 3, 5])
    """
    k = int(folds.max()) + 1
    parts = [(folds == fold).nonzero()[:, 0] for fold in range(k)]
    each = [part[torch.linspace(0, len(part) - 1, min(len(part), max(1, count // k))).round().long()] for part in parts]
    return torch.cat(each).sort().values


def run_facts(name: str, scale: Scale, tables: Mapping[str, Mapping[str, tuple[float, ...]]] | None = None) -> dict[str, Any]:
    """What a report says of where an audit comes from."""
    return {"recipe": name, "scale": scale.value, **({"published": published(tables)} if tables else {})}
