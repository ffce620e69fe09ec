"""Masking: the explained prediction, what an explanation gave to the masked entries, and the assumption behind it (Assumption 3)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Size, Tensor

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import Frame
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Pair, Reading, Reads, Request, Score, Subject
from veracity.core.settings import Count, Portion
from veracity.core.spaces import InputSpace
from veracity.core.walks import Walk
from veracity.perturb.masks import RandomOrderMasks, positions
from veracity.scores.assumptions import Assumption, grows
from veracity.scores.common import largest
from veracity.walk import MonteCarlo

MODEL = frozenset({Reads.SCORES, Reads.OUTPUT})
"""What a prediction needs: scores and probabilities come from one pass."""

BOTH = MODEL | {Reads.EXPLANATION}

ROUNDING = 1e-4
"""How far outside 0 and 1 a model's probabilities may lie because of rounding."""


Filling = float | str | tuple[float, ...] | None
"""What masked entries are set to, as users write it; None leaves it to the data."""
F = TypeVar("F", bound="MaskingScore | ModelFaithfulness")


def as_filling(given: Filling, fallback: float | str) -> float | str | Tensor:
    """A baseline as masks take it."""
    return torch.tensor(given, dtype=torch.float64) if isinstance(given, tuple) else fallback if given is None else given


def with_baseline(score: F, subject: Subject) -> F:
    """A score with the baseline of the data, unless one was given."""
    if score.perturb_baseline == "reference" and subject.features is None:
        raise SpecError(f"perturb_baseline='reference' of '{score.name}' is known for tables only: give a number, 'black' or 'mean'.")
    if score.perturb_baseline is not None:
        return score
    return replace(score, perturb_baseline=score.fallback if subject.features is None else "reference")


@dataclass(frozen=True, kw_only=True)
class MaskingScore(Score, ABC):
    """A score of feature maps under masks, or other perturbations, of the input.

    The prediction is the explained score, or its probability with `softmax`; None leaves that to the models. Masked entries are set to
    `perturb_baseline`: a number, "black" (the sample's smallest value), "white", "mean", "median", or a list with a value for each entry.
    By default it is "black" for images and series. In a table it is "reference", a value of the entry's own column: its mean, or the
    most frequent level of a category; "mean" and "median" are those of the column too.
    """

    before = BOTH | {Reads.INPUT}
    after = MODEL
    quantities: ClassVar[tuple[str, ...]] = ("attributed", "drop")
    fallback: ClassVar[float | str] = "black"
    """The baseline of inputs that are no table."""
    perturb_baseline: Filling = None
    softmax: bool | None = False

    @property
    def by_probability(self) -> bool:
        """Whether the prediction is a probability, which it also is while that is left open."""
        return self.softmax is not False

    def for_subject(self, subject: Subject) -> Self:
        """With the baseline of the data, unless one was given."""
        return with_baseline(self, subject)

    @property
    def filling(self) -> float | str | Tensor:
        """The baseline as masks take it."""
        return as_filling(self.perturb_baseline, self.fallback)

    @abstractmethod
    def masks(self, shape: Size) -> InputSpace:
        """The perturbations of a sample of this shape."""

    @property
    def draws(self) -> int:
        """The number of perturbations per sample."""
        return 1

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """For maps over the input."""
        if subject.explainer is None or subject.explainer.frame is not Frame.INPUT or subject.explainer.categorical:
            return ()
        return (Request(self.masks(subject.shape).fit(subject.shape), MonteCarlo(draws=self.draws)),)


def settled(score: Score, probabilities: bool) -> Score:
    """A score whose prediction is a probability if the models give `probabilities`, where that was left open.

    >>> from veracity.scores import Insertion
    >>> settled(Insertion(), False).softmax, settled(Insertion(softmax=True), False).softmax
    (False, True)
    """
    return replace(score, softmax=probabilities) if isinstance(score, MaskingScore) and score.softmax is None else score


def prediction(reading: Reading, softmax: bool) -> Tensor:
    """The explained score y_c (R,), or its probability with `softmax`, in double precision."""
    return (probability(reading) if softmax else reading.score).double()


def probability(reading: Reading) -> Tensor:
    """The probability (R,) of the explained class, NaN if the model gives NaN.

    For a single logit or probability, it is the probability of "yes". Raises if the outputs are not probabilities, or if something
    other than a class of the output is explained: a layer of the same width, say, or a function of the output.

    >>> probability(Reading(torch.tensor([1]), {Reads.SCORES: torch.tensor([[0.0, 0.0]]), Reads.OUTPUT: torch.tensor([[0.5, 0.5]])}))
    tensor([0.5000])
    """
    scores, output = reading.scores, reading.output
    why = why_no_probability(scores, output)
    if why:
        raise InputError(f"softmax=True needs {why}: give the score softmax=False.")
    classes = output[:, 1:] if scores.shape[1] == 1 else output
    return classes.gather(1, reading.target.to(output.device)[:, None]).squeeze(1).clamp(0.0, 1.0)


