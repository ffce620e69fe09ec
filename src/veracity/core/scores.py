"""Scores: each declares what it needs, observes pairs before and after a perturbation, and reduces them to numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Size, Tensor

from veracity.core.component import Component
from veracity.core.errors import SpecError
from veracity.core.explainers import Explainer
from veracity.core.features import Features
from veracity.core.measures import Direction, Measure
from veracity.core.spaces import InputSpace, Space
from veracity.core.walks import Walk

Array = NDArray[np.float64]


class Reads(Enum):
    """What can be read of a subject: its explanation, the model's probabilities, the scores that the target picks from, the output as
    the model returns it, the input, the output of one layer, whether the prediction is correct, the predicted class, or the ground truth.
    """

    EXPLANATION = "explanation"
    OUTPUT = "output"
    SCORES = "scores"
    FIELD = "field"
    INPUT = "input"
    REPRESENTATION = "representation"
    CORRECT = "correct"
    CLASS = "class"
    TRUTH = "truth"


OUTPUTS = frozenset({Reads.OUTPUT, Reads.SCORES, Reads.FIELD, Reads.REPRESENTATION})
"""What one forward pass returns."""


@dataclass(frozen=True)
class Subject:
    """What is scored: a model, and an explainer unless the score is about the model alone.

    `shape` is that of one sample. `layers` are the names of the model's layers with weights, in order. `folds` is the number of folds
    of a cross-trained model, else 0. `features` says what the values of a table mean. `floor` is the value that stands for "not there", if
    the inputs know one: texts are gates, and a gate of 0 removes a word. `mask` is the shape of one mask of the ground truth.
    """

    model: str
    explainer: Explainer | None
    shape: Size
    layers: tuple[str, ...] = ()
    folds: int = 0
    features: Features | None = None
    floor: float | None = None
    mask: Size | None = None


@dataclass(frozen=True)
class Smoothing:
    """Replaces explanations by their means over `count` draws of `space` around the input."""

    space: InputSpace
    count: int


@dataclass(frozen=True)
class Request:
    """Perturb by `space` along `walk`. With `common_draws` the explainer reuses its random numbers of e(x).

    `layer` names the layer whose output is read. `smoothing` averages every explanation. With `follow`, the class that is predicted
    for the perturbed input is explained instead of the target.
    """

    space: Space
    walk: Walk
    common_draws: bool = False
    layer: str | None = None
    smoothing: Smoothing | None = None
    follow: bool = False

    @property
    def repeats(self) -> int:
        """The number of explanations that are averaged to one."""
        return self.smoothing.count if self.smoothing else 1

    def spec(self) -> list[Any]:
        """The request as plain data."""
        smooth = self.smoothing and [self.smoothing.space.spec(), self.smoothing.count]
        beside = [self.layer, smooth] if self.layer or smooth else []
        return [self.space.spec(), self.walk.spec(), self.common_draws, *beside, *(["follow"] if self.follow else [])]


class ReadPart:
    """An attribute of a reading, which raises if it was not read."""

    def __init__(self, what: Reads) -> None:
        self.what = what

    def __get__(self, reading: Reading, owner: type[Reading]) -> Tensor:
        return reading[self.what]


class RowsOf(Mapping[Reads, Tensor]):
    """Rows (R,) of what was read of a block; a part is gathered when it is first asked for."""

    def __init__(self, whole: Mapping[Reads, Tensor], row: Tensor) -> None:
        self.whole, self.row, self.gathered = whole, row, dict[Reads, Tensor]()

    def __getitem__(self, what: Reads) -> Tensor:
        if what not in self.gathered:
            self.gathered[what] = self.whole[what][self.row]
        return self.gathered[what]

    def __contains__(self, what: object) -> bool:
        return what in self.whole

    def __iter__(self) -> Iterator[Reads]:
        return iter(self.whole)

    def __len__(self) -> int:
        return len(self.whole)


class Reading:
    """What was read of R rows: their targets (R,), and the requested parts, each (R, ...)."""

    def __init__(self, target: Tensor, found: Mapping[Reads, Tensor]) -> None:
        self.target, self.found = target, found

    def __getitem__(self, what: Reads) -> Tensor:
        if what not in self.found:
            raise SpecError(f"The {what.value} was not read: a score that looks at it says so in `before` or `after`.")
        return self.found[what]

    explanation = ReadPart(Reads.EXPLANATION)
    """e(x), (R, ...)."""
    output = ReadPart(Reads.OUTPUT)
    """The model's probabilities (R, C), or its raw outputs."""
    scores = ReadPart(Reads.SCORES)
    """All scores that the target picks from, (R, K)."""
    field = ReadPart(Reads.FIELD)
    """The output as the model returns it, (R, ...)."""
    input = ReadPart(Reads.INPUT)
    """The input, (R, ...)."""
    representation = ReadPart(Reads.REPRESENTATION)
    """The output of one layer, (R, units)."""
    correct = ReadPart(Reads.CORRECT)
    """Whether each prediction is correct, 1 or 0, (R,)."""
    predicted = ReadPart(Reads.CLASS)
    """The predicted class of each row, (R,)."""
    truth = ReadPart(Reads.TRUTH)
    """The mask of each row, True where an explanation should point, (R, ...), with the axes of the input; that of channels may be 1."""

    @property
    def shape(self) -> Size:
        """The shape of one sample's input."""
        whole = self.found.whole if isinstance(self.found, RowsOf) else self.found
        return whole[Reads.INPUT].shape[1:]

    @property
    def score(self) -> Tensor:
        """The explained score y_c of each row, (R,)."""
        return self.scores.gather(1, self.target.to(self.scores.device)[:, None]).squeeze(1)


