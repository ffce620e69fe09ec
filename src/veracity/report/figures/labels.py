"""Names beside the points of a plane, placed so that none covers another at any width that the page gives the plane."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

NARROW, BROAD = 260.0, 800.0
"""Between how many pixels the plane may be wide."""
LETTER, TALL = 6.4, 12.0
"""How many pixels a letter is wide, and a line of text high."""
LONGEST = 22
"""Letters of a name that are shown; the rest stands in the point's title."""
MARK = 6.0
"""How many pixels a point takes to each side."""


@dataclass(frozen=True)
class Box:
    """A rectangle that hangs on a place of the plane: `at` in percent across, and pixels left and right of it, top and bottom."""

    at: float
    left: float
    right: float
    top: float
    bottom: float

    def clear_of(self, other: Box) -> bool:
        """Whether the two do not meet at any width: one above the other, or beside it on the same side when narrow and when broad.

        >>> Box(10.0, 0.0, 40.0, 0.0, 12.0).clear_of(Box(30.0, 0.0, 40.0, 0.0, 12.0))
        True
        >>> Box(10.0, 0.0, 60.0, 0.0, 12.0).clear_of(Box(30.0, 0.0, 40.0, 0.0, 12.0))
        False
        """
        if self.bottom <= other.top or other.bottom <= self.top:
            return True
        before = [self.reach(width)[1] <= other.reach(width)[0] for width in (NARROW, BROAD)]
        after = [other.reach(width)[1] <= self.reach(width)[0] for width in (NARROW, BROAD)]
        return all(before) or all(after)

    def reach(self, width: float) -> tuple[float, float]:
        """From where to where it reaches, in pixels, on a plane so wide."""
        return self.at / 100 * width + self.left, self.at / 100 * width + self.right


@dataclass(frozen=True, kw_only=True)
class Label:
    """A name at (percent across, pixels down) plus an offset in pixels, with its anchor; `far` where a line has to lead to it."""

    text: str
    x: float
    y: float
    dx: float
    dy: float
    anchor: str
    far: bool

    @property
    def box(self) -> Box:
        """Where its letters are."""
        return box_of(self.text, self.x, self.y + self.dy, self.dx, self.anchor)


def placed(points: Sequence[tuple[str, float, float]], height: float) -> list[Label]:
    """A label for each point (name, percent across, pixels down) of a plane so many pixels high, in their order.

    The nearest place is taken that covers no point and no label before it and stays on the plane; where none is left, the one
    that covers least.

    >>> [(label.dx, label.dy) for label in placed([("a", 10.0, 50.0), ("b", 11.0, 50.0)], 100.0)]
    [(-7.0, -5.0), (7.0, -5.0)]
    """
    dots = [Box(x, -MARK, MARK, y - MARK, y + MARK) for _, x, y in points]
    taken: list[Label] = []
    for index, (name, x, y) in enumerate(points):
        held = [*(dot for other, dot in enumerate(dots) if other != index), *(label.box for label in taken)]
        tried = list(candidates(shortened(name), x, y, height))
        taken.append(min(tried, key=lambda label: trouble(label, held, height)))
    return taken


def shortened(name: str) -> str:
    """A name that fits.

    >>> shortened("my own explainer number three")
    'my own explainer numb…'
    """
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def candidates(text: str, x: float, y: float, height: float) -> Iterator[Label]:
    """Places for a name, nearest first: beside the point and off its bars, then further up and down with a line that leads there."""
    for dx, dy, anchor in ((7.0, -5.0, "start"), (7.0, 13.0, "start"), (-7.0, -5.0, "end"), (-7.0, 13.0, "end")):
        yield Label(text=text, x=x, y=y, dx=dx, dy=dy, anchor=anchor, far=False)
    for step in range(1, int(height // TALL) + 1):
        for dy in (-TALL * step, TALL * step):
            for dx, anchor in ((12.0, "start"), (-12.0, "end")):
                yield Label(text=text, x=x, y=y, dx=dx, dy=dy + 4.0, anchor=anchor, far=True)


def trouble(label: Label, held: Sequence[Box], height: float) -> int:
    """How many boxes a label covers; leaving the plane, when that is narrow, counts as much as all of them."""
    left, right = label.box.reach(NARROW)
    off = left < 0 or right > NARROW or label.box.top < -TALL or label.box.bottom > height
    return sum(not label.box.clear_of(box) for box in held) + (len(held) + 1) * off


def box_of(text: str, x: float, baseline: float, dx: float, anchor: str) -> Box:
    """Where the letters of a text are."""
    wide = LETTER * len(text)
    left = dx if anchor == "start" else dx - wide
    return Box(x, left, left + wide, baseline - 0.8 * TALL, baseline + 0.2 * TALL)


def draw_labels(labels: Sequence[Label]) -> Markup:
    """Names, and lines to those that stand far from their points."""
    text = Markup('<svg x="{}%" y="{}" overflow="visible">{}<text class="point" x="{}" y="{}" text-anchor="{}">{}</text></svg>')
    lead = Markup('<line class="lead" x1="0" y1="0" x2="{}" y2="{}"/>')
    return Markup("").join(
        text.format(one.x, one.y, lead.format(0.8 * one.dx, one.dy - 4.0) if one.far else "", one.dx, one.dy, one.anchor, one.text)
        for one in labels
    )
