"""What a run folder says: tables with intervals, derived from stored measurements without a model."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from veracity.core.errors import InputError, Note, unknown
from veracity.core.explainers import Frame
from veracity.core.measures import Direction
from veracity.core.scores import per_sample_mean
from veracity.core.walks import Sampling
from veracity.engine.store import RunFolder
from veracity.interpret import statistics
from veracity.interpret.build import as_score

Array = NDArray[np.float64]
COLUMNS = ["model", "explainer", "score", "value", "low", "high", "n", "undefined", "self_agreement", "random_control"]
DETAILS = ["frame", "control", "draws_low", "draws_high", "undefined_draws", "draws", "direction", "failed"]


@dataclass(frozen=True)
class WorstPair:
    """One perturbation that hurt: the input and its explanation, before and after."""

    model: str
    explainer: str
    sample: int
    draw: int
    element: list[float]
    value: float
    input: Tensor
    moved: Tensor
    explanation: Tensor
    expected: Tensor
    found: Tensor


@dataclass(frozen=True)
class Series:
    """One score of one subject over all samples: values (samples, draws), and how the draws came about."""

    model: str
    explainer: str
    control: bool
    signed: bool
    frame: str
    categorical: bool
    score: str
    sampling: Sampling
    bounds: tuple[float, float]
    direction: Direction
    samples: NDArray[np.int64]
    values: Array
    counts: NDArray[np.int64]
    per_sample: Array
    missing: int
    failed: str


class Result:
    """A run, read from its folder."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.folder = RunFolder(self.path)
        self.manifest: dict[str, Any] = self.folder.manifest()

    def __str__(self) -> str:
        """The table's main columns, as text."""
        table = self.table()
        shown = table[COLUMNS].drop(columns=["undefined"] if not table["undefined"].any() else [])
        return str(shown.to_string(index=False, float_format=lambda value: f"{value:.3f}", na_rep=""))

    @cached_property
    def series(self) -> list[Series]:
        """Every score of every subject."""
        return list(self._read())

    def table(self) -> pd.DataFrame:
        """One row a model, explainer and score, with intervals, controls and self-agreement."""
        confidence = float(self.manifest["spec"].get("confidence", 0.95))
        shown = set(self.manifest["scores"])
        means = {(one.model, one.explainer, one.score): mean(one.per_sample) for one in self.series if np.isfinite(one.per_sample).any()}
        rows = []
        for one in self.series:
            if one.score not in shown:
                continue
            estimate = self._estimate(one, confidence)
            rows.append(
                {
                    "model": one.model,
                    "explainer": one.explainer,
                    "score": one.score,
                    **estimate,
                    "self_agreement": means.get((one.model, one.explainer, "self_agreement"), np.nan),
                    "random_control": means.get((one.model, null_of(one), one.score), np.nan) if one.explainer else np.nan,
                    "frame": one.frame,
                    "control": one.control,
                    "direction": one.direction.value,
                    "failed": one.failed,
                }
            )
        return pd.DataFrame(rows, columns=COLUMNS + DETAILS)

    def samples(self, score: str) -> pd.DataFrame:
        """One row a model, explainer and sample."""
        frames = [
            pd.DataFrame(
                {
                    "model": one.model,
                    "explainer": one.explainer,
                    "control": one.control,
                    "sample": one.samples,
                    "value": one.per_sample,
                    "draws": one.counts,
                    "undefined": one.counts - np.isfinite(one.values).sum(axis=1),
                }
            )
            for one in self._of(score)
        ]
        return pd.concat(frames, ignore_index=True)

    def differences(self, score: str, between: str = "explainers") -> pd.DataFrame:
        """Paired differences between a model's explainers of one kind (or an explainer's models), with simultaneous intervals."""
        if between not in ("explainers", "models"):
            raise InputError(f"Differences are between 'explainers' or 'models', not '{between}'.")
        own, other = ("explainer", "model") if between == "explainers" else ("model", "explainer")
        confidence = float(self.manifest["spec"].get("confidence", 0.95))
        rows = []
        chosen = self._of(score)
        for group, frame in dict.fromkeys((getattr(one, other), one.frame) for one in chosen):
            alike = [one for one in chosen if (getattr(one, other), one.frame) == (group, frame) and one.missing == 0]
            found = statistics.differences({getattr(one, own): one.per_sample for one in alike}, confidence=confidence)
            rows += [{other: group, **asdict(row)} for row in found]
        return pd.DataFrame(rows, columns=[other, "first", "second", "difference", "low", "high", "n", "differs"])

    def facts(self) -> pd.DataFrame:
        """What explainers learnt about the models before they explained anything: one row a fact, such as a concept's accuracy."""
        return pd.DataFrame(self.manifest.get("facts") or [], columns=fact_columns(self.manifest.get("facts") or []))

    def draws(self, score: str) -> dict[tuple[str, str], Array]:
        """Every draw's value by (model, explainer): (samples, draws), in the order in which they were drawn."""
        return {(one.model, one.explainer): one.values for one in self._of(score)}

    def advice(self) -> list[dict[str, Any]]:
        """What `veracity advise` said about this run: one record a step; none if it was not asked."""
        return json.loads(self.folder.files.read("advice.json")) if self.folder.files.exists("advice.json") else []

    def failures(self) -> pd.DataFrame:
        """What could not be measured, and why."""
        rows = [
            {"model": one.model, "explainer": one.explainer, "score": one.score, "error": one.failed} for one in self.series if one.failed
        ]
        return pd.DataFrame(rows, columns=["model", "explainer", "score", "error"])

    def worst(self, score: str, count: int = 1) -> list[WorstPair]:
        """The `count` most telling pairs of each model and explainer, worst first."""
        pairs: dict[tuple[str, str], list[WorstPair]] = {}
        for cell in self.manifest["cells"]:
            if cell["score"] == score and (kept := self.folder.read_tensors("worst", cell["key"])):
                pairs.setdefault((cell["model"], cell["explainer"]), []).extend(unpacked(cell, kept))
        sign = -1.0 if any(one.direction is Direction.LOWER for one in self._of(score)) else 1.0
        return [pair for found in pairs.values() for pair in sorted(found, key=lambda pair: sign * pair.value)[:count]]

    def save_report(self, path: str | Path) -> Path:
        """Write the report, one HTML file that opens anywhere."""
        from veracity import report

        return report.write(self, path)

    def _estimate(self, one: Series, confidence: float) -> dict[str, Any]:
        """A score's mean and intervals; one that reduces its draws in its own way has none over draws."""
        found = asdict(statistics.estimate(one.values, one.sampling, one.bounds, confidence=confidence, counts=one.counts))
        if self.manifest["score_specs"][one.score]["reduce"] == "mean":
            return found
        own = asdict(statistics.estimate(one.per_sample, one.sampling, one.bounds, confidence=confidence))
        return {**own, "undefined_draws": found["undefined_draws"], "draws": found["draws"]}

    def _of(self, score: str) -> list[Series]:
        found = [one for one in self.series if one.score == score]
        if not found:
            raise unknown("score of this run", score, {one.score for one in self.series})
        return found

    def _read(self) -> Iterator[Series]:
        finished, failures = self.folder.finished(), self.folder.failures()
        grouped: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for cell in self.manifest["cells"]:
            grouped.setdefault((cell["model"], cell["explainer"], cell["score"]), []).append(cell)
        for (model, explainer, score), cells in grouped.items():
            rows = [self.folder.read_cell(cell["key"]) for cell in cells if cell["key"] in finished]
            sample = np.concatenate([table["sample"].to_numpy() for table in rows]) if rows else np.zeros(0, np.int64)
            value = np.concatenate([table["value"].to_numpy() for table in rows]) if rows else np.zeros(0)
            samples, values, counts = gathered(sample, value)
            errors = [failures[cell["key"]] for cell in cells if cell["key"] in failures]
            missing = sum(cell["key"] not in finished for cell in cells)
            unfinished = f"{missing} of {len(cells)} cells not measured yet" if missing else ""
            first = cells[0]
            yield Series(
                model=model,
                explainer=explainer,
                control=first["control"],
                signed=first["signed"],
                frame=first.get("frame", Frame.INPUT.value if explainer else ""),
                categorical=first.get("categorical", False),
                score=score,
                sampling=Sampling(**first["sampling"]),
                bounds=(float(first["bounds"][0]), float(first["bounds"][1])),
                direction=Direction(first["direction"]),
                samples=samples,
                values=values,
                counts=counts,
                per_sample=reduced(self.manifest["score_specs"][score], values),
                missing=missing,
                failed=errors[0] if errors else unfinished,
            )


