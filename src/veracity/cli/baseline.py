"""Two folders of two versions: `diff` compares them, and `gate --baseline` asks that nothing got worse by more than a margin.

A row is not worse if the lower end of the paired interval of its change, oriented so that more is better, lies above -margin. A gate
passes only if all rows do, so each is tested at the confidence of the run: if one of them is worse by more than the margin, the gate
passes with at most the probability that its own interval misses.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veracity.cli.gate import Case, check_share, too_much_unseen, who_of
from veracity.core.errors import InputError, Note, SpecError, unknown
from veracity.core.wording import MINUS, count, percentage
from veracity.core.wording import number as written

if TYPE_CHECKING:
    from veracity.cards import Card
    from veracity.cards.changes import Change
    from veracity.results import Result


def both_cards(first: str, second: str) -> tuple[Card, Card] | None:
    """Both folders if both are cards, None if none is; raises on one card alone."""
    from veracity.engine.store import RunFolder
    from veracity.engine.store.manifest import Kind
    from veracity.studies.result import load

    kinds = [Kind(RunFolder(folder).manifest(None)["kind"]) for folder in (first, second)]
    if kinds == [Kind.CARD, Kind.CARD]:
        return load(first), load(second)
    if Kind.CARD in kinds:
        words = [f"{folder} holds {kind.words}" for folder, kind in zip((first, second), kinds, strict=True)]
        raise SpecError(f"{' and '.join(words)}: compare a card with a card.")
    return None


def audits(folder: str, command: str) -> dict[str, Result]:
    """The audits of a folder by name, one alone without a name; raises on a folder that holds something else."""
    from veracity.engine.store import RunFolder
    from veracity.engine.store.manifest import Kind
    from veracity.studies.result import load

    kind = Kind(RunFolder(folder).manifest(None)["kind"])
    if kind not in (Kind.AUDIT, Kind.AUDITS):
        raise SpecError(
            f"{folder} holds {kind.words}, and '{command}' compares audits or cards sample by sample: print both folders with 'veracity "
            "show FOLDER --format csv' and compare the tables."
        )
    found = load(folder)
    return {"": found} if kind is Kind.AUDIT else dict(found.results)


def not_worse(
    folder: str,
    baseline: str,
    margin: float | None,
    explainers: Collection[str] = (),
    models: Collection[str] = (),
    scores: Collection[str] = (),
    max_unseen: float | None = None,
) -> list[Case]:
    """A case for each row that has a value in the baseline; it fails if it may have lost more than the margin, or is gone."""
    if margin is None:
        raise SpecError("--baseline needs --margin, the largest loss that you accept, such as 0.02.")
    if not 0.0 < margin < math.inf:
        raise SpecError(f"--margin is the largest loss that you accept, a number above 0 such as 0.02, not {margin:g}.")
    check_share(max_unseen)
    if "://" not in baseline and not Path(baseline).exists():
        raise InputError(f"There is no folder {baseline}: --baseline takes the run folder or the card of the version before.")
    if cards := both_cards(baseline, folder):
        rows = list(card_rows(*cards, baseline, folder))
    else:
        before, after = (audits(one, "veracity gate --baseline") for one in (baseline, folder))
        rows = list(audit_rows(before, after, baseline, folder))
    if not rows:
        raise InputError(f"{baseline} has no value to compare with: measure it, or leave --baseline out.")
    chosen = selected(rows, explainers=explainers, models=models, scores=scores)
    if not chosen:
        raise InputError(f"{baseline} has no row of these explainers, models and scores together: choose others, or fewer at once.")
    check_one_unit(chosen)
    return [judged(row, margin, max_unseen) for row in chosen]


CHOOSE = "measure it, or choose others with --explainer and --score"
Row = dict[str, Any]
"""model, explainer, score, before, after, low, high (of the gain, in the direction that is better), n, unseen, confidence, why."""


def selected(rows: Sequence[Row], **names: Collection[str]) -> list[Row]:
    """The rows of some explainers, models and scores, in which scores of models have no explainer; raises on an unknown name."""
    chosen = list(rows)
    for plural, wanted in names.items():
        column = plural.removesuffix("s")
        present = {row[column] for row in rows} - {""}
        for name in wanted:
            if name not in present:
                raise unknown(f"{column} of these runs", name, present)
        free = [""] if column == "explainer" else []
        chosen = [row for row in chosen if not wanted or row[column] in (*wanted, *free)]
    return chosen


def check_one_unit(rows: Sequence[Row]) -> None:
    """Refuse one margin for several explainers by a score in the map's own units."""
    for score in dict.fromkeys(row["score"] for row in rows if row.get("in_map_units")):
        names = {row["explainer"] for row in rows if row["score"] == score and row["explainer"]}
        if len(names) > 1:
            raise SpecError(
                f"The score '{score}' is in each map's own units, so one margin cannot hold for {len(names)} explainers: choose other "
                "scores with --score, or one explainer with --explainer."
            )