def why_no_probability(scores: Tensor, output: Tensor) -> str:
    """Why explained scores (R, K) have no probability among the outputs (R, C) as the model's kind reads them; "" if they have.

    >>> why_no_probability(torch.tensor([[2.0, 2.0]]), torch.tensor([[0.5, 0.5]]))
    ''
    """
    outside = output[(output < -ROUNDING) | (output > 1.0 + ROUNDING)]
    if output.shape[1] == 1 or len(outside):
        found = f"such as {outside[0].item():.3g}" if len(outside) else "one number per sample that is neither a logit nor a probability"
        return f"probabilities, but the model's outputs are not probabilities ({found})"
    single = scores.shape[1] == 1 and output.shape[1] == 2
    classes = output[:, 1:] if single else output
    slack = 1e-2 if output.dtype.itemsize < 4 else 1e-4
    if scores.shape != classes.shape or not any(
        bool((torch.isclose(classes, made.to(classes), rtol=slack, atol=slack) | classes.isnan() | made.isnan()).all())
        for made in (scores, scores.sigmoid(), *(() if single else (scores.softmax(dim=1),)))
    ):
        return "a target that is a class of the model's output, but something else is explained"
    return ""


def drop(pair: Pair, softmax: bool) -> Tensor:
    """y_c(x) - y_c(x') (R,)."""
    return prediction(pair.before, softmax) - prediction(pair.after, softmax)


def over_entries(explanation: Tensor, shape: Size) -> Tensor:
    """Explanations as one number per entry of inputs of this shape, (R, d), in double precision; a map without channels counts for each."""
    given, needed = tuple(explanation.shape[1:]), tuple(shape)
    if len(given) != len(needed) or any(own not in (1, other) for own, other in zip(given, needed, strict=True)):
        raise InputError(
            f"Masking needs an explanation of each entry of inputs of shape {needed}, but the explanations have shape {given}."
        )
    return explanation.double().expand(len(explanation), *shape).flatten(1)


def attributed(explanation: Tensor, masked: Tensor) -> Tensor:
    """The sum (R,) of an explanation over the masked entries, both (R, d).

    It sums differences from the first entry, so a constant explanation gives exactly the same number for all subsets of one size.

    >>> attributed(torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([[True, False, True]]))
    tensor([5.])
    """
    first, masked = explanation[:, 0], masked.to(explanation.device)
    return torch.where(masked, explanation - first[:, None], 0.0).sum(dim=1) + masked.sum(dim=1) * first


def levels_drawn(curve: Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The number of levels (...) of each curve (..., levels) up to its last defined one, and which levels these are.

    A curve that is NaN everywhere, as one of a sample that failed, has all of its levels.

    >>> levels_drawn(np.array([[1.0, np.nan, 2.0, np.nan]]))
    (array([3]), array([[ True,  True,  True, False]]))
    """
    defined, levels = ~np.isnan(curve), curve.shape[-1]
    last = np.where(defined.any(axis=-1), levels - np.argmax(defined[..., ::-1], axis=-1), levels).astype(np.int64)
    return last, np.arange(levels) < last[..., None]


CELLS = 9
"""The largest number of patches along each side of an image."""


def cell_side(shape: Size) -> int:
    """The side of the smallest patches such that a sample of this shape has at most 9 x 9 of them.

    >>> cell_side(Size((1, 28, 28))), cell_side(Size((14,))), cell_side(Size((1, 187)))
    (4, 1, 3)
    """
    along = positions(shape)
    most = CELLS if len(along) == 2 else CELLS**2
    return max(-(-max(along) // most), 1)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class ModelFaithfulness(Assumption):
    """Whether the model's output moves steadily away as more of the input is masked in random order: 1 if it does, else 0.

        D_f^1 <= D_f^2 <= ... <= D_f^Z,   D_f^z = |f(x) - f(x with the first z steps masked)|

    for the explained score, or its probability with `softmax` (Assumption 3). The order is random, so the curve depends on the model only
    (appendix A.5). A real network is never exactly monotone: the assumption holds if D_f never falls below an earlier value by more than
    `tolerance` of its maximum. Each step masks `features_in_step` more patches of side `patch_size` (or that share of them;
    patch_size=None makes about 9 x 9 patches). With several draws, every order must pass.
    """

    name = "model_faithfulness"
    assumes = "that the output of the model moves further from its original value the more of the input is masked"
    reads = Reads.SCORES
    before = MODEL
    after = MODEL
    quantities = ("distortion",)
    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=1))
    features_in_step: Portion = 1
    patch_size: Count | None = 1
    fallback: ClassVar[float | str] = "black"
    perturb_baseline: Filling = None
    softmax: bool = False

    def for_subject(self, subject: Subject) -> Self:
        """With a patch size for the input, single features for a vector, and a baseline for the data."""
        found = with_baseline(self, subject)
        if len(subject.shape) == 1:
            return replace(found, patch_size=1)
        return found if self.patch_size is not None else replace(found, patch_size=cell_side(subject.shape))

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Once per model, for all explainers."""
        return () if subject.explainer is not None else (Request(self.for_subject(subject).around.fit(subject.shape), self.walk),)

    @property
    def around(self) -> RandomOrderMasks:
        """Masks that grow in a random order."""
        step, patch, filling = self.features_in_step, self.patch_size or 1, as_filling(self.perturb_baseline, self.fallback)
        if isinstance(step, int):
            return RandomOrderMasks(features=step, patch=patch, baseline=filling)
        return RandomOrderMasks(steps=round(1.0 / step), patch=patch, baseline=filling)

    def observe(self, pair: Pair) -> Tensor:
        """D_f (R,)."""
        return drop(pair, self.softmax).abs()

    def values(self, measured: Measured) -> Array:
        """1 if D_f grows within the tolerance, else 0: (samples, draws)."""
        distortion = measured["distortion"]
        points, drawn = levels_drawn(distortion)
        last = np.take_along_axis(distortion, points[..., None] - 1, axis=-1)
        return grows(np.where(drawn, distortion, last), self.tolerance)

    def reduce(self, values: Array) -> Array:
        """1 if it grows in every order."""
        return -largest(-values)
