"""Every measure as a distance, so that whatever compares explanations can ask how far apart they are."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from veracity.core.errors import SpecError
from veracity.core.measures import Direction, Measure

Distance = Callable[[Tensor, Tensor], Tensor]


def as_distance(measure: Measure | Distance) -> Distance:
    """A distance (N, ...) x (N, ...) -> (N,) of a measure, zero where two explanations are as alike as can be.

    d = u - s for a similarity s whose range ends at u; a distance, or a plain function, stays what it is. A similarity
    without an upper end has no distance: SpecError.

    >>> import torch
    >>> from veracity.measure import cosine
    >>> as_distance(cosine)(torch.tensor([[3.0, 4.0]]), torch.tensor([[4.0, 3.0]]))
    tensor([0.0400], dtype=torch.float64)
    """
    if not isinstance(measure, Measure) or measure.direction is Direction.LOWER:
        return measure
    upper = measure.range[1]
    if not math.isfinite(upper):
        raise SpecError(
            f"The similarity '{measure.name}' has no upper end, so that nothing says how far apart two explanations are: "
            "give its range an upper end, or take a distance."
        )
    return lambda a, b: upper - measure(a, b)