def judged(row: Row, margin: float, max_unseen: float | None) -> Case:
    """Whether a row is not worse than before by more than the margin."""
    asked, who = f"{row['score']} not worse by {margin:g}", who_of(row)
    if row["why"]:
        return Case(asked, who, failure=row["why"], open=row.get("open", False))
    values = f"{number(row['before'])} before, {number(row['after'])} now{row.get('about', '')}"
    unit, units = row.get("unit") or "sample", row.get("units")
    if math.isnan(row["low"]):
        few = f"{values}, without an interval, since there are too few {count(2, unit).partition(' ')[2]} or a single shared draw"
        return Case(asked, who, failure=few, open=True)
    if math.isinf(row["low"]):
        return Case(asked, who, failure=f"{values}; how much was lost is not known, since samples are censored", open=True)
    if row["low"] <= -margin:
        lost = number(-row["low"])
        sure = row["high"] < -margin
        verb = f"it is worse by at least {number(-row['high'])}" if sure else f"a loss of up to {lost} cannot be excluded"
        return Case(asked, who, failure=f"{values}; {verb}, and the margin is {margin:g}", open=not sure)
    equal = math.isfinite(row["unseen"])
    reason = too_much_unseen(row["n"], row["unseen"], max_unseen, row["confidence"], unit)
    note = values if row.get("about") else ""
    if equal:
        unseen = f"{percentage(row['unseen'])} of the population may change otherwise"
        people = "" if units is None else f" of {count(units, unit)}"
        note = f"{values}; the change is the same in all {row['n']} samples{people}, and up to {unseen}"
    return Case(asked, who, reason, note, open=True)


def number(value: float) -> str:
    """A number with three decimals and a plain minus."""
    return written(value).replace(MINUS, "-")


def audit_rows(before: dict[str, Result], after: dict[str, Result], baseline: str, folder: str) -> Iterator[Row]:
    """The paired change of every row of the baseline, without controls."""
    from veracity.core.measures import Direction
    from veracity.results import compared

    for name, old in before.items():
        if name not in after:
            raise InputError(f"{baseline} has an audit '{name}' that {folder} lacks: compare runs of the same audits.")
        new = after[name]
        check_same(old, new, baseline, folder)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Note)
            table = {(row["model"], row["explainer"], row["score"]): row for row in compared(old, new).to_dict("records")}
        shown, failed = set(old.manifest["scores"]), {(one.model, one.explainer, one.score): one.failed for one in new.series}
        for one in old.series:
            if one.control or one.score not in shown:
                continue
            people = old.manifest["data"].get("units") or {}
            known: Row = {"audit": name, "model": one.model, "explainer": one.explainer, "score": one.score}
            known |= {"unit": people.get("name", ""), "units": None if one.units is None else len(set(one.units.tolist()))}
            known |= {"in_map_units": old.in_map_units(one.score), "confidence": old.confidence}
            key = (one.model, one.explainer, one.score)
            row = table.get(key)
            if row is None:
                yield {**known, "why": f"it is in {baseline}, and not in {folder}: {CHOOSE}"}
                continue
            if row["status"] != "pending" and math.isnan(row["before"]):
                continue  # undefined in the baseline
            low, high = (row["low"], row["high"]) if one.direction is Direction.HIGHER else (-row["high"], -row["low"])
            n = len(one.samples)
            why = "it is not measured yet" if row["status"] == "pending" else failed[key]
            yield {**known, "why": why, "n": n, **{key: row[key] for key in ("before", "after", "unseen")}, "low": low, "high": high}


