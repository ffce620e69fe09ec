"""What masking is held against: the explained score of a row, and how much of the explanation was masked.

The grid of an image, or the pieces of a series, that is fine enough to tell regions apart and coarse enough to matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from torch import Size, Tensor

from veracity.core.errors import InputError
from veracity.core.explainers import Frame
from veracity.core.registry import SCORES
from veracity.core.scores import Array, Defaults, Measured, Pair, Reading, Reads, Request, Subject
from veracity.core.settings import Count, Portion
from veracity.core.walks import Walk
from veracity.perturb.masks import RandomOrderMasks, positions
from veracity.scores.assumptions import Assumption
from veracity.scores.common import largest
from veracity.walk import MonteCarlo

MODEL = frozenset({Reads.SCORES, Reads.OUTPUT})
"""What a prediction is read from: scores and probabilities come from one pass."""

BOTH = MODEL | {Reads.EXPLANATION}

ROUNDING = 1e-4
"""How far beyond 0 and 1 a model's own probabilities may lie."""


def maps(subject: Subject) -> bool:
    """Whether the subject is explained by maps over its input, the only ones that masking can be held against."""
    return subject.explainer is not None and subject.explainer.frame is Frame.INPUT and not subject.explainer.categorical


def prediction(reading: Reading, softmax: bool) -> Tensor:
    """The explained score y_c (R,), or with `softmax` its probability, in double precision."""
    return (probability(reading) if softmax else reading.score).double()


def probability(reading: Reading) -> Tensor:
    """The probability (R,) of the explained class, NaN where the model gives NaN.

    A single logit or probability is explained as the probability of yes. Raises where what is explained is no class of the
    model's output, and where its outputs are no probabilities.

    >>> probability(Reading(torch.tensor([1]), {Reads.SCORES: torch.tensor([[0.0, 0.0]]), Reads.OUTPUT: torch.tensor([[0.5, 0.5]])}))
    tensor([0.5000])
    """
    scores, output = reading.scores, reading.output
    single = scores.shape[1] == 1 and output.shape[1] == 2
    classes = output[:, 1:] if single else output
    check_probabilities(output)
    if scores.shape != classes.shape or not belong(scores, classes, scores.sigmoid() if single else scores.softmax(dim=1)):
        raise InputError(
            "softmax=True needs a target that is a class of the model's output, but something else is explained: pass softmax=False."
        )
    return classes.gather(1, reading.target.to(output.device)[:, None]).squeeze(1).clamp(0.0, 1.0)


def check_probabilities(output: Tensor) -> None:
    """Raise unless outputs (R, C) can be probabilities: at least two columns, all between 0 and 1 where they are not NaN."""
    outside = output[(output < -ROUNDING) | (output > 1.0 + ROUNDING)]
    if output.shape[1] == 1 or len(outside):
        found = f"a value of {outside[0].item():.3g}" if len(outside) else "one number a sample that is neither logit nor probability"
        raise InputError(f"softmax=True needs probabilities, but the model's raw outputs are none (found {found}): pass softmax=False.")


def belong(scores: Tensor, output: Tensor, squashed: Tensor) -> bool:
    """Whether probabilities (R, C) are the scores or the squashed scores, wherever these are numbers.

    Rows of classes always pass. It is a layer that happens to be as wide, or a function of the output, that does not.
    """
    slack = 1e-2 if output.dtype.itemsize < 4 else 1e-4
    return any(
        bool((torch.isclose(output, made.to(output), rtol=slack, atol=slack) | output.isnan() | made.isnan()).all())
        for made in (scores, squashed)
    )


def drop(pair: Pair, softmax: bool) -> Tensor:
    """y_c(x) - y_c(x') (R,)."""
    return prediction(pair.before, softmax) - prediction(pair.after, softmax)


def over_entries(explanation: Tensor, x: Tensor) -> Tensor:
    """Explanations as one number for each of the d entries of their inputs, (R, d), in double precision.

    One map for all channels counts for each of them.
    """
    if explanation.ndim != x.ndim or any(own not in (1, other) for own, other in zip(explanation.shape, x.shape, strict=True)):
        given, needed = tuple(explanation.shape[1:]), tuple(x.shape[1:])
        raise InputError(
            f"Masking needs an explanation of each entry of inputs of shape {needed}, but the explanations have shape {given}."
        )
    return explanation.double().expand_as(x).flatten(1)


