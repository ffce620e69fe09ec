"""A run as it is read once for the whole page, without what is pending."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from veracity.core.scores import Score
from veracity.report.figures.exhibit import group_names
from veracity.report.figures.ranking import RankingData, ranking_data
from veracity.report.order import RANDOM, Pairs, ahead, behind, no_differences, pairs_of
from veracity.report.rows import explanation_scores, frames_of, model_names
from veracity.report.wording import missing, relatives, specs_of
from veracity.results import Result, Row, Series, WorstPair
from veracity.results.words import Assumed, assumptions

Array = NDArray[np.float64]
Subject = tuple[str, str]
"""Model and explainer."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A run, its rows, the names of its models, and the paired differences by its scores.

    Series, samples, draws, sets and worst pairs are those of rows that are not pending, so that no figure and no sentence rests on
    what is not measured yet.
    """

    run: Result
    rows: tuple[Row, ...]
    models: tuple[str, ...]
    paired: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    @property
    def manifest(self) -> Mapping[str, Any]:
        """What was run."""
        return self.run.manifest

    @property
    def spec(self) -> Mapping[str, Any]:
        """The audit as plain data."""
        found: Mapping[str, Any] = self.manifest.get("spec") or {}
        return found

    @property
    def confidence(self) -> float:
        """The confidence of the intervals."""
        return float(self.spec.get("confidence", 0.95))

    @property
    def level(self) -> str:
        """The confidence in words."""
        return f"{100 * self.confidence:g} %"

    @property
    def steps(self) -> dict[str, float]:
        """Models that are stages of one training, and the step of each."""
        return steps_of(self.spec.get("steps"), self.models)

    @property
    def concepts(self) -> dict[Subject, list[str]]:
        """The concepts that an explanation speaks of, by (model, explainer): those whose classifier can be trusted, in their order."""
        found: dict[Subject, list[str]] = {}
        for fact in self.run.facts().to_dict("records"):
            if not missing(fact.get("concept")) and (missing(fact.get("trusted")) or fact["trusted"]):
                found.setdefault((str(fact.get("model")), str(fact.get("explainer"))), []).append(str(fact["concept"]))
        kin = relatives(specs_of(self.spec.get("explainers")))
        told = [(model, label, other) for model, label in found for family in kin if label in family for other in family]
        return {**{(model, other): found[model, label] for model, label, other in told}, **found}

    @cached_property
    def assumed(self) -> tuple[Assumed, ...]:
        """What the scores of explanations take for granted of each model, and on how many samples it holds."""
        return assumptions(self.run, explanation_scores(self.rows), self.models)

    @cached_property
    def pending(self) -> frozenset[tuple[str, str, str]]:
        """The pending rows: model, explainer, score."""
        return frozenset((one.model, one.explainer, one.score) for one in self.run.series if one.pending)

    def score(self, label: str) -> Score:
        """The score behind a label."""
        return self.run.known_score(label)

    def about(self, label: str) -> Mapping[str, Any]:
        """What the manifest says about a score."""
        found: Mapping[str, Any] = (self.manifest.get("score_specs") or {}).get(label) or {}
        return found

    def naming(self, figure: str) -> tuple[str, ...]:
        """The scores that are told by a figure, in the run's order."""
        labels = dict.fromkeys(row.score for row in self.rows)
        return tuple(label for label in labels if figure in self.score(label).figures)

    def of(self, label: str) -> list[Row]:
        """The rows of a score of explanations."""
        return [row for row in self.rows if row.score == label and row.explainer]

    def ranking(self, label: str) -> RankingData:
        """The explainers by a score, best first."""
        return ranking_data(self.rows, label, self.models, self.level)

    def explained(self, label: str) -> dict[str, str]:
        """Every explainer that is no control with its frame, in the ranking's order."""
        return {row.explainer: group.frame for group in self.ranking(label).frames for row in group.explainers}

    def random_controls(self, label: str) -> list[str]:
        """The controls that draw their explanations at random."""
        return [row.explainer for row in self.ranking(label).controls if row.explainer.startswith(RANDOM)]

    def differences(self, label: str) -> pd.DataFrame:
        """The paired differences between explainers by a score; none of one in the map's own units."""
        return self.paired[label] if label in self.paired else no_differences()

    def series(self, label: str) -> list[Series]:
        """What a score observed."""
        return [one for one in self.run.series if one.score == label and not one.pending]

    def samples(self, label: str) -> pd.DataFrame:
        """One row per model, explainer and sample."""
        return self.run.settled(label)

    def worst(self, label: str, count: int) -> list[WorstPair]:
        """The worst pairs of each model and explainer."""
        return [pair for pair in self.run.worst(label, count) if (pair.model, pair.explainer, label) not in self.pending]

    def draws(self, label: str) -> dict[Subject, Array]:
        """Every draw's value by (model, explainer)."""
        return {subject: values for subject, values in self.run.draws(label).items() if (*subject, label) not in self.pending}

    def sets(self, label: str) -> dict[Subject, tuple[Array, Array]]:
        """The distances in S= and in S!= by (model, explainer)."""
        return {subject: both for subject, both in self.run.sets(label).items() if (*subject, label) not in self.pending}

    def groups(self, label: str) -> frozenset[str]:
        """The names of the groups that act on the inputs in a score."""
        own = (self.about(label).get("spec") or {}).get("space")
        return group_names(own or self.spec.get("symmetry"))

    def measure(self, label: str) -> str:
        """What a score compares by, in words; "" if it does not say."""
        found = (self.about(label).get("spec") or {}).get("measure")
        if isinstance(found, Mapping):
            return str(found.get("name") or found.get("import") or "")
        if found is None and "spec" in self.about(label) and "self_agreement" in self.score(label).beside:
            return "cosine, and for concept bits the share that agrees" if "concepts" in frames_of(self.of(label)) else "cosine"
        return str(found or "")


