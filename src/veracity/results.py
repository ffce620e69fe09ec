"""What a run folder says: tables with intervals, derived from stored measurements without a model."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from veracity.core.errors import InputError, Note, unknown
from veracity.core.explainers import Frame
from veracity.core.measures import Direction
from veracity.core.scores import Measured, per_sample_mean
from veracity.core.walks import Sampling
from veracity.engine.store import RunFolder
from veracity.interpret import medians, statistics
from veracity.interpret.build import as_read

Array = NDArray[np.float64]
COLUMNS = ["model", "explainer", "score", "value", "low", "high", "n", "undefined", "self_agreement", "random_control"]
DETAILS = ["frame", "control", "draws_low", "draws_high", "undefined_draws", "draws", "direction"]
COUNTED = ("censored", "infeasible", "stuck", "stiff")
"""What is counted of samples beside their values."""
BESIDE = ["bound", "assumption", "holds", "null", "no_response", *COUNTED, "evaluations", "published", "failed"]


@dataclass(frozen=True, repr=False)
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
    merit: float | None = None
    label: int | None = None
    predicted: int | None = None

    def __repr__(self) -> str:
        """Who, where and how bad; not its tensors."""
        return f"WorstPair(model={self.model!r}, explainer={self.explainer!r}, sample={self.sample}, value={self.value:.3f})"


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
    drawn: int
    per_sample: Array
    measured: Measured
    no_response: NDArray[np.bool_]
    errors: Array | None
    remarks: Mapping[str, NDArray[np.bool_]]
    missing: int
    failed: str


class Result:
    """A run, read from its folder."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.folder = RunFolder(self.path)
        self.manifest: dict[str, Any] = self.folder.manifest()

    def __str__(self) -> str:
        """The table's main columns as text, arrows for the better direction; then what failed, and what the models do not keep."""
        from veracity.report.hunted import in_text

        table = self.table()
        arrow = table["direction"].map({"higher": " ↑", "lower": " ↓"})
        shown = table[COLUMNS].assign(score=table["score"] + arrow).drop(columns=["undefined"] if not table["undefined"].any() else [])
        shown = in_text(shown, table, self.manifest)
        lines = [str(shown.to_string(index=False, float_format=lambda value: f"{value:.3f}", na_rep=""))]
        lines += [
            f"{row['model']} / {row['score']} failed: {row['error']}" for row in self.failures().drop_duplicates("error").to_dict("records")
        ]
        return "\n".join(lines + self.assumptions())

    def assumptions(self) -> list[str]:
        """What each score takes for granted of each model, and on how many samples it does not hold, in sentences."""
        from veracity.report.assumed import assumed

        models = list(dict.fromkeys(one.model for one in self.series))
        found = assumed(self.manifest, self.samples, self.manifest["scores"], models)
        return [f"{one.model}: {one.text}" if len(models) > 1 else one.text for one in found]

    @cached_property
    def series(self) -> list[Series]:
        """Every score of every subject."""
        return list(self._read())

    def table(self) -> pd.DataFrame:
        """One row a model, explainer and score, with intervals, controls and self-agreement.

        Where `bound`, the value is only known to lie at or below what it says; a low end of minus infinity is not known.
        """
        confidence = float(self.manifest["spec"].get("confidence", 0.95))
        shown = set(self.manifest["scores"])
        published = {
            (entry["model"], entry["explainer"], entry["score"]): entry["value"] for entry in self.manifest["spec"].get("published", ())
        }
        by = {(one.model, one.explainer, one.score): one for one in self.series}
        rows = []
        for one in self.series:
            if one.score not in shown:
                continue
            estimate, centre = self._estimate(one, confidence), self._centre(one.score)
            rows.append(
                {
                    "model": one.model,
                    "explainer": one.explainer,
                    "score": one.score,
                    **estimate,
                    "self_agreement": summed(by.get((one.model, one.explainer, "self_agreement")), centre),
                    "random_control": summed(by.get((one.model, null_of(one), one.score)), centre) if one.explainer else np.nan,
                    "frame": one.frame,
                    "control": one.control,
                    "direction": one.direction.value,
                    "assumption": self.manifest.get("assumptions", {}).get(one.score, ""),
                    "holds": self._holds(one),
                    "null": self.manifest["score_specs"][one.score].get("null"),
                    "no_response": int(one.no_response.sum()),
                    **{what: int(one.remarks[what].sum()) if what in one.remarks else 0 for what in COUNTED},
                    "evaluations": evaluations(one),
                    "published": published.get((one.model, one.explainer, one.score), np.nan),
                    "failed": one.failed,
                }
            )
        return pd.DataFrame(rows, columns=COLUMNS + DETAILS + BESIDE)

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
                    **({} if one.errors is None else {"error": one.errors}),
                    **one.remarks,
                    "draws": one.counts,
                    "undefined": one.counts - np.isfinite(one.values).sum(axis=1),
                }
            )
            for one in self._of(score)
        ]
        return pd.concat(frames, ignore_index=True)

    def differences(self, score: str, between: str = "explainers") -> pd.DataFrame:
        """Paired differences between a model's explainers of one kind (or an explainer's models), with simultaneous intervals.

        Of medians, `bound` is "at least" or "at most" where censored values leave no more to say, and an end is infinite then.
        """
        if between not in ("explainers", "models"):
            raise InputError(f"Differences are between 'explainers' or 'models', not '{between}'.")
        own, other = ("explainer", "model") if between == "explainers" else ("model", "explainer")
        confidence = float(self.manifest["spec"].get("confidence", 0.95))
        rows = []
        chosen = self._of(score)
        for group, frame in dict.fromkeys((getattr(one, other), one.frame) for one in chosen):
            alike = [one for one in chosen if (getattr(one, other), one.frame) == (group, frame) and one.missing == 0]
            if self._centre(score) == "median":
                below = {getattr(one, own): censored(one) for one in alike}
                tables = {getattr(one, own): one.per_sample for one in alike}
                rows += [{other: group, **asdict(row)} for row in medians.median_differences(tables, below, confidence)]
                continue
            shared = all(not one.sampling.nested and not one.sampling.exhaustive for one in alike)
            plain = self.manifest["score_specs"][score]["reduce"] == "mean"
            if shared:
                tables = {getattr(one, own): one.values if plain else one.per_sample[:, None] for one in alike}
                found = statistics.crossed_differences(tables, confidence=confidence)
            else:
                found = statistics.differences({getattr(one, own): one.per_sample for one in alike}, confidence=confidence)
            rows += [{other: group, **asdict(row)} for row in found]
        return pd.DataFrame(rows, columns=[other, "first", "second", "difference", "low", "high", "n", "differs", "bound"])

    def facts(self) -> pd.DataFrame:
        """What explainers learnt about the models before they explained anything: one row a fact, such as a concept's accuracy."""
        return pd.DataFrame(self.manifest.get("facts") or [], columns=fact_columns(self.manifest.get("facts") or []))

    def draws(self, score: str) -> dict[tuple[str, str], Array]:
        """Every draw's value by (model, explainer): (samples, draws), in the order in which they were drawn."""
        return {(one.model, one.explainer): one.values for one in self._of(score)}

    def explanations(self, model: str, explainer: str) -> Tensor:
        """The explanations of the unperturbed inputs, (samples, ...), as they were measured."""
        cells = [cell for cell in self.manifest["cells"] if (cell["model"], cell["explainer"]) == (model, explainer)]
        if not cells:
            raise unknown("subject of this run", f"{model} / {explainer}", {f"{one.model} / {one.explainer}" for one in self.series})
        blocks = {int(cell["start"]): cell["base"] for cell in cells}
        kept = [self.folder.read_tensors("explanations", blocks[start]) for start in sorted(blocks)]
        return torch.cat([part["explanation"] for part in kept if part is not None])

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
        return [pair for found in pairs.values() for pair in sorted(found, key=lambda pair: badness_first(pair, sign))[:count]]

    def save_report(self, path: str | Path) -> Path:
        """Write the report, one HTML file that opens anywhere."""
        from veracity import report

        return report.write(self, path)

    def _estimate(self, one: Series, confidence: float) -> dict[str, Any]:
        """A score's mean and intervals; one that reduces its draws in its own way has none over draws."""
        if one.missing and not len(one.samples):
            return asdict(statistics.estimate(np.zeros((0, 1)), one.sampling, one.bounds, confidence=confidence))
        if self._centre(one.score) == "median":
            middle = medians.middle(one.per_sample, one.errors, one.bounds, censored=censored(one), confidence=confidence)
            return {**asdict(middle), "undefined_draws": undefined(one)}
        found = asdict(statistics.estimate(one.values, one.sampling, one.bounds, confidence=confidence, counts=one.counts))
        if "undefined" in one.measured.quantities:
            found["undefined_draws"] = undefined(one)
        if self.manifest["score_specs"][one.score]["reduce"] == "mean":
            return found
        own = asdict(statistics.estimate(one.per_sample, one.sampling, one.bounds, confidence=confidence))
        return {**own, "undefined_draws": found["undefined_draws"], "draws": found["draws"]}

    def _centre(self, score: str) -> str:
        """How samples are summed up: by their mean or their median."""
        return str(self.manifest["score_specs"][score].get("centre", "mean"))

    def _holds(self, one: Series) -> float:
        """The share of samples on which the model does what a score assumes; NaN if it assumes nothing."""
        what = self.manifest.get("assumptions", {}).get(one.score)
        model = next((other for other in self.series if (other.model, other.explainer, other.score) == (one.model, "", what)), None)
        return mean(model.per_sample) if what and model is not None else float("nan")

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
            samples, measured, counts = gathered(rows)
            about = self.manifest["score_specs"][score]
            values, per_sample, still, errors, remarks = derived(about, measured)
            drawn = int(counts.sum())
            if values.shape[1] != next(iter(measured.quantities.values())).shape[1]:
                counts = np.full(len(samples), values.shape[1])
            broken = [failures[cell["key"]] for cell in cells if cell["key"] in failures]
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
                drawn=drawn,
                per_sample=per_sample,
                measured=measured,
                no_response=still,
                errors=errors,
                remarks=remarks,
                missing=missing,
                failed=broken[0] if broken else unfinished,
            )


