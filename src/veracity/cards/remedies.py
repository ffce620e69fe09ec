"""`veracity advise` as a part of the card: what to change in explainers that do not follow the model's symmetry, and what that gained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from veracity.cards.record import AdviceRecord, CardRecord
from veracity.cards.runs import Runs
from veracity.core.errors import VeracityError
from veracity.core.wording import interval, joined, number
from veracity.studies.advice import advise

COMMAND = "veracity card FILE --advise, or veracity.card(..., advise=True)"


def remedies(runs: Runs) -> tuple[list[AdviceRecord], list[str]]:
    """Follow the flowchart for every symmetry that was asked, measure the changes, and say what could not be."""
    found, notes = list[AdviceRecord](), list[str]()
    for part, (words, _) in runs.symmetries.items():
        try:
            steps = advise(runs.audits[part], Path(runs.folder) / part, workers=runs.how.get("workers", 1), progress=False)
        except VeracityError as error:
            notes.append(f"There is no advice on {words}: {str(error).replace(str(runs.folder), 'the folder of the card')}")
            continue
        for one in (one for one in steps if not one.robust):
            gained: dict[str, Any] = {"gain": one.gain, "low": one.gain_low, "high": one.gain_high}
            told: dict[str, Any] = {"explainer": one.explainer, "symmetry": words, "reason": one.reason, "change": one.change}
            found.append(AdviceRecord(**told, **gained, before=one.before, after=one.after))
    return found, notes


def advice_sentences(card: CardRecord) -> Iterator[str]:
    """What to change and what that gained, in a sentence each; where nobody asked, how to ask if an explainer falls short."""
    short = [
        one.name for one in card.explainers if any(said.question == "symmetric" and said.word == "falls short" for said in one.answers)
    ]
    if card.advice is None:
        if short:
            follow = "it follows" if len(short) == 1 else "they follow"
            yield f"{joined(short)} may be changed so that {follow}. To see how, and what that gains: {COMMAND}."
        return
    if not card.advice:
        asked = any(check.score for one in card.explainers for said in one.answers if said.question == "symmetric" for check in said.checks)
        yield (
            "Advice was asked for, and no explainer needs a change."
            if asked
            else ("Advice was asked for, but it is about symmetries, and none was asked of the explainers.")
        )
    for one in card.advice:
        change = f" Change: {one.change.rstrip('.')}." if one.change else " There is no change to propose."
        gained = ""
        if one.change and one.before is not None and one.after is not None and one.gain is not None:
            ends = "" if one.low is None or one.high is None else f" ({interval(one.low, one.high, 3)})"
            gained = f" Measured: {number(one.before)} before, {number(one.after)} after, a gain of {number(one.gain)}{ends}."
        elif one.change:
            gained = " The change was not measured."
        yield f"{one.explainer} ({one.symmetry}): {one.reason.rstrip('.')}.{change}{gained}"
