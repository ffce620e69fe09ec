"""The accuracies of models that were trained without one fold each, on that fold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup

from veracity.core.sentences import tell
from veracity.core.wording import count, interval, number
from veracity.report.figure import DOT, Plot, line_sign, sign, signs
from veracity.report.figures import chart
from veracity.report.wording import as_number, piece

COMPARABLE = 0.03
"""How far accuracies may lie apart and still count as comparable (section 3.3)."""


@dataclass(frozen=True, kw_only=True)
class Fold:
    """One fold: how right the model is that never saw it, NaN where the labels are unknown."""

    fold: int
    samples: int
    accuracy: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class ModelFolds:
    """One model's folds."""

    model: str
    place: int
    folds: tuple[Fold, ...]

    @property
    def accuracies(self) -> list[float]:
        """Those that are known."""
        return [fold.accuracy for fold in self.folds if math.isfinite(fold.accuracy)]

    @property
    def spread(self) -> float:
        """How far the best and the worst fold are apart; NaN if less than two are known."""
        known = self.accuracies
        return max(known) - min(known) if len(known) > 1 else math.nan

    @property
    def comparable(self) -> bool:
        """Whether the folds' accuracies are within 3 points."""
        return self.spread <= COMPARABLE + 1e-9


@dataclass(frozen=True, kw_only=True)
class FoldsData:
    """Every cross-trained model."""

    models: tuple[ModelFolds, ...]
    scale: chart.Scale

    @property
    def known(self) -> bool:
        """Whether any accuracy is known."""
        return any(item.accuracies for item in self.models)


def folds_data(folds: pd.DataFrame, models: Sequence[str]) -> FoldsData:
    """From one row per fold: model, fold, samples, accuracy, seconds."""
    held: dict[str, list[Fold]] = {model: [] for model in models}
    for record in folds.to_dict("records"):
        if record["model"] in held:
            numbers = {name: as_number(record.get(name)) for name in ("accuracy", "seconds")}
            held[record["model"]].append(Fold(fold=int(record["fold"]), samples=int(record["samples"]), **numbers))
    found = tuple(ModelFolds(model=model, place=models.index(model), folds=tuple(mine)) for model, mine in held.items() if mine)
    return FoldsData(models=found, scale=chart.tight_scale([value for item in found for value in item.accuracies], least=0.05))


def draw_folds(data: FoldsData) -> Markup:
    """One row per model: a dot per fold over a line from the worst to the best; equally good folds lie on one another."""
    rows = []
    for item in data.models:
        if known := [fold for fold in item.folds if math.isfinite(fold.accuracy)]:
            low, high = min(item.accuracies), max(item.accuracies)
            dots = [
                Markup("<g><title>{}</title>{}</g>").format(
                    f"fold {fold.fold}: {number(fold.accuracy)} of {count(fold.samples, 'sample')}",
                    chart.mark(data.scale.percent(fold.accuracy), 0.0, chart.shape_of(item.place), "dot"),
                )
                for fold in known
            ]
            told = f"{item.model}: {', '.join(number(fold.accuracy) for fold in known)}"
            line = chart.span(low, high, 0.0, data.scale, "population")
            key, folds = chart.key(item.place) if len(data.models) > 1 else "", count(len(item.folds), "fold")
            rows.append(
                chart.ChartRow(
                    name=Markup("{}<span>{}</span> <small>{}</small>").format(key, item.model, folds),
                    lanes=[chart.lane(item.place, told, line + Markup("").join(dots))],
                    readouts=[(number(chart.mean_of(item.accuracies)), interval(low, high))],
                )
            )
    return chart.draw_chart([("", rows)], data.scale, lanes=1, main="mean", more="worst to best", label="Accuracy of every fold")


def folds_plot(data: FoldsData) -> Plot | None:
    """How right each fold's model is about the fold that it never saw."""
    if not data.models:
        return None
    seconds = sum(fold.seconds for item in data.models for fold in item.folds if math.isfinite(fold.seconds))
    spent = f" All trainings took {count(round(seconds), 'second')}." if seconds >= 1 else ""
    return Plot(
        title="Accuracy of every fold",
        sentences=tuple(piece("{}", fold_sentence(item)) for item in data.models),
        note=f"Each dot is a model, held against the fold that it never saw.{spent}",
        keys=signs(sign(DOT, "one fold"), line_sign("population", "worst to best")),
        drawing=draw_folds(data) if data.known else Markup(""),
    )


def fold_sentence(item: ModelFolds) -> str:
    """Whether the folds of one model are comparably accurate, as stability takes for granted (section 3.3).

    The noise of the accuracy p on the smallest fold of n samples is 1.96 sqrt(p (1 - p) / n), 19 times in 20.
    """
    folds, known = count(len(item.folds), "fold"), item.accuracies
    if not math.isfinite(item.spread):
        return tell("folds.unknown", item.model, folds, folds=len(item.folds))
    ends = f"{number(min(known))} to {number(max(known))}"
    apart = f"{100 * item.spread:.1f} points apart"
    if item.comparable:
        return tell("folds.comparable", item.model, folds, ends, apart, accuracies=len(known))
    mean, fewest = chart.mean_of(known), min(fold.samples for fold in item.folds)
    noise = f"{100 * (1.96 * math.sqrt(mean * (1.0 - mean) / max(fewest, 1))):.1f}"
    return tell("folds.apart", item.model, folds, ends, apart, f"{100 * COMPARABLE:g}", fewest, noise, accuracies=len(known))