Derived = tuple[Array, Array, NDArray[np.bool_], Array | None, Mapping[str, NDArray[np.bool_]]]


def derived(about: dict[str, Any], measured: Measured) -> Derived:
    """Values (samples, draws), one value a sample, which samples did not respond, each value's own error, and remarks.

    Plainly, or as the registered score does.
    """
    if about.get("values", "plain") == "plain" and about["reduce"] == "mean":
        values = next(iter(measured.quantities.values()))[:, :, 0]
        return values, per_sample_mean(values), np.zeros(len(values), dtype=np.bool_), None, {}
    score = as_read(about["spec"])
    if not len(next(iter(measured.quantities.values()))):
        measured = Measured(dict.fromkeys(score.quantities, np.zeros((0, 0, 1))))
        return measured[score.quantities[0]][:, :, 0], np.zeros(0), np.zeros(0, dtype=np.bool_), None, {}
    if about.get("values", "plain") == "plain":
        measured = Measured({"value": next(iter(measured.quantities.values()))})
    values = score.values(measured)
    return values, score.reduce(values), score.no_response(measured), score.errors(measured), score.remarks(measured)


def evaluations(one: Series) -> int:
    """How many perturbations were evaluated for a score: as the search counted them, or one a draw and level."""
    if "evaluations" in one.measured.quantities:
        table = one.measured["evaluations"]
        return int(np.nansum(np.nanmax(np.where(np.isfinite(table), table, 0.0), axis=2, initial=0.0)))
    first = next(iter(one.measured.quantities.values()))
    return one.drawn * int(first.shape[2])