def steps_of(given: Any, models: Sequence[str]) -> dict[str, float]:
    """Which models are stages of one training, and at which step; in ascending order.

    >>> steps_of({"late": 20, "early": 0}, ["late", "early", "other"])
    {'early': 0.0, 'late': 20.0}
    """
    found = given if isinstance(given, Mapping) else {}
    known = {model: float(found[model]) for model in models if isinstance(found.get(model), (int, float))}
    return dict(sorted(known.items(), key=lambda item: item[1])) if len(set(known.values())) > 1 else {}


def read(run: Result) -> Reading:
    """A run's rows and models, and who leads and trails by paired differences."""
    rows = [comparable(row, run.known_score(row.score)) for row in run.rows]
    ranked = [label for label in explanation_scores(rows) if not run.in_map_units(label)]
    paired = {label: run.differences(label) for label in ranked}
    first = Reading(run=run, rows=tuple(rows), models=tuple(model_names(rows, run.manifest)), paired=paired)
    pairs = {(label, model): pairs_of(paired[label], model) for label in ranked for model in first.models}
    return replace(first, rows=tuple(standing(row, rows, pairs.get((row.score, row.model), {})) for row in rows))


def comparable(row: Row, score: Score) -> Row:
    """A row with what stands beside it on the same scale: the random control, self-agreement, both or none."""
    shown = score.beside if row.explainer and not row.in_map_units else ()
    return replace(
        row,
        self_agreement=row.self_agreement if "self_agreement" in shown else math.nan,
        random_control=row.random_control if "random_control" in shown else math.nan,
    )


def standing(row: Row, rows: Sequence[Row], pairs: Pairs) -> Row:
    """A row with whether simultaneous paired differences put it ahead of every other explainer of its kind on its model, or behind.

    While one of the others is pending, that is not known.
    """
    if not pairs or not row.defined or row.control:
        return row
    same = [one for one in rows if (one.score, one.model, one.frame) == (row.score, row.model, row.frame)]
    if any(one.pending and not one.control for one in same):
        return row
    alike = [one for one in same if one.defined and not one.control]
    return replace(row, leads=ahead(row, alike, pairs), trails=behind(row, alike, pairs))
