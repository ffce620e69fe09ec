"""What many scores say together, in a few sentences."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from veracity.report.assumed import Assumed
from veracity.report.figures.overview import OverviewData
from veracity.report.phrases import listing, name, piece, say, sentences
from veracity.report.wording import word_of
from veracity.core.wording import count

MANY = 3
"""More scores than this are summed up."""
OFTEN = 0.1
"""The share of samples from which on an assumption that fails is worth a sentence."""


def leaders(tables: Sequence[OverviewData], without: Sequence[str] = (), *, whole: bool = True) -> list[Markup]:
    """Who is ahead of every other explainer how often, on each model; scores that say nothing of the model do not count.

    Neither do scores of which an explainer is pending: the others are those measured so far, where the run is not `whole`.
    """
    said = []
    for table in tables:
        rows = [row for row in table.rows if row.score not in without and row.compared > 1]
        wins = {label: sum(row.cells[place].best for row in rows) for place, label in enumerate(table.explainers)}
        first = [(label, number) for label, number in sorted(wins.items(), key=lambda item: -item[1]) if number]
        most, won = max((row.compared for row in rows), default=0), sum(wins.values())
        where = piece("On {}, of", name(table.model)) if len(tables) > 1 else "Of"
        scores = count(len(rows), "score") + ("" if whole else " measured so far")
        if not won:
            said.append(say("leaders.none", where, scores, explainers=most, measured=len(rows)))
        elif len(rows) == 1:
            said.append(say("leaders.one", word_of(rows[0].score), on(table, tables), name(first[0][0]), explainers=most, apart=won))
        else:
            parts = [piece("{} is ahead of every other explainer in {}", name(label), number) for label, number in first]
            said.append(say("leaders.many", where, scores, listing(parts), explainers=most, apart=won, measured=len(rows)))
    return sentences(*said)


def on(table: OverviewData, tables: Sequence[OverviewData]) -> Markup:
    """Which model a table is of, where there are several."""
    return piece(" on {}", name(table.model)) if len(tables) > 1 else Markup("")


def failing(assumed: Sequence[Assumed], models: Sequence[str], *, whole: bool = True) -> list[Markup]:
    """Which scores take something for granted that often fails, and on how many samples; of all only where the `whole` is measured."""
    known = [one for one in assumed if one.n]
    often = [one for one in known if one.fails >= OFTEN * one.n]
    if not often:
        return sentences(say("assumed.hold", assumed=len(known) if whole else 0))
    said = []
    for model in models:
        mine = sorted((one for one in often if one.model == model), key=lambda one: -one.fails)
        where = piece("On {}, what", name(model)) if len(models) > 1 else "What"
        parts = [piece("{} ({} of {} samples)", word_of(one.score), one.fails, one.n) for one in mine]
        said.append(say("assumed.fail", where, listing(parts), assumed=len(mine)))
    return sentences(*said)
