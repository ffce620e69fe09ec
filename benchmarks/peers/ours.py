"""Our side: a score through an audit, and the very perturbations that the audit used."""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.peers.subject import Array, Case, with_weights
from veracity import Audit
from veracity.core.randomness import Draws
from veracity.core.scores import Defaults, Request, Score, Subject
from veracity.core.spaces import GuidedSpace, InputSpace, RangedSpace, TargetSpace, WeightSpace
from veracity.explain import Gradient
from veracity.scores.randomisation import RandomisationScore
from veracity.walk import MonteCarlo

SEED = 0


def values(case: Case, score: Score, **settings: Any) -> Array:
    """One value a sample; of randomised models one copy, as peers have. `settings` are further ones of the audit."""
    score = replace(score, walk=MonteCarlo(draws=1)) if isinstance(score, RandomisationScore) else score
    with tempfile.TemporaryDirectory() as folder:
        given: dict[str, Any] = {"models": case.model, "inputs": case.x, "explainers": ["gradient"], "controls": False, "seed": SEED}
        audit = Audit(**{**given, **settings}, scores=[score])
        found: Array = audit.run(Path(folder) / "run", progress=False).samples(score.name)["value"].to_numpy()
        return found


def of_maps(case: Case, score: Score, **settings: Any) -> Array:
    """The same for the maps of a case, whatever made them."""
    return values(case, score, explainers={"maps": case.maps}, **settings)


def of_samples(case: Case, score: Score) -> Array:
    """The same for scores that compare the maps of different samples: an explainer finds the map of each input, which must differ."""

    def find(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        same = (inputs.flatten(1)[:, None] == case.x.flatten(1)).all(dim=2)
        return case.maps[same.long().argmax(dim=1)]

    return values(case, score, explainers={"maps": find})


def request_of(case: Case, score: Score) -> Request:
    """What the score asks to be perturbed."""
    subject = Subject("model", Gradient(), case.x.shape[1:])
    (request,) = score.requests(subject, Defaults(None, MonteCarlo()))
    return request


def elements(case: Case, score: Score) -> Tensor:
    """The perturbations of every sample at every draw, (samples, draws, q): a function of the seed alone."""
    request = request_of(case, score)
    space = request.space
    if not isinstance(space, InputSpace):
        raise TypeError(f"{space.name} does not perturb inputs.")
    walker = request.walk.start(space, torch.arange(len(case.x)), SEED, (-math.inf, math.inf))
    guide = space.guide(case.x, case.maps) if isinstance(space, GuidedSpace) else None
    parts = []
    while (ask := walker.ask()) is not None:
        parts.append(space.steer(ask.element, guide[ask.row]) if isinstance(space, GuidedSpace) and guide is not None else ask.element)
        walker.tell(torch.zeros(len(ask)))
    return torch.cat(parts).reshape(len(case.x), -1, parts[0].shape[1])


def perturbed(case: Case, score: Score) -> Tensor:
    """The perturbed inputs, (samples, draws, ...)."""
    space, found = request_of(case, score).space, elements(case, score)
    if not isinstance(space, InputSpace):
        raise TypeError(f"{space.name} does not perturb inputs.")
    if isinstance(space, RangedSpace):
        space = space.within(float(case.x.min()), float(case.x.max()))
    moved = space.act(found.flatten(0, 1), case.x.repeat_interleave(found.shape[1], dim=0))
    return moved.reshape(*found.shape[:2], *case.x.shape[1:])


def other_classes(case: Case, score: Score) -> Tensor:
    """The class (samples,) that is explained instead of the target at the first draw."""
    request = request_of(case, score)
    space = request.space
    if not isinstance(space, TargetSpace):
        raise TypeError(f"{space.name} does not replace targets.")
    ask = request.walk.start(space, torch.arange(len(case.x)), SEED, (-math.inf, math.inf)).ask()
    if ask is None:
        raise ValueError(f"{space.name} was not drawn from.")
    return space.retarget(ask.element, case.targets, classes=case.model(case.x).shape[1])


def smoothed_inputs(case: Case, score: Score) -> Tensor:
    """The noisy inputs over which explanations are averaged, (samples, draws, ...)."""
    smoothing = request_of(case, score).smoothing
    if smoothing is None:
        raise TypeError(f"{score.name} does not average explanations.")
    count, space = smoothing.count, smoothing.space.fit(case.x.shape[1:])
    row = torch.arange(len(case.x)).repeat_interleave(count)
    noise = Draws(SEED, row, torch.arange(count).repeat(len(case.x))).normal(space.latents, stream="smoothing")
    return space.act(space.decode(noise), case.x[row]).reshape(len(case.x), count, *case.x.shape[1:])


def copies(case: Case, score: Score) -> list[nn.Module]:
    """The model with the weights of every level of the first draw."""
    space = request_of(case, score).space
    if not isinstance(space, WeightSpace):
        raise TypeError(f"{space.name} does not perturb weights.")
    fitted = space.of(case.model)
    return [with_weights(case.model, fitted.parameters(case.model, 0, level, SEED)) for level in range(fitted.levels)]
