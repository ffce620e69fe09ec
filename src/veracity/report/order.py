"""Who is ahead of whom, as far as paired differences go, and who does better than explanations that do not look at the model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd
from markupsafe import Markup

from veracity.core.wording import count, decimals, number
from veracity.report.rows import AGAINST_CHANCE, Verdict, against_chance, frames_of
from veracity.report.wording import frame_title, listing, name, piece, say, sentences, title_of, word_of
from veracity.results import Row
from veracity.results.rows import digits_of

RANDOM = "random_"
"""How the names of controls begin whose explanations are drawn at random."""
SHOWN = 2
"""More numbers than this do not belong into a sentence."""


def chance_sentences(rows: Sequence[Row], models: Sequence[str], digits: int) -> list[Markup]:
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


def blind_remarks(rows: Sequence[Row], controls: Sequence[Row]) -> list[Markup]:
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


FEW = 6
"""With fewer samples than this, their number is said where explainers cannot be told apart."""
NAMED = 4
"""More explainers than this are counted instead of named."""

Pairs = Mapping[frozenset[str], bool]
"""Whether two explainers differ, for each pair that has a paired difference."""
COLUMNS = ["model", "first", "second", "difference", "low", "high", "n", "differs"]


def no_differences() -> pd.DataFrame:
    """The paired differences of nothing."""
    return pd.DataFrame(columns=COLUMNS)


def pairs_of(differences: pd.DataFrame, model: str) -> dict[frozenset[str], bool]:
    """The pairs of explainers on a model whose simultaneous paired difference has an interval, and whether that leaves zero out."""
    records = differences[differences["model"] == model].to_dict("records")
    return {
        frozenset((str(row["first"]), str(row["second"]))): bool(row["differs"])
        for row in records
        if any(math.isfinite(row.get(end, 0.0)) for end in ("low", "high"))
    }


def place(rows: Sequence[Row], model: str, *, several: bool) -> Markup:
    """Where some rows of a model are from, after the name of a score: which model of `several`, and "so far" while some are pending."""
    where = piece(" on {}", name(model)) if several else Markup("")
    return where + (" so far" if any(row.pending and not row.control for row in rows) else "")


def better(row: Row, other: Row) -> bool:
    """Whether a row's value is the better one."""
    return row.value < other.value if row.direction == "lower" else row.value > other.value


def ahead(row: Row, rows: Sequence[Row], pairs: Pairs) -> bool:
    """Whether paired differences put a row ahead of every other one of its kind, of which there must be some."""
    others = [one for one in rows if one is not row]
    return bool(others) and all(better(row, one) and pairs.get(frozenset((row.explainer, one.explainer)), False) for one in others)


def behind(row: Row, rows: Sequence[Row], pairs: Pairs) -> bool:
    """Whether paired differences put a row behind every other one of its kind, of which there must be some."""
    others = [one for one in rows if one is not row]
    return bool(others) and all(better(one, row) and pairs.get(frozenset((row.explainer, one.explainer)), False) for one in others)


def order_sentences(rows: Sequence[Row], label: str, where: Markup, pairs: Pairs, *, last_only: bool = False) -> list[Markup]:
    """Who is ahead of whom on one model, each kind of explanation for itself; with `last_only` alone who is behind all others."""
    mine = [row for row in rows if row.defined and not row.control]
    kinds = frames_of(mine)
    said: list[Markup] = []
    for frame in kinds:
        here = [row for row in mine if row.frame == frame]
        place = where + (piece(", of {}", frame_title(frame).lower()) if len(kinds) > 1 else Markup(""))
        said += [] if last_only else sentences(order_sentence(here, label, place, pairs))
        said += last_sentences(here, label, place, pairs) if last_only or len(here) > 2 else []
    return said


def order_sentence(rows: Sequence[Row], label: str, where: Markup, pairs: Pairs) -> Markup:
    """Explainers of one kind on one model in the order that their differences allow; nothing of none."""
    if not rows:
        return Markup("")
    if len(rows) == 1:
        return say("order.single", word_of(label), where, name(rows[0].explainer), shown(rows[0], rows), explainers=1)
    if rows[0].in_map_units:
        return say("order.units", title_of(label), explainers=len(rows))
    names = [row.explainer for row in rows]
    compared = [differs for pair, differs in pairs.items() if pair <= set(names)]
    if not any(compared):
        return level_sentence(rows, label, where, len(compared))
    first, *others = sorted(rows, key=lambda row: row.value if row.direction == "lower" else -row.value)
    apart = sum(compared)
    rest = say("order.pairs", count(len(compared), "pair"), apart, paired=len(compared), apart=apart)
    if ahead(first, rows, pairs):
        start = (word_of(label), where, name(first.explainer), shown(first, rows))
        return say("order.ahead", *start, rest, explainers=len(rows), apart=apart)
    beaten = [row for row in others if pairs.get(frozenset((first.explainer, row.explainer)), False)]
    level = [row for row in others if row not in beaten]
    over = piece(" and is ahead of {}", named(beaten)) if beaten else Markup("")
    parts = (word_of(label), where, name(first.explainer), shown(first, rows), over, named(level), rest)
    return say("order.first", *parts, explainers=len(rows), apart=apart)


def level_sentence(rows: Sequence[Row], label: str, where: Markup, compared: int) -> Markup:
    """That explainers of one kind cannot be told apart, and why."""
    word, fewest, found = word_of(label), min(row.n for row in rows), len(rows)
    if len({row.value for row in rows}) == 1 and all(row.bound for row in rows):
        return say("order.bounds", word, where, named(rows), rows[0].middle, rows[0].shown(digits_of(rows)), explainers=found)
    if fewest < FEW and not rows[0].pooled:
        return say("order.few", count(fewest, "sample"), named(rows), word, where, explainers=found)
    if not compared:
        return say("order.unpaired", word, where, named(rows), explainers=found)
    return say("order.level", word, where, named(rows), explainers=found, paired=compared)


def last_sentences(rows: Sequence[Row], label: str, where: Markup, pairs: Pairs) -> list[Markup]:
    """Which explainer of one kind is behind every other one, if any is."""
    last = next((row for row in rows if not row.in_map_units and behind(row, rows, pairs)), None)
    if last is None:
        return []
    said = (word_of(label), where, name(last.explainer), shown(last, rows))
    return sentences(say("order.behind", *said, explainers=len(rows), apart=len(rows) - 1))


def shown(row: Row, rows: Sequence[Row]) -> str:
    """A value with its interval, and how a search ended."""
    digits = digits_of(rows)
    ends = "no interval" if math.isnan(row.low) or math.isnan(row.high) else row.ends(digits)
    return f"{row.shown(digits)} ({ends})" + (f"; {row.outcome}" if row.outcome else "")


def named(rows: Sequence[Row]) -> Markup:
    """Explainers by name, or by their number where they are many."""
    return listing([name(row.explainer) for row in rows]) if len(rows) <= NAMED else Markup.escape(count(len(rows), "explainer"))
