"""What the numbers say, in plain words and no further than they go: verdicts, the order of explainers, and chance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup

from veracity.core.sentences import tell
from veracity.core.wording import UNDEFINED, count, decimals, interval, number, percentage
from veracity.engine.store.state import State
from veracity.report.rows import (
    AGAINST_CHANCE,
    ON_SYMMETRY,
    RANDOM,
    Pairs,
    Verdict,
    against_chance,
    ahead,
    badness,
    beats,
    behind,
    finite,
    frames_of,
    judged,
    no_differences,
    own_invariance,
    pairs_of,
    verdict,
)
from veracity.report.wording import frame_title, listing, name, piece, say, sentences, title_of, where, word_of
from veracity.results import Row
from veracity.results.rows import digits_of

SLACK = 0.01
FEW = 6
"""With fewer samples than this, a sentence that explainers cannot be told apart gives their number."""
NAMED = 4
"""More explainers than this are counted instead of named."""
SHOWN = 2
"""More numbers than this are left out of a sentence."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Explainers of one model with the same verdict, by kind of explanation."""

    verdict: Verdict
    groups: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The explainers of all kinds."""
        return tuple(name for _, names in self.groups for name in names)

    @property
    def phrase(self) -> str:
        """The verdict in words that suit the number of names."""
        return self.verdict.one if len(self.names) == 1 else self.verdict.many


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
    def verdicts(self) -> set[Verdict]:
        """The verdicts on any model."""
        return {finding.verdict for item in self.models for finding in item.findings}

    @property
    def judged(self) -> bool:
        """Whether any model got verdicts on a symmetry."""
        return bool(self.verdicts & ON_SYMMETRY)

    @property
    def chances(self) -> bool:
        """Whether any model got verdicts against chance."""
        return bool(self.verdicts & AGAINST_CHANCE)

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

    With `chances`, a score without a mark is compared with chance. Explainers are ranked by their paired `differences` alone.
    """
    mine = [row for row in rows if row.score == score and row.explainer and not row.control]
    own = own_invariance(rows)
    controls = [row for row in rows if row.score == score and row.control and row.defined and chances]
    answers = [
        answer_for(model, here, own.get(model), chances, [row for row in controls if row.model == model])
        for model in models
        if (here := [row for row in mine if row.model == model])
    ]
    held, word = [item.model for item in answers], word_of(score)
    said = models_sentences([own[model] for model in held if model in own and any(row.marked for row in mine)])
    known, left = [row for row in mine if row.defined], pending_sentences(mine, held)
    if not known:
        none = left or sentences(say("answer.none", word, asked=len(mine)))
        return Answer(score=score, sentences=(*said, *none), models=tuple(answers))
    marked = judged(known)
    if marked:
        counted = [row for row in known if verdict(row) in ON_SYMMETRY]
        untold = Markup("") if left else say("answer.untold", word, explainers=len(known))
        respect = shares(held, counted) if counted else ""
        said += sentences(say("answer.respect", respect, level, word, known[0].mark, intervals=len(counted)) or untold)
    apart = no_differences() if differences is None else differences
    for model in held:
        here = [row for row in mine if row.model == model]
        place = so_far(here, model, several=len(held) > 1)
        said += order_sentences(here, score, place, pairs_of(apart, model), last_only=marked)
    against = chance_sentences(known, held, digits_of(known)) if chances else []
    return Answer(score=score, sentences=(*dict.fromkeys(said), *against, *left), models=tuple(answers))


def pending_sentences(rows: Sequence[Row], models: Sequence[str]) -> list[Markup]:
    """How many explainers are not measured yet, on each model; nothing if all are."""
    parts: list[Markup] = []
    for model in models:
        mine = [row for row in rows if row.model == model]
        if left := sum(row.pending for row in mine):
            total = len(mine) if parts else count(len(mine), "explainer")
            parts.append(piece("{} of {}{}", left, total, where(model, models)))
    return sentences(say("answer.pending", listing(parts), pending=sum(row.pending for row in rows)))


def shares(models: Sequence[str], judged: Sequence[Row]) -> Markup:
    """How many of the judged explainers respect the symmetry, on each model; models on which none does share a phrase."""
    found = {model: [verdict(row) for row in judged if row.model == model] for model in models}
    counted = [(model, kinds.count(Verdict.KEEPS), len(kinds)) for model, kinds in found.items() if kinds]
    if len(models) == 1:
        _, kept, total = counted[0]
        if total == 1:
            return piece("The one explainer {}", "respects" if kept else "does not respect")
        return piece("{} of {} {}", kept or "None", count(total, "explainer"), "respects" if kept == 1 else "respect")
    parts = [piece("{} of {} on {}", kept, total, name(model)) for model, kept, total in counted if kept]
    for size in dict.fromkeys(total for _, kept, total in counted if not kept):
        without = [name(model) for model, kept, total in counted if not kept and total == size]
        parts.append(piece("none of {} on {}", size, listing(without, "or")))
    return piece("Of the explainers, {} respect", listing(parts))


