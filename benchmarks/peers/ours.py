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
from veracity.core.scores import Defaults, Request, Score, Subject
from veracity.core.spaces import GuidedSpace, InputSpace, WeightSpace
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
    moved = space.act(found.flatten(0, 1), case.x.repeat_interleave(found.shape[1], dim=0))
    return moved.reshape(*found.shape[:2], *case.x.shape[1:])


def copies(case: Case, score: Score) -> list[nn.Module]:
    """The model with the weights of every level of the first draw."""
    space = request_of(case, score).space
    if not isinstance(space, WeightSpace):
        raise TypeError(f"{space.name} does not perturb weights.")
    fitted = space.of(case.model)
    return [with_weights(case.model, fitted.parameters(case.model, 0, level, SEED)) for level in range(fitted.levels)]
