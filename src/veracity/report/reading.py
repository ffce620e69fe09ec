"""A run as it is read once for the whole page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pandas as pd

from veracity.report.assumed import Assumed, assumed
from veracity.report.families import relatives, specs_of
from veracity.report.figures.exhibit import group_names
from veracity.report.figures.training import steps_of
from veracity.report.kinds import in_map_units, score_of
from veracity.report.order import Pairs, ahead, behind, no_differences, pairs_of
from veracity.report.sampling import about
from veracity.report.settled import Settled
from veracity.report.view import Result, RunView, explanation_scores, frames_of, missing, model_names, results
from veracity.scores import Likeness


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A run, its table as records, the names of its models, and the paired differences by its scores."""

    run: RunView
    rows: tuple[Result, ...]
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
        return steps_of(self.manifest, self.models)

    @property
    def concepts(self) -> dict[tuple[str, str], list[str]]:
        """The concepts that an explanation speaks of, by (model, explainer): those whose classifier can be trusted, in their order."""
        found: dict[tuple[str, str], list[str]] = {}
        for fact in self.run.facts().to_dict("records"):
            if not missing(fact.get("concept")) and (missing(fact.get("trusted")) or fact["trusted"]):
                found.setdefault((str(fact.get("model")), str(fact.get("explainer"))), []).append(str(fact["concept"]))
        kin = relatives(specs_of(self.spec.get("explainers")))
        told = [(model, label, other) for model, label in found for family in kin if label in family for other in family]
        return {**{(model, other): found[model, label] for model, label, other in told}, **found}

    @cached_property
    def assumed(self) -> tuple[Assumed, ...]:
        """What the scores of explanations take for granted of each model, and on how many samples it holds."""
        return assumed(self.manifest, self.run.samples, explanation_scores(self.rows), self.models)

    def differences(self, score: str) -> pd.DataFrame:
        """The paired differences between explainers by a score; none of one in the map's own units."""
        return self.paired[score] if score in self.paired else no_differences()

    def name(self, score: str) -> str:
        """What the score behind a label is called in the registry; the label where nobody here knows it."""
        known = score_of(self.manifest, score)
        return score if known is None else known.name

    def of(self, score: str) -> list[Result]:
        """The rows of a score of explanations."""
        return [row for row in self.rows if row.score == score and row.explainer]

    def groups(self, score: str) -> frozenset[str]:
        """The names of the groups that act on the inputs in a score."""
        own = (about(self.manifest, score).get("spec") or {}).get("space")
        return group_names(own or self.spec.get("symmetry"))

    def measure(self, score: str) -> str:
        """What a score compares by, in words; "" if the manifest does not say."""
        found = (about(self.manifest, score).get("spec") or {}).get("measure")
        if isinstance(found, Mapping):
            return str(found.get("name") or found.get("import") or "")
        if found is None and "spec" in about(self.manifest, score) and isinstance(score_of(self.manifest, score), Likeness | None):
            return "cosine, and for concept bits the share that agrees" if "concepts" in frames_of(self.of(score)) else "cosine"
        return str(found or "")


def read(run: RunView) -> Reading:
    """A run's table and models, and who leads and trails by paired differences; of what is pending nothing else is read."""
    run = Settled(run)
    rows = results(run)
    ranked = [label for label in explanation_scores(rows) if not in_map_units(run.manifest, label)]
    paired = {label: run.differences(label) for label in ranked}
    first = Reading(run=run, rows=tuple(rows), models=tuple(model_names(rows, run.manifest)), paired=paired)
    pairs = {(label, model): pairs_of(paired[label], model) for label in ranked for model in first.models}
    return replace(first, rows=tuple(standing(row, rows, pairs.get((row.score, row.model), {})) for row in rows))


def standing(row: Result, rows: Sequence[Result], pairs: Pairs) -> Result:
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
