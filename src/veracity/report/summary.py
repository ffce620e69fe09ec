"""What many scores say together, in a few sentences."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from veracity.report.assumed import Assumed
from veracity.report.figures.overview import OverviewData
from veracity.report.phrases import listing, name, say
from veracity.report.wording import count, word_of

MANY = 3
"""More scores than this are summed up."""
OFTEN = 0.1
"""The share of samples from which on an assumption that fails is worth a sentence."""


def leaders(tables: Sequence[OverviewData], without: Sequence[str] = ()) -> list[Markup]:
    """Who has the best mean how often, on each model; scores that say nothing of the model do not count."""
    said = []
    for table in tables:
        rows = [row for row in table.rows if row.score not in without and any(cell.best for cell in row.cells)]
        wins = {label: sum(row.cells[place].best for row in rows) for place, label in enumerate(table.explainers)}
        first = [(label, number) for label, number in sorted(wins.items(), key=lambda item: -item[1]) if number]
        if not first:
            continue
        if len(rows) == 1:
            said.append(say("By {}{}, {} has the best mean.", word_of(rows[0].score), on(table, tables), name(first[0][0])))
            continue
        where = say("On {}, of", name(table.model)) if len(tables) > 1 else "Of"
        parts = [say("{} has the best mean in {}", name(label), number) for label, number in first]
        end = "; no explainer is best throughout" if first[0][1] < len(rows) else ""
        said.append(say("{} {}, {}{}.", where, count(len(rows), "score"), listing(parts), end))
    return said


def on(table: OverviewData, tables: Sequence[OverviewData]) -> Markup:
    """Which model a table is of, where there are several."""
    return say(" on {}", name(table.model)) if len(tables) > 1 else Markup("")


def failing(assumed: Sequence[Assumed], models: Sequence[str], *, whole: bool = True) -> list[Markup]:
    """Which scores take something for granted that often fails, and on how many samples; of all only where the `whole` is measured."""
    told = [one for one in assumed if one.n and one.fails >= OFTEN * one.n]
    if not assumed:
        return []
    if not told and not whole:
        return []
    if not told:
        return [Markup("What the scores assume of the models holds on more than nine of ten samples, for every score.")]
    said = []
    for model in models:
        mine = sorted((one for one in told if one.model == model), key=lambda one: -one.fails)
        where = say("On {}, what", name(model)) if len(models) > 1 else "What"
        parts = [say("{} ({} of {} samples)", word_of(one.score), one.fails, one.n) for one in mine]
        if parts:
            said.append(say("{} a score assumes of the model fails often for {}.", where, listing(parts)))
    return said
