"""What a score is: it declares what it needs, observes pairs, and reduces; it never loops over a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Size, Tensor

from veracity.core.component import Component
from veracity.core.errors import SpecError
from veracity.core.explainers import Explainer
from veracity.core.measures import Direction, Measure
from veracity.core.spaces import InputSpace, Space
from veracity.core.walks import Walk

Array = NDArray[np.float64]


class Reads(Enum):
    """What can be read of a subject: its explanations, the model's probabilities, the scores that the target picks from,
    the input itself, one layer's output, whether the model is right, or the class that it predicts.
    """

    EXPLANATION = "explanation"
    OUTPUT = "output"
    SCORES = "scores"
    INPUT = "input"
    REPRESENTATION = "representation"
    CORRECT = "correct"
    CLASS = "class"


OUTPUTS = frozenset({Reads.OUTPUT, Reads.SCORES, Reads.REPRESENTATION})
"""What one forward pass tells."""


@dataclass(frozen=True)
class Subject:
    """What is scored: a model, and an explainer of it unless the score is about the model alone.

    `shape` is one sample's; `layers` are the model's layers with weights of their own, by name, in their order; `folds` is in
    how many folds the data were cut where the model is cross-trained, else 0.
    """

    model: str
    explainer: Explainer | None
    shape: Size
    layers: tuple[str, ...] = ()
    folds: int = 0


@dataclass(frozen=True)
class Smoothing:
    """Explanations are means over `count` draws of `space` around the input."""

    space: InputSpace
    count: int


@dataclass(frozen=True)
class Request:
    """Perturb by `space` along `walk`. With `common_draws` the explainer reuses its random numbers of e(x).

    `layer` is the one whose output is read, by name; `smoothing` averages every explanation that is read. `follow` explains
    the class predicted for the perturbed input instead of the target.
    """

    space: Space
    walk: Walk
    common_draws: bool = False
    layer: str | None = None
    smoothing: Smoothing | None = None
    follow: bool = False

    @property
    def repeats(self) -> int:
        """How many explanations make one that is read."""
        return self.smoothing.count if self.smoothing else 1

    def spec(self) -> list[Any]:
        """The request as plain data."""
        smooth = self.smoothing and [self.smoothing.space.spec(), self.smoothing.count]
        beside = [self.layer, smooth] if self.layer or smooth else []
        return [self.space.spec(), self.walk.spec(), self.common_draws, *beside, *(["follow"] if self.follow else [])]


class Reading:
    """What was read of R rows: their targets (R,), and whatever was asked for, each (R, ...)."""

    def __init__(self, target: Tensor, found: Mapping[Reads, Tensor]) -> None:
        self.target, self.found = target, found

    def __getitem__(self, what: Reads) -> Tensor:
        if what not in self.found:
            raise SpecError(f"The {what.value} was not read: a score that looks at it says so in `before` or `after`.")
        return self.found[what]

    @property
    def explanation(self) -> Tensor:
        """e(x), (R, ...)."""
        return self[Reads.EXPLANATION]

    @property
    def output(self) -> Tensor:
        """The model's probabilities (R, C), or its outputs where they are none."""
        return self[Reads.OUTPUT]

    @property
    def scores(self) -> Tensor:
        """All scores that the target picks from, (R, K)."""
        return self[Reads.SCORES]

    @property
    def input(self) -> Tensor:
        """The input, (R, ...)."""
        return self[Reads.INPUT]

    @property
    def representation(self) -> Tensor:
        """One layer's output, (R, units)."""
        return self[Reads.REPRESENTATION]

    @property
    def correct(self) -> Tensor:
        """Whether the model is right about each row, 1 or 0, (R,)."""
        return self[Reads.CORRECT]

    @property
    def predicted(self) -> Tensor:
        """The class that the model predicts for each row, (R,)."""
        return self[Reads.CLASS]

    @property
    def score(self) -> Tensor:
        """The explained score y_c of each row, (R,)."""
        return self.scores.gather(1, self.target.to(self.scores.device)[:, None]).squeeze(1)


