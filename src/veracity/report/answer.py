"""What the numbers say, in plain words and no further than they go."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from veracity.report.chance import blind_remarks, chance_sentences
from veracity.report.phrases import listing, name, say
from veracity.report.verdict import AGAINST_CHANCE, KEPT, KEPT_OR_NOT, PHRASES, SYMMETRY_SCORES, Verdict, against_chance, verdict
from veracity.report.view import Result, digits_of, frames_of, sure
from veracity.report.wording import UNDEFINED, count, frame_title, interval, number, word_of

SLACK = 0.01
ABSENT = {"pending": "is not measured yet", "failed": "failed"}


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
    """What holds for one model; of its explainers, so many are done, with a value."""

    model: str
    done: int
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


def answer(rows: Sequence[Result], score: str, models: Sequence[str], level: str = "95 %", *, chances: bool = False) -> Answer:
    """The answer that one score of explanations gives; `level` is the confidence of the intervals, in words.

    With `chances`, where there is no mark to hold a score against, it is held against chance.
    """
    mine = [row for row in rows if row.score == score and row.explainer and not row.control]
    own = {row.model: row for row in rows if row.score == "model_invariance" and not row.explainer}
    held = [model for model in models if any(row.model == model for row in mine)]
    controls = [row for row in rows if row.score == score and row.control and row.defined and chances]
    answers = [
        answer_for(
            model, [row for row in mine if row.model == model], own.get(model), chances, [row for row in controls if row.model == model]
        )
        for model in held
    ]
    return Answer(score=score, sentences=tuple(lead(mine, score, answers, own, level, chances)), models=tuple(answers))


def judged(rows: Sequence[Result]) -> bool:
    """Whether the mark means anything here: a similarity under transforms, whose best value is 1."""
    return all(row.score in SYMMETRY_SCORES and row.direction == "higher" and not row.value > 1 + 1e-6 for row in rows)


def lead(
    rows: Sequence[Result], score: str, answers: Sequence[ModelAnswer], own: Mapping[str, Result], level: str, chances: bool
) -> list[Markup]:
    """The answer over all models."""
    said = models_sentences([own[item.model] for item in answers if item.model in own and score in SYMMETRY_SCORES])
    known = [row for row in rows if row.defined]
    left = pending_sentences(rows, [item.model for item in answers])
    if not known:
        return [*said, *(left or [say("No explainer has a value of {}.", word_of(score))])]
    if judged(known):
        text = "{} the symmetry, which is to say that the {} interval of their {} lies at or above {}."
        said.append(say(text, shares(answers), level, word_of(score), KEPT))
    lower = known[0].direction == "lower"
    in_order = sorted(known, key=lambda row: row.value if lower else -row.value)
    ends = [(in_order[-1], "worst")] if judged(known) else [(in_order[0], "best"), (in_order[-1], "worst")]
    digits = digits_of(known)
    if len({row.value for row in known}) == 1 and len(known) > 1 and all(row.bound for row in known):
        alike = "By {}, explainers cannot be told apart{}: every {} is {}."
        return [*said, say(alike, word_of(score), " so far" if left else "", known[0].middle, known[0].shown(digits)), *left]
    first = "Of what is measured so far, the" if left else "The" if score in SYMMETRY_SCORES else f"By {word_of(score)}, the"
    openings = [first, "The"][: len(ends)]
    several = len(answers) > 1
    said += [extreme(row, word, known, digits, opening, several=several) for (row, word), opening in zip(ends, openings, strict=True)]
    return [*said, *(chance_sentences(known, [item.model for item in answers], digits) if chances else []), *left]


def pending_sentences(rows: Sequence[Result], models: Sequence[str]) -> list[Markup]:
    """How many explainers are not measured yet, on each model; nothing if all are."""
    parts: list[Markup] = []
    for model in models:
        mine = [row for row in rows if row.model == model]
        left = sum(row.pending for row in mine)
        where = say(" on {}", name(model)) if len(models) > 1 else ""
        parts += [say("{} of {}{}", left, count(len(mine), "explainer") if not parts else len(mine), where)] if left else []
    return [say("Not measured yet: {}.", listing(parts))] if parts else []


def shares(answers: Sequence[ModelAnswer]) -> Markup:
    """How many of the explainers with a value respect the symmetry, on each model; models on which none does share a phrase."""
    several = len(answers) > 1
    answers = [item for item in answers if item.done]
    totals = [item.done for item in answers]
    kept = [sum(len(finding.names) for finding in item.findings if finding.verdict is Verdict.KEEPS) for item in answers]
    if not several:
        return say("{} of {} {}", kept[0] or "None", count(totals[0], "explainer"), "respects" if kept[0] == 1 else "respect")
    counted = list(zip(answers, kept, totals, strict=True))
    parts = [say("{} of {} on {}", some, total, name(item.model)) for item, some, total in counted if some]
    for size in dict.fromkeys(total for _, some, total in counted if not some):
        without = [name(item.model) for item, some, total in counted if not some and total == size]
        parts.append(say("none of {} on {}", size, listing(without, "or")))
    return say("Of the explainers, {} respect", listing(parts))


def extreme(row: Result, word: str, rows: Sequence[Result], digits: int, opening: str = "The", *, several: bool) -> Markup:
    """The best or the worst mean, or median, of some rows; where one is only known to lie at or below a value, it may be another's."""
    where = say(" on {}", name(row.model)) if several else ""
    shown = row.shown(digits) if row.ends() == UNDEFINED and row.hunted else f"{row.shown(digits)} ({row.ends(digits)})"
    told = f"; {row.outcome}" if row.outcome else ""
    verb = "is" if sure(row, rows) else "may be"
    return say("{} {} {} {} that of {}{}: {}{}.", opening, word, row.middle, verb, name(row.explainer), where, shown, told)


