"""The result of an orbit evaluation, read from its folder without a model: values along orbits, tables with intervals, pictures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Size

from veracity.core import fingerprint
from veracity.core.errors import InputError, StoreError, VeracityError, unknown
from veracity.core.failures import failures_of
from veracity.core.inputs import Signals
from veracity.core.settings import short_repr
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Kind
from veracity.engine.store.state import STATE, Progress, Stage, State, row_state
from veracity.orbits import folder as files
from veracity.orbits.folder import CONSENSUS, DISTANCE, TRUTH, WHOLE, column
from veracity.orbits.layouts import orbit_of
from veracity.orbits.pictures import Picture, draw_inputs, restore_inputs
from veracity.orbits.reduction import METHODS, embed
from veracity.orbits.statistics import agreement, bounds_of, equivariance_gap, mean_along, summary
from veracity.results.pages import figure_of, framed_page, save_page
from veracity.results.tracking import Logged, log, spec_parameters

Array = NDArray[Any]
Values = NDArray[np.float32]
TOGETHER = 1 << 25
"""The most values of one model that are read at once, if several metrics are stored together."""
MOVED = frozenset({Picture.IMAGE, Picture.SERIES})
"""Kinds of pictures that are moved here; the interface moves the others itself."""
MOST_FRAMES = 1 << 25
"""The most numbers in all moved inputs of one sample."""


class OrbitResult:
    """An orbit evaluation of N samples along K elements, read from its folder.

    `values` are the metrics; `outputs` and `picture` are what the interface draws. Attributes from the manifest:

    models, explainers, metrics     names; a metric has name, label, consensus_label, unit, low, high, higher_is_better, references
                                    and explainer
    references                      what outputs were judged against: truth and consensus, or the consensus alone
    samples, shape, labels, groups  N, the shape of a sample, which group each sample counts to (N,) or None, the names of the groups
    kind, classes, truth_classes    the kind of task, the names of its classes, and the true class of each sample (N,) or None
    layout, axes, coordinates       how the orbit is drawn, what its coordinates mean, and where its elements lie (K, axes)
    elements, identity, plane       the names of the elements, the number of the one that moves nothing, the plane of a disk or None
    picture_kind, window            how inputs are drawn, and the side of the window that moves over a scene or None
    notes, confidence               what a reader must know, in sentences, and the level of the intervals
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.folder = RunFolder(self.path)
        self.manifest = self.folder.manifest(Kind.ORBITS)
        self._known: dict[tuple[str, str], Values] = {}
        data, orbit, task, picture = (self.manifest[part] for part in ("data", "orbit", "task", "input"))
        self.models, self.explainers = tuple(self.manifest["models"]), tuple(self.manifest["explainers"])
        self.metrics: list[dict[str, Any]] = self.manifest["metrics"]
        self.references = tuple(self.metrics[0]["references"])
        self.samples, self.shape = int(data["samples"]), tuple(data["shape"])
        self.labels, self.truth_classes = (numbers(self.manifest.get(name)) for name in ("labels", "truth_classes"))
        self.groups = tuple(self.manifest["groups"])
        self.kind, self.classes = str(task["kind"]), tuple(task["classes"])
        self.layout, self.axes = str(orbit["layout"]), list(orbit["axes"])
        self.coordinates = np.array(orbit["coordinates"], dtype=np.float64)
        self.identity, self.elements = int(orbit["identity"]), tuple(orbit["elements"])
        self.plane: str | None = orbit["plane"]
        self.picture_kind, self.window = str(picture["kind"]), picture["window"]
        self.notes = [": ".join(filter(None, (note["model"], note["explainer"], note["text"]))) for note in self.manifest["notes"]]
        self.confidence = float(self.manifest["spec"]["confidence"])

    @cached_property
    def progress(self) -> Progress:
        """The progress when it was first asked for; a cell is one model, or one of its explainers, on one block."""
        return self.folder.progress(self.manifest)

    @property
    def complete(self) -> bool:
        """Whether every model is measured on every block; explainers may still be pending or have failed."""
        return all(cell["key"] in self.progress.done for cell in self.manifest["cells"] if not cell["explainer"])

    def states(self) -> pd.DataFrame:
        """One row per model and explainer: its state, its cells, how many are measured and failed, and the first error.

        A model itself has the explainer "". Whether a measured row has any value is for `table` to say.
        """
        rows = []
        for model, explainer in product(self.models, ("", *self.explainers)):
            keys = [cell["key"] for cell in self._cells(model, explainer)]
            errors = [self.progress.failures[key] for key in keys if key in self.progress.failures]
            measured = sum(key in self.progress.done for key in keys)
            state = row_state(cells=len(keys), measured=measured, failed=len(errors), value=0.0).value
            rows.append([model, explainer, state, len(keys), measured, len(errors), errors[0] if errors else ""])
        return pd.DataFrame(rows, columns=["model", "explainer", *STATE, "failed"])

    def values(self, model: str, metric: str, reference: str = TRUTH) -> Values:
        """A metric along every sample's orbit, float32 (N, K), NaN where it is undefined.

        How well an explanation moves along is the same whatever the reference.
        """
        about = self._metric(metric)
        if about["explainer"] is not None:
            return self._column(model, metric, about["explainer"])
        if reference not in about["references"]:
            if reference == TRUTH:
                raise InputError("No targets were given to this evaluation: ask for reference='consensus'.")
            raise unknown("reference", reference, about["references"])
        return self._column(model, column(metric, reference))

    def distances(self, model: str) -> Values:
        """The distance between the un-transformed output and the output for the original input, (N, K)."""
        return self._column(model, DISTANCE)

    def outputs(self, model: str, sample: int) -> dict[str, Array]:
        """The stored outputs of one model for one sample: outputs, consensus and missing; for a flow also errors and quivers."""
        start = self._block(sample)["start"]
        cell = next(cell for cell in self._cells(model) if cell["start"] == start)
        files.check_measured(self.folder, cell["key"], self.manifest["cells"])
        found = files.read_tensors(self.folder, files.OUTPUTS, cell["key"], row=sample - cell["start"])
        if self.kind != "flow" and "outputs" not in found:
            raise self._damaged("outputs", cell["key"])
        return found

    def picture(self, sample: int) -> dict[str, Array]:
        """The picture of one sample: its input, and its truth if that is drawn."""
        block = self._block(sample)
        found = files.read_tensors(self.folder, files.PICTURES, block["key"], row=sample - block["start"])
        if "input" not in found:
            raise self._damaged("pictures", block["key"])
        return {name: value for name, value in found.items() if name != "thumbnail"}

    def thumbnails(self) -> Array | None:
        """Small square pictures of all samples, uint8 (N, S, S, C); None for series and for inputs without a picture."""
        blocks = self.manifest["pictures"]
        parts = (files.read_tensors(self.folder, files.PICTURES, block["key"], part="thumbnail").get("thumbnail") for block in blocks)
        found = [part for part in parts if part is not None]
        for part, block in zip(found, blocks, strict=False):
            if part.ndim != 4 or part.dtype != np.uint8 or part.shape != (block["stop"] - block["start"], *found[0].shape[1:]):
                raise self._damaged("pictures", block["key"])
        return np.concatenate(found) if found and len(found) == len(blocks) else None

    def frames(self, sample: int) -> Array | None:
        """One sample's input at every element, as it is drawn: images uint8 (K, H, W, C), series float32 (K, C, T); else None.

        None too if the orbit is not one of the package's, or all frames together would hold more than 2^25 numbers.
        """
        kind = Picture(self.picture_kind)
        if kind not in MOVED or len(self.elements) * math.prod(self.shape) > MOST_FRAMES:
            return None
        try:
            orbit = orbit_of(self.manifest["orbit"]["spec"], Size(self.shape), len(self.elements))
        except (VeracityError, TypeError, ValueError, KeyError, ArithmeticError):
            return None
        low, high = self.manifest["input"]["span"]
        picture = torch.from_numpy(np.array(self.picture(sample)["input"]))[None]
        try:
            values = restore_inputs(kind, picture, (low, high)).reshape(1, *self.shape)
        except (RuntimeError, IndexError) as error:
            raise self._damaged("pictures", self._block(sample)["key"]) from error
        elements = orbit.elements
        moved = orbit.space.move(elements, Signals(values.expand(len(elements), *self.shape)))
        return draw_inputs(kind, moved.values, (low, high)).numpy()

    def aggregate(self, model: str, metric: str, subset: Any = None, reference: str = TRUTH) -> pd.DataFrame:
        """The mean of a metric at every element with its interval: one row per element, its coordinates first, then value, low, high, n.

        `subset` is a label's number, a group's name, or numbers of samples; all samples by default.
        """
        values = self.values(model, metric, reference)[self.chosen(subset)]
        found = mean_along(values, self.confidence, bounds_of(self._metric(metric)))
        return pd.concat([self._places(), found], axis=1)

    def individual(self, sample: int, metric: str, reference: str = TRUTH) -> pd.DataFrame:
        """One sample's orbit: one row per element, its coordinates first, then one column per model."""
        self._block(sample)
        found = {model: self.values(model, metric, reference)[sample] for model in self.models}
        return pd.concat([self._places(), pd.DataFrame(found)], axis=1)

    def chosen(self, subset: Any) -> NDArray[np.int64]:
        """The numbers of the samples in a subset."""
        if subset is None:
            return np.arange(self.samples)
        if isinstance(subset, str) and subset not in self.groups:
            raise unknown("group", subset, self.groups)
        if isinstance(subset, (str, int, np.integer)) and not isinstance(subset, bool):
            if self.labels is None:
                raise InputError("The samples have no labels: give the numbers of the samples, such as subset=[0, 3].")
            number = self.groups.index(subset) if isinstance(subset, str) else int(subset)
            found = np.flatnonzero(self.labels == number)
            if not len(found):
                raise InputError(f"No sample has the label {short_repr(subset)}; there are {', '.join(map(str, np.unique(self.labels)))}.")
            return found
        given = np.asarray(subset)
        numbers = np.flatnonzero(given) if given.dtype == np.bool_ and given.shape == (self.samples,) else given
        wrong = numbers.ndim != 1 or not len(numbers) or not np.issubdtype(numbers.dtype, np.integer)
        if wrong or numbers.min() < 0 or numbers.max() >= self.samples:
            raise InputError(
                f"A subset is a label, a group's name, or numbers of samples from 0 to {self.samples - 1}, not {short_repr(subset)}."
            )
        return numbers.astype(np.int64)

    def table(self, subset: Any = None) -> pd.DataFrame:
        """One row per model, metric and reference: the mean over all orbits (value, low, high), identity, worst, spread, and the gap.

        `state` is pending, failed, undefined or done; an explainer's row may be pending or failed. `subset` is as in `aggregate`.
        """
        chosen = self.chosen(subset)
        gaps = self.gap(subset).set_index("model")[["value", "low", "high"]].set_axis(["gap", "gap_low", "gap_high"], axis=1)
        states = {(row["model"], row["explainer"]): row for row in self.states().to_dict("records")}
        rows = []
        for model, about in product(self.models, self.metrics):
            counts = {name: states[model, about["explainer"] or ""][name] for name in STATE[1:]}
            cells, measured, failed = counts.values()
            better = "higher" if about["higher_is_better"] else "lower"
            for reference in [""] if about["explainer"] is not None else about["references"]:
                values = self.values(model, about["name"], reference)[chosen]
                found = summary(values, about, self.identity, self.elements, self.confidence)
                state = row_state(cells=cells, measured=measured, failed=failed, value=found["value"]).value
                names = {"model": model, "metric": about["name"], "reference": reference}
                rows.append({**names, **found, **gaps.loc[model], "direction": better, "state": state, **counts})
        return pd.DataFrame(rows)

    def gap(self, subset: Any = None) -> pd.DataFrame:
        """One row per model: the equivariance gap with its interval over samples, cut to what a distance can be.

        `subset` is as in `aggregate`.
        """
        chosen = self.chosen(subset)
        most, scale = (1.0, 1.0) if self.kind in ("classification", "detection") else (np.inf, 0.0)
        rows = []
        for model in self.models:
            found = equivariance_gap(self.distances(model)[chosen], self.identity, self.confidence, scale=scale)
            rows.append({"model": model, **vars(found)})
        table = pd.DataFrame(rows, columns=["model", "value", "low", "high", "n", "unseen", "undefined"])
        return table.assign(low=table["low"].clip(0.0, most), high=table["high"].clip(0.0, most))

    def agreement(self, subset: Any = None) -> pd.DataFrame:
        """One row per model and metric: the correlation of the plots against the consensus and against the truth; none without truth.

        Only elements count at which the moved truth is whole. A constant plot has no correlation: it is undefined.
        `subset` is as in `aggregate`.
        """
        chosen = self.chosen(subset)
        rows = []
        for model in self.models if TRUTH in self.references else ():
            whole = self._column(model, WHOLE)[chosen] > 0
            for metric in [about["name"] for about in self.metrics if about["explainer"] is None]:
                truth, consensus = (self.values(model, metric, reference)[chosen] for reference in (TRUTH, CONSENSUS))
                found = vars(agreement(truth, consensus, whole, self.confidence))
                rows.append({"model": model, "metric": metric, "correlation": found["value"], **found})
        columns = ["model", "metric", "correlation", "low", "high", "n", "unseen", "undefined", "aggregate"]
        return pd.DataFrame(rows, columns=columns)

    def failures(self) -> pd.DataFrame:
        """What could not be measured, and why.

        One row per model, explainer and failed block of samples, which is one of `cells`; and one row per model, explainer and reason for
        `samples_failed` samples that failed in blocks that were measured.
        """
        left = self.folder.failures()
        rows: list[list[Any]] = []
        alone: Counter[tuple[str, str, str]] = Counter()
        for cell in self.manifest["cells"]:
            model, explainer, key = cell["model"], cell["explainer"], cell["key"]
            if key in left and self.folder.records.has(files.METRICS, key):
                alone.update((model, explainer, reason) for reason in self.folder.failed_samples(key).values())
            elif key in left:
                samples, cells = f"{cell['start']}-{cell['stop'] - 1}", len(self._cells(model, explainer))
                rows.append([model, explainer, samples, left[key], 1, cells, 0])
        rows += [[model, explainer, str(self.samples), reason, 0, 0, count] for (model, explainer, reason), count in alone.items()]
        return pd.DataFrame(rows, columns=["model", "explainer", "samples", "error", "cells_failed", "cells", "samples_failed"])

    def reduce(self, metric: str, method: str = "pca", reference: str = TRUTH) -> Values:
        """All models' orbits as points of one plane, float32 (models, N, 2), NaN where a sample was left out; kept in the folder."""
        if method not in METHODS:
            raise unknown("method of dimension reduction", method, METHODS)
        values = [self.values(model, metric, reference) for model in self.models]
        seed = int(self.manifest["seed"])
        stack = np.concatenate(values)
        key = fingerprint.of_json(["reduction", 1, fingerprint.of_tensor(torch.from_numpy(stack)), len(values), method, seed])
        kept = self.folder.recovered(files.REDUCTIONS, key)
        if kept is not None:
            return kept["points"].numpy()
        points = embed(stack, method, seed, len(values)).reshape(len(values), self.samples, 2)
        with suppress(StoreError):
            self.folder.write_tensors(files.REDUCTIONS, key, {"points": torch.from_numpy(points)})
        return points

    def requirements(self) -> pd.DataFrame:
        """The rows that `veracity gate` judges: `gap`, and every metric's mean by its name, against the truth or else the consensus.

        A metric followed by @truth or @consensus is meant against that. An explainer has `equivariance`: how well its maps move along.
        """
        labels = {one["name"]: one["explainer"] or "" for one in self.metrics}
        table = self.table()
        table["explainer"] = table["metric"].map(labels)
        maps, own = table[table["explainer"] != ""], table[table["explainer"] == ""]
        parts = [
            self.gap().assign(score="gap", explainer=""),
            maps.assign(score="equivariance"),
            own[own["reference"] == self.references[0]].assign(score=lambda rows: rows["metric"]),
            own.assign(score=own["metric"] + "@" + own["reference"]),
        ]
        rows: pd.DataFrame = pd.concat(parts)[["model", "explainer", "score", "value", "low", "high", "n", "unseen"]]
        return rows.merge(self.states(), on=["model", "explainer"], how="left").assign(control=False, bound=False)

    def save_report(self, path: str | Path, samples: int | None = None) -> Path:
        """Write the interface as one HTML file that opens anywhere, with this many samples or as many as fit into 12 MB."""
        return save_page(Kind.ORBITS, self, path, samples=samples)

    def log_to_mlflow(self, prefix: str = "") -> str:
        """Log metrics with intervals, tables, the page and the settings into MLflow's active run, or a new one; returns the run's id.

        `prefix` stands before all names, for a run that holds several results.
        """
        found = self.requirements()
        return log(
            Logged(
                kind=Kind.ORBITS,
                title=self.manifest.get("title") or "Orbit evaluation",
                numbers=found[found["state"] == State.DONE],
                tables={"table": self.table(), "gap": self.gap(), "agreement": self.agreement()},
                parameters=spec_parameters(self.manifest),
                write=lambda folder: self.save_report(folder / "report.html"),
                path=self.path,
                manifest=self.manifest,
            ),
            prefix,
        )

    def _repr_html_(self) -> str:
        """The means and the metrics along the orbit, for a notebook; `save_report` writes the interactive page."""
        return framed_page(Kind.ORBITS, self)

    def figure(self, name: str = "orbit", metric: str | None = None) -> Any:
        """A figure that shows itself in a notebook, and that `.save("x.svg")` writes: "orbit" along the orbit, or "models".

        Of all metrics, unless one is named. `.save` also writes .png, .pdf and .html.
        """
        return figure_of(Kind.ORBITS, self, name, metric)

    def __str__(self) -> str:
        """The table's main columns as text, arrows for the better direction; then agreement with the truth, notes and failures."""
        table = self.table()
        arrow = table["direction"].map({"higher": " ↑", "lower": " ↓"})
        hidden = ["direction", *STATE[1:], *([] if table["undefined"].any() else ["undefined"])]
        hidden += [] if (table["state"] != State.DONE).any() else ["state"]
        lines = [] if self.progress.stage is Stage.DONE else [self.progress.sentence()]
        lines += [as_text(table.assign(metric=table["metric"] + arrow).drop(columns=hidden))]
        agreed = self.agreement()
        if len(agreed):
            lines += ["", "consensus against truth, correlation along the orbit:", as_text(agreed)]
        lines += self.notes
        lines += [str(one) for one in failures_of(self.failures().to_dict("records"))]
        return "\n".join(lines)

    def _damaged(self, kind: str, key: str) -> StoreError:
        """The error for a file of tensors that does not hold what a run writes."""
        return StoreError(f"{self.folder.files.path(kind)}/{key}.safetensors is damaged: delete it and run the same command again.")

    def _metric(self, name: str) -> dict[str, Any]:
        found = next((one for one in self.metrics if one["name"] == name), None)
        if found is None:
            raise unknown("metric", name, [one["name"] for one in self.metrics])
        return found

    def _cells(self, model: str, explainer: str = "") -> Sequence[dict[str, Any]]:
        if model not in self.models:
            raise unknown("model", model, self.models)
        return [cell for cell in self.manifest["cells"] if (cell["model"], cell["explainer"]) == (model, explainer)]

    def _block(self, sample: int) -> dict[str, Any]:
        if isinstance(sample, bool) or not isinstance(sample, (int, np.integer)) or not 0 <= sample < self.samples:
            raise InputError(f"A sample is known by its number from 0 to {self.samples - 1}, not {short_repr(sample)}.")
        return next(block for block in self.manifest["pictures"] if block["start"] <= sample < block["stop"])

    def _column(self, model: str, name: str, explainer: str = "") -> Values:
        """A column of all blocks, (N, K); NaN where an explainer failed. Columns of one file are read together, if they are small."""
        if (model, name) not in self._known:
            length, names = len(self.elements), [name] if explainer else self._beside(name)
            parts: list[dict[str, Values]] = []
            for cell in self._cells(model, explainer):
                if explainer and not self.folder.records.has(files.METRICS, cell["key"]):
                    parts.append({name: np.full((cell["stop"] - cell["start"], length), np.nan, dtype=np.float32)})
                else:
                    files.check_measured(self.folder, cell["key"], self.manifest["cells"])
                    parts.append(files.read_metrics(self.folder, cell["key"], names, length, cell["stop"] - cell["start"]))
            for one in names:
                values = np.concatenate([part[one] for part in parts])
                values.flags.writeable = False
                self._known[model, one] = values
        return self._known[model, name]

    def _beside(self, name: str) -> list[str]:
        """The columns that are read together with this one."""
        own = [column(one["name"], reference) for one in self.metrics if one["explainer"] is None for reference in one["references"]]
        whole = [*own, DISTANCE, *([WHOLE] if TRUTH in self.references else [])]
        return whole if self.samples * len(self.elements) * len(whole) <= TOGETHER else [name]

    def _places(self) -> pd.DataFrame:
        return pd.DataFrame(self.coordinates, columns=[axis["name"] for axis in self.axes])


def numbers(values: Sequence[int] | None) -> NDArray[np.int64] | None:
    """Whole numbers of a manifest as an array."""
    return None if values is None else np.array(values, dtype=np.int64)


def as_text(table: pd.DataFrame) -> str:
    """A table with three digits; a missing value is empty."""
    return str(table.to_string(index=False, float_format=lambda value: f"{value:.3f}", na_rep=""))
