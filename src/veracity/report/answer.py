"""What the numbers say, in plain words and no further than they go."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup

from veracity.core.sentences import tell
from veracity.core.wording import UNDEFINED, count, interval, number, percentage
from veracity.engine.store.state import State
from veracity.report.order import blind_remarks, chance_sentences, no_differences, order_sentences, pairs_of, place
from veracity.report.rows import AGAINST_CHANCE, KEPT_OR_NOT, PHRASES, Verdict, against_chance, frames_of, judged, own_invariance, verdict
from veracity.report.wording import frame_title, listing, name, piece, say, sentences, word_of
from veracity.results import Row
from veracity.results.rows import digits_of

SLACK = 0.01


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Explainers of one model with the same verdict, by what kind of explanation they give."""

    verdict: Verdict
    groups: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(name for _, names in self.groups for name in names)

    @property
    def phrase(self) -> str:
        """The verdict in words that suit the number of names."""
        one, many = PHRASES[self.verdict]
        return one if len(self.names) == 1 else many


@dataclass(frozen=True, kw_only=True)
class ModelAnswer:
    """What holds for one model."""

    model: str
    behaviour: str
    findings: tuple[Finding, ...]
    remarks: tuple[Markup, ...]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A few sentences over all models, and one card for each of them."""

    score: str
    sentences: tuple[Markup, ...]
    models: tuple[ModelAnswer, ...]

    @property
    def judged(self) -> bool:
        """Whether any model got verdicts on a symmetry."""
        return any(finding.verdict in KEPT_OR_NOT for item in self.models for finding in item.findings)

    @property
    def chances(self) -> bool:
        """Whether any model got verdicts against chance."""
        return any(finding.verdict in AGAINST_CHANCE for item in self.models for finding in item.findings)

    @property
    def says(self) -> bool:
        """Whether there is anything to say of any model."""
        return any(item.findings or item.remarks for item in self.models)


def answer(
    rows: Sequence[Row],
    score: str,
    models: Sequence[str],
    level: str = "95 %",
    *,
    chances: bool = False,
    differences: pd.DataFrame | None = None,
) -> Answer:
    """The answer that one score of explanations gives; `level` is the confidence of the intervals, in words.

    With `chances`, where there is no mark to hold a score against, it is held against chance. Explainers are ranked by their paired
    `differences` alone.
    """
    mine = [row for row in rows if row.score == score and row.explainer and not row.control]
    own = own_invariance(rows)
    held = [model for model in models if any(row.model == model for row in mine)]
    controls = [row for row in rows if row.score == score and row.control and row.defined and chances]
    answers = [
        answer_for(
            model, [row for row in mine if row.model == model], own.get(model), chances, [row for row in controls if row.model == model]
        )
        for model in held
    ]
    apart = no_differences() if differences is None else differences
    return Answer(score=score, sentences=tuple(lead(mine, score, answers, own, level, chances, apart)), models=tuple(answers))


def lead(
    rows: Sequence[Row],
    score: str,
    answers: Sequence[ModelAnswer],
    own: Mapping[str, Row],
    level: str,
    chances: bool,
    differences: pd.DataFrame,
) -> list[Markup]:
    """The answer over all models."""
    said = models_sentences([own[item.model] for item in answers if item.model in own and any(row.marked for row in rows)])
    known = [row for row in rows if row.defined]
    left = pending_sentences(rows, [item.model for item in answers])
    if not known:
        return [*said, *(left or sentences(say("answer.none", word_of(score), asked=len(rows))))]
    marked = judged(known)
    if marked:
        counted = [row for row in known if verdict(row) in KEPT_OR_NOT]
        held = shares([item.model for item in answers], counted) if counted else ""
        untold = Markup("") if left else say("answer.untold", word_of(score), explainers=len(known))
        said += sentences(say("answer.respect", held, level, word_of(score), known[0].mark, intervals=len(counted)) or untold)
    for item in answers:
        here = [row for row in rows if row.model == item.model]
        where = place(here, item.model, several=len(answers) > 1)
        said += order_sentences(here, score, where, pairs_of(differences, item.model), last_only=marked)
    said = list(dict.fromkeys(said))
    return [*said, *(chance_sentences(known, [item.model for item in answers], digits_of(known)) if chances else []), *left]


def pending_sentences(rows: Sequence[Row], models: Sequence[str]) -> list[Markup]:
    """How many explainers are not measured yet, on each model; nothing if all are."""
    parts: list[Markup] = []
    for model in models:
        mine = [row for row in rows if row.model == model]
        left = sum(row.pending for row in mine)
        where = piece(" on {}", name(model)) if len(models) > 1 else ""
        parts += [piece("{} of {}{}", left, count(len(mine), "explainer") if not parts else len(mine), where)] if left else []
    return sentences(say("answer.pending", listing(parts), pending=sum(row.pending for row in rows)))


def shares(models: Sequence[str], judged: Sequence[Row]) -> Markup:
    """How many of the judged explainers respect the symmetry, on each model; models on which none does share a phrase."""
    found = {model: [verdict(row) for row in judged if row.model == model] for model in models}
    counted = [(model, kinds.count(Verdict.KEEPS), len(kinds)) for model, kinds in found.items() if kinds]
    if len(models) == 1:
        _, kept, total = counted[0]
        return piece("{} of {} {}", kept or "None", count(total, "explainer"), "respects" if kept == 1 else "respect")
    parts = [piece("{} of {} on {}", kept, total, name(model)) for model, kept, total in counted if kept]
    for size in dict.fromkeys(total for _, kept, total in counted if not kept):
        without = [name(model) for model, kept, total in counted if not kept and total == size]
        parts.append(piece("none of {} on {}", size, listing(without, "or")))
    return piece("Of the explainers, {} respect", listing(parts))


def models_sentences(rows: Sequence[Row]) -> list[Markup]:
    """Which models keep their output: one sentence, or none if that was not measured."""
    kinds = {kind: [row.model for row in rows if verdict(row) is kind] for kind in Verdict}
    keeps, breaks, unsure = kinds[Verdict.KEEPS], kinds[Verdict.BREAKS], kinds[Verdict.OPEN]
    said = []
    if keeps:
        said.append(piece("{} {} output", listing(map(name, keeps)), "keeps its" if len(keeps) == 1 else "keep their"))
    if breaks and keeps:
        said.append(piece("{} {} not", listing(map(name, breaks)), "does" if len(breaks) == 1 else "do"))
    if breaks and not keeps:
        said.append(piece("{} {} output", listing(map(name, breaks)), "changes its" if len(breaks) == 1 else "change their"))
    if unsure:
        said.append(piece("these samples are too few to decide for {}", listing(map(name, unsure))))
    return sentences(say("answer.models", Markup("; ").join(said), invariances=len(keeps) + len(breaks) + len(unsure)))


def answer_for(model: str, rows: Sequence[Row], own: Row | None, chances: bool, controls: Sequence[Row]) -> ModelAnswer:
    """What holds for one model: its own invariance, the verdicts, and what qualifies them."""
    best_first = sorted(rows, key=lambda row: (not row.defined, 0.0 if row.in_map_units else sign(row) * row.value))
    kept = judged([row for row in rows if row.defined])
    return ModelAnswer(
        model=model,
        behaviour=behaviour(own) if own is not None or any(row.marked for row in rows) else "",
        findings=findings(best_first, against_chance if chances else verdict) if kept or chances else (),
        remarks=(*remarks(best_first, own, chances), *blind_remarks(best_first, controls)),
    )


def sign(row: Row) -> float:
    """1 where lower is better, else -1."""
    return 1.0 if row.direction == "lower" else -1.0


def findings(rows: Sequence[Row], judge: Callable[[Row], Verdict]) -> tuple[Finding, ...]:
    """The explainers of one model by their verdict."""
    groups = {kind: by_frame([row for row in rows if judge(row) is kind]) for kind in Verdict}
    return tuple(Finding(verdict=kind, groups=names) for kind, names in groups.items() if names)


def by_frame(rows: Sequence[Row]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Explainers under what their explanations are called, in their order."""
    return tuple((frame_title(frame), tuple(row.explainer for row in rows if row.frame == frame)) for frame in frames_of(rows))