def models_sentences(rows: Sequence[Row]) -> list[Markup]:
    """Which models keep their output: one sentence, or none if that was not measured."""
    keeps, breaks, unsure = (
        [name(row.model) for row in rows if verdict(row) is kind] for kind in (Verdict.KEEPS, Verdict.BREAKS, Verdict.OPEN)
    )
    said = []
    if keeps:
        said.append(piece("{} {} output", listing(keeps), "keeps its" if len(keeps) == 1 else "keep their"))
    if breaks and keeps:
        said.append(piece("{} {} not", listing(breaks), "does" if len(breaks) == 1 else "do"))
    elif breaks:
        said.append(piece("{} {} output", listing(breaks), "changes its" if len(breaks) == 1 else "change their"))
    if unsure:
        said.append(piece("these samples are too few to decide for {}", listing(unsure)))
    return sentences(say("answer.models", Markup("; ").join(said), invariances=len(keeps) + len(breaks) + len(unsure)))


def answer_for(model: str, rows: Sequence[Row], own: Row | None, chances: bool, controls: Sequence[Row]) -> ModelAnswer:
    """What holds for one model: its own invariance, the verdicts, and what qualifies them."""
    best_first = sorted(rows, key=lambda row: (not row.defined, badness(row)))
    found: tuple[Finding, ...] = ()
    if chances or judged([row for row in rows if row.defined]):
        found = findings(best_first, against_chance if chances else verdict)
    return ModelAnswer(
        model=model,
        behaviour=behaviour(own) if own is not None or any(row.marked for row in rows) else "",
        findings=found,
        remarks=(*remarks(best_first, own, chances), *blind_remarks(best_first, controls)),
    )


def findings(rows: Sequence[Row], judge: Callable[[Row], Verdict]) -> tuple[Finding, ...]:
    """The explainers of one model by their verdict and kind of explanation."""
    verdicts = [(row, judge(row)) for row in rows]
    found = []
    for kind in Verdict:
        mine = [row for row, own in verdicts if own is kind]
        groups = [(frame_title(frame), tuple(row.explainer for row in mine if row.frame == frame)) for frame in frames_of(mine)]
        found += [Finding(verdict=kind, groups=tuple(groups))] if groups else []
    return tuple(found)


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
    settled = [row for row in rows if row.settled]
    noisy = [
        piece("{} ({}, itself {})", name(row.explainer), number(row.value), number(row.self_agreement))
        for row in rows
        if noise_limited(row)
    ]
    random = [name(row.explainer) for row in rows if no_better_than_random(row) and not chances]
    silent = [piece("{} ({} of {})", name(row.explainer), row.no_response, row.n + row.undefined) for row in settled if row.no_response]
    equal = [piece("{} ({})", name(row.explainer), percentage(row.unseen)) for row in settled if math.isfinite(row.unseen)]
    return sentences(
        say("remark.reacts", invariances=int(reacts)),
        say("remark.unseen", listing(equal), equal=len(equal)),
        say("remark.noise", SLACK, listing(noisy), agreements=len(noisy)),
        say("remark.random", listing(random), randoms=len(random)),
        say("remark.silent", listing(silent), silent=len(silent)),
    )


def noise_limited(row: Row) -> bool:
    """Whether an explainer that misses the mark disagrees with itself by as much, up to the slack."""
    if not row.defined or row.direction != "higher" or verdict(row) is Verdict.KEEPS or not math.isfinite(row.self_agreement):
        return False
    return row.self_agreement < row.mark and row.high >= row.self_agreement - SLACK


def no_better_than_random(row: Row) -> bool:
    """Whether the interval reaches the score of the fair random control."""
    if not row.defined or not finite(row.low, row.high, row.random_control):
        return False
    return row.high >= row.random_control if row.direction == "lower" else row.low <= row.random_control


def blind_remarks(rows: Sequence[Row], controls: Sequence[Row]) -> list[Markup]:
    """Which controls score no worse than some explainers though they ignore the model; random ones define chance and do not count."""
    known = [row for row in rows if row.defined and finite(row.low, row.high)]
    digits = decimals(row.value for row in known)
    parts = []
    for control in controls:
        beaten = sum(badness(control) <= badness(row) for row in known) if finite(control.low, control.high) else 0
        if beaten and not control.explainer.startswith(RANDOM):
            parts.append(piece("{} ({}) than {} of {}", name(control.explainer), number(control.value, digits), beaten, len(known)))
    return sentences(say("chance.blind", listing(parts), controls=len(parts), intervals=len(known)))