def undefined(one: Series) -> int:
    """How many evaluations of a search had no value, or how many draws have one quantity without the other."""
    if "undefined" in one.measured.quantities:
        table = one.measured["undefined"]
        return int(np.nansum(np.nanmax(np.where(np.isfinite(table), table, 0.0), axis=2, initial=0.0)))
    seen = np.stack([np.isfinite(table) for table in one.measured.quantities.values()])
    return int((seen.any(axis=0) & ~seen.all(axis=0)).sum())


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


def censored(one: Series) -> NDArray[np.bool_]:
    """Which samples are only known to lie at or below their value."""
    return one.remarks.get("censored", np.zeros(len(one.samples), dtype=np.bool_))


def summed(one: Series | None, centre: str) -> float:
    """The mean or the median of what is defined; NaN if nothing is, or if no more than a bound is known."""
    if one is None or centre != "median":
        return math.nan if one is None else mean(one.per_sample)
    found = medians.middle(one.per_sample, None, one.bounds, censored=censored(one))
    return math.nan if found.bound else found.value


def gathered(tables: Sequence[pa.Table]) -> tuple[NDArray[np.int64], Measured, NDArray[np.int64]]:
    """The rows of cells in any order: the samples, each quantity as (samples, draws, levels) NaN-padded, and how many draws each had."""
    if not tables:
        return np.zeros(0, np.int64), Measured({"value": np.zeros((0, 0, 1))}), np.zeros(0, np.int64)
    whole = pa.concat_tables([table.cast(table.schema) for table in tables]).to_pandas()
    samples, row = np.unique(whole["sample"].to_numpy(), return_inverse=True)
    draw, level = whole["draw"].to_numpy(), whole["level"].to_numpy()
    quantity = whole["quantity"].astype(str).to_numpy()
    shape = (len(samples), int(draw.max(initial=-1)) + 1, int(level.max(initial=0)) + 1)
    found: dict[str, Array] = {}
    for name in dict.fromkeys(quantity.tolist()):
        here = quantity == name
        table = np.full(shape, np.nan)
        table[row[here], draw[here], level[here]] = whole["value"].to_numpy()[here]
        found[name] = table
    first = quantity == quantity[0] if len(quantity) else np.zeros(0, dtype=np.bool_)
    drawn = np.unique(row[first] * max(1, shape[1]) + draw[first]) // max(1, shape[1])
    counts = np.bincount(drawn, minlength=len(samples))
    return samples, Measured(found), counts