def reduced(about: dict[str, Any], values: Array) -> Array:
    """From draws to one value a sample: their mean, or whatever the registered score does."""
    return per_sample_mean(values) if about["reduce"] == "mean" else as_score(about["spec"]).reduce(values)


def fact_columns(facts: list[dict[str, Any]]) -> list[str]:
    """Every column that some fact has, in the order of their appearance."""
    return list(dict.fromkeys(key for fact in facts for key in fact))


def null_of(one: Series) -> str:
    """The random control that is fair to an explanation: in its frame, and of its sign."""
    if one.frame == Frame.TRAINING.value:
        return "random_examples" if one.signed else "random_mixture"
    if one.frame == Frame.CONCEPTS.value:
        return "random_concepts" if one.categorical else "random_sensitivities"
    return "random_gaussian" if one.signed else "random_uniform"


def mean(values: Array) -> float:
    """The mean of what is defined, NaN if nothing is."""
    return float(values[np.isfinite(values)].mean()) if np.isfinite(values).any() else float("nan")


def gathered(sample: NDArray[np.int64], value: Array) -> tuple[NDArray[np.int64], Array, NDArray[np.int64]]:
    """Rows in any order to a matrix (samples, draws): each sample's values in their stored order, NaN-padded, and their number.

    >>> gathered(np.array([7, 4, 7]), np.array([1.0, 2.0, 3.0]))[1].tolist()
    [[2.0, nan], [1.0, 3.0]]
    """
    samples, row, counts = np.unique(sample, return_inverse=True, return_counts=True)
    order = np.argsort(row, kind="stable")
    column = np.arange(len(sample)) - np.repeat(np.cumsum(counts) - counts, counts)
    values = np.full((len(samples), int(counts.max(initial=0))), np.nan)
    values[row[order], column] = value[order]
    return samples, values, counts


