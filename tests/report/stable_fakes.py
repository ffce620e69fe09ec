"""A made-up run of stability scores: distances of cross-trained models, their sets, nulls and folds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from report_fakes import DIFFERENCE_COLUMNS, FakeRun, manifest, result

from veracity.core.scores import Score
from veracity.scores.faithfulness.correlation import MuFidelity
from veracity.scores.stability.base import StabilityScore, membership
from veracity.scores.stability.mege import MeGe, mean_generalisability
from veracity.scores.stability.reco import ReCo, consistency_gap, relative_consistency

VALUES = {"mege": mean_generalisability, "reco": relative_consistency, "reco_ks": consistency_gap}
# explainer: its mean distance where models agree, how much further apart they are where not, its fidelity, whether it is a control
EXPLAINERS = {
    "saliency": (0.52, 0.06, 0.21, False),
    "input_x_saliency": (0.13, 0.05, 0.31, False),
    "integrated_gradients": (0.12, 0.09, 0.42, False),
    "smooth_grad": (0.48, 0.14, 0.23, False),
    "grad_cam": (0.21, 0.22, 0.51, False),
    "grad_cam_plus_plus": (0.16, 0.18, 0.29, False),
    "rise": (0.34, 0.0, 0.47, False),
    "edge_filter": (0.0, 0.0, 0.12, True),
    "random_uniform": (0.96, 0.0, 0.0, True),
}
NULLS = {"reco": (0.2, 0.55), "reco_ks": (0.05, 0.12)}


@dataclass(frozen=True)
class StableRun(FakeRun):
    gaps: Mapping[str, list[list[Any]]] = field(default_factory=dict)

    def differences(self, score: str) -> pd.DataFrame:
        return pd.DataFrame(self.gaps.get(score, []), columns=DIFFERENCE_COLUMNS)


def drawn(random: np.random.Generator, near: float, further: float, wrong: float, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Distances (samples, pairs) and where each belongs."""
    right, other = ((random.random(shape) > wrong).astype(float) for _ in range(2))
    where = membership(np.zeros(shape), right, other, np.ones(shape))
    distance = np.clip(random.normal(near + further * (where == 1), 0.35 * near * (1 - near) + 1e-12, shape), 0.0, 1.0)
    return distance, where


def stable_run(
    scores: Mapping[str, Score] | None = None, models: Sequence[str] = ("resnet",), *, samples: int = 120, folds: int = 4,
    wrong: float = 0.1, accuracies: Sequence[float] = (0.91, 0.92, 0.9, 0.915), published: Mapping[str, float] | None = None, seed: int = 0,
    names: Mapping[str, tuple[float, float, float, bool]] = EXPLAINERS,
) -> StableRun:  # fmt: skip
    """Explainers whose distances grow where models contradict each other, more or less; two differ where 0.05 lies between them."""
    scores = {"mege": MeGe(), "reco": ReCo(), "mu_fidelity": MuFidelity()} if scores is None else scores
    random = np.random.default_rng(seed)
    table, sets, gaps = [], {label: {} for label in scores}, {label: [] for label in scores}
    for model in models:
        for name, (near, further, fidelity, control) in names.items():
            distance, where = drawn(random, near, further, wrong, (samples, folds - 1))
            for label, score in scores.items():
                if not isinstance(score, StabilityScore):
                    row = result(model, name, label, np.full(samples, fidelity) + random.normal(0, 0.2, samples), control=control)
                    table.append(row)
                    continue
                value = float(VALUES[score.name](distance, where)[0])
                mean, high = NULLS.get(score.name, (math.nan, math.nan))
                told = math.isfinite(value) and math.isfinite(mean)
                row = result(
                    model, name, label, np.full(samples, value), control=control, low=value - 0.02, high=min(value + 0.02, 1.0),
                    draws_low=math.nan, draws_high=math.nan, draws=folds - 1.0,
                    pairs_same=int((where == 0).sum()), pairs_differ=int((where == 1).sum()),
                    null_mean=mean if told else math.nan, null_high=high if told else math.nan,
                    p_value=(0.001 if value > high else 0.4) if told else math.nan, published=(published or {}).get(name, math.nan),
                    random_control=0.51 if score.name == "mege" else 0.1,
                )  # fmt: skip
                table.append(row)
                sets[label][model, name] = (distance[where == 0], distance[where == 1])
        for label in scores:
            mine = [row for row in table if row["score"] == label and row["model"] == model]
            for place, first in enumerate(mine):
                for second in mine[place + 1 :]:
                    gap = first["value"] - second["value"]
                    gaps[label].append(
                        [model, first["explainer"], second["explainer"], gap, gap - 0.05, gap + 0.05, samples, abs(gap) > 0.05]
                    )
    made = manifest(dict.fromkeys(models, 0.91), (1, 28, 28), samples, title="Are explanations stable?", symmetry="")
    made["score_specs"] = {label: score.about() for label, score in scores.items()}
    rows = [
        {"model": model, "fold": fold, "held_out": samples // folds, "trained_on": samples - samples // folds, "samples": samples // folds,
         "accuracy": accuracy, "seconds": 12.4}
        for model in models
        for fold, accuracy in enumerate(accuracies)
    ]  # fmt: skip
    return StableRun(path="runs/stable", manifest=made, rows=table, distances=sets, fold_rows=rows, gaps=gaps)