@dataclass(frozen=True)
class Pair:
    """R rows before and after a perturbation, the elements that made it (R, q), and how what was read should move along.

    In the input's frame `move` is what happened to the input; elsewhere nothing moves (rho' is the identity). Along a path of
    weights `before` may be an earlier level; `start` holds the explanations (R, ...) of the unperturbed model then. What one
    score has computed for these rows, others find through `once`.
    """

    before: Reading
    after: Reading
    element: Tensor
    move: Callable[[Tensor], Tensor]
    undo: Callable[[Tensor], Tensor]
    start: Tensor | None = None
    known: dict[str, Tensor] = field(default_factory=dict, repr=False, compare=False)

    def once(self, key: str, compute: Callable[[], Tensor]) -> Tensor:
        """What is computed under a key, by the first score that asks."""
        if key not in self.known:
            self.known[key] = compute()
        return self.known[key]


@dataclass(frozen=True)
class Defaults:
    """The audit's choices for scores that were given by name only."""

    space: InputSpace | None
    walk: Walk


@dataclass(frozen=True)
class Measured:
    """Every quantity of a score, each (samples, draws, levels), NaN where undefined or not drawn."""

    quantities: Mapping[str, Array]

    def __getitem__(self, quantity: str) -> Array:
        return self.quantities[quantity]


@dataclass(frozen=True, kw_only=True)
class Score(Component, ABC):
    """A number with a direction and a range, per sample where that is defined.

    `reads` is what the score is about; `before` and `after` are what must be read of the unperturbed and of the perturbed
    subject, just that unless said otherwise. `quantities` names the columns of what it observes. With `correct_only` it is defined
    for samples that the model classifies correctly, where their labels are known.
    """

    role = "score"
    reads: ClassVar[Reads] = Reads.EXPLANATION
    before: ClassVar[frozenset[Reads] | None] = None
    after: ClassVar[frozenset[Reads] | None] = None
    quantities: ClassVar[tuple[str, ...]] = ("value",)
    correct_only: ClassVar[bool] = False
    pooled: ClassVar[bool] = False
    """Whether the score is one number for the whole data set: see `PooledScore`."""
    title: ClassVar[str] = ""
    """What the score is called in a sentence, such as "Fast-GEF"; if empty, its name with spaces."""
    definition: ClassVar[str] = ""
    """What the report says the score is; if empty, the first sentence of the docstring."""
    figures: ClassVar[tuple[str, ...]] = ("convergence",)
    """The figures that tell the score, by their names in the registry `FIGURES`, in the order of the page."""
    beside: ClassVar[tuple[str, ...]] = ("random_control",)
    """The columns that are on the score's scale and stand beside it: "random_control", "self_agreement"."""
    mark: ClassVar[float | None] = None
    """The value from which on a similarity counts as kept; None if there is no such value."""
    in_summary: ClassVar[str] = "counted"
    """What a report on many scores says of it at the top: "paragraph", "counted" (who is ahead how often) or "nothing"."""
    measure: Measure | None = None

    def for_subject(self, subject: Subject) -> Score:
        """The score as it is measured on this subject: here as it is."""
        return self

    @property
    def compare(self) -> Measure:
        """The measure, once there is one."""
        if self.measure is None:
            raise SpecError(f"The score '{self.name}' has no measure: give it one, such as measure=cosine.")
        return self.measure

    @property
    def direction(self) -> Direction:
        """Which way is better: the measure's."""
        return self.compare.direction

    @property
    def bounds(self) -> tuple[float, float]:
        """Between which numbers a value lies: the measure's."""
        return self.compare.range

    @property
    def null(self) -> float | None:
        """What an explanation that has nothing to do with the model scores, where that is known and not zero."""
        return None

    @property
    def in_map_units(self) -> bool:
        """Whether multiplying the explanation by 100 changes the value. Then no explainers are ranked by it: here as the measure says."""
        return self.reads is Reads.EXPLANATION and self.measure is not None and self.measure.in_map_units

    @property
    def assumption(self) -> Score | None:
        """The score of the model alone that says, by 1 or 0, on which samples this one means what it says."""
        return None

    @abstractmethod
    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Which perturbations of this subject the score needs; none if it does not apply."""

    def expected(self, pair: Pair) -> Tensor:
        """What a perfect subject would show after the perturbation: here what it showed before."""
        return pair.before[self.reads]

    def observe(self, pair: Pair) -> Tensor:
        """One number per row (R,), or per row and quantity (R, Q); NaN where undefined. Here: the measure of found and expected."""
        return self.compare(pair.after[self.reads], self.expected(pair))

    def values(self, measured: Measured) -> Array:
        """From measurements to one value per draw (samples, draws): here the only quantity at the only level."""
        (quantity,) = self.quantities
        return measured[quantity][:, :, 0]

    def reduce(self, values: Array) -> Array:
        """From values (samples, draws), NaN where undefined or not drawn, to one value per sample: here their mean."""
        return per_sample_mean(values)

    def setting(self) -> str:
        """Where and how the score looks, in a sentence; "" if there is nothing to say."""
        return ""

    def outcome(self, counts: Mapping[str, int]) -> str | None:
        """How a search ended, from the counts n, undefined, infeasible, censored, stuck, stiff, undefined_draws; None without a search."""
        return None

    @property
    def centre(self) -> str:
        """How samples are summed up: by their "mean", or by their "median" where values may be censored."""
        return "mean"

    def about(self) -> dict[str, Any]:
        """What a reader of the results needs: the spec, whether samples are plain means of their draws, and whether those are derived."""
        return {
            "spec": self.spec(),
            "reduce": "mean" if type(self).reduce is Score.reduce else "own",
            "null": self.null,
            "centre": self.centre,
            **({"in_map_units": True} if self.in_map_units else {}),
            **({"pooled": True} if self.pooled else {}),
            "values": "plain" if type(self).values is Score.values and self.quantities == ("value",) else "own",
        }


@dataclass(frozen=True, kw_only=True)
class SampleNotes(Score, ABC):
    """A score that tells more about a sample than its value."""

    def no_response(self, measured: Measured) -> NDArray[np.bool_]:
        """Samples (samples,) whose explanation did not move at all, so that their value is undefined: here none is singled out."""
        return np.zeros(len(measured[self.quantities[0]]), dtype=np.bool_)

    def errors(self, measured: Measured) -> Array | None:
        """The standard error (samples,) of each sample's value, if the draws themselves tell; here they do not."""
        return None

    def remarks(self, measured: Measured) -> Mapping[str, NDArray[np.bool_]]:
        """Samples (samples,) that are "censored", "infeasible", "stuck" or "stiff"; here none."""
        return {}


