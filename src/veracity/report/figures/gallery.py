"""The worst samples: input and explanation, before and after the transform."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from veracity.report.figures import clouds, lines
from veracity.report.figures.bars import LIMIT as BARS
from veracity.report.figures.exhibit import Exhibit, Layout, exhibit
from veracity.report.figures.pixels import LIMIT
from veracity.report.figures.series import CHANNELS
from veracity.report.figures.tiles import draw_tiles, tile
from veracity.report.figures.vectors import draw_vectors, thinned
from veracity.report.view import WorstPair
from veracity.report.wording import in_order
from veracity.core.wording import compact, number

EACH = 4
EACH_OF_SEVERAL = 2
"""How many of each kind, where there are several."""
NUMBERS = 6
"""A transform of more numbers is not spelt out."""


@dataclass(frozen=True, kw_only=True)
class GalleryData:
    """Exhibits by model, in the order in which they came."""

    models: tuple[tuple[str, tuple[Exhibit, ...]], ...]

    @property
    def exhibits(self) -> tuple[Exhibit, ...]:
        """All of them."""
        return tuple(item for _, items in self.models for item in items)


def gallery_data(
    worst: Sequence[WorstPair],
    order: Mapping[str, Sequence[str]],
    *,
    score: str = "equivariance",
    frames: Mapping[str, str] | None = None,
    concepts: Mapping[tuple[str, str], Sequence[str]] | None = None,
    groups: frozenset[str] = frozenset(),
    each: int | None = None,
) -> GalleryData:
    """The worst pair of each model's worst explainers, which `order` names worst first, with tensors as arrays.

    Kinds of explanations, by the `frames` of explainers, follow one another; `groups` names what acts on the inputs, and
    `concepts` those of a (model, explainer).
    """
    first: dict[tuple[str, str], WorstPair] = {}
    for item in worst:
        first.setdefault((item.model, item.explainer), item)
    kinds = {label: (frames or {}).get(label, "input") for names in order.values() for label in names}
    present = in_order(kinds.values())
    limit = each or (EACH if len(present) == 1 else EACH_OF_SEVERAL)
    held = []
    for model, names in order.items():
        chosen = [label for kind in present for label in [name for name in names if kinds[name] == kind and (model, name) in first][:limit]]
        shown = tuple(
            exhibit(first[model, label], score=score, frame=kinds[label], names=(concepts or {}).get((model, label), ()), groups=groups)
            for label in chosen
        )
        held += [(model, shown)] if shown else []
    return GalleryData(models=tuple(held))


def gallery_notes(data: GalleryData) -> list[str]:
    """What the pictures leave out, if anything."""
    shown = data.exhibits
    pictures = [item for item in shown if item.layout is Layout.PICTURE]
    series = [item for item in shown if item.layout is Layout.SERIES]
    rows = [item for item in shown if item.layout is Layout.ROWS]
    mapped = [array for item in shown if item.mapped for array in item.maps]
    channels = [item.input for item in series] + [array for item in series if item.mapped for array in item.maps]
    said = {
        "Inputs with neither one nor three channels are shown as the mean of their channels.": any(
            item.input.shape[0] not in {1, 3} for item in pictures
        ),
        "Explanations are summed over the channels for display; the score compares every channel.": any(
            array.ndim == 3 and array.shape[0] > 1 for array in mapped
        ),
        f"Pictures of more than {LIMIT} pixels a side are averaged down for display.": any(
            array.ndim == 3 and max(array.shape[1:]) > LIMIT for array in [*(item.input for item in pictures), *mapped]
        ),
        f"Of more than {CHANNELS} channels, the {CHANNELS} with the largest attribution are drawn.": any(
            array.ndim == 2 and len(array) > CHANNELS for array in channels
        ),
        "Matrices are drawn row by row without their empty rows, one row a node, point or token.": bool(rows),
        f"Of matrices with more than {LIMIT} columns, each row's sum is drawn.": any(item.input.shape[1] > LIMIT for item in rows),
        "Points are coloured by the sum over their coordinates.": any(clouds.cloud_like(item) for item in shown if item.mapped),
        f"Of more than {BARS} numbers, the {BARS} with the largest magnitude are drawn.": any(
            thinned(item.expected) for item in shown if not item.mapped
        ),
    }
    return [note for note, holds in said.items() if holds]


def draw_gallery(items: Sequence[Exhibit], digits: int = 3) -> Markup:
    """Exhibits of one model as HTML: those alike in form together, pictures in rows under one another, panels in columns."""
    return Markup("").join(
        Markup('<div class="{}">{}</div>').format("gallery columns" if wide else "gallery", Markup("").join(drawn))
        for wide, drawn in runs([(panelled(item), draw_exhibit(item, digits)) for item in items])
    )


def runs(drawn: Sequence[tuple[bool, Markup]]) -> Iterator[tuple[bool, list[Markup]]]:
    """Neighbours of the same form together."""
    start = 0
    for place in range(1, len(drawn) + 1):
        if place == len(drawn) or drawn[place][0] != drawn[start][0]:
            yield drawn[start][0], [markup for _, markup in drawn[start:place]]
            start = place


def panelled(item: Exhibit) -> bool:
    """Whether the input itself can carry its explanation's colours."""
    return item.mapped and (lines.series_like(item) or clouds.cloud_like(item))


def draw_exhibit(item: Exhibit, digits: int) -> Markup:
    """One card: the facts, and the pictures that suit the tensors' shape."""
    facts = Markup(
        '<div class="facts"><strong>{}</strong><span class="score">{}</span><span>sample {}</span><span>draw {}{}</span></div>'
    ).format(breakable(item.explainer), number(item.value, digits), item.sample, item.draw, spelt(item.element))
    if panelled(item):
        made = lines.panels(item) if item.layout is Layout.SERIES else clouds.panels(item)
        css, drawn = "lines" if item.layout is Layout.SERIES else "cloudy", Markup("").join(tile(*part, "panel") for part in made)
    else:
        css, drawn = ("tiles", draw_tiles(item)) if item.mapped else ("apart", draw_vectors(item))
    return Markup('<article class="exhibit {}">{}{}</article>').format(css, facts, drawn)


def spelt(element: Sequence[float]) -> str:
    """The numbers of a transform, if they are few.

    >>> spelt([1.0, -2.0]), spelt([0.0] * 7), spelt([])
    (', g = (1, −2)', '', '')
    """
    return f", g = ({', '.join(compact(place) for place in element)})" if 0 < len(element) <= NUMBERS else ""


def breakable(name: str) -> Markup:
    """A name that may break after an underscore, where there is little room."""
    return Markup("_<wbr>").join(name.split("_"))
