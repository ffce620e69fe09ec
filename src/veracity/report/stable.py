"""Stability in words: what was compared with what, whose order the differences allow, and what is no signal at all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup
from scipy import stats

from veracity.interpret.stability import MeGe, StabilityScore
from veracity.report.chance import chance_sentences
from veracity.report.figures.histograms import DIFFER, SAME
from veracity.report.kinds import score_of
from veracity.report.phrases import listing, name, say
from veracity.report.reading import apart_of
from veracity.report.verdict import ALPHA
from veracity.report.view import Result, digits_of, frames_of
from veracity.report.wording import count, frame_title, number, word_of

FLOOR = 0.5
"""Below this MeGe cannot fall where distances are at most 1."""
FEW = 30
"""Fewer distances than this in S!= are few."""
NAMED = 4
"""More explainers than this are counted instead of named."""
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
        where = say(" on {}", name(model)) if len(held) > 1 else Markup("")
        said += empty_sentences(here, score, label, where)
        said += few_sentences([row for row in here if not row.control], score, label, where)
        said += signal_sentences([row for row in here if not row.control], label, where)
        said += order_sentences(here, label, where, apart_of(differences, model))
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
    word = word_of(label)
    if all(row.pairs_same == 0 for row in lost):
        return [say("{} is empty{}, so that {} is undefined: no pair of models {} with a distance.", SAME, where, word, kept(score))]
    if not isinstance(score, MeGe) and all(row.pairs_differ == 0 for row in lost):
        why = (
            "no two models ever predict differently"
            if score.pairs == "same_prediction"
            else "in no pair of models is exactly one right, as when all predictions are right"
        )
        return [say("{} is empty{}, so that {} is undefined: {}.", DIFFER, where, word, why)]
    return [say("{} is undefined{} for {}: distances that are all equal leave no threshold.", word, where, named(lost))]


def kept(score: StabilityScore) -> str:
    """What a pair in S= does."""
    return "predicts the same class" if score.pairs == "same_prediction" else "is right about a sample"


def few_sentences(rows: Sequence[Result], score: StabilityScore, label: str, where: Markup) -> list[Markup]:
    """That there are few distances in S!=, where they decide."""
    most = max((row.pairs_differ for row in rows if row.defined), default=0)
    if isinstance(score, MeGe) or not 0 < most < FEW:
        return []
    return [say("{} holds no more than {}{}, so that {} rests on little.", DIFFER, count(most, "pair"), where, word_of(label))]


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
        return [say("{} {}{} is above what permuted labels score (p at most {}{}).", every, word_of(label), where, most, how)]
    least = number(min(row.p_adjusted for row in lost))
    who = "every explainer" if len(lost) == len(tested) > 1 else named(lost)
    verb = "are" if 1 < len(lost) < len(tested) else "is"
    text = "By {}{}, {} {} indistinguishable from no signal: permuted labels score as high (p at least {}{})."
    return [say(text, word_of(label), where, who, verb, least, how)]


def order_sentences(rows: Sequence[Result], label: str, where: Markup, apart: frozenset[frozenset[str]]) -> list[Markup]:
    """Who is ahead of whom, each kind of explanation for itself; where no difference leaves zero out, that nobody is."""
    mine = [row for row in rows if row.defined and not row.control]
    kinds = frames_of(mine)
    return [
        sentence
        for frame in kinds
        if (
            sentence := order_sentence(
                [row for row in mine if row.frame == frame],
                label,
                where + (say(", of {}", frame_title(frame).lower()) if len(kinds) > 1 else Markup("")),
                apart,
            )
        )
    ]


def order_sentence(rows: Sequence[Result], label: str, where: Markup, apart: frozenset[frozenset[str]]) -> Markup:
    """Explainers of one kind in the order that their differences allow."""
    digits = digits_of(rows)
    lower = rows[0].direction == "lower"
    first, *others = sorted(rows, key=lambda row: row.value if lower else -row.value)
    shown = say("{} ({})", first.shown(digits), first.ends(digits) if math.isfinite(first.low) else "its interval is not known")
    by = say("By {}{},", word_of(label), where)
    if not others:
        return say("{} {} scores {}.", by, name(first.explainer), shown)
    pairs = [frozenset((one.explainer, other.explainer)) for place, one in enumerate(rows) for other in rows[place + 1 :]]
    told = sum(pair in apart for pair in pairs)
    if not told:
        return say("{} explainers cannot be told apart: no interval of a paired difference leaves zero out.", by)
    behind = [row for row in others if frozenset((first.explainer, row.explainer)) in apart]
    level = [row for row in others if row not in behind]
    rest = say(" Of {}, {} can be told apart.", count(len(pairs), "pair"), told) if len(pairs) > 1 else Markup("")
    if not level:
        return say("{} {} is ahead of every other explainer: {}.{}", by, name(first.explainer), shown, rest)
    ahead = say(" and is ahead of {}", named(behind)) if behind else Markup("")
    return say("{} {} scores most, {}{}, but cannot be told from {}.{}", by, name(first.explainer), shown, ahead, named(level), rest)


def named(rows: Sequence[Result]) -> Markup:
    """Explainers by name, or by their number where they are many."""
    return listing([name(row.explainer) for row in rows]) if len(rows) <= NAMED else Markup.escape(count(len(rows), "explainer"))


def blind_sentences(rows: Sequence[Result], score: StabilityScore, where: Markup) -> list[Markup]:
    """Which controls are perfectly stable because they never look at a model."""
    sure = [row for row in rows if row.control and row.defined and row.value >= 1.0 - 1e-9] if isinstance(score, MeGe) else []
    if not sure:
        return []
    what = "scores 1 by construction, since it never looks" if len(sure) == 1 else "score 1 by construction, since they never look"
    return [say("{} {}{} at a model: stability alone is no truth.", named(sure), what, where)]


def published_sentences(rows: Sequence[Result], score: StabilityScore, models: Sequence[str]) -> list[Markup]:
    """How the order here agrees with the published one, where three explainers or more have both numbers."""
    said = []
    for model in models:
        both = [(row.value, row.published) for row in rows if row.model == model and math.isfinite(row.published)]
        if len(both) < 3 or min(len(set(column)) for column in zip(*both, strict=True)) < 2:
            continue
        rho = float(stats.spearmanr(*zip(*both, strict=True)).statistic)
        where = say(" on {}", name(model)) if len(models) > 1 else ""
        text = "The order of these {} explainers{} and the published one have a rank correlation of {}."
        said.append(say(text, len(both), where, number(rho, 2)))
    low = [row for row in rows if row.published < FLOOR]
    if isinstance(score, MeGe) and low and score.compare.range[1] <= 1.0:
        said.append(
            say(
                "With distances of at most 1, {} cannot fall below {}, as some published figures do: compare orders, not values.",
                "MeGe",
                FLOOR,
            )
        )
    return said


def undefined_pairs(rows: Sequence[Result]) -> list[Markup]:
    """Explainers some of whose pairs have no distance."""
    lost = [say("{} ({:,})", name(row.explainer), row.undefined_draws) for row in rows if row.undefined_draws and row.settled]
    return (
        [say("Pairs without a distance, since a constant map has no ranks, are counted and left out: {}.", listing(lost))] if lost else []
    )


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
