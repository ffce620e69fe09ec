"""One of the worst pairs, ready to be drawn: its tensors as arrays, and how they are laid out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from veracity.report.figures.pixels import Array, to_array
from veracity.report.view import WorstPair

CHANNELS = 16
"""A matrix with more rows than this is no series, unless it is longer still."""
POINTS = 8
"""From so many rows of three on, a matrix is a cloud of points."""
SETS = frozenset({"permutations", "so3", "cube_rotations"})
NODES = "node_permutations"


class Layout(Enum):
    """What the axes of an input mean, as far as drawing goes."""

    PICTURE = "picture"
    SERIES = "series"
    POINTS = "points"
    ROWS = "rows"
    OTHER = "other"


@dataclass(frozen=True, kw_only=True)
class Formulas:
    """What the perturbed input and the explanations to compare are called."""

    moved: str
    expected: str
    found: str


MOVES = Formulas(moved="g x", expected="g e(x)", found="e(g x)")
STAYS = Formulas(moved="g x", expected="e(x)", found="e(g x)")
NEARBY = Formulas(moved="x'", expected="e(x)", found="e(x')")


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """One of the worst: its tensors as arrays, and what to say about it; `names` are those of its concepts, if it has any."""

    model: str
    explainer: str
    frame: str
    names: tuple[str, ...]
    layout: Layout
    formulas: Formulas
    sample: int
    draw: int
    element: tuple[float, ...]
    value: float
    input: Array
    moved: Array
    explanation: Array
    expected: Array
    found: Array

    @property
    def mapped(self) -> bool:
        """Whether explanations live where the input lives."""
        return self.frame == "input"

    @property
    def maps(self) -> tuple[Array, Array, Array]:
        """The three explanations, which share one scale."""
        return self.explanation, self.expected, self.found


def exhibit(item: WorstPair, *, score: str, frame: str, names: Sequence[str], groups: frozenset[str]) -> Exhibit:
    """A pair with its tensors as arrays."""
    x = to_array(item.input)
    return Exhibit(
        model=item.model,
        explainer=item.explainer,
        frame=frame,
        names=tuple(names),
        layout=layout_of(x, groups),
        formulas=formulas_of(score, frame),
        sample=int(item.sample),
        draw=int(item.draw),
        element=tuple(float(number) for number in item.element),
        value=float(item.value),
        input=x,
        moved=to_array(item.moved),
        explanation=to_array(item.explanation),
        expected=to_array(item.expected),
        found=to_array(item.found),
    )


def formulas_of(score: str, frame: str) -> Formulas:
    """What a score compares, in symbols."""
    if score == "max_sensitivity":
        return NEARBY
    return MOVES if frame == "input" and score in {"equivariance", "symmetry"} else STAYS


def layout_of(values: Array, groups: frozenset[str] = frozenset()) -> Layout:
    """How to draw an input, from its shape and the groups that act on it: those tell a set of rows from channels of a series."""
    if values.size == 0 or values.ndim not in {1, 2, 3}:
        return Layout.OTHER
    if values.ndim == 3:
        return Layout.PICTURE
    rows, columns = values.shape if values.ndim == 2 else (1, len(values))
    if values.ndim == 2 and columns == 3 and NODES not in groups and (rows >= POINTS or (groups & SETS and rows > 3)):
        return Layout.POINTS
    tall = rows > CHANNELS and columns < rows
    return Layout.ROWS if values.ndim == 2 and (groups & SETS or NODES in groups or tall) else Layout.SERIES


def group_names(spec: Any) -> frozenset[str]:
    """Every name in a group's spec, that of a product's factors among them.

    >>> sorted(group_names({"name": "product", "factors": [{"name": "so3"}, {"name": "permutations"}]}))
    ['permutations', 'product', 'so3']
    """
    return frozenset(found_names(spec))


def found_names(spec: Any) -> Iterator[str]:
    """The names in plain data, at any depth."""
    if isinstance(spec, str):
        yield spec
    elif isinstance(spec, Mapping):
        yield from (str(value) for key, value in spec.items() if key == "name")
        for value in spec.values():
            yield from found_names(value) if not isinstance(value, str) else ()
    elif isinstance(spec, (list, tuple)):
        for value in spec:
            yield from found_names(value)
