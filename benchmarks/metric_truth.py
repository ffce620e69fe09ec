"""Which metrics order explainers as the planted truth does: python -m benchmarks.metric_truth [--modality tables] [--samples 8] [--seeds 3]

Per task and seed, explainers are ranked by their mean score against the planted truth, and by the mean of each metric, which does not see
the truth. `rho` is Spearman's correlation of both rankings, the mean over the seeds of a task and then over the tasks of a modality; `tau`
is Kendall's. The interval of rho is the 95 % percentile interval of a bootstrap over tasks, over the seeds of each, and over the samples of
each seed (the same ones for the truth and the metric). A seed has samples of its own, and networks of its own where the rule is learnt. A
map that is zero everywhere has the truth score 0. A metric that is undefined for an explainer leaves it out, and a task in which either
ranking is constant says nothing; `tasks` counts the others, and `explainers` how many were ranked on average.

GEF and Fast-GEF explain dozens of noisy copies of every model. They draw two paths of weights per seed, and one in images, where
feature_ablation is left out. The strength of the noise is found once per model, so the seeds of a written rule share it.

    python -m benchmarks.metric_truth --write     # also renews src/veracity/planted/metric_truth.json, for the modalities that were run
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.stats import kendalltau

import veracity
from veracity.core.errors import Note, VeracityError
from veracity.core.explainers import Explainer
from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Score
from veracity.explain import RandomGaussian
from veracity.planted.suite import MODALITIES, RANDOM, audit_of, built_in, those_that_fit, values_of
from veracity.planted.task import Planted, PlantedTask
from veracity.scores import GEF, FastGEF
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
SAMPLES = {"images": 4, "tables": 8, "series": 6, "texts": 8, "graphs": 8}
"""Per seed."""
PATHS = {"images": 1}
"""Paths of weights per seed, for GEF and Fast-GEF; two elsewhere."""
KEPT = Path(veracity.__file__).parent / "planted" / "metric_truth.json"
RESAMPLES = 500
DIGITS = 5


@dataclass(frozen=True)
class Ranked:
    """One metric on one task with one seed: values of the metric (higher is better) and of the truth, both (explainers, samples)."""

    metric: str
    task: str
    values: Array
    truth: Array
    seed: int = 0


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


def by_task(ranked: Sequence[Ranked]) -> list[list[Ranked]]:
    """The seeds of each task together."""
    found: dict[str, list[Ranked]] = {}
    for one in ranked:
        found.setdefault(one.task, []).append(one)
    return list(found.values())


def mean_of_tasks(tasks: Sequence[Sequence[float]]) -> float:
    """The mean over the tasks of the mean over their seeds; what is NaN is left out.

    >>> round(mean_of_tasks([[0.2, 0.4], [0.9, float("nan")], [float("nan")]]), 3)
    0.6
    """
    means = [float(np.mean(known)) for seeds in tasks if (known := [one for one in seeds if np.isfinite(one)])]
    return float(np.mean(means)) if means else np.nan


def bootstrap(ranked: Sequence[Ranked], seed: int = 0) -> tuple[float, float]:
    """The 95 % percentile interval of the mean rho: tasks drawn with replacement, then seeds of each, then samples of each seed."""
    generator, tasks = np.random.default_rng(seed), by_task(ranked)
    means = []
    for _ in range(RESAMPLES):
        found = []
        for place in generator.integers(len(tasks), size=len(tasks)):
            seeds = tasks[place]
            drawn = [seeds[other] for other in generator.integers(len(seeds), size=len(seeds))]
            found.append([resampled(one, generator) for one in drawn])
        means.append(mean_of_tasks(found))
    known = np.array(means)[np.isfinite(means)]
    low, high = np.quantile(known, (0.025, 0.975)) if len(known) else (np.nan, np.nan)
    return float(low), float(high)


def resampled(one: Ranked, generator: np.random.Generator) -> float:
    """Spearman's rho on samples drawn with replacement; NaN if a ranking is constant."""
    samples = generator.integers(one.truth.shape[1], size=one.truth.shape[1])
    a, b = ranked_means(one.values[:, samples], one.truth[:, samples])
    return float(spearman_correlation(a, b)) if len(a) else np.nan


def measure(
    task: PlantedTask, planted: Planted, explainers: Mapping[str, Explainer], metrics: Mapping[str, Score], seed: int
) -> tuple[dict[str, Array], float]:
    """The values of metrics, higher is better, by name, each (explainers, samples), without those that do not fit; and the strength of
    the noise on weights that was found for them, NaN if none was."""
    audit = replace(audit_of(task, planted, explainers, seed), explainers=dict(explainers), scores=dict(metrics))
    try:
        with tempfile.TemporaryDirectory() as folder:
            result = audit.run(f"{folder}/run", progress=False)
            found = {
                name: in_order(result.samples(name), explainers, metric.direction, len(planted.truth)) for name, metric in metrics.items()
            }
            strengths = result.strengths()["sigma"]
            return found, float(strengths.iloc[0]) if len(strengths) else np.nan
    except VeracityError as error:
        if len(metrics) == 1:
            print(f"  {task.name}: no {next(iter(metrics))} ({error})")
            return {}, np.nan
    values: dict[str, Array] = {}
    sigma = np.nan
    for name, metric in metrics.items():
        mine, strength = measure(task, planted, explainers, {name: metric}, seed)
        values, sigma = values | mine, strength if np.isfinite(strength) else sigma
    return values, sigma


