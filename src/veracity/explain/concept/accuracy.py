"""How well a concept can be told from a layer, and whether that is better than a coin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv
from torch import Tensor

Array = NDArray[np.float64]
LEVEL = 0.95
CHANCE = 0.5


def exact_interval(correct: Any, total: Any, level: float = LEVEL) -> tuple[Array, Array]:
    """The Clopper-Pearson interval of a share, for each of C counts: (C,) and (C,) to (C,) and (C,).

    Its ends are quantiles of Beta(k, n - k + 1) and Beta(k + 1, n - k). Nothing counted says nothing: 0 to 1.

    >>> low, high = exact_interval([45, 50], [50, 50])
    >>> low.round(3), high.round(3)
    (array([0.782, 0.929]), array([0.967, 1.   ]))
    """
    k, n = np.asarray(correct, dtype=np.float64), np.asarray(total, dtype=np.float64)
    tail = (1.0 - level) / 2.0
    low = np.where(k > 0, betaincinv(np.maximum(k, 1.0), n - k + 1.0, tail), 0.0)
    high = np.where(k < n, betaincinv(k + 1.0, np.maximum(n - k, 1.0), 1.0 - tail), 1.0)
    return low, high


def above_chance(correct: Any, total: Any) -> NDArray[np.bool_]:
    """Whether an accuracy on balanced held-out examples lies above one half, with its whole interval.

    >>> above_chance([31, 33, 0], [50, 50, 0])
    array([False,  True, False])
    """
    return exact_interval(correct, total)[0] > CHANCE


def rows_of(names: Sequence[str], learnt: Mapping[str, Tensor], layer: str, per_side: int) -> list[dict[str, Any]]:
    """What a reader must know of each concept's classifier: its examples, its held-out accuracy with interval, and any doubt."""
    count = {key: learnt[key].cpu().numpy() for key in ("fitted", "held_out", "correct", "trusted")}
    low, high = exact_interval(count["correct"], count["held_out"])
    rows = []
    for number, name in enumerate(names):
        fitted, held_out = int(count["fitted"][number]), int(count["held_out"][number])
        row = {
            "concept": name,
            "positives": fitted,
            "negatives": fitted,
            "held_out": held_out,
            "accuracy": int(count["correct"][number]) / held_out if held_out else float("nan"),
            "low": float(low[number]),
            "high": float(high[number]),
            "trusted": bool(count["trusted"][number]),
        }
        doubt = doubts(row, layer, per_side)
        rows.append(row | ({"warning": doubt} if doubt else {}))
    return rows


def doubts(row: Mapping[str, Any], layer: str, per_side: int) -> str:
    """What speaks against a concept's classifier, in a sentence; nothing if nothing does."""
    name, fitted = row["concept"], row["positives"]
    if not row["held_out"]:
        return (
            f"The concept '{name}' has too few examples ({fitted} a side) to test its classifier, so that it is left out of explanations."
        )
    if not row["trusted"]:
        found = f"{row['accuracy']:.2f} ({row['low']:.2f} to {row['high']:.2f}) on {row['held_out']} held-out examples"
        return (
            f"The concept '{name}' cannot be told from the layer '{layer}': its classifier's accuracy is {found}, "
            "which is not above chance, so that it is left out of explanations."
        )
    few = f"The classifier of the concept '{name}' was fitted to {fitted} examples a side, since there were too few for {per_side}."
    return few if fitted < per_side else ""
