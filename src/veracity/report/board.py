"""Boards of a leaderboard: the explainers of one model of one run, by each of its scores, with their ranks."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from veracity.core.wording import count
from veracity.engine.store.state import Stage
from veracity.report.reading import comparable
from veracity.report.rows import Rank, badness, chance_words, explanation_scores, frames_of, pairs_of, ranks
from veracity.results import Result, Row
from veracity.results.rows import digits_of

NOT_RANKED = {
    "units": "in each map's own units, which explainers cannot be compared in",
    "pending": "not ranked while an explainer is pending",
    "alone": "not ranked: nothing to compare with",
    "untold": "not ranked: paired differences have no intervals",
}
"""Why a score ranks nobody."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One explainer by one score on one model; without a rank if it is a control, has no value or was not compared."""

    row: Row
    digits: int
    rank: Rank | None = None

    @property
    def value(self) -> str:
        """The mean or median in words, or why there is none."""
        if self.row.defined:
            return self.row.shown(self.digits)
        return "no response" if self.row.still else self.row.state

    @property
    def ends(self) -> str:
        """The interval in words; of a pending one, how far it is."""
        if self.row.pending:
            return self.row.so_far(self.digits)
        if not self.row.defined:
            return ""
        return "no interval" if math.isnan(self.row.low) or math.isnan(self.row.high) else self.row.ends(self.digits)

    @property
    def chance(self) -> str:
        """Whether it is not shown to do better than chance, in words."""
        return chance_words(self.row)

    @property
    def leads(self) -> bool:
        """Whether nobody is ahead of the explainer, and it does better than chance where chance is known."""
        return self.rank is not None and self.rank.first == 1 and not self.chance

    @property
    def counts(self) -> str:
        """How many samples have a value, are undefined or failed."""
        if self.row.pending:
            return ""
        more = {"undefined": self.row.undefined, "failed": self.row.samples_failed}
        return ", ".join([f"n {self.row.n:,}", *(f"{number:,} {what}" for what, number in more.items() if number)])

    @property
    def key(self) -> float | None:
        """What sorts the best first; None if there is no value."""
        return badness(self.row) if self.row.defined and not self.row.in_map_units else None


@dataclass(frozen=True, kw_only=True)
class Column:
    """One score on a board: its entries by explainer, which way is better, and why it ranks nobody, if so."""

    score: str
    direction: str
    entries: Mapping[str, Entry]
    middle: str = "mean"
    unranked: str = ""


@dataclass(frozen=True, kw_only=True)
class Group:
    """The explainers of one kind, or its controls, in the order of the page."""

    frame: str
    names: tuple[str, ...]
    control: bool = False


@dataclass(frozen=True, kw_only=True)
class Board:
    """One model of one run: what was measured, and what it depends on.

    `depends` holds, by words for it, everything by which another run of the same model may differ; `cells` is the same for two boards only
    if they hold the same measurements.
    """

    run: str
    model: str
    samples: int
    accuracy: float | None
    confidence: float
    standing: str
    columns: tuple[Column, ...]
    groups: tuple[Group, ...]
    depends: Mapping[str, str]
    explainer_specs: Mapping[str, Any]
    score_specs: Mapping[str, Any]
    cells: Hashable = None

    @property
    def about(self) -> str:
        """The data in a few words."""
        accurate = f", {100 * self.accuracy:.1f} % accurate" if self.accuracy is not None and math.isfinite(self.accuracy) else ""
        return f"{count(self.samples, 'sample')}{accurate}, {100 * self.confidence:g} % intervals"

    @property
    def kinds(self) -> int:
        """How many kinds of explanations there are."""
        return len({group.frame for group in self.groups})


