"""What masking is held against: the explained score of a row, and how much of the explanation was masked.

The grid of an image, or the pieces of a series, that is fine enough to tell regions apart and coarse enough to matter.
"""

from __future__ import annotations

import torch
from torch import Size, Tensor

from veracity.core.errors import InputError
from veracity.core.explainers import Frame
from veracity.core.scores import Pair, Reading, Reads, Subject
from veracity.perturb.masks import positions

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
