"""The worst samples: input and explanation, before and after the transform, for every kind of explanation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from veracity.core.wording import compact, number
from veracity.report.figures.exhibit import Exhibit, Layout, cloud_like, cloud_panels, draw_input, draw_tiles, exhibit, tile, words
from veracity.report.figures.images import (
    BARS,
    CHANNELS,
    PIXELS,
    Array,
    bounds,
    draw_bars,
    draw_series,
    largest,
    loudest,
    reach,
    series_data,
)
from veracity.report.wording import in_order
from veracity.results import WorstPair

NAMED = 12
"""More concepts than this are drawn as bars."""


def draw_vectors(item: Exhibit) -> Markup:
    """The input before and after, and what should have stayed the same."""
    low, high = bounds(item.input, item.moved)
    return Markup("").join(
        [
            tile(draw_input(item.input, item.layout, low, high, "input"), "input", "x", "input"),
            tile(draw_input(item.moved, item.layout, low, high, "moved input"), "moved input", item.formulas.moved, "moved"),
            Markup('<div class="vectors">{}</div>').format(draw_pair(item)),
        ]
    )


def draw_pair(item: Exhibit) -> Markup:
    """Expected and found: a few concepts as a table, anything else as bars, other shapes in words."""
    expected, found = item.expected, item.found
    if item.frame == "concepts" and expected.ndim == 1 and len(expected) <= NAMED:
        return draw_concepts(item)
    if expected.ndim != 1 or expected.shape != found.shape or not len(expected):
        drawn = (words(expected, "expected"), words(found, "found"))
    else:
        shown = largest((expected, found))
        scale = reach(expected[shown], found[shown])
        drawn = (draw_bars(expected[shown], scale, "expected"), draw_bars(found[shown], scale, "found"))
    return tile(drawn[0], "expected", item.formulas.expected, "bar") + tile(drawn[1], "found", item.formulas.found, "bar")


def draw_concepts(item: Exhibit) -> Markup:
    """One row a concept; those that changed stand out."""
    names = item.names if len(item.names) == len(item.expected) else tuple(f"concept {place + 1}" for place in range(len(item.expected)))
    head = '<tr><th scope="col">concept</th><th scope="col">expected <i>{}</i></th><th scope="col">found <i>{}</i></th></tr>'
    row = Markup('<tr{}><th scope="row">{}</th><td>{}</td><td>{}</td></tr>')
    body = Markup("").join(
        row.format(Markup(' class="changed"') if number(before, 2) != number(after, 2) else "", name, number(before, 2), number(after, 2))
        for name, before, after in zip(names, item.expected, item.found, strict=True)
    )
    table = '<table class="concepts"><thead>{}</thead><tbody>{}</tbody></table>'
    return Markup(table).format(Markup(head).format(item.formulas.expected, item.formulas.found), body)


def thinned(values: Array) -> bool:
    """Whether bars were left out."""
    return values.ndim == 1 and len(largest((values,))) < len(values)


def series_like(item: Exhibit) -> bool:
    """Whether the input is a series that its explanations can colour."""
    return item.layout is Layout.SERIES and all(lines_up(array, item.input) for array in item.maps)


def lines_up(attribution: Array, values: Array) -> bool:
    """Whether an attribution can colour a series: equally long, and one channel or all of them."""
    a, b = np.atleast_2d(attribution), np.atleast_2d(values)
    return attribution.ndim <= 2 and a.shape[-1] == b.shape[-1] and a.shape[0] in {1, b.shape[0]}


def series_panels(item: Exhibit) -> tuple[tuple[Markup, str, str], ...]:
    """Three drawings with their captions and formulas."""
    before, after = np.atleast_2d(item.input), np.atleast_2d(item.moved)
    low, high = bounds(before, after)
    maps = [np.atleast_2d(array) for array in item.maps]
    scale, channels, formulas = reach(*maps), loudest(maps, len(before)), item.formulas
    drawn = (
        (before, maps[0], "input by its explanation", "x, e(x)"),
        (after, maps[1], "moved input, expected", f"{formulas.moved}, {formulas.expected}"),
        (after, maps[2], "moved input, found", f"{formulas.moved}, {formulas.found}"),
    )
    return tuple(
        (draw_series(series_data(values, colours, low=low, high=high, scale=scale, channels=channels), name), name, formula)
        for values, colours, name, formula in drawn
    )


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
        f"Pictures of more than {PIXELS} pixels a side are averaged down for display.": any(
            array.ndim == 3 and max(array.shape[1:]) > PIXELS for array in [*(item.input for item in pictures), *mapped]
        ),
        f"Of more than {CHANNELS} channels, the {CHANNELS} with the largest attribution are drawn.": any(
            array.ndim == 2 and len(array) > CHANNELS for array in channels
        ),
        "Matrices are drawn row by row without their empty rows, one row a node, point or token.": bool(rows),
        f"Of matrices with more than {PIXELS} columns, each row's sum is drawn.": any(item.input.shape[1] > PIXELS for item in rows),
        "Points are coloured by the sum over their coordinates.": any(cloud_like(item) for item in shown if item.mapped),
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
    return item.mapped and (series_like(item) or cloud_like(item))


def draw_exhibit(item: Exhibit, digits: int) -> Markup:
    """One card: the facts, and the pictures that suit the tensors' shape."""
    facts = Markup(
        '<div class="facts"><strong>{}</strong><span class="score">{}</span><span>sample {}</span><span>draw {}{}</span></div>'
    ).format(breakable(item.explainer), number(item.value, digits), item.sample, item.draw, spelt(item.element))
    if panelled(item):
        made = series_panels(item) if item.layout is Layout.SERIES else cloud_panels(item)
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
