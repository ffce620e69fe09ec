"""Single figures of a report: `result.figure("ranking")` shows itself in a notebook, and saves itself as SVG, PNG, PDF or HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from veracity.core.errors import SpecError, StoreError, unknown
from veracity.core.registry import FIGURES
from veracity.report.figure import DOT, Figure, Plot, SharedFigure, figure_plot, line_sign, shared_figure, sign, signs
from veracity.report.figures.boxes import boxes_data, draw_boxes
from veracity.report.figures.chart import legend
from veracity.report.figures.ranking import FLOOR, behaviour_data, draw_behaviour, draw_ranking
from veracity.report.html import template
from veracity.report.reading import RunReading, read
from veracity.report.rows import explanation_scores
from veracity.report.vector import Flat, flat_figure
from veracity.report.wording import ARROWS, title_of
from veracity.results import Result, Row
from veracity.results.pages import frame, save_text

if TYPE_CHECKING:
    from veracity.orbits import OrbitResult

KINDS = (".svg", ".png", ".pdf", ".html")
ROOM = '<line class="room" x1="-12" x2="12"/><path class="null" d="M-9 -6H-12V6H-9"/><path class="null" d="M9 -6H12V6H9"/>'
RANKING, BOXES, MODELS = "ranking", "boxes", "models"


@dataclass(frozen=True)
class Drawing:
    """One figure of a report with its words."""

    plot: Plot

    @cached_property
    def flat(self) -> Flat:
        """The figure as shapes and texts; raises if it holds tables or pictures."""
        return flat_figure(self.plot.title, Markup('<p class="note">{}</p>').format(self.plot.note), self.plot.keys, self.plot.drawing)

    @property
    def html(self) -> str:
        """The figure as a page of its own, in light and dark."""
        return template("notebook.html.j2").render(
            title=self.plot.title, kicker="figure", answer=[], plots=[self.plot], tables=[], notes=[]
        )

    def save(self, path: str | Path) -> Path:
        """Write the figure; the end of the name says how: .svg, .png, .pdf or .html."""
        target = Path(path)
        kind = target.suffix.lower()
        if kind not in KINDS:
            raise SpecError(f"A figure is saved as {', '.join(KINDS[:-1])} or {KINDS[-1]}, and '{target.name}' ends in none of these.")
        if kind in (".svg", ".html"):
            return save_text(lambda: self.html if kind == ".html" else self.flat.svg(label=self.plot.title), target)
        flat = self.flat
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            flat.save(target, kind[1:])
        except OSError as error:
            raise StoreError(f"The figure cannot be written to '{target}': {error.strerror}.") from error
        return target

    def _repr_svg_(self) -> str | None:
        try:
            return self.flat.svg(paper=True, label=self.plot.title)
        except SpecError:
            return None

    def _repr_html_(self) -> str | None:
        return None if self._repr_svg_() is not None else frame(self.html)


def audit_figure(run: Result, name: str, score: str | None = None) -> Drawing:
    """A figure of an audit's report by its name; of the first score that has it, unless one is named."""
    reading = read(run)
    begun = [row for row in reading.rows if not row.pending]
    known = {label: list(figure_names(reading, label)) for label in dict.fromkeys(row.score for row in begun)}
    if score is not None and score not in known:
        raise unknown("score of this run", score, known)
    chosen = {label: names for label, names in known.items() if score in (None, label)}
    label = next((label for label, names in chosen.items() if name in names), None)
    if label is None:
        raise unknown(
            "figure of this score" if score else "figure of this run",
            name,
            dict.fromkeys(one for names in chosen.values() for one in names),
        )
    found = audit_plot(reading, name, label)
    if found is None:
        raise SpecError(f"The run does not hold what the figure '{name}' of {label} shows.")
    return Drawing(found)


def figure_names(reading: RunReading, label: str) -> Iterator[str]:
    """The names of a score's figures."""
    if label not in explanation_scores(reading.rows):
        yield MODELS
    else:
        yield RANKING
        if not reading.score(label).pooled:
            yield BOXES
    yield from reading.score(label).figures


def audit_plot(reading: RunReading, name: str, label: str) -> Plot | None:
    """A figure of a score; None if the run does not hold it."""
    if name == RANKING:
        return ranking_plot(reading, label)
    if name == BOXES:
        ranking = reading.ranking(label)
        note = "Every sample: the box holds the middle half, the thick line is the median, whiskers reach 1.5 boxes."
        drawing = draw_boxes(boxes_data(reading.series(label), ranking))
        return Plot(title=f"{title_of(label)}: samples", note=note, keys=legend(reading.models), drawing=drawing)
    if name == MODELS:
        data = behaviour_data(reading.rows, label, reading.models, {}, reading.level)
        return Plot(title=f"{title_of(label)} of the models", drawing=draw_behaviour(data))
    figure = FIGURES[name]() if isinstance(FIGURES[name], type) else FIGURES[name]
    if isinstance(figure, Figure):
        return figure_plot(figure, reading, label)
    found = shared_figure(reading, name) if isinstance(figure, SharedFigure) else None
    return found if found is None or isinstance(found, Plot) else None


def ranking_plot(reading: RunReading, label: str) -> Plot:
    """All explainers by one score, with the signs that the chart uses."""
    ranking, rows = reading.ranking(label), reading.of(label)
    arrow = "" if ranking.in_map_units else f" {ARROWS.get(rows[0].direction, '')}"
    return Plot(
        title=f"{'All explainers' if ranking.in_map_units else 'Ranking'} by {title_of(label)}{arrow}",
        keys=legend(reading.models) + signs(*ranking_signs(rows, reading.level)),
        drawing=draw_ranking(ranking),
    )


def ranking_signs(rows: Sequence[Row], level: str) -> Iterator[Markup]:
    """The signs of a ranking, as far as some row uses them."""

    def some(name: str) -> bool:
        return any(getattr(row, name) == getattr(row, name) for row in rows)

    yield sign(DOT, rows[0].middle)
    yield line_sign("population", f"{level} interval over samples")
    if some("draws_low"):
        yield line_sign("draws", "over draws, for these samples")
    if some("self_agreement"):
        yield sign(ROOM, "from random control to self-agreement")
    elif some("random_control"):
        yield sign(f'<path class="null" d="{FLOOR}"/>', "random control")


def orbit_figure(run: OrbitResult, name: str, score: str | None = None) -> Drawing:
    """A figure of an orbit evaluation by its name: a metric along the orbit, or the models by a metric."""
    from veracity.report.orbit_plots import orbit_plots

    plots = orbit_plots(run, score)
    if name not in plots:
        raise unknown("figure of this evaluation", name, plots)
    return Drawing(plots[name])