@dataclass(frozen=True)
class Pair:
    """R rows before and after a perturbation by `element` (R, q), and how the explanation should move along.

    `move` applies the perturbation of the input to an explanation in the input's frame, and `undo` its inverse; in other frames both
    are the identity. Along a path of weights `before` may be an earlier level; then `start` holds the explanations (R, ...) of the
    unperturbed model. `space` is the one that the elements belong to. Scores share what they compute for these rows through `once`.
    """

    before: Reading
    after: Reading
    element: Tensor
    move: Callable[[Tensor], Tensor]
    undo: Callable[[Tensor], Tensor]
    start: Tensor | None = None
    space: Space | None = None
    known: dict[str, Tensor] = field(default_factory=dict, repr=False, compare=False)

    def once(self, key: str, compute: Callable[[], Tensor]) -> Tensor:
        """The tensor of a key, computed by the first score that asks for it."""
        if key not in self.known:
            self.known[key] = compute()
        return self.known[key]


@dataclass(frozen=True)
class Defaults:
    """The space and walk of the audit, for scores that do not set their own."""

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
    """A number per sample, or per data set, with a direction and a range.

    `reads` is what the score is about. `before` and `after` are what must be read of the unperturbed and the perturbed subject, by
    default `reads` alone. `quantities` names the columns that it observes. With `correct_only` it is defined only for samples that the
    model classifies correctly, if labels are known.
    """

    role = "score"
    reads: ClassVar[Reads] = Reads.EXPLANATION
    before: ClassVar[frozenset[Reads] | None] = None
    after: ClassVar[frozenset[Reads] | None] = None
    quantities: ClassVar[tuple[str, ...]] = ("value",)
    correct_only: ClassVar[bool] = False
    pooled: ClassVar[bool] = False
    """Whether the score is one number for the whole data set: see `PooledScore`."""
    of_sample: ClassVar[tuple[str, Direction | None] | None] = None
    """What the value of one sample is, and which direction of it is better, where that is not the score itself."""
    title: ClassVar[str] = ""
    """The name in a sentence, such as "Fast-GEF"; by default the name of the component with spaces."""
    definition: ClassVar[str] = ""
    """The definition in the report; by default the first sentence of the docstring."""
    figures: ClassVar[tuple[str, ...]] = ("convergence",)
    """The figures of the score by their names in the registry `FIGURES`, in the order of the page."""
    beside: ClassVar[tuple[str, ...]] = ("random_control",)
    """The columns next to the score, on its scale: "random_control", "self_agreement"."""
    mark: ClassVar[float | None] = None
    """The smallest value at which an explainer respects the symmetry; None if there is no such value."""
    in_summary: ClassVar[str] = "counted"
    """How the summary of a report treats the score: a "paragraph" of its own, "counted" among many scores, or "nothing"."""
    measure: Measure | None = None

    def for_subject(self, subject: Subject) -> Score:
        """The score with the settings that depend on the subject, such as the size of patches."""
        return self

    @property
    def compare(self) -> Measure:
        """The measure; raises if there is none."""
        if self.measure is None:
            raise SpecError(f"The score '{self.name}' has no measure: give it one, such as measure=cosine.")
        return self.measure

    @property
    def direction(self) -> Direction:
        """Which direction is better; by default that of the measure."""
        return self.compare.direction

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest possible value; by default those of the measure."""
        return self.compare.range

    @property
    def null(self) -> float | None:
        """The score of an explanation that is unrelated to the model, if it is known and not zero."""
        return None

    @property
    def in_map_units(self) -> bool:
        """Whether scaling the explanation changes the value, so that explainers cannot be ranked by it; by default as for the measure."""
        return self.reads is Reads.EXPLANATION and self.measure is not None and self.measure.in_map_units

    @property
    def assumption(self) -> Score | None:
        """A score of the model alone that says, by 1 or 0, on which samples the assumptions of this score hold."""
        return None

    @abstractmethod
    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """The perturbations that the score needs for this subject; none if it does not apply."""

    def expected(self, pair: Pair) -> Tensor:
        """The reading that a perfect subject would have after the perturbation; by default the same as before."""
        return pair.before[self.reads]

    def observe(self, pair: Pair) -> Tensor:
        """One number per row (R,), or per row and quantity (R, Q); NaN where undefined. By default the measure of found and expected."""
        return self.compare(pair.after[self.reads], self.expected(pair))

    def values(self, measured: Measured) -> Array:
        """One value per draw (samples, draws) from the quantities; by default the only quantity at the only level."""
        (quantity,) = self.quantities
        return measured[quantity][:, :, 0]

    def reduce(self, values: Array) -> Array:
        """One value per sample from values (samples, draws), NaN where undefined or not drawn; by default their mean."""
        return per_sample_mean(values)

    def setting(self) -> str:
        """The settings that a reader of the report needs, in a sentence; "" by default."""
        return ""

    @property
    def centre(self) -> str:
        """How samples are summarised: by their "mean", or by their "median" if values may be censored."""
        return "mean"

    def about(self) -> dict[str, Any]:
        """What readers of a run folder need: the spec, and whether the score has its own `values` or `reduce`."""
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
    """A score that says more about a sample than its value."""

    def outcome(self, counts: Mapping[str, int]) -> str | None:
        """How a search ended, from the counts n, undefined, infeasible, censored, stuck, stiff, undefined_draws; None without a search."""
        return None

    def no_response(self, measured: Measured) -> NDArray[np.bool_]:
        """Samples (samples,) whose value is undefined because their explanation did not change at all."""
        return np.zeros(len(measured[self.quantities[0]]), dtype=np.bool_)

    def silent_draws(self, measured: Measured) -> NDArray[np.bool_]:
        """Draws (samples, draws) along which the explanation did not change at all, also of samples that have a value from others."""
        return np.zeros((len(measured[self.quantities[0]]), 1), dtype=np.bool_)

    def errors(self, measured: Measured) -> Array | None:
        """The standard error (samples,) of each sample's value; None if it does not follow from the draws."""
        return None

    def remarks(self, measured: Measured) -> Mapping[str, NDArray[np.bool_]]:
        """Samples (samples,) that are "censored", "infeasible", "stuck" or "stiff"."""
        return {}


