"""From the runs of a card to its record: every word with its numbers, who dominates whom, and what follows for three uses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veracity.cards.checks import SEARCH, TRAINING, Check, Evidence
from veracity.cards.decide import FAR, FEWEST, MAY_CONTRADICT, Standing, Word, combine, contradictory, level_for, what_would_tell
from veracity.cards.dominate import MARGIN, USES, Dominance, Gains, fit_for
from veracity.cards.questions import QUESTIONS, Question, evidence_for
from veracity.cards.reading import Reading
from veracity.cards.record import (
    SCHEMA,
    AnswerRecord,
    CardRecord,
    CheckRecord,
    ExplainerRecord,
    GroupExplainer,
    GroupRecord,
    LookRecord,
    QuestionRecord,
    StopRecord,
    UseRecord,
)
from veracity.cards.trust import orders, planted_truth
from veracity.core.wording import joined, number, percentage
from veracity.statistics.intervals import Array
from veracity.statistics.units import Codes
from veracity.studies.result import or_none

if TYPE_CHECKING:
    from veracity.cards.racing import Look, Race, Stop

Key = tuple[Check, str]
Found = Mapping[Key, Evidence | Standing]


@dataclass(frozen=True)
class Pause:
    """A check of an explainer that got no more samples than these in a race: what it found, at the `level` of that look."""

    samples: int
    level: float
    evidence: Evidence | Standing
    standing: Standing


@dataclass(frozen=True)
class Judged:
    """One explainer: the evidence and the standing of every check, by question; of those that `paused`, what was found then."""

    name: str
    evidence: Mapping[str, Found]
    standings: Mapping[str, Mapping[Key, Standing]]
    paused: Mapping[Key, Pause] = field(default_factory=dict)

    @property
    def words(self) -> dict[str, Word]:
        """One word per question."""
        asked = {one.key: one.witnesses for one in QUESTIONS}
        return {key: combine([one.word for one in found.values()], asked[key]) for key, found in self.standings.items()}

    def going(self) -> Iterator[tuple[Key, Standing]]:
        """The checks that more samples may change, with their standings: questions 4 and 5 are asked once."""
        for found in self.standings.values():
            for key, standing in found.items():
                if key[0].part not in (SEARCH, TRAINING) and key not in self.paused and not standing.lasting:
                    yield key, standing

    def gains(self) -> Iterator[tuple[Key, Evidence]]:
        """The evidence by which explainers are compared."""
        for question, found in self.evidence.items():
            for key, one in found.items():
                decided = math.isfinite(self.standings[question][key].low) or key[0].part in (SEARCH, TRAINING)
                if isinstance(one, Evidence) and one.gap is not None and key[0].compares and decided:
                    yield key, one


def judge(
    reading: Reading,
    explainers: Sequence[str],
    confidence: float,
    stopped: Iterable[Judged] = (),
    paused: Mapping[str, Mapping[Key, Pause]] | None = None,
) -> tuple[list[Judged], int, float]:
    """Every explainer, how many comparisons there are, and the confidence of each of them.

    Comparisons of all explainers and questions are one family: all words of the card are right together with the given confidence.
    Those of explainers that were `stopped` and of checks that `paused` count as well: who is left depends on the same samples.
    """
    pauses = {name: dict((paused or {}).get(name, {})) for name in explainers}
    found = {name: {one.key: with_pauses(evidence_for(reading, name, one), pauses[name]) for one in QUESTIONS} for name in explainers}
    family = [*found.values(), *(one.evidence for one in stopped)]
    comparisons = sum(isinstance(one, Evidence) for parts in family for part in parts.values() for one in part.values())
    level = level_for(comparisons, confidence)
    judged = [
        Judged(name, parts, {key: stand(part, level, pauses[name]) for key, part in parts.items()}, pauses[name])
        for name, parts in found.items()
    ]
    return judged, comparisons, level


def with_pauses(found: Found, pauses: Mapping[Key, Pause]) -> Found:
    """The evidence of a question, with what checks had found when they paused."""
    return {key: pauses[key].evidence if key in pauses else one for key, one in found.items()}


def stand(found: Found, level: float, pauses: Mapping[Key, Pause] | None = None) -> dict[Key, Standing]:
    """The standings of the checks of one question; those that paused keep theirs."""
    kept = {key: one.standing for key, one in (pauses or {}).items() if key in found}
    return {key: kept.get(key) or (one.judge(level) if isinstance(one, Evidence) else one) for key, one in found.items()}


@dataclass(frozen=True)
class Told:
    """What was told of an explainer, and when: the reading of that look, and the order of all that were in."""

    judged: Judged
    reading: Reading
    order: Dominance | None


def collect(
    reading: Reading, explainers: Sequence[str], *, confidence: float, about: Mapping[str, Any], race: Race | None = None
) -> tuple[CardRecord, list[Judged]]:
    """The whole card, and what was found about each explainer; `about` holds what does not come from the runs.

    Explainers that a race told about before its end keep what was told then; `confidence` is that of the words told now.
    """
    early = {} if race is None else race.told
    left = [name for name in explainers if name not in early]
    paused = None if race is None else race.paused
    if race is not None and race.looks and not race.inside:  # the last look was the end
        confidence = race.looks[-1].confidence
    judged, comparisons, level = judge(reading, left, confidence, [one.judged for one in early.values()], paused)
    first = QUESTIONS[0]
    controls = [
        Judged(label, {first.key: part}, {first.key: stand(part, level)})
        for label in reading.controls
        if (part := evidence_for(reading, label, first))
    ]
    order = rivals([*judged, *(one.judged for one in early.values())], reading)
    now = {one.name: Told(one, reading, order) for one in judged}
    told = {name: early.get(name) or now[name] for name in explainers}
    stops = {} if race is None else {name: stop_record(one) for name, one in race.stopped.items()}
    free = set({} if order is None else order.undominated()) - early.keys()
    judged = [one.judged for one in told.values()]
    words = {one.name: {key: word.value for key, word in one.words.items()} for one in judged}
    records = [record_of(one.judged, one.reading, control=False, order=one.order, stopped=stops.get(name)) for name, one in told.items()]
    groups, group_comparisons, group_level = subgroups(reading, explainers, confidence)
    record = CardRecord(
        card=SCHEMA,
        model=reading.model,
        samples=reading.samples,
        confidence=about["confidence"],
        comparisons=comparisons,
        level=level,
        margin=MARGIN,
        symmetries=[words_of for words_of, _ in reading.symmetries.values()],
        questions=[QuestionRecord(number=one.number, key=one.key, title=one.title, about=one.about, rule=one.rule) for one in QUESTIONS],
        explainers=[*records, *(record_of(one, reading, control=True, order=None) for one in controls)],
        undominated=[name for name in explainers if name in free],
        uses=[use_record(use, words) for use in USES],
        orders=list(orders(keyed_gains(judged, reading.samples), reading)),
        truth=planted_truth(about["modality"]),
        notes=[*about["notes"], *twins(judged)],
        units=None if reading.units is None else len(np.unique(reading.units)),
        groups=groups,
        group_comparisons=group_comparisons,
        group_level=group_level,
        race=[] if race is None else [look_record(one, reading.symmetries) for one in race.looks],
        **{key: value for key, value in about.items() if key not in ("notes", "confidence")},
    )
    return record, judged


def use_record(use: Any, words: Mapping[str, Mapping[str, str]]) -> UseRecord:
    """Who is fit for a use."""
    fit, maybe, unfit = fit_for(use, words)
    return UseRecord(key=use.key, title=use.title, why=use.why, questions=list(use.questions), fit=fit, open=maybe, unfit=unfit)


def subgroups(reading: Reading, explainers: Sequence[str], confidence: float) -> tuple[list[GroupRecord], int, float | None]:
    """The answers in every subgroup, how many comparisons there are in all groups together, and the confidence of each of them.

    The groups are a family of their own, so that the words about all samples do not depend on them.
    """
    parts = {(one.name, label): np.flatnonzero(one.codes == place) for one in reading.groups for place, label in enumerate(one.labels)}
    inner = {key: reading.among(rows) for key, rows in parts.items() if sizes(rows, reading.units) >= FEWEST}
    found = {
        key: {name: {one.key: evidence_for(group, name, one) for one in QUESTIONS} for name in explainers} for key, group in inner.items()
    }
    every = [one for names in found.values() for asked in names.values() for part in asked.values() for one in part.values()]
    comparisons = sum(isinstance(one, Evidence) for one in every)
    level = level_for(comparisons, confidence)

    def answers(key: tuple[str, str]) -> Iterator[GroupExplainer]:
        for name, asked in found.get(key, {}).items():
            own = Judged(name, asked, {question: stand(part, level) for question, part in asked.items()})
            said = [answer_of(one, own, inner[key]) for one in QUESTIONS]
            yield GroupExplainer(name=name, answers=said)

    records = [
        GroupRecord(
            by=key[0],
            label=key[1],
            samples=len(rows),
            units=None if reading.units is None else len(np.unique(reading.units[rows])),
            few=key not in inner,
            explainers=list(answers(key)),
        )
        for key, rows in parts.items()
    ]
    return records, comparisons, level if parts else None


def sizes(rows: NDArray[np.int64], units: Codes | None) -> int:
    """How many of these samples count: the units that they belong to, if there are some."""
    return len(rows) if units is None else len(np.unique(units[rows]))


def rivals(judged: Sequence[Judged], reading: Reading) -> Dominance | None:
    """Who dominates whom among those that are not out; None if nobody is left.

    Of question 0 the word counts: to hold is better than to be open.
    """
    inside = [one for one in judged if one.words[QUESTIONS[0].key] is not Word.SHORT]
    if not inside:
        return None
    proven = np.array([float(one.words[QUESTIONS[0].key] is Word.HOLDS) for one in inside])
    checks = [Gains.fixed(proven, reading.samples), *(one for _, one in keyed_gains(inside, reading.samples))]
    return Dominance.of([one.name for one in inside], checks, units=reading.units)


def keyed_gains(judged: Sequence[Judged], samples: int) -> list[tuple[Key, Gains]]:
    """The checks that at least one explainer has, in their order, each with a row per explainer."""
    every = [dict(one.gains()) for one in judged]
    keys = dict.fromkeys(key for known in every for key in known)
    nothing = np.full(samples, np.nan)

    def rows(key: Key, part: str) -> list[Array]:
        return [nothing if key not in known else getattr(known[key], part) for known in every]

    def table(key: Key, part: str) -> Array:
        return np.stack([np.concatenate([one, nothing[len(one) :]]) for one in rows(key, part)])

    return [(key, Gains(table(key, "gap"), table(key, "room"), np.array([len(one) for one in rows(key, "gap")]))) for key in keys]


def twins(judged: Sequence[Judged]) -> list[str]:
    """A sentence about explainers whose numbers are all the same, on the samples that all checks of all of them have."""
    found = {one.name: [evidence.gap for _, evidence in one.gains() if evidence.gap is not None] for one in judged}
    most = min((len(gap) for gaps in found.values() for gap in gaps), default=0)
    groups: dict[bytes, list[str]] = {}
    for one in judged:
        parts = [np.nan_to_num(gap[:most], nan=-9.0).round(5).tobytes() for gap in found[one.name]]
        if parts:
            groups.setdefault(b"".join(parts), []).append(one.name)
    same = [" and ".join(names) for names in groups.values() if len(names) > 1]
    return (
        [f"These explainers have the same numbers on every check, so that nothing here tells them apart: {'; '.join(same)}."]
        if same
        else []
    )


def stop_record(one: Stop) -> StopRecord:
    """Why an explainer got no more samples, as plain data."""
    return StopRecord(why=one.why, samples=one.samples, level=one.level, by=list(one.by))


def look_record(one: Look, symmetries: Mapping[str, tuple[str, float | None]]) -> LookRecord:
    """One look of a race as plain data; checks are called as on the page."""
    return LookRecord(
        samples=one.samples,
        confidence=one.confidence,
        comparisons=one.comparisons,
        level=one.level,
        explainers=list(one.inside),
        stopped=list(one.stopped),
        paused={name: [symmetries.get(part, (check.title, None))[0] for check, part in keys] for name, keys in one.paused.items()},
    )


def record_of(
    one: Judged, reading: Reading, *, control: bool, order: Dominance | None, stopped: StopRecord | None = None
) -> ExplainerRecord:
    """One explainer as plain data."""
    words = one.words
    known = order is not None and one.name in order.explainers
    alone = float(order.alone[order.explainers.index(one.name)]) if order is not None and known else None
    return ExplainerRecord(
        name=one.name,
        control=control,
        out=words[QUESTIONS[0].key] is Word.SHORT,
        answers=[answer_of(question, one, reading) for question in QUESTIONS if question.key in words],
        undominated=alone,
        dominated_by=order.above(one.name) if order is not None and known else {},
        stopped=stopped,
    )


def answer_of(question: Question, about: Judged, reading: Reading) -> AnswerRecord:
    """The answer to one question about an explainer, in a sentence and in numbers."""
    found, standings, word = about.evidence[question.key], about.standings[question.key], about.words[question.key]
    checks = []
    for (check, part), standing in standings.items():
        evidence = found[check, part]
        told, pause = evidence if isinstance(evidence, Evidence) else None, about.paused.get((check, part))
        what = reading.symmetries.get(part, ("", None))[0]
        checks.append(
            CheckRecord(
                check=check.key,
                title=what or check.title,
                score=check.score,
                word=standing.word.value,
                value=or_none(standing.value),
                low=or_none(standing.low),
                high=or_none(standing.high),
                line=check.line,
                n=standing.n,
                undefined=standing.undefined,
                raw=None if told is None else or_none(told.raw),
                reference=None if told is None else or_none(told.control),
                against="" if told is None else told.against,
                assumed=None if told is None else or_none(told.assumed),
                more=standing.more,
                unseen=or_none(standing.unseen),
                why=standing.why,
                samples=None if pause is None else pause.samples,
                level=None if pause is None else pause.level,
            )
        )
    told_in_words = [(check, reading.symmetries.get(part, ("", None))[0], one) for (check, part), one in standings.items()]
    return AnswerRecord(
        question=question.key,
        word=word.value,
        hint=hint(list(standings.values()), leaning=question.witnesses and leans_apart(told_in_words)) if word is Word.UNTOLD else "",
        sentence=sentence(word, told_in_words, witnesses=question.witnesses),
        checks=checks,
    )


def leans_apart(standings: Sequence[tuple[Check, str, Standing]]) -> bool:
    """Whether one check holds, and an open one lies below its line: with more samples the two may contradict each other."""
    below = any(one.word is Word.UNTOLD and one.value < check.line for check, _, one in standings)
    return below and any(one.word is Word.HOLDS for _, _, one in standings)


def hint(standings: Sequence[Standing], leaning: bool = False) -> str:
    """What an open answer waits for, in a few words; `leaning` says that its scores may come to contradict each other.

    >>> hint([Standing(word=Word.UNTOLD, value=0.2, low=0.0, high=0.4, more=90)]), hint([Standing(word=Word.UNTOLD)])
    ('90 more samples', 'not measured')
    """
    if contradictory(one.word for one in standings):
        return "scores contradict"
    if needed := what_would_tell(standings):
        return MAY_CONTRADICT if leaning else needed
    if any(one.shared and math.isfinite(one.low) for one in standings if one.word is Word.UNTOLD):
        return "copies of the model differ"
    measured = any(math.isfinite(one.low) and one.more is None for one in standings if one.word is Word.UNTOLD)
    found = any(math.isfinite(one.value) for one in standings if one.word is Word.UNTOLD)
    return f"over {FAR} times the samples" if measured else "too little data" if found else "not measured"


def sentence(word: Word, standings: Sequence[tuple[Check, str, Standing]], witnesses: bool = False) -> str:
    """What a word rests on, in one sentence or two.

    Of a word that one check decides, that check alone is said. Of `witnesses` of the same thing, those that hold are named too.
    """
    telling = [item for item in standings if item[2].word is word]
    if word is Word.UNTOLD and contradictory(one.word for _, _, one in standings):
        good, bad = ([phrase(*item) for item in standings if item[2].word is one] for one in (Word.HOLDS, Word.SHORT))
        return f"The scores contradict each other, which more samples will not settle: {'; '.join(good)}; but {'; '.join(bad)}."
    reasons = {one.why for _, _, one in telling}
    if len(reasons) == 1 and "" not in reasons and not any(math.isfinite(one.value) for _, _, one in telling):
        return f"{capital(reasons.pop())}."
    said = f"{capital('; '.join(phrase(*item) for item in telling))}."
    if word is not Word.UNTOLD:
        return said
    needed, leaning = what_would_tell([one for _, _, one in telling]), witnesses and leans_apart(standings)
    good = [check.title for check, _, one in standings if one.word is Word.HOLDS]
    said = f"It holds by {joined(good)}. {said}" if witnesses and good else said
    if needed and leaning:
        what = "this score" if len(telling) == 1 else "these scores"
        held = "the other holds" if len(good) == 1 else "the others hold"
        return f"{said} About {needed} would settle {what}, but {held}: they may then contradict each other."
    if needed:
        return f"{said} About {needed} would tell."
    if shared := [what or check.title for check, what, one in telling if one.shared and math.isfinite(one.low)]:
        depends = f"{joined(shared)} {'depends' if len(shared) == 1 else 'depend'} on the randomised copies of the model"
        return f"{said} More samples alone may not tell: {depends}, which all samples share."
    close = any(math.isfinite(one.low) and one.more is None for _, _, one in telling)
    return f"{said} It would take more than {FAR} times as many samples to tell." if close else said


def phrase(check: Check, what: str, one: Standing) -> str:
    """What a check found, with its interval."""
    if not math.isfinite(one.value) or (one.why and not math.isfinite(one.low) and "{why}" not in check.phrase):
        return f"{what or check.title}: {one.why}"
    ends = f" ({number(one.low, 2)} to {number(one.high, 2)})" if math.isfinite(one.low) and math.isfinite(one.high) else ""
    ends = f" on every sample (up to {percentage(one.unseen)} of other samples may differ)" if math.isfinite(one.unseen) else ends
    said = check.phrase.format(value=number(one.value, 2), ends=ends, what=what, why=one.why)
    return said.replace("it covers", "it falls behind its control, covering") if one.high < 0 else said


def capital(text: str) -> str:
    """A text with a capital first."""
    return text[:1].upper() + text[1:]
