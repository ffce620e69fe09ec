"""Cards of two versions of a model: what got worse beyond chance, check by check.

The value of a check is v = mean gap / mean room. If both cards have the same samples, the difference is paired: to first order its error
is the mean over samples of u_after - u_before with u = (gap - v room) / mean room, so that its interval is that of any mean over samples,
crossed where all samples share the draws. Otherwise the ends are those of two independent estimates. All comparisons are corrected
together (Bonferroni), and differences up to the card's margin count as none. Of question 0 only the words count, as for dominance.

What a race stopped in one of the cards, an explainer or one of its checks, is compared on the samples that both cards have of it. When it
was stopped depends on its values, so its interval has the share of alpha of that look, as on the cards: whichever look it is, all of them
miss with alpha at most.
Two independent cards have the product of their shares. Questions 4 and 5 are asked once, and have all of alpha.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from veracity.cards.checks import MAPS, SEARCH, SYMMETRY, TRAINING, Evidence
from veracity.cards.decide import FEWEST, LEAST_ROOM, Terms, Word, level_for
from veracity.cards.questions import QUESTIONS, evidence_for
from veracity.cards.racing import looks, shares
from veracity.cards.reading import Reading
from veracity.cards.record import DOMINATED, OUT, CheckRecord, StopRecord
from veracity.core.errors import VeracityError
from veracity.core.wording import count, interval, joined, number
from veracity.inputs.units import UNIT
from veracity.results import Result
from veracity.results.comparison import apart
from veracity.statistics.intervals import Array, Interval
from veracity.statistics.units import independent

if TYPE_CHECKING:
    from veracity.cards.result import Card

Key = tuple[str, str, str, str]
"""Explainer, question, check and the title of the check, which names the symmetry."""
CLOSE = 1e-6
FEW = 3
"""Of more checks, only the number is said."""
NEARLY = 0.8
"""If this share of the explainers falls on a check, the model may be the reason."""
MANY_CLASSES = 3
"""The record says which checks were asked, so that nobody looks for the number of classes again."""
BY_WORD = {check.key for question in QUESTIONS for check in question.checks if not check.compares}
"""Checks of which only the word counts."""
POOLED = "training"
"""The question whose values are no means over samples."""
ONCE = ("robust", "training")
"""Questions that no look asks again."""
RANK = {Word.HOLDS: 1, Word.UNTOLD: 0, Word.NOT_ASKED: 0, Word.SHORT: -1}
"""How good a word is, beside others."""
SETTINGS = {"calm": "noise", "robust": "radius"}
"""The setting of the card that a question depends on."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One check of one explainer in two cards: after - before, in shares of the way from the reference to the ideal.

    The ends are NaN if there is no interval; `why` then says why the two cannot be compared. Differences up to the `margin` of the card
    count as none, even if chance cannot explain them. `level` is the confidence of the interval. If a race stopped the explainer or the
    check, all of it is about the `first` samples of the cards; 0 if it is about all.
    """

    explainer: str
    question: str
    check: str
    title: str
    before: float
    after: float
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    paired: bool = False
    why: str = ""
    margin: float = 0.0
    level: float = math.nan
    first: int = 0

    @property
    def difference(self) -> float:
        """How much better it is now."""
        return self.after - self.before

    @property
    def worse(self) -> bool:
        """Whether it got worse beyond chance, and by more than the margin."""
        return self.high < 0.0 and self.difference < -self.margin

    @property
    def better(self) -> bool:
        """Whether it got better beyond chance, and by more than the margin."""
        return self.low > 0.0 and self.difference > self.margin

    @property
    def small(self) -> bool:
        """Whether it differs beyond chance, but not by more than the margin."""
        return (self.high < 0.0 or self.low > 0.0) and not (self.worse or self.better)

    def __str__(self) -> str:
        digits = next((digits for digits in (2, 3) if all(end == 0.0 or round(end, digits) for end in (self.low, self.high))), 4)
        ends = "the same on every sample" if self.low == self.high else f"a change of {interval(self.low, self.high, digits)}"
        return f"{self.title} {number(self.before, 2)} before, {number(self.after, 2)} now ({ends})"


@dataclass(frozen=True)
class Side:
    """One of the two cards, and the runs that it was made of, as far as they are there."""

    card: Card

    @cached_property
    def checks(self) -> dict[Key, CheckRecord]:
        """Every check of every explainer."""
        return {
            (name, said.question, check.check, check.title): check
            for name, one in self.card.explainers.items()
            for said in one.answers
            for check in said.checks
        }

    @cached_property
    def results(self) -> dict[str, Result]:
        """The runs by part; empty if the card came without them."""
        root, found = Path(self.card.path), dict[str, Result]()
        names = [MAPS, *sorted(path.name for path in root.glob(f"{SYMMETRY}-*")), SEARCH, TRAINING] if self.card.path else []
        for name in names:
            with suppress(VeracityError):
                found[name] = Result(root / name)
        return found if MAPS in found else {}

    @property
    def data(self) -> str:
        """The hash of the samples; "" if it is not known."""
        return str(self.results[MAPS].manifest["data"]["fingerprint"]) if self.results else ""

    @property
    def units(self) -> list[int] | None:
        """The unit of each sample, such as its patient; None if each stands alone, or if it is not known."""
        found = self.results[MAPS].units if self.results else None
        return None if found is None else [int(one) for one in found]

    def units_among(self, first: int) -> int | None:
        """How many units the first samples belong to; 0 means all samples."""
        return None if self.units is None else len(set(self.units[: first or None]))

    @property
    def planned(self) -> int:
        """The samples of an explainer that no race stops."""
        return self.card.record.planned or self.card.record.samples

    def reach(self, key: Key) -> int:
        """How many samples the card has of a check."""
        own, stopped = self.checks[key].samples, self.left(key[0])
        return own if own is not None else self.card.record.samples if stopped is None else stopped.samples

    def level(self, key: Key) -> float:
        """The confidence of the interval of a check."""
        own, stopped = self.checks[key].level, self.left(key[0])
        return own if own is not None else self.card.record.level if stopped is None else stopped.level

    def left(self, explainer: str) -> StopRecord | None:
        """The look after which an explainer was no more part of the race; None if it was to the end."""
        stopped = self.card.explainers[explainer].stopped
        return stopped if stopped is not None and stopped.why in (OUT, DOMINATED) else None

    def share(self, samples: int) -> float:
        """The share of alpha of the look at so many samples; all of it if there was no race."""
        own = dict(zip(looks(self.planned), shares(self.planned), strict=True))
        return own.get(samples, min(own.values())) if self.card.record.race else 1.0

    @cached_property
    def symmetries(self) -> dict[str, tuple[str, float | None]]:
        """What the parts of question 3 ask for: (words, elements)."""
        symmetries: dict[str, tuple[str, float | None]] = {}
        for part, result in self.results.items():
            name = part.removeprefix(f"{SYMMETRY}-").replace("_", " ")
            words = next((one for one in self.card.record.symmetries if one.startswith(name)), "")
            if part.startswith(f"{SYMMETRY}-") and words:
                symmetries[part] = (words, float(max((int(one.counts.max()) for one in result.series if len(one.counts)), default=0)))
        return symmetries

    @cached_property
    def readings(self) -> dict[int, Reading]:
        """The runs as arrays over the first samples, by their number, as far as they were asked for."""
        return {}

    def rebuilt(self, explainer: str, samples: int) -> Iterator[tuple[Key, Evidence]]:
        """What the runs say about an explainer on the first samples."""
        if samples not in self.readings:
            model = self.card.record.model
            self.readings[samples] = Reading(self.results, model, samples, MANY_CLASSES, {}, self.symmetries, whole=(TRAINING,))
        reading = self.readings[samples]
        for question in QUESTIONS:
            with suppress(VeracityError):
                for (check, part), one in evidence_for(reading, explainer, question).items():
                    title = self.symmetries.get(part, ("", None))[0] or check.title
                    if isinstance(one, Evidence) and one.gap is not None and one.room is not None:
                        yield (explainer, question.key, check.key, title), one

    @cached_property
    def evidence(self) -> dict[Key, Evidence]:
        """The evidence of every check whose run gives the value on the card."""
        keys = self.checks if self.results else ()
        found = {key: self.measured(key[0], self.reach(key)).get(key) for key in keys}
        return {key: one for key, one in found.items() if one is not None and self.says(key, one)}

    @cached_property
    def measurements(self) -> dict[tuple[str, int], dict[Key, Evidence]]:
        """What the runs say about explainers on the first samples, as far as it was asked for."""
        return {}

    def measured(self, explainer: str, samples: int) -> dict[Key, Evidence]:
        """What the runs say about an explainer on the first samples."""
        if (explainer, samples) not in self.measurements:
            self.measurements[explainer, samples] = dict(self.rebuilt(explainer, samples))
        return self.measurements[explainer, samples]

    def on_first(self, key: Key, samples: int) -> Evidence | None:
        """The evidence of a check on the first samples; None if its run is not there or does not give the value on the card."""
        return self.measured(key[0], samples).get(key) if key in self.evidence else None

    def says(self, key: Key, one: Evidence) -> bool:
        """Whether the card has the value of this evidence: a run may be older than the card."""
        value, found = self.checks[key].value if key in self.checks else None, value_of(one)
        return value is not None and abs(found - value) < CLOSE * max(1.0, abs(value))

    def value(self, key: Key, samples: int) -> float:
        """The value of a check on the first samples: that of the card if it has no others."""
        one = None if samples == self.reach(key) else self.on_first(key, samples)
        return nan_of(self.checks[key].value) if one is None else value_of(one)

    def terms(self, key: Key, samples: int) -> Terms | None:
        """How far the explainer gets, per sample; None if the value is no mean over samples or its run is not there."""
        one = self.on_first(key, samples)
        if one is None or one.gap is None or one.room is None or key[1] == POOLED:
            return None
        return one.terms or Terms(one.gap[:, None], one.room[:, None])

    def interval(self, key: Key, confidence: float) -> Interval:
        """The value of a check at a confidence: from its run, else from the card, whose interval is widened or narrowed."""
        check, terms, one = self.checks[key], self.terms(key, self.reach(key)), self.evidence.get(key)
        value, n = nan_of(check.value), check.n
        standing = None if one is None else terms.standing(check.line, confidence) if terms is not None else one.judge(confidence)
        if standing is not None:
            return Interval(value=value, low=standing.low, high=standing.high, n=n)
        wider = float(ndtri(0.5 + confidence / 2.0) / ndtri(0.5 + self.level(key) / 2.0))
        low, high = (value + wider * (nan_of(end) - value) for end in (check.low, check.high))
        return Interval(value=value, low=low, high=high, n=n)


def sized(samples: int, side: Side) -> str:
    """A number of samples, with the number of units that they are of, if they belong to some."""
    units = side.units_among(0)
    return count(samples, "sample") + ("" if units is None else f" of {count(units, side.card.record.unit or UNIT)}")


def nan_of(value: float | None) -> float:
    """A number of a record, in which what is not finite is None."""
    return math.nan if value is None else value


def value_of(one: Evidence) -> float:
    """Mean gap / mean room over the samples that have both; NaN without any."""
    if one.gap is None or one.room is None or not (kept := np.isfinite(one.gap)).any():
        return math.nan
    return float(one.gap[kept].mean() / one.room[kept].mean())


def paired_difference(before: Terms, after: Terms, confidence: float) -> Interval:
    """The difference of two values over the samples that both have, with its interval; NaN with too few of them, or of their units.

    >>> gap = np.linspace(0.2, 0.6, 9)[:, None]
    >>> found = paired_difference(Terms(gap, np.ones((9, 1))), Terms(gap - 0.1, np.ones((9, 1))), 0.95)
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3), found.n
    (-0.1, -0.1, -0.1, 9)
    """
    both = np.isfinite(before.per_sample[0]) & np.isfinite(after.per_sample[0])
    n, values, errors = int(both.sum()), list[float](), list[Array]()
    for one in (before, after):
        gap, room = (part[both] for part in one.per_sample)
        size = float(room.mean()) if n else 0.0
        if independent(both, after.units) < FEWEST or size < LEAST_ROOM:
            return Interval(value=math.nan, low=math.nan, high=math.nan, n=n)
        values.append(float(gap.mean()) / size)
        errors.append(np.where(both[:, None], (one.gap - values[-1] * one.room) / size, np.nan))
    moved = errors[1] - errors[0]
    found = replace(after, gap=moved, room=np.ones_like(moved)).difference(0.0, confidence)
    value = values[1] - values[0]
    return Interval(value=value, low=value + found.low - found.value, high=value + found.high - found.value, n=n)


def shared_by(before: Terms, after: Terms) -> str:
    """How many samples have both values, and of how many units they are, if they belong to some.

    >>> gap, patients = np.array([[0.2], [0.3], [math.nan]]), np.array([0, 0, 1])
    >>> terms = Terms(gap, np.ones((3, 1)), units=patients, unit="patient")
    >>> shared_by(terms, terms)
    '2 samples of 1 patient'
    """
    both = np.isfinite(before.per_sample[0]) & np.isfinite(after.per_sample[0])
    units = "" if after.units is None else f" of {count(independent(both, after.units), after.unit)}"
    return count(int(both.sum()), "sample") + units


@dataclass(frozen=True)
class Changes:
    """What changed from one card to another: every check that both have, and sentences about what differs in how they were made.

    `level` is the confidence of each interval, unless a race had looks, which divide it. Questions that were asked in `other_ways` are not
    compared.
    """

    before: Card
    after: Card
    rows: tuple[Change, ...]
    level: float
    same_samples: bool
    other_ways: dict[str, str]

    @property
    def compared(self) -> list[Change]:
        """The checks with an interval."""
        return [one for one in self.rows if math.isfinite(one.low)]

    def table(self) -> pd.DataFrame:
        """One row per explainer, question and check."""
        rows = [{**vars(one), "difference": one.difference, "worse": one.worse, "better": one.better} for one in self.rows]
        return pd.DataFrame(rows)

    def words(self) -> dict[tuple[str, str], tuple[str, str]]:
        """The words before and now, by explainer and question."""
        said = [{(name, one.question): one.word for name, who in card.explainers.items() for one in who.answers} for card in self.cards]
        return {key: (word, said[1][key]) for key, word in said[0].items() if key in said[1]}

    @property
    def cards(self) -> tuple[Card, Card]:
        """Both cards, the older one first."""
        return self.before, self.after

    def moved(self, key: tuple[str, str]) -> tuple[list[Change], list[Change]]:
        """The checks of an explainer and question that got worse and better."""
        own = [one for one in self.rows if (one.explainer, one.question) == key]
        return [one for one in own if one.worse], [one for one in own if one.better]

    def verdict(self, key: tuple[str, str]) -> str:
        """What became of an explainer on a question: "worse", "better", "word" if only the word differs, or "".

        It is worse if some checks got worse and others better.
        """
        worse, better = self.moved(key)
        words = self.words()[key]
        sure = [Word.HOLDS, Word.SHORT]
        if key[1] == QUESTIONS[0].key and set(words) == set(sure) and key[1] not in self.other_ways:
            return "worse" if words[1] == Word.SHORT else "better"
        return "worse" if worse else "better" if better else "word" if words[0] != words[1] else ""

    def lines(self, verdict: str) -> list[str]:
        """A sentence for every explainer and question with this verdict, those whose word got worse first."""
        said = self.words()
        found = sorted(
            (key for key in said if self.verdict(key) == verdict), key=lambda key: RANK[Word(said[key][1])] - RANK[Word(said[key][0])]
        )
        return [self.sentence(key) for key in found]

    def uses(self) -> Iterator[str]:
        """A sentence for each use that explainers are no longer, or newly, shown to be fit for."""
        old = {use.key: use for use in self.before.record.uses}
        for use in self.after.record.uses:
            before = old[use.key].fit if use.key in old else []
            lost, won = ([name for name in these if name not in those] for these, those in ((before, use.fit), (use.fit, before)))
            if lost:
                yield f"{use.title}: no longer shown to be fit: {joined(lost)}."
            if won:
                yield f"{use.title}: newly shown to be fit: {joined(won)}."

    def sentence(self, key: tuple[str, str]) -> str:
        """What became of an explainer on a question: the words, and the checks that differ."""
        (old, new), (worse, better) = self.words()[key], self.moved(key)
        words = f'the word is still "{old}"' if old == new else f"{old} before, {new} now"
        said = f"{key[0]}, {key[1]} ({words})"
        parts = [*map(str, worse), *([f"but better: {'; '.join(map(str, better))}"] if worse and better else map(str, better))]
        return f"{said}: {'; '.join(parts)}." if parts else f"{said}."

    def open_fall(self) -> Change | None:
        """The check of which these samples leave the largest fall possible, among those that did not get worse."""
        return min((one for one in self.compared if not one.worse and one.low < 0), key=lambda one: one.low, default=None)

    def notes(self) -> Iterator[str]:
        """Sentences about what differs in how the cards were made."""
        records = [card.record for card in self.cards]
        if self.other_ways:
            parts = [f"{key} ({why})" for key, why in self.other_ways.items()]
            yield (
                f"The cards were made with other rules, so these questions are not compared: {joined(parts)}. Make both cards anew with "
                "one version of veracity and the same data."
            )
        if not self.same_samples:
            sizes = " and ".join(count(one.samples, "sample") for one in records)
            yield (
                f"The cards were made with other samples ({sizes}), or without their runs, so differences are not paired and only large "
                "ones are seen. Pass the same inputs, seed and samples=... for both."
            )
        if stopped := self.stopped():
            yield f"Some got fewer samples in a race, so they are compared on those that both cards have of them: {'; '.join(stopped)}."
        names = [set(card.explainers) for card in self.cards]
        gone, new = (joined(sorted(one - other)) for one, other in (names, names[::-1]))
        if gone or new:
            parts = [f"only before: {gone}"] * bool(gone) + [f"only now: {new}"] * bool(new)
            yield f"The cards have other explainers, and only those in both are compared ({'; '.join(parts)})."
        if other := self.other_settings():
            yield f"These explainers have other settings now, so that more than the model may have changed: {joined(other)}."

    def stopped(self) -> list[str]:
        """The explainers, and the checks of others, that are compared on fewer samples than the cards have, in words."""
        asked = [one for one in self.rows if one.question not in ONCE and (one.first or math.isfinite(one.low))]
        reach: dict[str, set[int]] = {}
        for one in asked:
            reach.setdefault(one.explainer, set()).add(one.first)
        said = []
        for first in sorted({one.first for one in asked if one.first}):
            whole = [name for name, found in reach.items() if found == {first}]
            part = [name for name, found in reach.items() if first in found and name not in whole]
            some = [f"some checks of {joined(part) if len(part) <= FEW else count(len(part), 'explainer')}"] if part else []
            said.append(f"{joined([*whole, *some])} on the first {first}")
        return said

    def other_settings(self) -> list[str]:
        """The explainers whose settings differ."""
        specs = [Side(card).results[MAPS].manifest["spec"].get("explainers") or {} for card in self.cards if Side(card).results]
        return [name for name in specs[0] if name in specs[1] and specs[0][name] != specs[1][name]] if len(specs) == 2 else []

    def __str__(self) -> str:
        return "\n".join(self.text())

    def text(self) -> Iterator[str]:
        """The comparison in words."""
        old, new = (card.record for card in self.cards)
        paired = f"{sized(new.planned or new.samples, Side(self.after))}, the same in both" if self.same_samples else "other samples"
        yield f"{self.after.path or 'now'} against {self.before.path or 'before'}: {paired}."
        sure = f"with {100 * min(old.confidence, new.confidence):g} % confidence, everything called worse or better here is so"
        yield f"{count(len(self.compared), 'comparison')}; {sure}."
        yield "Numbers are shares of the way from the reference to the ideal, as on the cards; of question 0 only the words are compared."
        yield from self.models()
        yield from self.notes()
        for verdict, title in (("worse", "Got worse beyond chance"), ("better", "Got better beyond chance")):
            found = self.lines(verdict)
            yield from ("", title if found else f"{title}: nothing.", *(f"- {one}" for one in found))
        if found := self.lines("word"):
            yield from ("", "Another word now, but no clear change in the numbers", *(f"- {one}" for one in found))
        if found := list(self.uses()):
            yield from ("", "What it is fit for", *(f"- {one}" for one in found))
        if small := [one for one in self.rows if one.small]:
            which = joined([f"{one.explainer}, {one.title}" for one in small]) if len(small) <= FEW else count(len(small), "check")
            yield from ("", f"Changes beyond chance that are too small to count (at most {new.margin:g}): {which}.")
        least, whom = self.open_fall(), "samples" if new.units is None else count(2, new.unit or UNIT).partition(" ")[2]
        if least is not None:
            yield from (
                "",
                f"A fall that is not shown may still be there: the largest that these {whom} leave possible is "
                f"{number(-least.low, 2)} ({least.explainer}, {least.title}).",
            )
        if reasons := self.left_out():
            yield from ("", *(f"Not compared: {one}." for one in reasons))
        yield ""
        sets = [joined(card.undominated) or "none" for card in self.cards]
        yield f"Not surely dominated before: {sets[0]}." if sets[0] != sets[1] else f"Not surely dominated, before and now: {sets[0]}."
        if sets[0] != sets[1]:
            yield f"Not surely dominated now: {sets[1]}."
        for name in self.before.undominated:
            if (one := self.after.explainers.get(name)) is not None and one.dominated_by:
                yield f"Now {joined(list(one.dominated_by))} {'dominate' if len(one.dominated_by) > 1 else 'dominates'} {name}."

    def models(self) -> Iterator[str]:
        """Sentences about the model itself: how often it is right, and whether all explainers fell with it."""
        old, new = (card.record.accuracy for card in self.cards)
        if old is not None and new is not None:
            yield f"The model was right on {100 * old:.0f} % of the samples, and is right on {100 * new:.0f} % now."
        yield from self.all_fell()

    def all_fell(self) -> Iterator[str]:
        """That nearly all explainers got worse on the same checks, which says more about the model than about any of them."""
        fell: dict[str, set[str]] = {}
        asked: dict[str, set[str]] = {}
        for one in self.compared:
            asked.setdefault(one.title, set()).add(one.explainer)
            fell.setdefault(one.title, set()).update({one.explainer} if one.worse else ())
        most = [title for title, names in fell.items() if len(names) >= max(FEW, NEARLY * len(asked[title]))]
        if most:
            who = f"{min(len(fell[title]) for title in most)} of {max(len(asked[title]) for title in most)} explainers"
            yield f"At least {who} got worse by {joined(most)}, so look at the model first: these scores follow its outputs."

    def left_out(self) -> list[str]:
        """Which checks cannot be compared, and why: each reason once."""
        everybody = set(self.before.explainers) & set(self.after.explainers)
        who: dict[tuple[str, str], set[str]] = {}
        for one in self.rows:
            if not math.isfinite(one.low) and one.question not in self.other_ways:
                who.setdefault((one.why, one.title), set()).add(one.explainer)
        reasons: dict[str, list[str]] = {}
        for (why, title), names in who.items():
            reasons.setdefault(why, []).append(title if names == everybody else f"{title} of {joined(sorted(names))}")
        return [f"{joined(titles)} ({why})" for why, titles in reasons.items()]


def changes(before: Card, after: Card, *, together: bool = True) -> Changes:
    """Compare two cards; `together` corrects all comparisons, so that all of them are right at once with the cards' confidence."""
    old, new = Side(before), Side(after)
    other = other_ways(before, after)
    keys = [key for key in new.checks if key[0] in before.explainers and key[2] not in BY_WORD and key[1] not in other]
    gone = [key for key in old.checks if key[0] in after.explainers and key[2] not in BY_WORD and key[1] not in other and key not in keys]
    valued = [key for key in keys if key in old.checks and None not in (old.checks[key].value, new.checks[key].value)]
    confidence = min(before.record.confidence, after.record.confidence)
    level = level_for(len(valued), confidence) if together else confidence
    same = bool(old.data) and old.data == new.data and old.planned == new.planned
    rows = [change(old, new, key, level, same) if key in valued else uncompared(old, new, key) for key in (*keys, *gone)]
    return Changes(before, after, tuple(rows), level, same, other)