def chance_sentences(rows: Sequence[Row], models: Sequence[str], digits: int) -> list[Markup]:
    """How many explainers do better than chance on each model, and what chance is; nothing if that is unknown."""
    verdicts = [(row, kind) for row in rows if (kind := against_chance(row)) in AGAINST_CHANCE]
    parts = []
    for model in models:
        mine = [kind for row, kind in verdicts if row.model == model]
        better, total = mine.count(Verdict.AHEAD), len(mine)
        share = f"all {total}" if better == total > 1 else f"{better or 'none'} of {total}"
        parts += [piece("{}{}", share, where(model, models))] if total else []
    chances = list(dict.fromkeys(number(value, digits) for value in sorted({row.chance for row, _ in verdicts})))
    known = any(math.isfinite(row.null) for row in rows)
    what = "an explanation that has nothing to do with the model scores" if known else "random explanations score"
    values = piece(" ({})", listing(map(Markup.escape, chances))) if len(chances) <= SHOWN else ""
    return sentences(say("chance.share", listing(parts), what, values, chances=len(verdicts)))


def so_far(rows: Sequence[Row], model: str, *, several: bool) -> Markup:
    """The model of some rows if there are `several`, and "so far" while some rows are pending: to stand after the name of a score."""
    place = piece(" on {}", name(model)) if several else Markup("")
    return place + (" so far" if any(row.pending and not row.control for row in rows) else "")


def order_sentences(rows: Sequence[Row], label: str, place: Markup, pairs: Pairs, *, last_only: bool = False) -> list[Markup]:
    """Who is ahead of whom on one model, by kind of explanation; with `last_only`, only who is behind all others."""
    mine = [row for row in rows if row.defined and not row.control]
    kinds = frames_of(mine)
    said: list[Markup] = []
    for frame in kinds:
        here = [row for row in mine if row.frame == frame]
        kind = place + (piece(", of {}", frame_title(frame).lower()) if len(kinds) > 1 else Markup(""))
        said += [] if last_only else sentences(order_sentence(here, label, kind, pairs))
        last = next((row for row in here if not row.in_map_units and behind(row, here, pairs)), None)
        if last is not None and (last_only or len(here) > 2):
            parts = (word_of(label), kind, name(last.explainer), value_text(last, here))
            said += sentences(say("order.behind", *parts, explainers=len(here), apart=len(here) - 1))
    return said


def order_sentence(rows: Sequence[Row], label: str, place: Markup, pairs: Pairs) -> Markup:
    """Explainers of one kind on one model in the order that their differences allow."""
    word = word_of(label)
    if len(rows) == 1:
        return say("order.single", word, place, name(rows[0].explainer), value_text(rows[0], rows), explainers=1)
    if rows[0].in_map_units:
        return say("order.units", title_of(label), explainers=len(rows))
    names = {row.explainer for row in rows}
    compared = [larger for pair, larger in pairs.items() if pair <= names]
    if not any(compared):
        return level_sentence(rows, word, place, len(compared))
    first, *others = sorted(rows, key=lambda row: (sum(beats(one, row, pairs) for one in rows), badness(row)))
    apart = sum(map(bool, compared))
    rest = say("order.pairs", count(len(compared), "pair"), apart, paired=len(compared), apart=apart)
    if any(beats(one, first, pairs) for one in others):
        return say("order.circle", word, place, names_or_count(rows), rest, explainers=len(rows), apart=apart)
    start = (word, place, name(first.explainer), value_text(first, rows))
    if ahead(first, rows, pairs):
        return say("order.ahead", *start, rest, explainers=len(rows), apart=apart)
    beaten = [row for row in others if beats(first, row, pairs)]
    level = [row for row in others if row not in beaten]
    over = piece(" and is ahead of {}", names_or_count(beaten)) if beaten else Markup("")
    return say("order.first", *start, over, names_or_count(level), rest, explainers=len(rows), apart=apart)


def level_sentence(rows: Sequence[Row], word: str, place: Markup, compared: int) -> Markup:
    """That explainers of one kind cannot be told apart, and why."""
    fewest, found = min(row.n for row in rows), len(rows)
    if len({row.value for row in rows}) == 1 and all(row.bound for row in rows):
        return say("order.bounds", word, place, names_or_count(rows), rows[0].middle, rows[0].shown(digits_of(rows)), explainers=found)
    if fewest < FEW and not rows[0].pooled:
        return say("order.few", count(fewest, "sample"), names_or_count(rows), word, place, explainers=found)
    if not compared:
        return say("order.unpaired", word, place, names_or_count(rows), explainers=found)
    return say("order.level", word, place, names_or_count(rows), explainers=found, paired=compared)


def value_text(row: Row, rows: Sequence[Row]) -> str:
    """A value with its interval, and how a search ended."""
    digits = digits_of(rows)
    ends = "no interval" if math.isnan(row.low) or math.isnan(row.high) else row.ends(digits)
    return f"{row.shown(digits)} ({ends})" + (f"; {row.outcome}" if row.outcome else "")


def names_or_count(rows: Sequence[Row]) -> Markup:
    """Explainers by name, or their number if they are many."""
    return listing([name(row.explainer) for row in rows]) if len(rows) <= NAMED else Markup.escape(count(len(rows), "explainer"))
