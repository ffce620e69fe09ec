"""What the recipes of stability share: explainers with the paper's settings, scores and subsets."""

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
from veracity_papers.recipes.published import published
from veracity_papers.recipes.stability_explainers import stability_explainers

PAPER = "Fel, Vigouroux, Cadène and Serre 2022"


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


def cross_trained_audit(
    name: str, title: str, fits: Mapping[str, Any], data: tuple[Tensor, Tensor], effort: Effort, scale: Scale, table: str = ""
) -> Audit:
    """An audit of learning algorithms beside a published table: all of the data is learnt from, equal parts of all folds are explained."""
    inputs, labels = data
    folds = members(effort.folds, labels)
    place = spread_over_folds(folds, effort.samples)
    models = {name: CrossTrained(fit=fit, folds=folds, data=(inputs, labels), place=place) for name, fit in fits.items()}
    figures = {"published": published(table)} if table else {}
    return Audit(
        title=title,
        models=models,
        inputs=inputs[place],
        targets=labels[place],
        explainers=effort.explainers(),
        scores=["mege", "reco", "reco_auc", "reco_ks", MuF(nr_runs=effort.subsets)],
        about={"recipe": name, "scale": scale.value, **figures, "trained_on": len(labels)},
    )


def spread_over_folds(folds: Tensor, count: int) -> Tensor:
    """Where `count` samples stand, as many of each fold as of every other, evenly spread over the data set.

    >>> spread_over_folds(torch.tensor([0, 0, 0, 1, 1, 1]), 4)
    tensor([0, 2, 3, 5])
    """
    k = int(folds.max()) + 1
    parts = [(folds == fold).nonzero()[:, 0] for fold in range(k)]
    each = [part[torch.linspace(0, len(part) - 1, min(len(part), max(1, count // k))).round().long()] for part in parts]
    return torch.cat(each).sort().values