def check_same(old: Result, new: Result, baseline: str, folder: str) -> None:
    """Raise unless two runs measured the same things of the same samples."""
    if old.manifest["data"]["fingerprint"] != new.manifest["data"]["fingerprint"]:
        sizes = " and ".join(str(one.manifest["data"]["samples"]) for one in (old, new))
        raise InputError(
            f"{baseline} and {folder} were measured on different samples ({sizes}), so that they cannot be paired: measure the baseline "
            "again on the samples of this run."
        )
    if old.manifest["data"].get("units") != new.manifest["data"].get("units"):
        raise InputError(other_units(baseline, folder))
    specs = [one.manifest["score_specs"] for one in (old, new)]
    other = [score for score in old.manifest["scores"] if score in specs[1] and specs[0][score]["spec"] != specs[1][score]["spec"]]
    other += [key for key in ("symmetry", "walk") if old.manifest["spec"].get(key) != new.manifest["spec"].get(key)]
    if other:
        raise InputError(
            f"{baseline} and {folder} were measured with other settings of {', '.join(other)}, so that they say nothing about each other: "
            "measure the baseline again with the settings of this run."
        )


def other_units(baseline: str, folder: str) -> str:
    """Why two folders with different units are not compared."""
    return (
        f"{baseline} and {folder} have different units=..., so that their intervals are not about the same thing: measure one again "
        "with the units of the other, which takes no model pass."
    )


def card_rows(before: Card, after: Card, baseline: str, folder: str) -> Iterator[Row]:
    """The paired change of every check of the baseline's card, and of question 0 its word."""
    from veracity.cards.changes import Side, changes
    from veracity.cards.decide import Word
    from veracity.cards.questions import QUESTIONS

    found = changes(before, after, together=False)
    if not found.same_samples:
        sizes = " and ".join(str(card.record.samples) for card in (before, after))
        raise InputError(
            f"The cards {baseline} and {folder} were made with different samples ({sizes}), or lack their runs, so that they cannot be "
            "paired: make the baseline's card again with the same inputs, seed and samples=..."
        )
    if found.other_ways:
        parts = ", ".join(f"{key} ({why})" for key, why in found.other_ways.items())
        raise InputError(
            f"The cards {baseline} and {folder} were made with other rules: {parts}. Make the baseline's card again with this version."
        )
    sides = Side(before), Side(after)
    if sides[0].units != sides[1].units:
        raise InputError(other_units(baseline, folder))
    same = {"before": math.nan, "after": math.nan, "low": 0.0, "high": 0.0, "n": 0, "unseen": math.nan}
    known: Row = {"model": after.record.model, "confidence": found.level, "why": "", "unit": after.record.unit, **same}
    first = QUESTIONS[0].key
    for name in before.explainers:
        own = {**known, "explainer": name}
        if name not in after.explainers:
            checks = [check.check for said in before.explainers[name].answers for check in said.checks if check.value is not None]
            gone = f"it is on the card {baseline}, and not on {folder}: {CHOOSE}"
            yield from ({**own, "score": score, "why": gone} for score in dict.fromkeys([first, *checks]))
            continue
        held, now = before.holds(first, name), after.holds(first, name)
        if held or now.word == Word.SHORT != held.word:
            why = "" if now else f"{held.word} before, {now.word} now: {now.sentence}"
            yield {**own, "score": first, "why": why, "open": now.word != Word.SHORT}
        mine = [one for one in found.rows if one.explainer == name and math.isfinite(one.before)]
        yield from ({**own, **check_row(one, sides[1].units_among(one.first))} for one in mine)


def check_row(one: Change, units: int | None) -> Row:
    """One check that had a value before, and what its change is `about`, if it is not the paired one of all samples."""
    from veracity.statistics.intervals import unseen_share

    row: Row = {"score": one.check, "before": one.before, "after": one.after, "low": one.low, "high": one.high, "n": one.n}
    if math.isnan(one.after):
        return {**row, "why": f"{number(one.before)} before, and now it has no value ({one.why}): {CHOOSE}"}
    stopped = f", on the first {one.first} samples, after which racing stopped it" if one.first else ""
    row |= {"about": stopped or ("" if one.paired else ", not paired"), "confidence": one.level, "units": units}
    return {**row, "unseen": unseen_share(min(one.n, units or one.n), one.level) if one.low == one.high else math.nan}
