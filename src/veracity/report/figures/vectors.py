"""Explanations that do not live in the input: the importance of examples as bars, concepts by name."""

from __future__ import annotations

from markupsafe import Markup

from veracity.report.figures.bars import draw_bars, largest
from veracity.report.figures.exhibit import Exhibit
from veracity.report.figures.pixels import Array, bounds, reach
from veracity.report.figures.tiles import draw_input, tile, words
from veracity.core.wording import number

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