@dataclass(frozen=True, kw_only=True)
class PooledScore(Score, ABC):
    """A score of the whole data set that is not a mean over samples. Its interval comes from a bootstrap over the samples."""

    pooled: ClassVar[bool] = True
    by_ends: ClassVar[bool] = False
    """Whether differences follow from the intervals of the two values, because bootstrap replicates are biased."""

    @abstractmethod
    def pool(self, measured: Measured, weights: Array) -> Array:
        """B values of the data set, in which sample n counts weights[b, n] times; weights (B, samples)."""

    @abstractmethod
    def interval(self, measured: Measured, value: float, replicates: Array, confidence: float) -> tuple[float, float]:
        """The interval of a value, from its bootstrap replicates (B,)."""

    def permuted(self, measured: Measured, orders: NDArray[np.int64]) -> Array | None:
        """B values, in which sample n has the labels of sample orders[b, n]; None if there is no such null."""
        return None

    def sizes(self, measured: Measured) -> tuple[int, ...]:
        """The number of measurements in each set that is compared; empty if no sets are compared."""
        return ()

    def enough(self, measured: Measured) -> bool:
        """Whether there are enough samples for an interval with the nominal coverage."""
        return True


def reads_before(score: Score) -> frozenset[Reads]:
    """What a score needs of the unperturbed subject."""
    return frozenset({score.reads}) if score.before is None else score.before


def reads_after(score: Score) -> frozenset[Reads]:
    """What a score needs of the perturbed subject."""
    return frozenset({score.reads}) if score.after is None else score.after


def per_sample_mean(values: Array) -> Array:
    """The mean of the finite values of each row; NaN if there are none."""
    finite = np.isfinite(values)
    if values.shape[1] and finite.all():
        return np.asarray(values.sum(axis=1) / np.int64(values.shape[1]))
    count, total = finite.sum(axis=1), np.where(finite, values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
