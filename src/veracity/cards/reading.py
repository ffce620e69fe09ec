"""What the runs of a card say about one explainer, as arrays over the same samples."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veracity.cards.decide import Standing
from veracity.inputs.units import UNIT, Groups
from veracity.results import Result, Series
from veracity.results.series import mean, null_of
from veracity.statistics.intervals import Array

EDGES = "edge_filter"
BOUNDED = ("logits", "probabilities", "multilabel")
"""Outputs that are read as probabilities, which lie between 0 and 1."""


@dataclass(frozen=True)
class Reading:
    """The results of a card by part, for `samples` samples of one model; `missing` says why a part or a score was not run.

    `classes` is how many outputs the model has, and `symmetries` what each part of question 3 asks for: (words, elements). A reading of a
    subgroup has the numbers of its samples as `rows`, ascending. Of parts that are not `whole`, only the first `samples` are read: a race
    that goes on has measured more than an earlier look may see.
    """

    results: Mapping[str, Result]
    model: str
    samples: int
    classes: int = 0
    missing: Mapping[str, Standing] = field(default_factory=dict)
    symmetries: Mapping[str, tuple[str, float | None]] = field(default_factory=dict)
    whole: Collection[str] = ()
    rows: NDArray[np.int64] | None = None

    def among(self, rows: NDArray[np.int64]) -> Reading:
        """The same for some of the samples."""
        return replace(self, samples=len(rows), rows=rows)

    @cached_property
    def units(self) -> NDArray[np.int64] | None:
        """The unit of each sample, such as its patient; None if each sample stands alone."""
        found = next((result.units for result in self.results.values()), None)
        return None if found is None else found[: self.samples] if self.rows is None else found[self.rows]

    @cached_property
    def unit(self) -> str:
        """What a unit is called, such as "patient"."""
        found = next((result.manifest["data"].get("units") for result in self.results.values()), None)
        return str(found["name"]) if found else UNIT

    @cached_property
    def groups(self) -> list[Groups]:
        """The subgroups of the samples, by name."""
        found = next((result.manifest["data"].get("groups") for result in self.results.values()), None) or ()
        return [Groups(one["name"], tuple(one["labels"]), np.array(one["of"], dtype=np.int64)[: self.samples]) for one in found]

    @cached_property
    def known(self) -> dict[tuple[str, str, str], Series]:
        """Every series of the model by part, explainer and score, without the samples that failed."""
        return {
            (part, one.explainer, one.score): self.own(part, one.sound())
            for part, result in self.results.items()
            for one in result.series
            if one.model == self.model
        }

    def own(self, part: str, one: Series) -> Series:
        """A series of a part on the samples of this reading."""
        if self.rows is not None:
            return one.among(self.rows)
        return one if part in self.whole else first_samples(one, self.samples)

    @cached_property
    def controls(self) -> list[str]:
        """The labels of the controls; an edge filter is none for rows of a table, whose columns have no neighbours."""
        found = dict.fromkeys(label for (_, label, _), one in self.known.items() if one.control)
        return [label for label in found if label != EDGES or self.positions]

    @cached_property
    def positions(self) -> bool:
        """Whether the values of a sample have places beside each other, unlike the columns of a table."""
        return all(len(result.manifest["data"]["shape"]) > 1 for result in self.results.values())

    def series(self, part: str, explainer: str, score: str) -> Series | None:
        """One score of one subject, None if it was not measured."""
        found = self.known.get((part, explainer, score))
        return found if found is not None and len(found.samples) and np.isfinite(found.per_sample).any() else None

    def failure(self, part: str, explainer: str, score: str) -> str:
        """Why a score could not be measured, in the words of its error; "" if it did not fail."""
        found = self.known.get((part, explainer, score))
        return "" if found is None else found.failed.removeprefix(f"On model '{self.model}': ")

    def crossed(self, one: Series) -> bool:
        """Whether all samples share the draws of a score."""
        return not one.sampling.nested and not one.sampling.exhaustive

    def table(self, part: str, one: Series) -> Array:
        """The values (samples, draws) of shared draws, else the value of each sample (samples, 1); NaN where there is none."""
        plain = self.results[part].manifest["score_specs"][one.score]["reduce"] == "mean"
        values = one.values if self.crossed(one) and plain else one.per_sample[:, None]
        found = np.full((self.samples, values.shape[1]), np.nan)
        place, inside = self.places(one)
        found[place] = values[inside]
        return found

    def places(self, one: Series) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The places of the samples of a series among those of the reading, and which of its samples are there."""
        if self.rows is None:
            inside = one.samples < self.samples
            return one.samples[inside], inside
        inside = np.isin(one.samples, self.rows)
        return np.searchsorted(self.rows, one.samples[inside]), inside

    def control(self, part: str, explainer: str, score: str, edges: bool) -> Series | None:
        """The random control that is fair to an explainer; with `edges`, the edge filter if it scores better."""
        mine = self.known.get((part, explainer, score))
        if mine is None:
            return None
        labels = [null_of(mine), *([EDGES] if edges and self.positions else [])]
        found = [one for label in labels if label != explainer and (one := self.series(part, label, score)) is not None]
        sign = 1.0 if mine.direction.value == "higher" else -1.0
        return max(found, key=lambda one: sign * mean(one.per_sample), default=None)

    def assumed(self, part: str, score: str) -> float:
        """The share of samples on which the model does what a score assumes; NaN if it assumes nothing."""
        what = self.results[part].manifest.get("assumptions", {}).get(score)
        one = None if what is None else self.series(part, "", what)
        return float("nan") if one is None else mean(one.per_sample)

    @property
    def about(self) -> Mapping[str, Any]:
        """What the manifest says of the model."""
        found: Mapping[str, Any] = next(iter(self.results.values())).manifest["models"][self.model]
        return found


def first_samples(one: Series, samples: int) -> Series:
    """The series on the first samples alone."""
    read = one.read
    return replace(one, read=lambda: (found := read()).without(found.samples[found.samples >= samples].tolist()))