def in_order(table: pd.DataFrame, explainers: Mapping[str, Explainer], direction: Direction, samples: int) -> Array:
    """The values of all explainers (explainers, samples), turned so that higher is better."""
    sign = -1.0 if direction is Direction.LOWER else 1.0
    wide = table.pivot(index="explainer", columns="sample", values="value")
    return sign * wide.reindex(index=list(explainers), columns=range(samples)).to_numpy(np.float64)


def metrics_of(modality: str, sigma: float | None) -> dict[str, Score]:
    """The metrics of a modality; `sigma` is the strength of noise on weights, which is found if it is None."""
    paths = PATHS.get(modality, 2)
    by_weights: dict[str, Score] = {"fast_gef": FastGEF(draws=paths, sigma=sigma), "gef": GEF(draws=paths, sigma=sigma)}
    return {name: by_weights[name] if name in by_weights else SCORES.build(name) for name in METRICS}


def on_task(task: PlantedTask, modality: str, samples: int, seed: int, sigma: float | None) -> tuple[list[Ranked], float]:
    """Every metric on one task with one seed, and the strength of noise on weights."""
    planted = task.plant(samples, seed)
    known = built_in()
    asked = {name: known[name] for name in EXPLAINERS if not (modality == "images" and name == "feature_ablation")}
    fitting, _ = those_that_fit(task, planted, asked, seed)
    with tempfile.TemporaryDirectory() as folder:
        result = audit_of(task, planted, fitting, seed).run(f"{folder}/run", progress=False)
        by_label = values_of(task, planted, result, (*fitting, RANDOM))
    explainers = {**fitting, RANDOM: RandomGaussian()}
    truth = np.nan_to_num(np.stack([by_label[label] for label in explainers]), nan=0.0)
    values, found = measure(task, planted, explainers, metrics_of(modality, sigma), seed)
    return [Ranked(name, task.name, mine, truth, seed) for name, mine in values.items()], found


def rows_of(modality: str, samples: int, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """One row per metric for a modality."""
    ranked: list[Ranked] = []
    for task in MODALITIES[modality]:
        if task.score != "self_agreement":
            started = time.perf_counter()
            sigma: float | None = None
            for seed in seeds:
                mine, strength = on_task(task, modality, samples, seed, sigma)
                ranked += mine
                if not task.learnt and np.isfinite(strength):
                    sigma = strength
            print(f"{modality}, {task.name}: {time.perf_counter() - started:.0f} s", flush=True)
    rows = [row_of(modality, metric, [one for one in ranked if one.metric == metric]) for metric in METRICS]
    return sorted((row for row in rows if row), key=lambda row: -row["rho"] if np.isfinite(row["rho"]) else np.inf)


def row_of(modality: str, metric: str, ranked: Sequence[Ranked]) -> dict[str, Any]:
    """One metric on the tasks of a modality; nothing if it fits none."""
    if not ranked:
        return {}
    found = [[correlations(one.values, one.truth) for one in seeds] for seeds in by_task(ranked)]
    rho, tau = (mean_of_tasks([[one[column] for one in seeds] for seeds in found]) for column in (0, 1))
    counts = [one[2] for seeds in found for one in seeds if one[2]]
    low, high = bootstrap(ranked)
    tasks = sum(any(one[2] for one in seeds) for seeds in found)
    return {"modality": modality, "metric": metric, "rho": rho, "low": low, "high": high, "tau": tau, "tasks": tasks} | {
        "explainers": float(np.mean(counts)) if counts else 0.0
    }


def write(path: Path, modality: str, rows: Sequence[Mapping[str, Any]], samples: int, seeds: Sequence[int]) -> None:
    """Put the rows of a modality into the JSON file, in the place of older ones."""
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    columns = ("rho", "low", "high", "tau", "tasks", "explainers")
    metrics = {row["metric"]: {name: none_if_nan(row[name]) for name in columns} for row in rows}
    about = {"version": veracity.__version__, "measured": datetime.now(UTC).date().isoformat(), "samples": samples, "seeds": list(seeds)}
    kept[modality] = about | {"metrics": metrics}
    ordered = {name: kept[name] for name in MODALITIES if name in kept}
    path.write_text(json.dumps(ordered, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def none_if_nan(value: float) -> float | None:
    """A number with four decimals, as JSON has it."""
    return round(value, 4) if np.isfinite(value) else None


def main() -> None:
    """Print the table, one row per modality and metric."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--modality", action="append", choices=list(MODALITIES))
    parser.add_argument("--samples", type=int, help="per task and seed; 4 images, 6 series, else 8 by default")
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0")
    parser.add_argument("--out", type=Path, help="a CSV file")
    parser.add_argument("--write", action="store_true", help="renew metric_truth.json of the package")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", Note)
    table = []
    for name in asked.modality or MODALITIES:
        samples = asked.samples or SAMPLES[name]
        rows = rows_of(name, samples, range(asked.seeds))
        table += rows
        if asked.write:
            write(KEPT, name, rows, samples, range(asked.seeds))
    print(pd.DataFrame(table).round(2).to_string(index=False))
    if asked.out is not None:
        pd.DataFrame(table).to_csv(asked.out, index=False)


if __name__ == "__main__":
    main()