def unpacked(cell: dict[str, Any], kept: dict[str, Tensor]) -> Iterator[WorstPair]:
    """The stored pairs of one cell."""
    for number in range(len(kept["sample"])):
        known: dict[str, Any] = {name: kind(kept[name][number]) for name, kind in SEARCHED.items() if name in kept}
        yield WorstPair(
            model=cell["model"],
            explainer=cell["explainer"],
            sample=int(kept["sample"][number]),
            draw=int(kept["draw"][number]),
            element=[float(part) for part in kept["element"][number]],
            value=float(kept["value"][number]),
            input=kept["input"][number],
            moved=kept["moved"][number],
            explanation=kept["explanation"][number],
            expected=kept["expected"][number],
            found=kept["found"][number],
            **known,
        )


SEARCHED: dict[str, Callable[[Tensor], Any]] = {"merit": float, "label": int, "predicted": int}
"""What is kept of a pair that a search found."""


def badness_first(pair: WorstPair, sign: float) -> float:
    """What pairs are sorted by: a search knows how bad its own are; else the value counts."""
    return sign * pair.value if pair.merit is None else -pair.merit


def compared(first: Result, second: Result) -> pd.DataFrame:
    """Second minus first for every model, explainer and score that both have; paired by sample if the data are the same.

    Scores whose samples are summed up by a median are compared by medians: paired, by the median of the differences.
    """
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
    centres = {key: first.manifest["score_specs"][key[2]].get("centre", "mean") for key in shared}
    return pd.DataFrame([versus(series[0][key], series[1][key], same, confidence, centres[key]) for key in shared])


def versus(one: Series, other: Series, same: bool, confidence: float, centre: str = "mean") -> dict[str, Any]:
    """One row of a comparison; by sample number where both runs saw the same data."""
    here, there = np.arange(len(one.samples)), np.arange(len(other.samples))
    if same:
        _, here, there = np.intersect1d(one.samples, other.samples, return_indices=True)
    before, after = one.per_sample[here], other.per_sample[there]
    found = {"model": one.model, "explainer": one.explainer, "score": one.score}
    if centre == "median":
        return {**found, **versus_medians(before, after, censored(one)[here], censored(other)[there], same, confidence), "paired": same}
    gap = statistics.paired(after, before, confidence) if same else statistics.welch(after, before, confidence)
    numbers = {"before": mean(before), "after": mean(after), "difference": gap.value, "low": gap.low, "high": gap.high}
    return {**found, **numbers, "before_bound": False, "after_bound": False, "bound": "", "paired": same}


def versus_medians(
    before: Array, after: Array, below: NDArray[np.bool_], beneath: NDArray[np.bool_], same: bool, confidence: float
) -> dict[str, Any]:
    """The medians before and after, of values of which some are censored, and their difference."""
    old, new = (medians.middle(table, None, (-np.inf, np.inf), censored=hidden) for table, hidden in ((before, below), (after, beneath)))
    values, known = {"after": after, "before": before}, {"after": beneath, "before": below}
    gap = medians.median_differences(values, known, confidence)[0] if same else medians.separate_medians(values, known, confidence)
    return {
        "before": old.value,
        "after": new.value,
        "difference": gap.difference,
        "low": gap.low,
        "high": gap.high,
        "before_bound": old.bound,
        "after_bound": new.bound,
        "bound": gap.bound,
    }
