"""A run as the page reads it: each part once, without what is pending."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pandas as pd

from veracity.core.scores import Array, Score
from veracity.report.figures.gallery import group_names
from veracity.report.figures.ranking import RankingData, ranking_data
from veracity.report.rows import RANDOM, Pairs, ahead, explanation_scores, frames_of, no_differences, pairs_of
from veracity.report.wording import families, missing, relatives, specs_of
from veracity.results import Result, Row, Series, WorstPair
from veracity.results.words import Assumed, assumptions

Subject = tuple[str, str]
"""Model and explainer."""


@dataclass(frozen=True, kw_only=True)
class RunReading:
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
        """The manifest of the run."""
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
    def several(self) -> bool:
        """Whether there is more than one model."""
        return len(self.models) > 1

    @property
    def steps(self) -> dict[str, float]:
        """Models that are stages of one training, and the step of each."""
        return steps_of(self.spec.get("steps"), self.models)

    @property
    def families(self) -> dict[str, dict[int | None, str]]:
        """Explainers that differ only in how many transforms they average over; see `wording.families`."""
        return families(specs_of(self.spec.get("explainers")))

    @property
    def concepts(self) -> dict[Subject, list[str]]:
        """The concepts of an explanation, by (model, explainer): those whose classifier can be trusted, in their order."""
        found: dict[Subject, list[str]] = {}
        for fact in self.run.facts().to_dict("records"):
            if not missing(fact.get("concept")) and (missing(fact.get("trusted")) or fact["trusted"]):
                found.setdefault((str(fact.get("model")), str(fact.get("explainer"))), []).append(str(fact["concept"]))
        kin = relatives(specs_of(self.spec.get("explainers")))
        told = [(model, label, other) for model, label in found for family in kin if label in family for other in family]
        return {**{(model, other): found[model, label] for model, label, other in told}, **found}

    @cached_property
    def assumed(self) -> tuple[Assumed, ...]:
        """What the scores of explanations assume of each model, and on how many samples it holds."""
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
        """The scores that name a figure, in the run's order."""
        return tuple(label for label in dict.fromkeys(row.score for row in self.rows) if figure in self.score(label).figures)

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
        """The controls with random explanations."""
        return [row.explainer for row in self.ranking(label).controls if row.explainer.startswith(RANDOM)]

    def differences(self, label: str) -> pd.DataFrame:
        """The paired differences between explainers by a score; none for a score in the map's own units."""
        return self.paired[label] if label in self.paired else no_differences()

    def series(self, label: str) -> list[Series]:
        """The measurements of a score."""
        return [one for one in self.run.series if one.score == label and not one.pending]

    def samples(self, label: str) -> pd.DataFrame:
        """One row per model, explainer and sample."""
        return self.run.settled(label)

    def worst(self, label: str, count: int) -> list[WorstPair]:
        """The worst pairs of each model and explainer."""
        return [pair for pair in self.run.worst(label, count) if (pair.model, pair.explainer, label) not in self.pending]

    def draws(self, label: str) -> dict[Subject, Array]:
        """The values of all draws by (model, explainer)."""
        return {subject: values for subject, values in self.run.draws(label).items() if (*subject, label) not in self.pending}

    def sets(self, label: str) -> dict[Subject, tuple[Array, Array]]:
        """The distances in S= and in S!= by (model, explainer)."""
        return {subject: both for subject, both in self.run.sets(label).items() if (*subject, label) not in self.pending}

    def groups(self, label: str) -> frozenset[str]:
        """The names of the groups that act on the inputs in a score."""
        return group_names((self.about(label).get("spec") or {}).get("space") or self.spec.get("symmetry"))

    def measure(self, label: str) -> str:
        """The measure of a score, in words; "" if it does not say."""
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


def read(run: Result) -> RunReading:
    """A run's rows and models, and who leads by paired differences."""
    rows = [comparable(row, run.known_score(row.score)) for row in run.rows]
    models = list(dict.fromkeys([*(run.manifest.get("models") or {}), *(row.model for row in rows if row.model)]))
    paired = {label: run.differences(label) for label in explanation_scores(rows) if not run.in_map_units(label)}
    pairs = {(label, model): pairs_of(table, model) for label, table in paired.items() for model in models}
    stands = tuple(standing(row, rows, pairs.get((row.score, row.model), {})) for row in rows)
    return RunReading(run=run, rows=stands, models=tuple(models), paired=paired)


def comparable(row: Row, score: Score) -> Row:
    """A row with only those numbers beside it that are on the same scale: the random control, self-agreement, both or none."""
    shown = score.beside if row.explainer and not row.in_map_units else ()
    return replace(
        row,
        self_agreement=row.self_agreement if "self_agreement" in shown else math.nan,
        random_control=row.random_control if "random_control" in shown else math.nan,
    )


def standing(row: Row, rows: Sequence[Row], pairs: Pairs) -> Row:
    """A row that knows whether simultaneous paired differences put it ahead of every other explainer of its kind.

    While one of the others is pending, that is not known.
    """
    if not pairs or not row.defined or row.control:
        return row
    same = [one for one in rows if (one.score, one.model, one.frame) == (row.score, row.model, row.frame) and not one.control]
    if any(one.pending for one in same):
        return row
    alike = [one for one in same if one.defined]
    return replace(row, leads=ahead(row, alike, pairs))
