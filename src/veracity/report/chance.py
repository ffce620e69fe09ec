"""What explanations that do not look at the model score, and who does better."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from veracity.report.phrases import listing, name, piece, say, sentences
from veracity.report.verdict import AGAINST_CHANCE, Verdict, against_chance
from veracity.report.view import Result
from veracity.core.wording import decimals, number

RANDOM = "random_"
"""How the names of controls begin whose explanations are drawn at random."""
SHOWN = 2
"""More numbers than this do not belong into a sentence."""


def chance_sentences(rows: Sequence[Result], models: Sequence[str], digits: int) -> list[Markup]:
    """How many explainers do better than chance on each model, and what chance is; nothing where that is unknown."""
    judged = [(row, kind) for row in rows if (kind := against_chance(row)) in AGAINST_CHANCE]
    parts = []
    for model in models:
        mine = [kind for row, kind in judged if row.model == model]
        ahead, total = mine.count(Verdict.AHEAD), len(mine)
        share = f"all {total}" if ahead == total > 1 else f"{ahead or 'none'} of {total}"
        parts += [piece("{}{}", share, piece(" on {}", name(model)) if len(models) > 1 else "")] if total else []
    values = sorted({row.chance for row, _ in judged})
    chances = list(dict.fromkeys(number(value, digits) for value in values))
    known = any(math.isfinite(row.null) for row in rows)
    what = "an explanation that has nothing to do with the model scores" if known else "random explanations score"
    shown = piece(" ({})", listing(map(Markup.escape, chances))) if len(chances) <= SHOWN else ""
    return sentences(say("chance.share", listing(parts), what, shown, chances=len(judged)))


def blind_remarks(rows: Sequence[Result], controls: Sequence[Result]) -> list[Markup]:
    """Which controls score no worse than some explainers though they do not look at the model; random ones are what chance is."""
    known = [row for row in rows if row.defined and math.isfinite(row.low) and math.isfinite(row.high)]
    parts = []
    for control in (row for row in controls if math.isfinite(row.low) and math.isfinite(row.high)):
        sign = -1.0 if control.direction == "lower" else 1.0
        beaten = sum(sign * control.value >= sign * row.value for row in known)
        if beaten and not control.explainer.startswith(RANDOM):
            digits = decimals(row.value for row in known)
            parts.append(piece("{} ({}) than {} of {}", name(control.explainer), number(control.value, digits), beaten, len(known)))
    return sentences(say("chance.blind", listing(parts), controls=len(parts), intervals=len(known)))
