"""A slow stand-in for the engine: one row after the other, for scores that mask or perturb the input."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from veracity.core.measures import Direction
from veracity.core.randomness import Draws
from veracity.core.scores import Defaults, Measured, Pair, Reading, Reads, Score, Subject, reads_after, reads_before
from veracity.core.spaces import GuidedSpace
from veracity.core.targets import Outputs
from veracity.explain.gradients import Gradient
from veracity.walk import MonteCarlo

DEFAULTS = Defaults(None, MonteCarlo(draws=50))
Model = Callable[[Tensor], Tensor]


def reading(scores: Tensor | None = None, target: Tensor | None = None, kind: Outputs = Outputs.LOGITS, **more: Tensor) -> Reading:
    """What was read, by hand: scores with the probabilities they mean, and whatever else is named."""
    found = {Reads(name): value for name, value in more.items()}
    if scores is not None:
        found = {Reads.SCORES: scores, Reads.OUTPUT: kind.read(scores), **found}
    count = len(next(iter(found.values())))
    return Reading(torch.zeros(count, dtype=torch.long) if target is None else target, found)


def pair(before: Reading, after: Reading, element: Tensor | None = None) -> Pair:
    return Pair(before, after, torch.zeros(len(before.target), 0) if element is None else element, lambda x: x, lambda x: x)


def explained(shape: tuple[int, ...]) -> Subject:
    return Subject("net", Gradient(), torch.Size(shape))


def bare(shape: tuple[int, ...]) -> Subject:
    return Subject("net", None, torch.Size(shape))


def read(what: frozenset[Reads], model: Model, x: Tensor, target: Tensor, explanation: Tensor | None) -> Reading:
    scores = model(x)
    known = {Reads.SCORES: scores, Reads.OUTPUT: Outputs.LOGITS.read(scores), Reads.INPUT: x}
    if explanation is not None:
        known[Reads.EXPLANATION] = explanation
    return Reading(target, {one: known[one] for one in what})


def measure(score: Score, model: Model, x: Tensor, target: Tensor, explanation: Tensor | None = None, first: int = 0) -> Measured:
    """Every draw at every level of samples `first`, `first` + 1, ..., as the score asks for it."""
    subject = bare(tuple(x.shape[1:])) if explanation is None else explained(tuple(x.shape[1:]))
    (request,) = score.requests(subject, DEFAULTS)
    space, draws = request.space, request.walk.length(request.space)
    guide = space.guide(x, explanation) if isinstance(space, GuidedSpace) else None
    values = np.full((len(x), draws, space.levels, len(score.quantities)), np.nan)
    before = read(reads_before(score), model, x, target, explanation)
    for draw in range(draws):
        latent = Draws.of(0, torch.arange(first, first + len(x)), draw).normal(space.latents, stream="walk")
        drawn = space.decode(latent)
        for level in range(space.levels):
            element = space.at(drawn, torch.full((len(x),), level))
            element = element if guide is None else space.steer(element, guide)
            after = read(reads_after(score), model, space.act(element, x), target, None)
            seen = score.observe(pair(before, after, element))
            values[:, draw, level] = seen.reshape(len(x), -1).numpy()
    return Measured({name: values[..., number] for number, name in enumerate(score.quantities)})


def value(score: Score, model: Model, x: Tensor, target: Tensor, explanation: Tensor | None = None, first: int = 0) -> np.ndarray:
    """One value a sample."""
    return score.reduce(score.values(measure(score, model, x, target, explanation, first)))


def linear(features: int = 6, classes: int = 3, seed: int = 0) -> torch.nn.Linear:
    made = torch.nn.Linear(features, classes).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        made.weight.copy_(torch.randn(classes, features, generator=generator, dtype=torch.float64))
        made.bias.copy_(torch.randn(classes, generator=generator, dtype=torch.float64))
    return made.requires_grad_(False)


def inputs(count: int = 4, *shape: int, seed: int = 1) -> Tensor:
    return torch.rand(count, *(shape or (6,)), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def small_mlp(features: int, classes: int = 3, seed: int = 0) -> Model:
    """A wiggly function of flattened inputs, in double precision."""
    generator = torch.Generator().manual_seed(seed)
    first = torch.randn(features, 8, generator=generator, dtype=torch.float64)
    second = torch.randn(8, classes, generator=generator, dtype=torch.float64)
    return lambda x: torch.tanh(x.flatten(1) @ first) @ second


def higher(score: Score) -> bool:
    return score.direction is Direction.HIGHER
