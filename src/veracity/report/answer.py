"""What the numbers say, in plain words and no further than they go."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from markupsafe import Markup

from veracity.report.view import Result, frames_of
from veracity.report.wording import count, decimals, frame_title, interval, number, title_of

KEPT = 0.99
SLACK = 0.01
SYMMETRY_SCORES = frozenset({"equivariance", "invariance", "symmetry", "model_invariance"})


class Verdict(Enum):
    """How an explainer's interval lies to the mark that stands for "kept"."""

    KEEPS = "keeps"
    OPEN = "open"
    BREAKS = "breaks"
    UNKNOWN = "unknown"


PHRASES = {
    Verdict.KEEPS: ("respects it", "respect it"),
    Verdict.OPEN: ("undecided", "undecided"),
    Verdict.BREAKS: ("falls short", "fall short"),
    Verdict.UNKNOWN: ("cannot be judged", "cannot be judged"),
}


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
        """Whether any model got verdicts."""
        return any(item.findings for item in self.models)

    @property
    def says(self) -> bool:
        """Whether there is anything to say of any model."""
        return any(item.findings or item.remarks for item in self.models)


def answer(rows: Sequence[Result], score: str, models: Sequence[str], level: str = "95 %") -> Answer:
    """The answer that one score of explanations gives; `level` is the confidence of the intervals, in words."""
    mine = [row for row in rows if row.score == score and row.explainer and not row.control]
    own = {row.model: row for row in rows if row.score == "model_invariance" and not row.explainer}
    held = [model for model in models if any(row.model == model for row in mine)]
    answers = [answer_for(model, [row for row in mine if row.model == model], own.get(model)) for model in held]
    return Answer(score=score, sentences=tuple(lead(mine, score, answers, own, level)), models=tuple(answers))


def judged(rows: Sequence[Result]) -> bool:
    """Whether the mark means anything here: a similarity under transforms, whose best value is 1."""
    return all(row.score in SYMMETRY_SCORES and row.direction == "higher" and not row.value > 1 + 1e-6 for row in rows)


def verdict(row: Result) -> Verdict:
    """Where the interval over the population lies: at or above 0.99, below it, or across."""
    if not row.defined or not (math.isfinite(row.low) and math.isfinite(row.high)):
        return Verdict.UNKNOWN
    return Verdict.KEEPS if row.low >= KEPT else Verdict.BREAKS if row.high < KEPT else Verdict.OPEN


def lead(rows: Sequence[Result], score: str, answers: Sequence[ModelAnswer], own: Mapping[str, Result], level: str) -> list[Markup]:
    """The answer over all models."""
    said = models_sentences([own[item.model] for item in answers if item.model in own and score in SYMMETRY_SCORES])
    known = [row for row in rows if row.defined]
    if not known:
        return [*said, say("No explainer has a value of {}.", title_of(score).lower())]
    if judged(known):
        text = "{} the symmetry, which is to say that the {} interval of their {} lies at or above {}."
        said.append(say(text, shares(answers), level, title_of(score).lower(), KEPT))
    lower = known[0].direction == "lower"
    in_order = sorted(known, key=lambda row: row.value if lower else -row.value)
    ends = [(in_order[-1], "worst")] if judged(known) else [(in_order[0], "best"), (in_order[-1], "worst")]
    digits = decimals(row.value for row in known)
    openings = ["The" if score in SYMMETRY_SCORES else f"By {title_of(score).lower()}, the", "The"][: len(ends)]
    several = len(answers) > 1
    return [*said, *(extreme(*end, digits, opening, several=several) for end, opening in zip(ends, openings, strict=True))]


def shares(answers: Sequence[ModelAnswer]) -> Markup:
    """How many explainers respect the symmetry, on each model; models on which none does share a phrase."""
    totals = [sum(len(finding.names) for finding in item.findings) for item in answers]
    kept = [sum(len(finding.names) for finding in item.findings if finding.verdict is Verdict.KEEPS) for item in answers]
    if len(answers) == 1:
        return say("{} of {} {}", kept[0] or "None", count(totals[0], "explainer"), "respects" if kept[0] == 1 else "respect")
    counted = list(zip(answers, kept, totals, strict=True))
    parts = [say("{} of {} on {}", some, total, name(item.model)) for item, some, total in counted if some]
    for size in dict.fromkeys(total for _, some, total in counted if not some):
        without = [name(item.model) for item, some, total in counted if not some and total == size]
        parts.append(say("none of {} on {}", size, listing(without, "or")))
    return say("Of the explainers, {} respect", listing(parts))


def extreme(row: Result, word: str, digits: int, opening: str = "The", *, several: bool) -> Markup:
    """The best or the worst mean."""
    where = say(" on {}", name(row.model)) if several else ""
    shown = (number(row.value, digits), interval(row.low, row.high, digits))
    return say("{} {} mean is that of {}{}: {} ({}).", opening, word, name(row.explainer), where, *shown)


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


def answer_for(model: str, rows: Sequence[Result], own: Result | None) -> ModelAnswer:
    """What holds for one model: its own invariance, the verdicts, and what qualifies them."""
    lower = bool(rows) and rows[0].direction == "lower"
    best_first = sorted(rows, key=lambda row: (not row.defined, row.value if lower else -row.value))
    groups = {kind: by_frame([row for row in best_first if verdict(row) is kind]) for kind in Verdict}
    found = tuple(Finding(verdict=kind, groups=names) for kind, names in groups.items() if names)
    known = [row for row in rows if row.defined]
    return ModelAnswer(
        model=model, behaviour=behaviour(own), findings=found if judged(known) else (), remarks=tuple(remarks(best_first, own))
    )


def by_frame(rows: Sequence[Result]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Explainers under what their explanations are called, in their order."""
    return tuple((frame_title(frame), tuple(row.explainer for row in rows if row.frame == frame)) for frame in frames_of(rows))


def behaviour(own: Result | None) -> str:
    """The model's invariance in one phrase."""
    if own is None:
        return "Model invariance was not measured."
    if not own.defined:
        return "Model invariance is undefined."
    return f"Model invariance {number(own.value)} ({interval(own.low, own.high)})"


def remarks(rows: Sequence[Result], own: Result | None) -> list[Markup]:
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
    if lost:
        said.append(say("Not clearly better than the random control: {}.", listing(lost)))
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


def say(template: str, *parts: object) -> Markup:
    """A sentence with its parts, escaped where they are not markup already."""
    return Markup(template).format(*parts)


def name(text: str) -> Markup:
    """A user's word in a sentence, set apart."""
    return say('<span class="id">{}</span>', text)


def listing(parts: Iterable[Markup], link: str = "and") -> Markup:
    """Parts as a sentence has them.

    >>> print(listing([Markup("a"), Markup("b"), Markup("c")], "or"))
    a, b or c
    """
    *first, last = parts
    return say("{} {} {}", Markup(", ").join(first), link, last) if first else last
