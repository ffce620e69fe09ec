"""Pictures of whole classes: one row per explainer, and per explainer one row per class with growing perturbation of the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from veracity.core.wording import compact
from veracity.report.figures.images import Array, Layout, bounds, draw_input, to_array
from veracity.report.html import draw
from veracity.results import Visualised

CLASSES = 10
"""How many classes are shown."""
EXPLAINERS = 18
"""How many explainers of a model are shown."""


@dataclass(frozen=True, kw_only=True)
class PictureGrid:
    """Pictures in rows under the labels of columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Markup, ...]], ...]


@dataclass(frozen=True, kw_only=True)
class ClassPictures:
    """The pictures of one model: of all explainers side by side, and of each along the path; how many of both are left out."""

    model: str
    overview: PictureGrid
    paths: tuple[tuple[str, PictureGrid], ...]
    classes_left: int
    explainers_left: int


def class_pictures(found: Sequence[Visualised], model: str) -> ClassPictures | None:
    """What is drawn of a model; None if it has no global explanations with pictures."""
    mine = [one for one in found if one.model == model]
    if not mine:
        return None
    classes = mine[0].classes[:CLASSES]
    shown = [one for one in mine[:EXPLAINERS] if one.classes[:CLASSES] == classes]
    rows = tuple((one.explainer, tuple(picture(to_array(image), one.explainer) for image in one.images[0, :CLASSES])) for one in shown)
    return ClassPictures(
        model=model,
        overview=PictureGrid(columns=tuple(map(class_label, classes)), rows=rows),
        paths=tuple((one.explainer, along_path(one)) for one in shown if len(one.strengths) > 1),
        classes_left=len(mine[0].classes) - len(classes),
        explainers_left=len(mine) - len(shown),
    )


def along_path(one: Visualised) -> PictureGrid:
    """Classes in rows, strengths in columns."""
    columns = tuple(
        "the model" if place == 0 else f"level {place}" if strength is None else f"\N{GREEK SMALL LETTER SIGMA} = {compact(strength)}"
        for place, strength in enumerate(one.strengths)
    )
    names = [class_label(number) for number in one.classes[:CLASSES]]
    rows = tuple((name, tuple(picture(to_array(image), name) for image in one.images[:, place])) for place, name in enumerate(names))
    return PictureGrid(columns=columns, rows=rows)


def class_label(number: int) -> str:
    """A class in words."""
    return f"class {number}"


def picture(image: Array, name: str) -> Markup:
    """One picture (channels, H, W) on a scale of its own."""
    return draw_input(image, Layout.PICTURE, *bounds(image), name)


def draw_classes(data: ClassPictures) -> Markup:
    """All pictures of a model as HTML."""
    return draw("class_pictures", data)
