"""Which metrics order explainers as the planted truth does: python -m benchmarks.metric_truth [--modality tables] [--samples 8]

Per task, explainers are ranked by their mean score against the planted truth, and by the mean of each metric, which does not see the truth.
`rho` is Spearman's correlation of both rankings, the mean over the tasks of a modality; `tau` is Kendall's. The interval of rho is the
95 % percentile interval of a bootstrap over tasks and, within each, over samples (the same ones for the truth and the metric). A map that
is zero everywhere has the truth score 0. A metric that is undefined for an explainer leaves it out, and a task in which either ranking is
constant says nothing; `tasks` counts the others, and `explainers` how many were ranked on average. GEF explains dozens of noisy copies of
every model: images and series have Fast-GEF alone, and no feature_ablation.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.stats import kendalltau

from veracity.core.errors import Note, VeracityError
from veracity.core.explainers import Explainer
from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.explain import RandomGaussian
from veracity.planted.suite import MODALITIES, RANDOM, audit_of, built_in, those_that_fit, values_of
from veracity.planted.task import Planted, PlantedTask
from veracity.statistics.correlation import spearman_correlation

Array = NDArray[np.float64]
EXPLAINERS = (
    "gradient", "saliency", "input_x_gradient", "integrated_gradients", "guided_backprop", "deconvolution", "deep_lift", "lrp_epsilon",
    "lrp_z_plus", "smooth_grad", "gradient_shap", "occlusion", "feature_ablation",
)  # fmt: skip
METRICS = (
    "faithfulness_correlation", "faithfulness_estimate", "sensitivity_n", "infidelity", "insertion", "deletion", "pixel_flipping",
    "sparseness", "fast_gef", "gef",
)  # fmt: skip
LONG = ("images", "series")
"""Modalities in which GEF and feature_ablation would take hours."""
RESAMPLES = 500
DIGITS = 5


@dataclass(frozen=True)
class Ranked:
    """One metric on one task: values of the metric (higher is better) and of the truth, both (explainers, samples)."""

    metric: str
    task: str
    values: Array
    truth: Array


def ranked_means(values: Array, truth: Array) -> tuple[Array, Array]:
    """The means of two tables (explainers, samples), of the explainers that have both; none if one of them is constant.

    They are divided by the largest and rounded, since explainers that are equal but for rounding errors share a rank.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # rows without any value
        a, b = np.nanmean(values, axis=1), np.nanmean(truth, axis=1)
    both = np.isfinite(a) & np.isfinite(b)
    a, b = (np.round(one[both] / max(float(np.abs(one[both]).max(initial=0.0)), 1e-300), DIGITS) for one in (a, b))
    enough = len(a) > 2 and np.ptp(a) > 0 and np.ptp(b) > 0
    return (a, b) if enough else (a[:0], b[:0])


def correlations(values: Array, truth: Array) -> tuple[float, float, int]:
    """Spearman's rho and Kendall's tau of the means of two tables (explainers, samples), and how many explainers have both.

    >>> rho, tau, count = correlations(np.array([[1.0, 3.0], [4.0, 4.0], [9.0, 9.0]]), np.array([[0.1, 0.1], [0.9, 0.7], [0.5, 0.3]]))
    >>> round(rho, 3), round(tau, 3), count
    (0.5, 0.333, 3)
    """
    a, b = ranked_means(values, truth)
    return (float(spearman_correlation(a, b)), float(kendalltau(a, b).statistic), len(a)) if len(a) else (np.nan, np.nan, 0)


def bootstrap(ranked: Sequence[Ranked], seed: int = 0) -> tuple[float, float]:
    """The 95 % percentile interval of the mean rho, over tasks drawn with replacement and samples drawn in each."""
    generator = np.random.default_rng(seed)
    means = []
    for _ in range(RESAMPLES):
        chosen = [ranked[place] for place in generator.integers(len(ranked), size=len(ranked))]
        found = []
        for one in chosen:
            samples = generator.integers(one.truth.shape[1], size=one.truth.shape[1])
            a, b = ranked_means(one.values[:, samples], one.truth[:, samples])
            found.append(float(spearman_correlation(a, b)) if len(a) else np.nan)
        if np.isfinite(found).any():
            means.append(float(np.nanmean(found)))
    low, high = np.quantile(means, (0.025, 0.975)) if means else (np.nan, np.nan)
    return float(low), float(high)


