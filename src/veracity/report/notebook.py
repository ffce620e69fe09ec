"""Short pages for notebooks: what a result says in words, and its main figures. The whole report is `result.save_report(...)`."""

from __future__ import annotations

from veracity.orbits import OrbitResult
from veracity.report.drawing import ranking_plot
from veracity.report.figures.tables import overview_data
from veracity.report.html import draw, template
from veracity.report.orbit_plots import orbit_plots
from veracity.report.page import MANY, failing, leaders
from veracity.report.reading import read
from veracity.report.rows import explanation_scores
from veracity.report.section import section_answer
from veracity.results import Result

MOST = 6
"""How many scores have their ranking on the page."""


def brief_audit(run: Result) -> str:
    """An audit in short: its sentences, all scores in one table if there are several, and the ranking by each."""
    reading = read(run)
    scores = explanation_scores([row for row in reading.rows if not row.pending])
    glance = [score for score in scores if not reading.of(score)[0].marked]
    tables = overview_data(reading.rows, glance, reading.models, reading.assumed) if len(glance) > 1 else []
    notes = [run.progress.sentence(errors=False)] if run.progress.pending else []
    far = [f"The rankings by {len(scores) - MOST} more scores are in the report."] if len(scores) > MOST else []
    if len(scores) <= MANY:
        said = [list(section_answer(reading, score).sentences) for score in scores]
    else:
        without, whole = [one for one in scores if reading.score(one).in_summary == "nothing" or reading.score(one).pooled], not notes
        said = [[*leaders(tables, without, whole=whole), *failing(reading.assumed, reading.models, whole=whole)]]
    return template("notebook.html.j2").render(
        title=reading.manifest.get("title") or "Explanation audit",
        kicker="report in short",
        answer=[part for part in said if part],
        notes=[*notes, *far],
        tables=[(table.model, draw("overview", table)) for table in tables],
        plots=[ranking_plot(reading, score) for score in scores[:MOST]],
        more='The whole report: result.save_report("report.html").',
    )


def brief_orbits(run: OrbitResult) -> str:
    """An orbit evaluation in short: each model's mean over the orbit, and the metrics along it."""
    done = run.complete
    return template("notebook.html.j2").render(
        title=run.manifest.get("title") or "Orbit evaluation",
        kicker="orbits in short",
        answer=[],
        notes=[*([] if done else [run.progress.sentence()]), *run.notes],
        tables=[],
        plots=list(orbit_plots(run).values()) if done else [],
        more='The interactive page: result.save_report("orbits.html").',
    )
