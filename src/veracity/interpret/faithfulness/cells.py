"""The grid of an image, or the pieces of a series, that is fine enough to tell regions apart and coarse enough to matter."""

from __future__ import annotations

from torch import Size

from veracity.perturb.masks.units import positions

CELLS = 9


def cell_side(shape: Size) -> int:
    """The side of the smallest patches of which a sample of this shape holds at most 9 x 9.

    >>> cell_side(Size((1, 28, 28))), cell_side(Size((14,))), cell_side(Size((1, 187)))
    (4, 1, 3)
    """
    along = positions(shape)
    most = CELLS if len(along) == 2 else CELLS**2
    return max(-(-max(along) // most), 1)
