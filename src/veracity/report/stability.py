"""Stability in words: the sets that were compared, what no signal scores, and the folds of the models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from markupsafe import Markup

from veracity.core.wording import count, number
from veracity.report.answer import Answer, chance_sentences, names_or_count, order_sentences, pending_sentences, so_far
from veracity.report.figure import Plot, shared_figure
from veracity.report.figures.folds import COMPARABLE, fold_sentence, folds_data, folds_plot
from veracity.report.figures.histograms import DIFFER, SAME
from veracity.report.reading import RunReading
from veracity.report.rows import ALPHA, pairs_of
from veracity.report.wording import listing, name, piece, say, sentences, where, word_of
from veracity.results import Row
from veracity.results.rows import digits_of

FLOOR = 0.5
"""MeGe cannot fall below this if distances are at most 1."""
FEW = 30
"""Fewer distances than this in S!= are few."""
STAYS = "Whose explanations stay the same when the model is trained again on other samples?"
TELLS = "Whose explanations differ more where two such models contradict each other than where they agree?"
"""What a score of S= alone asks, and what one of both sets asks, in plain words."""
CAVEAT = (
    "Stability is necessary, not sufficient. An explanation that never looks at a model, such as an edge filter, is the same for every "
    "model, and one that is multiplied by the input gains from what all models share. So read MeGe beside fidelity, and ReCo beside "
    "what it scores when labels are permuted."
)


def stability_answer(reading: RunReading, label: str, found: Answer) -> Answer:
    """The answer of a score of stability: the given one with sentences of its own, and with explainers whose pairs are undefined."""
    rows, models = reading.of(label), reading.models
    told = stability_sentences(reading.rows, reading.score(label), label, models, reading.differences(label))
    left = pending_sentences([row for row in rows if not row.control], models)
    lost = {model: undefined_pairs([row for row in rows if row.model == model]) for model in models}
    cards = tuple(replace(item, remarks=(*item.remarks, *lost[item.model])) for item in found.models)
    asked = [piece("{}", STAYS if alone(reading.score(label)) else TELLS)] if told or left else []
    return replace(found, sentences=(*asked, *told, *left), models=cards)


def stability_sentences(rows: Sequence[Row], score: Any, label: str, models: Sequence[str], differences: pd.DataFrame) -> list[Markup]:
    """What one score of stability says on each model: whether there is a signal, then an order as far as the differences go.

    The columns of `differences` are model, first, second, low, high, differs.
    """
    mine = [row for row in rows if row.score == label and row.explainer]
    held = [model for model in models if any(row.model == model for row in mine)]
    said: list[Markup] = []
    for model in held:
        here = [row for row in mine if row.model == model]
        plain, place = [row for row in here if not row.control], so_far(here, model, several=len(held) > 1)
        said += empty_sentences(plain, score, label, place)
        most = max((row.pairs_differ or 0 for row in plain if row.defined), default=0)
        if not alone(score) and 0 < most < FEW:
            found = sum(row.defined for row in plain)
            said += sentences(say("stable.few", DIFFER, count(most, "pair"), place, word_of(label), explainers=found, differ=most))
        said += signal_sentences(plain, label, place)
        said += order_sentences(here, label, place, pairs_of(differences, model))
        sure = [row for row in here if row.control and row.defined and row.value >= 1.0 - 1e-9]
        if sure and alone(score):
            what = "scores 1 by construction, since it never looks" if len(sure) == 1 else "score 1 by construction, since they never look"
            said += sentences(say("stable.blind", names_or_count(sure), what, where(model, held), controls=len(sure)))
    chosen = [row for row in mine if row.defined and not row.control]
    if chosen and not any(math.isfinite(row.p_value) for row in chosen):
        said += chance_sentences(chosen, held, digits_of(chosen))
    return [*said, *published_sentences(chosen, score, held)]


def alone(score: Any) -> bool:
    """Whether a score is made of S= alone."""
    return bool(score.sets_compared == 1)


def empty_sentences(rows: Sequence[Row], score: Any, label: str, place: Markup) -> list[Markup]:
    """Why there is no number if a set is empty; one sentence for all explainers."""
    lost = [row for row in rows if row.settled and not row.defined]
    if not lost:
        return []
    word, alike, predicts = word_of(label), max(row.pairs_same or 0 for row in lost), score.pairs == "same_prediction"
    if all(row.pairs_same == 0 for row in lost):
        what = "predicts the same class" if predicts else "is right about a sample"
        return sentences(say("stable.same_empty", what, place, word, SAME, lost=len(lost)))
    if not alone(score) and all(row.pairs_differ == 0 for row in lost):
        why = "No two models ever predict differently" if predicts else "No two models contradict each other about a sample"
        return sentences(say("stable.differ_empty", why, place, word, DIFFER, lost=len(lost), alike=alike))
    return sentences(say("stable.equal", word, place, names_or_count(lost), lost=len(lost), alike=alike))


def signal_sentences(rows: Sequence[Row], label: str, place: Markup) -> list[Markup]:
    """Which explainers cannot be told from no signal: labels permuted by sample reach their score as often as chance allows."""
    tested = [row for row in rows if row.defined and math.isfinite(row.p_adjusted)]
    if not tested:
        return []
    lost = [row for row in tested if row.p_adjusted > ALPHA]
    how = f", after Holm's correction for {count(len(tested), 'explainer')}" if len(tested) > 1 else ""
    if not lost:
        most = number(max(row.p_adjusted for row in tested))
        every = "Every explainer's" if len(tested) > 1 else "The"
        return sentences(say("stable.signal", every, word_of(label), place, most, how, tested=len(tested)))
    least = number(min(row.p_adjusted for row in lost))
    who = "every explainer" if len(lost) == len(tested) > 1 else names_or_count(lost)
    verb = "are" if 1 < len(lost) < len(tested) else "is"
    return sentences(say("stable.no_signal", word_of(label), place, who, verb, least, how, tested=len(tested)))


def published_sentences(rows: Sequence[Row], score: Any, models: Sequence[str]) -> list[Markup]:
    """How the order here agrees with the published one, if three explainers or more have both numbers."""
    said: list[Markup] = []
    for model in models:
        both = [(row.value, row.published) for row in rows if row.model == model and math.isfinite(row.published)]
        if len(both) < 3 or min(len(set(column)) for column in zip(*both, strict=True)) < 2:
            continue
        from scipy import stats

        rho = float(stats.spearmanr(*zip(*both, strict=True)).statistic)
        said += sentences(say("stable.published", len(both), where(model, models), number(rho, 2), published=len(both)))
    if alone(score) and score.compare.range[1] <= 1.0:
        said += sentences(say("stable.floor", "MeGe", FLOOR, published=sum(row.published < FLOOR for row in rows)))
    return said


def undefined_pairs(rows: Sequence[Row]) -> list[Markup]:
    """The explainers with pairs that have no distance."""
    lost = [piece("{} ({:,})", name(row.explainer), row.undefined_draws) for row in rows if row.undefined_draws and row.settled]
    return sentences(say("stable.undefined", listing(lost), undefined=len(lost)))


@dataclass(frozen=True, kw_only=True)
class CrossTraining:
    """What is said and drawn of cross-trained models; `caveat` is "" if no stability was measured."""

    caveat: str
    settings: tuple[str, ...]
    counts: tuple[int, ...]
    warnings: tuple[Markup, ...]
    folds: Plot | None
    selection: Plot | None
    histograms: tuple[Plot, ...]

    @property
    def any(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.caveat or self.folds)


def crosstraining(reading: RunReading) -> CrossTraining:
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