def behaviour(own: Row | None) -> str:
    """The model's invariance in one phrase."""
    if own is None:
        return "Model invariance was not measured."
    if not own.defined:
        return (
            tell("answer.unmeasured", pending=int(own.pending))
            or tell("answer.failed", failures=int(own.state == State.FAILED))
            or tell("answer.undefined", undefined=int(own.settled))
        )
    ends = interval(own.low, own.high)
    return f"Model invariance {number(own.value)}" + (f" ({ends})" if ends != UNDEFINED else "")


def remarks(rows: Sequence[Row], own: Row | None, chances: bool) -> list[Markup]:
    """What a reader must hold against the verdicts."""
    reacts = own is not None and verdict(own) is Verdict.BREAKS and all(row.marked for row in rows)
    noisy = [row for row in rows if noise_limited(row)]
    pairs = [piece("{} ({}, itself {})", name(row.explainer), number(row.value), number(row.self_agreement)) for row in noisy]
    lost = [name(row.explainer) for row in rows if no_better_than_random(row) and not chances]
    partly = [
        piece("{} ({} of {})", name(row.explainer), row.no_response, row.n + row.undefined)
        for row in rows
        if row.no_response and row.settled
    ]
    alike = [piece("{} ({})", name(row.explainer), percentage(row.unseen)) for row in rows if row.settled and math.isfinite(row.unseen)]
    return sentences(
        say("remark.reacts", invariances=int(reacts)),
        say("remark.unseen", listing(alike), equal=len(alike)),
        say("remark.noise", SLACK, listing(pairs), agreements=len(pairs)),
        say("remark.random", listing(lost), randoms=len(lost)),
        say("remark.silent", listing(partly), silent=len(partly)),
    )


def noise_limited(row: Row) -> bool:
    """Whether an explainer that misses the mark disagrees with itself by as much, up to the slack."""
    if not row.defined or row.direction != "higher" or verdict(row) is Verdict.KEEPS or not math.isfinite(row.self_agreement):
        return False
    return row.self_agreement < row.mark and row.high >= row.self_agreement - SLACK


def no_better_than_random(row: Row) -> bool:
    """Whether the interval reaches the score of the fair random control."""
    if not row.defined or not all(math.isfinite(value) for value in (row.low, row.high, row.random_control)):
        return False
    return row.high >= row.random_control if row.direction == "lower" else row.low <= row.random_control


def headcount(rows: Sequence[Row]) -> str:
    """How many explainers and controls there are."""
    explainers = {row.explainer for row in rows if row.explainer and not row.control}
    controls = {row.explainer for row in rows if row.explainer and row.control}
    return count(len(explainers), "explainer") + (f" and {count(len(controls), 'control')}" if controls else "")
