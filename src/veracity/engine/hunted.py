"""Whether searches for misinterpretations make sense for the models, targets and spaces of an audit; raised before anything runs."""

from __future__ import annotations

import math
from dataclasses import Field, fields
from typing import Any

import torch
from torch import Size, Tensor

from veracity.core.errors import InputError, SpecError
from veracity.core.scores import Request
from veracity.core.searches import Search
from veracity.core.spaces import WeightSpace
from veracity.core.targets import Class, Label, Predicted, Target, class_numbers
from veracity.engine.problem import Problem
from veracity.interpret.robustness import Hunted, Misinterpretation

BALL = ("radius", "norm", "range")
"""Settings of the ball that any other space takes the place of."""


def check_hunted(score: Hunted, request: Request, target: Target, shape: Size) -> None:
    """Raise if a score of misinterpretation cannot be measured with this space, walk and target on inputs of this shape."""
    space, walk = request.space, request.walk
    if score.space is not None and (idle := [item.name for item in fields(score) if item.name in BALL and changed(score, item)]):
        raise SpecError(f"The score '{score.name}' looks in the space '{space.name}', and not in a ball: leave out {', '.join(idle)}.")
    if not isinstance(target, (Predicted, Label, Class)):
        raise SpecError(f"The score '{score.name}' is about predicted classes, and the target '{target.name}' looks at something else.")
    if request.follow and isinstance(target, Class):
        raise SpecError(
            f"The score '{score.name}' explains the class predicted for each perturbed input, and the target '{target.name}' "
            "is another: pass target='predicted', or give the score follow=False."
        )
    if isinstance(space, WeightSpace):
        raise SpecError(
            f"The space '{space.name}' knows copies of a model by their number alone, which '{score.name}' cannot search: "
            "use WeightNeighbourhood(sigma=...)."
        )
    if space.levels > 1:
        raise SpecError(f"The score '{score.name}' looks at one set of points, and the space '{space.name}' has {space.levels} levels.")
    if walk.adaptive and not isinstance(walk, Search):
        raise SpecError(f"The walk '{walk.name}' stops when a mean is known, which '{score.name}' is not: use the walk 'monte_carlo'.")
    if isinstance(score, Misinterpretation):
        check_threshold(score)
        score.compare(*torch.rand((2, 1, *shape), generator=torch.Generator().manual_seed(0)))


def changed(score: Hunted, item: Field[Any]) -> bool:
    """Whether a setting is not the usual one."""
    return bool(getattr(score, item.name) != item.default)


def check_threshold(score: Misinterpretation) -> None:
    """Raise on a threshold that is no number, or that no agreement could pass."""
    value, (low, high) = score.threshold, score.compare.range
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or not low <= value <= high:
        raise SpecError(
            f"The threshold of '{score.name}' is a value of its measure '{score.compare.name}', from {low:g} to {high:g}, not {value!r}."
        )


def check_classes(problem: Problem, labels: Tensor | None) -> None:
    """Raise if a score that starts from correctly classified samples is asked of something that does not classify."""
    name = next((label for label, score in problem.scores.items() if score.seeds), None)
    if name is None:
        return
    for model, audited in problem.models.items():
        if audited.classes is None or audited.classes < 2:
            raise InputError(f"The score '{name}' needs a model with an output for each of at least two classes, which '{model}' has not.")
        if labels is not None:
            class_numbers(labels, audited.classes, f"model '{model}'", fix=f"the score '{name}' needs to know which samples it gets right")