def change(old: Side, new: Side, key: Key, level: float, same: bool) -> Change:
    """One check that both cards have a value of."""
    told: dict[str, Any] = dict(zip(("explainer", "question", "check", "title"), key, strict=True))
    told["margin"] = new.card.record.margin
    reach = [side.reach(key) for side in (old, new)]
    least, once = min(reach), key[1] in ONCE
    first, second = old.terms(key, least), new.terms(key, least)
    if same and first is not None and second is not None and (first.gap.shape, first.crossed) == (second.gap.shape, second.crossed):
        share = 1.0 if once else min(side.share(least) for side in (old, new))
        told |= {"level": 1.0 - share * (1.0 - level), "first": 0 if once or least == new.planned else least}
        found = paired_difference(first, second, told["level"])
        why = "" if math.isfinite(found.low) else f"only {shared_by(first, second)} with a value in both"
        told |= {"before": old.value(key, least), "after": new.value(key, least)}
        return Change(**told, low=found.low, high=found.high, n=found.n, paired=True, why=why)
    share = 1.0 if once else math.prod(side.share(samples) for side, samples in zip((old, new), reach, strict=True))
    told |= {"level": 1.0 - share * (1.0 - level), "before": nan_of(old.checks[key].value), "after": nan_of(new.checks[key].value)}
    ends = apart(new.interval(key, told["level"]), old.interval(key, told["level"]))
    n = min(old.checks[key].n, new.checks[key].n)
    why = "" if math.isfinite(ends["low"]) else "one of the two has no interval"
    return Change(**told, low=ends["low"], high=ends["high"], n=n, why=why)


