"""How much an explanation says: few features, or all of them a little."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Defaults, Pair, Request, Score, Subject
from veracity.measure.complexity import complexity, sparseness
from veracity.perturb import Redraw
from veracity.walk import MonteCarlo


@dataclass(frozen=True, kw_only=True)
class ShapeScore(Score, ABC):
    """A score of the explanation as it is: nothing is perturbed, no pass is made."""

    after = frozenset()

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Every explanation made of numbers, once."""
        if subject.explainer is None or subject.explainer.categorical:
            return ()
        return (Request(Redraw(), MonteCarlo(draws=1)),)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Sparseness(ShapeScore):
    """How unevenly an explanation is spread: the Gini index of its magnitudes, 0 for equal ones, nearly 1 for a single one.

    It says nothing of the model: a sparse explanation may be wrong. A zero explanation is undefined.
    """

    name = "sparseness"
    reference = "Chalasani et al., Concise explanations of neural networks using adversarial training (ICML 2020)"

    direction = Direction.HIGHER
    bounds = (0.0, 1.0)

    def observe(self, pair: Pair) -> Tensor:
        """The Gini index of |e|, (R,)."""
        return sparseness(pair.before.explanation)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Complexity(ShapeScore):
    """How many features share an explanation: the entropy of their shares of its magnitude, in nats, log d where all d are equal.

    It says nothing of the model: a simple explanation may be wrong. A zero explanation is undefined.
    """

    name = "complexity"
    reference = "Bhatt, Weller and Moura, Evaluating and aggregating feature-based model explanations (IJCAI 2020)"

    direction = Direction.LOWER
    bounds = (0.0, math.inf)

    def observe(self, pair: Pair) -> Tensor:
        """The entropy of |e| / sum |e|, (R,)."""
        return complexity(pair.before.explanation)
