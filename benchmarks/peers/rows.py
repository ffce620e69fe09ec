"""What a comparison gives: a row that should be equal, or a fault, with the right number worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.peers.subject import Array, Case, apart

EQUAL_TO = 1e-6
DRAWS = 12
PLAIN = {"abs": False, "normalise": False}
"""Settings of Quantus that leave the maps as they are."""


@dataclass(frozen=True)
class Row:
    """Our values and theirs, one per sample, of a metric of Quantus.

    `reason` says why they differ by default, and `holds` whether what it says was seen.
    """

    ours: Array
    theirs: Array
    reason: str = ""
    holds: bool = True

    @property
    def apart(self) -> float:
        """The largest difference over the largest value."""
        return apart(self.ours, self.theirs)


@dataclass(frozen=True)
class Fault:
    """What Quantus says of a minimal case, what we say, and what is right, as numbers or words; `case` says how the last one is found."""

    case: str
    theirs: Any
    ours: Any
    right: Any

    @property
    def shown(self) -> bool:
        """Whether we are right and Quantus is not."""
        return same(self.ours, self.right) and not same(self.theirs, self.right)


def same(a: Any, b: Any) -> bool:
    """Whether two answers are equal: words exactly, numbers to 1e-6.

    >>> same([0.5, float("nan")], [0.5, float("nan")]), same("raises", 1.0)
    (True, False)
    """
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str) and a == b
    return np.shape(a) == np.shape(b) and apart(np.asarray(a), np.asarray(b)) <= EQUAL_TO


@dataclass(frozen=True)
class Comparison:
    """The metrics of Quantus that are compared, by class, how, and the function that does it."""

    metrics: tuple[str, ...]
    how: str
    run: Callable[..., Any]


EQUAL: list[Comparison] = []
DEFAULTS: list[Comparison] = []
FAULTS: list[Comparison] = []


def equal(metric: str, how: str) -> Callable[[Callable[[Case], Row]], Callable[[Case], Row]]:
    """Keep a comparison whose two sides should be equal."""
    return keep(EQUAL, metric, how=how)


def default(metric: str, how: str) -> Callable[[Callable[[Case], Row]], Callable[[Case], Row]]:
    """Keep a comparison of which a row says why its two sides differ."""
    return keep(DEFAULTS, metric, how=how)


def fault(*metrics: str, says: str) -> Callable[[Callable[[], Fault]], Callable[[], Fault]]:
    """Keep the demonstration of a fault, under the sentence that it shows."""
    return keep(FAULTS, *metrics, how=says)


def keep(where: list[Comparison], *metrics: str, how: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Keep a function in a list."""

    def kept(run: Callable[..., Any]) -> Callable[..., Any]:
        where.append(Comparison(metrics, how, run))
        return run

    return kept
