"""Stability in words: which sets were compared, what is no signal, whose order the differences allow; and the folds of the models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from veracity.core.wording import count, number
from veracity.report.figure import Plot, shared_figure
from veracity.report.figures.folds import COMPARABLE, fold_sentence, folds_data, folds_plot
from veracity.report.figures.histograms import DIFFER, SAME
from veracity.report.order import chance_sentences, named, order_sentences, pairs_of, place
from veracity.report.reading import Reading
from veracity.report.rows import ALPHA
from veracity.report.wording import listing, name, piece, say, sentences, word_of
from veracity.results import Row
from veracity.results.rows import digits_of

FLOOR = 0.5
"""Below this MeGe cannot fall where distances are at most 1."""
FEW = 30
"""Fewer distances than this in S!= are few."""


def stability_sentences(rows: Sequence[Row], score: Any, label: str, models: Sequence[str], differences: pd.DataFrame) -> list[Markup]:
    """What one score of stability says on each model: whether there is a signal, then an order as far as the differences go.

    The columns of `differences` are model, first, second, differs.
    """
    mine = [row for row in rows if row.score == label and row.explainer]
    held = [model for model in models if any(row.model == model for row in mine)]
    said: list[Markup] = []
    for model in held:
        here = [row for row in mine if row.model == model]
        where = piece(" on {}", name(model)) if len(held) > 1 else Markup("")
        far = place(here, model, several=len(held) > 1)
        said += empty_sentences(here, score, label, far)
        said += few_sentences([row for row in here if not row.control], score, label, far)
        said += signal_sentences([row for row in here if not row.control], label, far)
        said += order_sentences(here, label, far, pairs_of(differences, model))
        said += blind_sentences(here, score, where)
    chosen = [row for row in mine if row.defined and not row.control]
    if chosen and not any(math.isfinite(row.p_value) for row in chosen):
        said += chance_sentences(chosen, held, digits_of(chosen))
    return [*said, *published_sentences(chosen, score, held)]


def empty_sentences(rows: Sequence[Row], score: Any, label: str, where: Markup) -> list[Markup]:
    """Why there is no number where a set is empty; a line for all explainers alike."""
    lost = [row for row in rows if row.settled and not row.defined and not row.control]
    if not lost:
        return []
    word, alike = word_of(label), max(row.pairs_same or 0 for row in lost)
    if all(row.pairs_same == 0 for row in lost):
        return sentences(say("stable.same_empty", SAME, where, word, kept(score), lost=len(lost)))
    if not alone(score) and all(row.pairs_differ == 0 for row in lost):
        why = (
            "no two models ever predict differently"
            if score.pairs == "same_prediction"
            else "in no pair of models is exactly one right, as when all predictions are right"
        )
        return sentences(say("stable.differ_empty", DIFFER, where, word, why, lost=len(lost), alike=alike))
    return sentences(say("stable.equal", word, where, named(lost), lost=len(lost), alike=alike))


def alone(score: Any) -> bool:
    """Whether a score is made of S= alone."""
    return bool(score.sets_compared == 1)


def kept(score: Any) -> str:
    """What a pair in S= does."""
    return "predicts the same class" if score.pairs == "same_prediction" else "is right about a sample"


def few_sentences(rows: Sequence[Row], score: Any, label: str, where: Markup) -> list[Markup]:
    """That there are few distances in S!=, where they decide."""
    most = max((row.pairs_differ or 0 for row in rows if row.defined), default=0)
    if alone(score) or not 0 < most < FEW:
        return []
    found = sum(row.defined for row in rows)
    return sentences(say("stable.few", DIFFER, count(most, "pair"), where, word_of(label), explainers=found, differ=most))


def signal_sentences(rows: Sequence[Row], label: str, where: Markup) -> list[Markup]:
    """Who cannot be told from no signal: whose score labels that are permuted by sample reach as often as chance allows."""
    tested = [row for row in rows if row.defined and math.isfinite(row.p_adjusted)]
    if not tested:
        return []
    lost = [row for row in tested if row.p_adjusted > ALPHA]
    how = f", after Holm's correction for {count(len(tested), 'explainer')}" if len(tested) > 1 else ""
    if not lost:
        most = number(max(row.p_adjusted for row in tested))
        every = "Every explainer's" if len(tested) > 1 else "The"
        return sentences(say("stable.signal", every, word_of(label), where, most, how, tested=len(tested)))
    least = number(min(row.p_adjusted for row in lost))
    who = "every explainer" if len(lost) == len(tested) > 1 else named(lost)
    verb = "are" if 1 < len(lost) < len(tested) else "is"
    return sentences(say("stable.no_signal", word_of(label), where, who, verb, least, how, tested=len(tested)))


def blind_sentences(rows: Sequence[Row], score: Any, where: Markup) -> list[Markup]:
    """Which controls are perfectly stable because they never look at a model."""
    sure = [row for row in rows if row.control and row.defined and row.value >= 1.0 - 1e-9] if alone(score) else []
    if not sure:
        return []
    what = "scores 1 by construction, since it never looks" if len(sure) == 1 else "score 1 by construction, since they never look"
    return sentences(say("stable.blind", named(sure), what, where, controls=len(sure)))


def published_sentences(rows: Sequence[Row], score: Any, models: Sequence[str]) -> list[Markup]:
    """How the order here agrees with the published one, where three explainers or more have both numbers."""
    said: list[Markup] = []
    for model in models:
        both = [(row.value, row.published) for row in rows if row.model == model and math.isfinite(row.published)]
        if len(both) < 3 or min(len(set(column)) for column in zip(*both, strict=True)) < 2:
            continue
        from scipy import stats

        rho = float(stats.spearmanr(*zip(*both, strict=True)).statistic)
        where = piece(" on {}", name(model)) if len(models) > 1 else ""
        said += sentences(say("stable.published", len(both), where, number(rho, 2), published=len(both)))
    low = [row for row in rows if row.published < FLOOR]
    if alone(score) and score.compare.range[1] <= 1.0:
        said += sentences(say("stable.floor", "MeGe", FLOOR, published=len(low)))
    return said


def undefined_pairs(rows: Sequence[Row]) -> list[Markup]:
    """Explainers some of whose pairs have no distance."""
    lost = [piece("{} ({:,})", name(row.explainer), row.undefined_draws) for row in rows if row.undefined_draws and row.settled]
    return sentences(say("stable.undefined", listing(lost), undefined=len(lost)))


CAVEAT = (
    "Stability is necessary, not sufficient. An explanation that never looks at a model, such as an edge filter, is the same for every "
    "model, and one that is multiplied by the input gains from what all models share. So read MeGe beside fidelity, and ReCo beside "
    "what it scores when labels are permuted."
)


@dataclass(frozen=True, kw_only=True)
class CrossTraining:
    """What is said and drawn of cross-trained models; `caveat` is "" where no stability was measured."""

    caveat: str
    settings: tuple[str, ...]
    counts: tuple[int, ...]
    warnings: tuple[Markup, ...]
    folds: Plot | None
    selection: Plot | None
    histograms: tuple[Plot, ...]

    @property
    def facts(self) -> list[tuple[str, str]]:
        """In how many folds the data were cut, in a word."""
        return [("Folds", " or ".join(map(str, self.counts)))] if self.counts else []

    @property
    def any(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.caveat or self.folds)


def crosstraining(reading: Reading) -> CrossTraining:
    """Everything that the run holds about folds and stability."""
    labels = reading.naming("histograms")
    data = folds_data(reading.run.folds(), reading.models)
    apart = [item for item in data.models if item.spread > COMPARABLE and not item.comparable]
    return CrossTraining(
        caveat=CAVEAT if labels else "",
        settings=tuple(dict.fromkeys(reading.score(label).setting() for label in labels)),
        counts=tuple(sorted({len(item.folds) for item in data.models})),
        warnings=tuple(piece("{}", fold_sentence(item)) for item in apart),
        folds=folds_plot(data),
        selection=shared_figure(reading, "selection") if labels else None,
        histograms=shared_figure(reading, "histograms") or (),
    )
