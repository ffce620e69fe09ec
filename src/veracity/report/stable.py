"""Stability in words: what was compared with what, whose order the differences allow, and what is no signal at all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from veracity.report.chance import chance_sentences
from veracity.report.figures.histograms import DIFFER, SAME
from veracity.report.kinds import score_of
from veracity.report.order import named, order_sentences, pairs_of, place
from veracity.report.phrases import listing, name, piece, say, sentences
from veracity.report.verdict import ALPHA
from veracity.report.view import Result, digits_of
from veracity.report.wording import word_of
from veracity.core.wording import count, number
from veracity.scores.stability import MeGe, StabilityScore

FLOOR = 0.5
"""Below this MeGe cannot fall where distances are at most 1."""
FEW = 30
"""Fewer distances than this in S!= are few."""
PAIRS = {
    "both_right": f"{SAME} holds the pairs of models that are both right about a sample, {DIFFER} those of which exactly one is; "
    "pairs that are both wrong are left out",
    "same_prediction": f"{SAME} holds the pairs of models that predict the same class, {DIFFER} those that do not, whoever is right: "
    "the way of a public implementation, not the paper's",
}
DISTANCES = {
    "rank_distance": "1 minus |Spearman's rank correlation|, the paper's distance, by which an inverted map is the same map",
    "signed_rank_distance": "1 minus Spearman's rank correlation, by which an inverted map is the most different one",
    "root_rank_distance": "the root of 1 minus |Spearman's rank correlation|, the distance of a public implementation, by which an "
    "inverted map is the same map",
}


def stable(manifest: Mapping[str, Any], label: str) -> StabilityScore | None:
    """The score of stability behind a label; None if it is another kind of score."""
    found = score_of(manifest, label)
    return found if isinstance(found, StabilityScore) else None


def setting(score: StabilityScore) -> str:
    """Which distance and which pairs a result used, in a sentence."""
    measure = score.compare
    distance = DISTANCES.get(measure.name) or f"the measure {measure.name}"
    return f"Two explanations are compared by {distance}. {PAIRS[score.pairs]}."


def stability_sentences(
    rows: Sequence[Result], score: StabilityScore, label: str, models: Sequence[str], differences: pd.DataFrame
) -> list[Markup]:
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


def empty_sentences(rows: Sequence[Result], score: StabilityScore, label: str, where: Markup) -> list[Markup]:
    """Why there is no number where a set is empty; a line for all explainers alike."""
    lost = [row for row in rows if row.settled and not row.defined and not row.control]
    if not lost:
        return []
    word, alike = word_of(label), max(row.pairs_same for row in lost)
    if all(row.pairs_same == 0 for row in lost):
        return sentences(say("stable.same_empty", SAME, where, word, kept(score), lost=len(lost)))
    if not isinstance(score, MeGe) and all(row.pairs_differ == 0 for row in lost):
        why = (
            "no two models ever predict differently"
            if score.pairs == "same_prediction"
            else "in no pair of models is exactly one right, as when all predictions are right"
        )
        return sentences(say("stable.differ_empty", DIFFER, where, word, why, lost=len(lost), alike=alike))
    return sentences(say("stable.equal", word, where, named(lost), lost=len(lost), alike=alike))


def kept(score: StabilityScore) -> str:
    """What a pair in S= does."""
    return "predicts the same class" if score.pairs == "same_prediction" else "is right about a sample"


def few_sentences(rows: Sequence[Result], score: StabilityScore, label: str, where: Markup) -> list[Markup]:
    """That there are few distances in S!=, where they decide."""
    most = max((row.pairs_differ for row in rows if row.defined), default=0)
    if isinstance(score, MeGe) or not 0 < most < FEW:
        return []
    found = sum(row.defined for row in rows)
    return sentences(say("stable.few", DIFFER, count(most, "pair"), where, word_of(label), explainers=found, differ=most))


def signal_sentences(rows: Sequence[Result], label: str, where: Markup) -> list[Markup]:
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


def blind_sentences(rows: Sequence[Result], score: StabilityScore, where: Markup) -> list[Markup]:
    """Which controls are perfectly stable because they never look at a model."""
    sure = [row for row in rows if row.control and row.defined and row.value >= 1.0 - 1e-9] if isinstance(score, MeGe) else []
    if not sure:
        return []
    what = "scores 1 by construction, since it never looks" if len(sure) == 1 else "score 1 by construction, since they never look"
    return sentences(say("stable.blind", named(sure), what, where, controls=len(sure)))


def published_sentences(rows: Sequence[Result], score: StabilityScore, models: Sequence[str]) -> list[Markup]:
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
    if isinstance(score, MeGe) and score.compare.range[1] <= 1.0:
        said += sentences(say("stable.floor", "MeGe", FLOOR, published=len(low)))
    return said


def undefined_pairs(rows: Sequence[Result]) -> list[Markup]:
    """Explainers some of whose pairs have no distance."""
    lost = [piece("{} ({:,})", name(row.explainer), row.undefined_draws) for row in rows if row.undefined_draws and row.settled]
    return sentences(say("stable.undefined", listing(lost), undefined=len(lost)))


def in_text(shown: pd.DataFrame, table: pd.DataFrame, manifest: Mapping[str, Any]) -> pd.DataFrame:
    """The columns of a run's table that are `shown`, and of stability the sizes of both sets, the null and its p-value."""
    labels = {label for label in table["score"].unique() if stable(manifest, str(label)) is not None}
    if not labels:
        return shown
    records = [columns(row) if row["score"] in labels else {} for row in table.to_dict("records")]
    names = list(dict.fromkeys(key for record in records for key in record))
    return shown.assign(**{key: [record.get(key, "") for record in records] for key in names})


def columns(row: Mapping[Any, Any], digits: int = 3) -> dict[str, str]:
    """What stands beside a score of stability in a plain table, by heading.

    >>> columns({"pairs_same": 1200, "pairs_differ": 40, "null_mean": 0.05, "null_high": 0.11, "p_value": 0.001})
    {'S=': '1,200', 'S!=': '40', 'null': '0.050', 'null 95 %': '0.110', 'p': '0.001'}
    >>> columns({"pairs_same": 9, "pairs_differ": 0, "null_mean": float("nan"), "null_high": float("nan"), "p_value": float("nan")})
    {'S=': '9', 'S!=': '0', 'null': '', 'null 95 %': '', 'p': ''}
    """
    sizes = {
        heading: f"{int(row[column]):,}" if math.isfinite(row[column]) else ""
        for heading, column in (("S=", "pairs_same"), ("S!=", "pairs_differ"))
    }
    beside = {"null": "null_mean", "null 95 %": "null_high", "p": "p_value"}
    numbers = {heading: float(row[column]) for heading, column in beside.items()}
    return sizes | {heading: f"{value:.{digits}f}" if math.isfinite(value) else "" for heading, value in numbers.items()}