def attributed(explanation: Tensor, masked: Tensor) -> Tensor:
    """The sum (R,) of an explanation over the masked entries, both (R, d).

    Summed as differences from the first entry, so that a constant explanation gives exactly the same for every subset of
    one size.

    >>> attributed(torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([[True, False, True]]))
    tensor([5.])
    """
    first, masked = explanation[:, 0], masked.to(explanation.device)
    return torch.where(masked, explanation - first[:, None], 0.0).sum(dim=1) + masked.sum(dim=1) * first


CELLS = 9


def cell_side(shape: Size) -> int:
    """The side of the smallest patches of which a sample of this shape holds at most 9 x 9.

    >>> cell_side(Size((1, 28, 28))), cell_side(Size((14,))), cell_side(Size((1, 187)))
    (4, 1, 3)
    """
    along = positions(shape)
    most = CELLS if len(along) == 2 else CELLS**2
    return max(-(-max(along) // most), 1)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class ModelFaithfulness(Assumption):
    """Whether the model's distortion grows as more and more of the input is masked, in random order (Assumption 3): 1 or 0.

        D_f^1 <= D_f^2 <= ... <= D_f^Z,   D_f^z = |f(x) - f(x with the first z steps masked)|

    on the explained score, or with `softmax` its probability. The order is random, so that the curve shows the model alone
    (appendix A.5). A real network is never exactly monotone: the assumption holds if D_f never falls by more than
    `tolerance` of its largest value below what it has reached before, however many steps the fall takes. Each step masks
    `features_in_step` more patches of side `patch_size` (or that share of them; patch_size=None makes about 9 x 9 patches). With
    several draws every order must pass.
    """

    name = "model_faithfulness"
    assumes = "a model that moves further away the more is masked"
    reads = Reads.SCORES
    before = MODEL
    after = MODEL
    quantities = ("distortion",)
    walk: Walk = field(default_factory=lambda: MonteCarlo(draws=1))
    features_in_step: Portion = 1
    patch_size: Count | None = 1
    perturb_baseline: float | str = "black"
    softmax: bool = False

    def for_subject(self, subject: Subject) -> Self:
        """With patches that fit the input."""
        return self if self.patch_size is not None else replace(self, patch_size=cell_side(subject.shape))

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Once a model, whatever the explainers."""
        return () if subject.explainer is not None else (Request(self.for_subject(subject).around.fit(subject.shape), self.walk),)

    @property
    def around(self) -> RandomOrderMasks:
        """Masks that grow in a random order."""
        pace, baseline = self.features_in_step, self.perturb_baseline
        patch = 1 if self.patch_size is None else self.patch_size
        if isinstance(pace, int):
            return RandomOrderMasks(features=pace, patch=patch, baseline=baseline)
        return RandomOrderMasks(steps=round(1.0 / pace), patch=patch, baseline=baseline)

    def observe(self, pair: Pair) -> Tensor:
        """D_f (R,)."""
        return drop(pair, self.softmax).abs()

    def values(self, measured: Measured) -> Array:
        """1 where D_f grows within the tolerance, else 0: (samples, draws)."""
        return grows(measured["distortion"], self.tolerance)

    def reduce(self, values: Array) -> Array:
        """1 where it grows in every order that was drawn: the least over draws."""
        return -largest(-values)


def grows(distortion: Array, tolerance: float) -> Array:
    """1 where the values along the last axis never fall by more than `tolerance` of the largest below an earlier one, else 0.

    From (..., levels) to (...); NaN where a level is undefined. What never moves does not fall.

    >>> grows(np.array([[0.0, 1.0, 0.95, 2.0], [0.0, 1.0, 0.5, 2.0], [0.0, np.nan, 1.0, 2.0]]), 0.1)
    array([ 1.,  0., nan])
    """
    fall = (np.maximum.accumulate(distortion, axis=-1) - distortion).max(axis=-1)
    found = np.where(fall <= tolerance * distortion.max(axis=-1), 1.0, 0.0)
    return np.where(np.isnan(fall), np.nan, found)
