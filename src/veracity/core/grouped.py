"""Members of groups that stand one after the other in one list."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


def within(group: Numbers) -> Numbers:
    """How many members of its own group stand before each, for groups that stand together.

    >>> within(np.array([0, 0, 1, 1, 1, 2]))
    array([0, 1, 0, 1, 2, 0])
    """
    first = np.r_[0, np.flatnonzero(np.diff(group)) + 1]
    before: Numbers = np.arange(len(group)) - np.repeat(first, np.diff(np.r_[first, len(group)]))
    return before