@dataclass(frozen=True, kw_only=True)
class PooledScore(Score, ABC):
    """A score of the whole data set, which no mean over samples gives. Its interval comes from a bootstrap over the samples."""

    pooled: ClassVar[bool] = True
    by_ends: ClassVar[bool] = False
    """Whether a difference is known only by the two values' own intervals, because bootstrap replicates of the value are biased."""

    @abstractmethod
    def pool(self, measured: Measured, weights: Array) -> Array:
        """The data set's values (B,) if sample n counts weights[b, n] times; weights (B, samples)."""

    @abstractmethod
    def interval(self, measured: Measured, value: float, replicates: Array, confidence: float) -> tuple[float, float]:
        """The interval of a value, from its bootstrap replicates (B,)."""

    def permuted(self, measured: Measured, orders: NDArray[np.int64]) -> Array | None:
        """The values (B,) if sample n had the labels of sample orders[b, n]; None where there is no such null."""
        return None

    def sizes(self, measured: Measured) -> tuple[int, ...]:
        """How many measurements each of the compared sets holds; empty where no sets are compared."""
        return ()

    def enough(self, measured: Measured) -> bool:
        """Whether there are enough samples for an interval that covers what it claims."""
        return True


def reads_before(score: Score) -> frozenset[Reads]:
    """What a score needs of the unperturbed subject."""
    return frozenset({score.reads}) if score.before is None else score.before


def reads_after(score: Score) -> frozenset[Reads]:
    """What a score needs of the perturbed subject."""
    return frozenset({score.reads}) if score.after is None else score.after


def per_sample_mean(values: Array) -> Array:
    """The mean of each row's finite values; NaN for a row without any."""
    count = np.isfinite(values).sum(axis=1)
    total = np.where(np.isfinite(values), values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
