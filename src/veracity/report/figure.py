"""What a figure of the report is: data first, then a drawing with its words; and the signs of its legend.

A score names its figures (`Score.figures`), and the report looks them up in the registry `FIGURES`. A plugin adds one like this:

    @FIGURES.add
    class Ladder(Figure):
        name = "ladder"

        def data(self, reading, label):
            return reading.draws(label) or None

        def plot(self, reading, label, data):
            return Plot(title="Ladder", note="One rung per draw.", drawing=Markup("<svg>...</svg>"))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from markupsafe import Markup

from veracity.core.registry import FIGURES
from veracity.report.reading import RunReading

EMPTY = Markup("")
DOT = '<circle class="dot" r="4.2"/>'


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A figure on the page: its title, what it says, how to read it, its keys and its drawing."""

    title: str
    drawing: Markup
    note: str = ""
    sentences: tuple[Markup, ...] = ()
    keys: Markup = EMPTY


class BaseFigure(ABC):
    """The name of a figure, and what a run must have for it."""

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    """Properties of `RunReading`, such as "steps": the figure is left out if one of them is empty."""

    @classmethod
    def summary(cls) -> str:
        """The first sentence of the docstring, for listings."""
        return (cls.__doc__ or "").split("\n\n")[0]


class Figure(BaseFigure):
    """A figure of one score."""

    @abstractmethod
    def data(self, reading: RunReading, label: str) -> Any:
        """What is drawn of the score behind a label; None if the run does not hold it."""

    @abstractmethod
    def plot(self, reading: RunReading, label: str, data: Any) -> Plot:
        """The drawing with its words."""


class SharedFigure(BaseFigure):
    """A figure of all scores that name it, drawn once."""

    least: ClassVar[int] = 1
    """How many scores must name the figure."""

    @abstractmethod
    def data(self, reading: RunReading, labels: Sequence[str]) -> Any:
        """What is drawn of the scores behind these labels; None if the run does not hold it."""

    @abstractmethod
    def plot(self, reading: RunReading, labels: Sequence[str], data: Any) -> Any:
        """The drawing with its words."""


def figures_of(reading: RunReading, label: str) -> tuple[Plot, ...]:
    """The figures that a score names and the run holds, in the score's order."""
    made = []
    for name in reading.score(label).figures:
        figure = FIGURES[name]() if isinstance(FIGURES[name], type) else FIGURES[name]
        found = figure_plot(figure, reading, label) if isinstance(figure, Figure) else None
        made += [] if found is None else [found]
    return tuple(made)


def figure_plot(figure: Figure, reading: RunReading, label: str) -> Plot | None:
    """The figure of a score; None if the run does not hold it."""
    if not all(getattr(reading, need) for need in figure.needs):
        return None
    data = figure.data(reading, label)
    return None if data is None else figure.plot(reading, label, data)


def shared_figure(reading: RunReading, name: str) -> Any:
    """The figure of all scores that name it; None if too few scores do, or the run does not hold it."""
    figure, labels = FIGURES[name](), reading.naming(name)
    data = figure.data(reading, labels) if len(labels) >= figure.least else None
    return None if data is None else figure.plot(reading, labels, data)


def sign(content: str, text: str) -> Markup:
    """One entry of a legend."""
    drawing = '<svg class="sign" width="30" height="16" viewBox="-15 -8 30 16" aria-hidden="true"><g class="m1">{}</g></svg>'
    return Markup("<li>{}{}</li>").format(Markup(drawing).format(Markup(content)), text)


def line_sign(css: str, text: str, *, dot: bool = False) -> Markup:
    """The entry of a line, with a dot on it if wanted."""
    return sign(f'<line class="{css}" x1="-12" x2="12"/>{DOT if dot else ""}', text)


def signs(*items: Markup) -> Markup:
    """A legend of signs."""
    return Markup('<ul class="legend">{}</ul>').format(Markup("").join(items))


BEHIND = line_sign("behind", "the other explainers")