def boards_of(run: Result, label: str, move: Callable[[int, int], None] = lambda part, total: None) -> list[Board]:
    """A board for each model of a run that has scores of explanations."""
    rows = []
    for number, row in enumerate(run.each_row(), start=1):
        rows.append(comparable(row, run.known_score(row.score)))
        move(number, 3 * len(run.series))  # rows take about a third of the time, paired differences the rest
    scores = explanation_scores(rows)
    paired = {}
    for number, score in enumerate(scores, start=1):
        if not run.in_map_units(score):
            paired[score] = run.differences(score)
        move(len(scores) + 2 * number, 3 * len(scores))
    found = []
    for model in dict.fromkeys(row.model for row in rows if row.explainer):
        here = [row for row in rows if row.model == model and row.explainer and row.score in scores]
        columns = tuple(
            column([row for row in here if row.score == score], paired.get(score))
            for score in scores
            if any(row.score == score for row in here)
        )
        found.append(board(run, label, model, columns, here))
    return found


def column(rows: Sequence[Row], differences: pd.DataFrame | None) -> Column:
    """One score on one model; explainers are ranked by kind, unless one of them is pending."""
    digits, placed, reasons = digits_of([row for row in rows if row.defined]), dict[str, Rank](), set[str]()
    for frame in frames_of(rows):
        mine = [row for row in rows if row.frame == frame and not row.control]
        if differences is None:
            reasons.add("units")
        elif any(row.pending for row in mine):
            reasons.add("pending")
        else:
            pairs = pairs_of(differences, rows[0].model)
            known = [row for row in mine if row.defined and any(row.explainer in pair for pair in pairs)]
            placed |= ranks(known, pairs)
            reasons.add("alone" if sum(row.defined for row in mine) < 2 else "untold")
    entries = {row.explainer: Entry(row=row, digits=digits, rank=placed.get(row.explainer)) for row in rows}
    unranked = "" if placed else NOT_RANKED.get(next((reason for reason in NOT_RANKED if reason in reasons), ""), "")
    first = rows[0]
    return Column(score=first.score, direction=first.direction, entries=entries, middle=first.middle, unranked=unranked)


def board(run: Result, label: str, model: str, columns: tuple[Column, ...], rows: Sequence[Row]) -> Board:
    """The board of one model of a run; explainers of each kind by how many scores they lead, controls last."""
    manifest, spec = run.manifest, run.manifest["spec"]
    about = manifest["models"][model]
    firsts = Counter(entry.row.explainer for one in columns for entry in one.entries.values() if entry.leads)
    groups = []
    for control in (False, True):
        for frame in frames_of(rows):
            names = dict.fromkeys(row.explainer for row in rows if row.frame == frame and row.control is control)
            if names:
                groups.append(Group(frame=frame, names=tuple(sorted(names, key=lambda name: -firsts[name])), control=control))
    explainers, scores = spec.get("explainers"), manifest["score_specs"]
    shared = {
        "walk": spec.get("walk"),
        "symmetry": spec.get("symmetry"),
        "seed": manifest["seed"],
        "the explained output": spec.get("outputs"),
    }
    explainers = explainers if isinstance(explainers, Mapping) else {}
    finished = run.progress.done
    return Board(
        run=label,
        model=model,
        samples=int(manifest["data"]["samples"]),
        accuracy=about["accuracy"],
        confidence=run.confidence,
        standing="" if run.progress.stage is Stage.DONE else run.progress.sentence(errors=False).partition(" Run ")[0],
        columns=columns,
        groups=tuple(groups),
        depends={
            "weights": about["fingerprint"],
            "data": manifest["data"]["fingerprint"],
            **{what: plain(value) for what, value in shared.items()},
            **{f"the settings of {name}": plain(explainers[name]) for group in groups for name in group.names if name in explainers},
            **{f"the settings of {one.score}": plain(scores[one.score]["spec"]) for one in columns},
        },
        explainer_specs=explainers,
        score_specs={one.score: scores[one.score]["spec"] for one in columns},
        cells=frozenset(
            (cell["explainer"], cell["score"], cell["key"])
            for cell in manifest["cells"]
            if cell["model"] == model and cell["key"] in finished
        ),
    )


def plain(value: Any) -> str:
    """Plain data as text that can be compared."""
    return json.dumps(value, sort_keys=True, default=str)
