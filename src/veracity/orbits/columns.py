"""What the columns of a table of metrics are called."""

from __future__ import annotations

TRUTH, CONSENSUS = "truth", "consensus"
"""What outputs are judged against."""
DISTANCE = "distance"
"""How far an output, undone, is from the one at the identity."""
WHOLE = "whole"
"""Whether the moved truth has lost nothing, 1 or 0."""


def column(metric: str, reference: str) -> str:
    """A metric against a reference.

    >>> column("accuracy", "truth")
    'accuracy@truth'
    """
    return f"{metric}@{reference}"


def followed(explainer: str) -> str:
    """How well an explanation moves along with its input, s[e(g x), g e(x)].

    >>> followed("saliency")
    'equivariance: saliency'
    """
    return f"equivariance: {explainer}"