def uncompared(old: Side, new: Side, key: Key) -> Change:
    """One check without a value in one of the cards, and why."""
    told: dict[str, Any] = dict(zip(("explainer", "question", "check", "title"), key, strict=True))
    found = [side.checks.get(key) for side in (old, new)]
    missing = [
        f"{when}: {'it is not asked' if one is None else one.why or 'it has no value'}"
        for when, one in zip(("before", "now"), found, strict=True)
        if one is None or one.value is None
    ]
    before, after = (math.nan if one is None else nan_of(one.value) for one in found)
    same = len(missing) == 2 and missing[0].partition(": ")[2] == missing[1].partition(": ")[2]
    why = missing[0].partition(": ")[2] if same else "; ".join(missing)
    return Change(**told, before=before, after=after, why=why)


def other_ways(before: Card, after: Card) -> dict[str, str]:
    """The questions that the two cards ask in different ways, and what differs."""
    old, new = before.record, after.record
    rules = [{one.key: one.rule for one in record.questions} for record in (old, new)]
    lines = [{key[1:3]: check.line for key, check in Side(card).checks.items()} for card in (before, after)]
    found = {key: "another rule" for key, rule in rules[1].items() if rules[0].get(key) != rule}
    found |= {key[0]: "another line" for key, line in lines[1].items() if lines[0].get(key, line) != line}
    for key, name in SETTINGS.items():
        sizes = [getattr(record, name) for record in (old, new)]
        if None not in sizes and not math.isclose(*sizes, rel_tol=CLOSE):
            found[key] = f"{name} {sizes[0]:g} before and {sizes[1]:g} now"
    return found