def models_sentences(rows: Sequence[Result]) -> list[Markup]:
    """Which models keep their output: one sentence, or none if that was not measured."""
    kinds = {kind: [row.model for row in rows if verdict(row) is kind] for kind in Verdict}
    keeps, breaks, unsure = kinds[Verdict.KEEPS], kinds[Verdict.BREAKS], kinds[Verdict.OPEN]
    said = []
    if keeps:
        said.append(say("{} {} output", listing(map(name, keeps)), "keeps its" if len(keeps) == 1 else "keep their"))
    if breaks and keeps:
        said.append(say("{} {} not", listing(map(name, breaks)), "does" if len(breaks) == 1 else "do"))
    if breaks and not keeps:
        said.append(say("{} {} output", listing(map(name, breaks)), "changes its" if len(breaks) == 1 else "change their"))
    if unsure:
        said.append(say("of {} these samples cannot tell", listing(map(name, unsure))))
    return [say("Under the transforms, {}.", Markup("; ").join(said))] if said else []


def answer_for(model: str, rows: Sequence[Result], own: Result | None, chances: bool, controls: Sequence[Result]) -> ModelAnswer:
    """What holds for one model: its own invariance, the verdicts, and what qualifies them."""
    lower = bool(rows) and rows[0].direction == "lower"
    best_first = sorted(rows, key=lambda row: (not row.defined, row.value if lower else -row.value))
    kept = judged([row for row in rows if row.defined])
    return ModelAnswer(
        model=model,
        done=sum(row.defined for row in rows),
        behaviour=behaviour(own) if own is not None or any(row.score in SYMMETRY_SCORES for row in rows) else "",
        findings=findings(best_first, against_chance if chances else verdict) if kept or chances else (),
        remarks=(*remarks(best_first, own, chances), *blind_remarks(best_first, controls)),
    )


def findings(rows: Sequence[Result], judge: Callable[[Result], Verdict]) -> tuple[Finding, ...]:
    """The explainers of one model by their verdict."""
    groups = {kind: by_frame([row for row in rows if judge(row) is kind]) for kind in Verdict}
    return tuple(Finding(verdict=kind, groups=names) for kind, names in groups.items() if names)


def by_frame(rows: Sequence[Result]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Explainers under what their explanations are called, in their order."""
    return tuple((frame_title(frame), tuple(row.explainer for row in rows if row.frame == frame)) for frame in frames_of(rows))


def behaviour(own: Result | None) -> str:
    """The model's invariance in one phrase."""
    if own is None:
        return "Model invariance was not measured."
    if not own.defined:
        return f"Model invariance {ABSENT.get(own.state, 'is undefined')}."
    return f"Model invariance {number(own.value)} ({interval(own.low, own.high)})"


def remarks(rows: Sequence[Result], own: Result | None, chances: bool) -> list[Markup]:
    """What a reader must hold against the verdicts."""
    said = []
    if own is not None and verdict(own) is Verdict.BREAKS and all(row.score in SYMMETRY_SCORES for row in rows):
        said.append(
            say("The model itself reacts to the transforms, so an explanation that changes may be right: a low score alone is no fault.")
        )
    noisy = [row for row in rows if noise_limited(row)]
    if noisy:
        pairs = [say("{} ({}, itself {})", name(row.explainer), number(row.value), number(row.self_agreement)) for row in noisy]
        said.append(
            say(
                "The interval reaches to within {} of the agreement with itself, which speaks of noise rather than asymmetry: {}.",
                SLACK,
                listing(pairs),
            )
        )
    lost = [name(row.explainer) for row in rows if no_better_than_random(row)]
    if lost and not chances:
        said.append(say("Not clearly better than the random control: {}.", listing(lost)))
    partly = [
        say("{} ({} of {})", name(row.explainer), row.no_response, row.n + row.undefined) for row in rows if row.no_response and row.settled
    ]
    if partly:
        said.append(say("The explanation does not respond at all, so that its score is undefined, on samples of: {}.", listing(partly)))
    return said


def noise_limited(row: Result) -> bool:
    """Whether an explainer that misses the mark disagrees with itself by as much, up to the slack."""
    if not row.defined or row.direction != "higher" or verdict(row) is Verdict.KEEPS or not math.isfinite(row.self_agreement):
        return False
    return row.self_agreement < KEPT and row.high >= row.self_agreement - SLACK


def no_better_than_random(row: Result) -> bool:
    """Whether the interval reaches the score of the fair random control."""
    if not row.defined or not math.isfinite(row.random_control):
        return False
    return row.high >= row.random_control if row.direction == "lower" else row.low <= row.random_control


def headcount(rows: Sequence[Result]) -> str:
    """How many explainers and controls there are."""
    explainers = {row.explainer for row in rows if row.explainer and not row.control}
    controls = {row.explainer for row in rows if row.explainer and row.control}
    return count(len(explainers), "explainer") + (f" and {count(len(controls), 'control')}" if controls else "")
