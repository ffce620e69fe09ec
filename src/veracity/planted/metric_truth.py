"""Which metrics order explainers as the planted truth does: what `python -m benchmarks.metric_truth --write` found, from its JSON file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

FILE = "metric_truth.json"


@dataclass(frozen=True, kw_only=True)
class TruthOrder:
    """How well one metric orders explainers on the planted tasks of a modality.

    rho         Spearman's correlation of its ranking with that of the truth, the mean over seeds and tasks; `low` and `high` are its 95 %
                interval, and NaN is undefined
    tau         Kendall's
    tasks       those in which neither ranking is constant
    explainers  how many were ranked on average
    """

    metric: str
    rho: float
    low: float
    high: float
    tau: float
    tasks: int
    explainers: float


@dataclass(frozen=True, kw_only=True)
class TruthOrders:
    """The metrics of one modality, the best first, with the version and the day of the measurement, and its samples per task and seed."""

    version: str
    measured: str
    samples: int
    seeds: tuple[int, ...]
    metrics: tuple[TruthOrder, ...]

    def find(self, metric: str) -> TruthOrder | None:
        """The row of a metric; None if it was not measured."""
        return next((one for one in self.metrics if one.metric == metric), None)


def parse(kept: Mapping[str, Any]) -> dict[str, TruthOrders]:
    """The content of the file by modality."""
    return {modality: parse_modality(found) for modality, found in kept.items()}


def parse_modality(found: Mapping[str, Any]) -> TruthOrders:
    """One modality of the file; null is NaN."""

    def order(metric: str, row: dict[str, Any]) -> TruthOrder:
        known: dict[str, Any] = {name: math.nan if value is None else value for name, value in row.items()}
        return TruthOrder(metric=metric, **known)

    orders = tuple(order(metric, row) for metric, row in found["metrics"].items())
    about = {name: found[name] for name in ("version", "measured", "samples")}
    return TruthOrders(**about, seeds=tuple(found["seeds"]), metrics=orders)


@cache
def metric_truth() -> dict[str, TruthOrders]:
    """What the benchmark found, by modality.

    >>> metric_truth()["tables"].seeds
    (0, 1, 2)
    """
    return parse(json.loads(resources.files("veracity.planted").joinpath(FILE).read_text(encoding="utf-8")))