def unpacked(cell: dict[str, Any], kept: dict[str, Tensor]) -> Iterator[WorstPair]:
    """The stored pairs of one cell."""
    for number in range(len(kept["sample"])):
        yield WorstPair(
            model=cell["model"],
            explainer=cell["explainer"],
            sample=int(kept["sample"][number]),
            draw=int(kept["draw"][number]),
            element=[float(part) for part in kept["element"][number]],
            value=float(kept["value"][number]),
            **{name: kept[name][number] for name in ("input", "moved", "explanation", "expected", "found")},
        )


def compared(first: Result, second: Result) -> pd.DataFrame:
    """Second minus first for every model, explainer and score that both have; paired by sample if the data are the same."""
    differing = [key for key in ("symmetry", "score_specs", "seed") if first.manifest.get(key) != second.manifest.get(key)]
    if differing:
        warnings.warn(f"The two runs differ in {', '.join(differing).replace('score_specs', 'scores')}.", Note, stacklevel=2)
    same = first.manifest["data"]["fingerprint"] == second.manifest["data"]["fingerprint"]
    confidence = float(first.manifest["spec"].get("confidence", 0.95))
    shown = set(first.manifest["scores"])
    series = [{(one.model, one.explainer, one.score): one for one in run.series if one.score in shown} for run in (first, second)]
    shared = [key for key in series[0] if key in series[1]]
    if not shared:
        raise InputError("The two runs share no model, explainer and score.")
    alone = sorted({" / ".join(part for part in key if part) for key in set(series[0]) ^ set(series[1])})
    if alone:
        warnings.warn(f"In one run only: {', '.join(alone)}.", Note, stacklevel=2)
    return pd.DataFrame([versus(series[0][key], series[1][key], same, confidence) for key in shared])


def versus(one: Series, other: Series, same: bool, confidence: float) -> dict[str, Any]:
    """One row of a comparison; by sample number where both runs saw the same data."""
    before, after = one.per_sample, other.per_sample
    if same:
        _, here, there = np.intersect1d(one.samples, other.samples, return_indices=True)
        before, after = before[here], after[there]
    gap = statistics.paired(after, before, confidence) if same else statistics.welch(after, before, confidence)
    return {
        "model": one.model,
        "explainer": one.explainer,
        "score": one.score,
        "before": mean(before),
        "after": mean(after),
        "difference": gap.value,
        "low": gap.low,
        "high": gap.high,
        "paired": same,
    }
