"""Several audits as one page: who leads on each, one chart of all of them, the scores of each, and every number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pandas as pd
from markupsafe import Markup

from veracity.core.registry import SCORES
from veracity.report.figures.chart import key, legend
from veracity.report.figures.ranking import draw_ranking, ranking_data
from veracity.report.figures.tables import OverviewData, overview_data
from veracity.report.html import cells, draw, template
from veracity.report.page import answer_of, leaders
from veracity.report.reading import RunReading, read
from veracity.report.rows import explanation_scores
from veracity.report.wording import capital, title_of
from veracity.results import Row

if TYPE_CHECKING:
    from veracity.studies.several import JointResult


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One score of every explainer on the models of all audits."""

    score: str
    note: str
    drawing: Markup


def render_several(study: JointResult, links: Mapping[str, str]) -> str:
    """Several audits as one HTML page: what they say together, a chart, their tables, and links to their reports by name."""
    from veracity.studies.several import shown

    readings = {audit: read(one) for audit, one in study.results.items()}
    several = sum(len(one.models) for one in readings.values()) > len(readings)
    tables = [table for audit, one in readings.items() for table in tables_of(audit, one, several=several)]
    names = [table.model for table in tables]
    without = [score for one in readings.values() for score in explanation_scores(one.rows) if one.score(score).in_summary == "nothing"]
    whole = not any(one.run.progress.pending for one in readings.values())
    level = next((one.level for one in readings.values()), "")
    numbers = [
        (named(str(audit), str(model), several=several), *readable(shown(rows), level))
        for (audit, model), rows in study.table().groupby(["audit", "model"], sort=False)
    ]
    return template("joint.html.j2").render(
        title=study.title or "Explanation audits",
        links=list(links.items()),
        answer=answers_of(readings, leaders(tables, without, whole=whole)),
        charts=charts([replace(row, model=label) for label, row in rows_of(readings, several=several)], names, level),
        legend=legend(names),
        keys={label: key(index) for index, label in enumerate(names)},
        scores=[(table.model, draw("overview", table)) for table in tables],
        summary=None if study.summary is None else readable(study.summary, level),
        numbers=numbers,
    )


def answers_of(readings: Mapping[str, RunReading], together: Sequence[Markup]) -> list[tuple[str, Sequence[Markup]]]:
    """What the audits say `together`; where they have no scores to count wins in, what each of them says, by its name."""
    if together:
        return [("", together)]
    own = [(str(audit), [sentence for part in answer_of(one.run) for sentence in part]) for audit, one in readings.items()]
    return [(audit, said) for audit, said in own if said]


def named(audit: str, model: str, *, several: bool) -> str:
    """An audit's model by both names, or by that of the audit if each audit has one model."""
    return f"{audit}: {model}" if several else audit


def rows_of(readings: Mapping[str, RunReading], *, several: bool) -> list[tuple[str, Row]]:
    """Every measured row of explanations with the name of its audit's model."""
    return [
        (named(audit, row.model, several=several), row)
        for audit, one in readings.items()
        for row in one.rows
        if row.explainer and not row.pending
    ]


def tables_of(audit: str, reading: RunReading, *, several: bool) -> list[OverviewData]:
    """All scores of an audit, a table for each of its models."""
    found = overview_data(reading.rows, explanation_scores(reading.rows), reading.models, reading.assumed)
    return [replace(table, model=named(audit, table.model, several=several)) for table in found]


def charts(rows: Sequence[Row], names: Sequence[str], level: str) -> list[Chart]:
    """A chart for each score that has a value, the score that most models have first."""
    known = {score: {row.model for row in rows if row.score == score and row.defined} for score in explanation_scores(rows)}
    made = []
    for score in sorted((score for score, models in known.items() if models), key=lambda score: -len(known[score])):
        mine = [row for row in rows if row.score == score]
        note = f"{capital(mine[0].direction)} is better." if not mine[0].in_map_units else "In each map's own units: compare models by it."
        made.append(Chart(score=score, note=note, drawing=draw_ranking(ranking_data(mine, score, names, level))))
    return made


def readable(table: pd.DataFrame, level: str) -> tuple[list[str], list[list[str]]]:
    """A table with scores by their titles, and with columns that begin with a capital and have no underscores."""
    ends = {"low": f"{level} from", "high": f"{level} to"}
    known = table.assign(score=[title_of(str(score)) for score in table["score"]]) if "score" in table.columns else table
    columns, found = cells(known)
    return [ends.get(name) or column_title(str(name)) for name in columns], found


def column_title(name: str) -> str:
    """The title of a column; one that begins with the name of a score begins with its title.

    >>> column_title("sol_f_hat"), column_title("ln_p_f_hat_censored"), column_title("evaluations")
    ('Sol F-hat', 'ln P of F-hat censored', 'Evaluations')
    """
    known = max((score for score in SCORES if f"{name}_".startswith(f"{score}_")), key=len, default="")
    return title_of(known) + name[len(known) :].replace("_", " ") if known else capital(name.replace("_", " "))