def measure(task: PlantedTask, planted: Planted, explainers: Mapping[str, Explainer], names: Sequence[str], seed: int) -> dict[str, Array]:
    """The values of metrics, higher is better, by name, each (explainers, samples); without those that do not fit."""
    audit = replace(audit_of(task, planted, explainers, seed), explainers=dict(explainers), scores=list(names))
    try:
        with tempfile.TemporaryDirectory() as folder:
            result = audit.run(f"{folder}/run", progress=False)
            return {name: in_order(result.samples(name), explainers, SCORES.build(name).direction, len(planted.truth)) for name in names}
    except VeracityError as error:
        if len(names) == 1:
            print(f"  {task.name}: no {names[0]} ({error})")
            return {}
    found: dict[str, Array] = {}
    for name in names:
        found |= measure(task, planted, explainers, [name], seed)
    return found


def in_order(table: pd.DataFrame, explainers: Mapping[str, Explainer], direction: Direction, samples: int) -> Array:
    """The values of all explainers (explainers, samples), turned so that higher is better."""
    sign = -1.0 if direction is Direction.LOWER else 1.0
    wide = table.pivot(index="explainer", columns="sample", values="value")
    return sign * wide.reindex(index=list(explainers), columns=range(samples)).to_numpy(np.float64)


def on_task(task: PlantedTask, modality: str, samples: int, seed: int) -> list[Ranked]:
    """Every metric on one task."""
    planted = task.plant(samples, seed)
    known, long = built_in(), modality in LONG
    asked = {name: known[name] for name in EXPLAINERS if not (long and name == "feature_ablation")}
    metrics = [name for name in METRICS if not (long and name == "gef")]
    fitting, _ = those_that_fit(task, planted, asked, seed)
    with tempfile.TemporaryDirectory() as folder:
        result = audit_of(task, planted, fitting, seed).run(f"{folder}/run", progress=False)
        by_label = values_of(task, planted, result, (*fitting, RANDOM))
    explainers = {**fitting, RANDOM: RandomGaussian()}
    truth = np.nan_to_num(np.stack([by_label[label] for label in explainers]), nan=0.0)
    return [Ranked(name, task.name, values, truth) for name, values in measure(task, planted, explainers, metrics, seed).items()]


def rows_of(modality: str, samples: int, seed: int) -> list[dict[str, Any]]:
    """One row per metric for a modality."""
    ranked: list[Ranked] = []
    for task in MODALITIES[modality]:
        if task.score != "self_agreement":
            started = time.perf_counter()
            ranked += on_task(task, modality, samples, seed)
            print(f"{modality}, {task.name}: {time.perf_counter() - started:.0f} s", flush=True)
    rows = []
    for metric in METRICS:
        mine = [one for one in ranked if one.metric == metric]
        if not mine:
            continue
        found = np.array([correlations(one.values, one.truth) for one in mine])
        known = np.isfinite(found[:, 0])
        low, high = bootstrap(mine, seed)
        rho, tau = (float(found[known, column].mean()) if known.any() else np.nan for column in (0, 1))
        rows.append(
            {"modality": modality, "metric": metric, "rho": rho, "low": low, "high": high, "tau": tau}
            | {"tasks": int(known.sum()), "explainers": float(found[known, 2].mean()) if known.any() else 0.0}
        )
    return sorted(rows, key=lambda row: -row["rho"] if np.isfinite(row["rho"]) else np.inf)


def main() -> None:
    """Print the table, one row per modality and metric."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--modality", action="append", choices=list(MODALITIES))
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", Note)
    table = pd.DataFrame([row for name in asked.modality or MODALITIES for row in rows_of(name, asked.samples, asked.seed)])
    print(table.round(2).to_string(index=False))
    if asked.out is not None:
        table.to_csv(asked.out, index=False)


if __name__ == "__main__":
    main()
