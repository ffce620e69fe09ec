"""A run without its pending rows, so that no figure and no sentence rests on what is not measured yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from veracity.engine.store.state import Progress
from veracity.report.view import RunView, SeriesView, WorstPair

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Settled:
    """A run of which samples, draws, pairs and differences are those of rows that are not pending; its table has all rows."""

    run: RunView

    @cached_property
    def pending(self) -> frozenset[tuple[str, str, str]]:
        """The pending rows: model, explainer, score."""
        return frozenset((one.model, one.explainer, one.score) for one in self.run.series if one.pending)

    @property
    def path(self) -> str:
        """The run's folder."""
        return self.run.path

    @property
    def manifest(self) -> Mapping[str, Any]:
        """What was run."""
        return self.run.manifest

    @property
    def progress(self) -> Progress:
        """How far the run has come."""
        return self.run.progress

    @property
    def series(self) -> Sequence[SeriesView]:
        """What every score observed."""
        return [one for one in self.run.series if not one.pending]

    def table(self) -> pd.DataFrame:
        """Every row, pending ones too."""
        return self.run.table()

    def samples(self, score: str) -> pd.DataFrame:
        """One row per model, explainer and sample."""
        found = self.run.samples(score)
        kept = [(*subject, score) not in self.pending for subject in zip(found["model"], found["explainer"], strict=True)]
        return found[np.array(kept, dtype=np.bool_)]

    def differences(self, score: str) -> pd.DataFrame:
        """Paired differences."""
        found = self.run.differences(score)
        pairs = found[["model", "first", "second"]].to_numpy().tolist()
        kept = [all((model, one, score) not in self.pending for one in (first, second)) for model, first, second in pairs]
        return found[np.array(kept, dtype=np.bool_)]

    def failures(self) -> pd.DataFrame:
        """Rows with cells that failed."""
        return self.run.failures()

    def worst(self, score: str, count: int) -> Sequence[WorstPair]:
        """The worst pairs of each model and explainer."""
        return [pair for pair in self.run.worst(score, count) if (pair.model, pair.explainer, score) not in self.pending]

    def facts(self) -> pd.DataFrame:
        """What explainers learnt about models."""
        return self.run.facts()

    def draws(self, score: str) -> Mapping[tuple[str, str], Array]:
        """Every draw's value by (model, explainer)."""
        return {subject: values for subject, values in self.run.draws(score).items() if (*subject, score) not in self.pending}

    def sets(self, score: str) -> Mapping[tuple[str, str], tuple[Array, Array]]:
        """The distances in S= and in S!= by (model, explainer)."""
        return {subject: both for subject, both in self.run.sets(score).items() if (*subject, score) not in self.pending}

    def folds(self) -> pd.DataFrame:
        """One row per fold of each cross-trained model."""
        return self.run.folds()

    def advice(self) -> Sequence[Mapping[str, Any]]:
        """What to do about each explainer."""
        return self.run.advice()
