"""Explanations along orbits: does the explanation move with its input? s[e(g x), g e(x)] at every element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.explainers import Explainer, Frame, maps_only
from veracity.core.inputs import Inputs, Signals
from veracity.core.models import device_of
from veracity.core.randomness import Draws
from veracity.core.scores import Defaults, Reading, Reads
from veracity.core.spaces import InputSpace
from veracity.core.targets import Label, Outputs, Target
from veracity.engine.admission import admit
from veracity.engine.memory import Budget
from veracity.engine.perturbation.base import pair_of
from veracity.engine.preliminaries import recall
from veracity.engine.problem import Problem
from veracity.engine.progress import weight
from veracity.engine.reader import Reader
from veracity.engine.resolve import labelled, prepare_explainer
from veracity.engine.store import RunFolder
from veracity.engine.trial import try_explainers
from veracity.orbits.grids import Orbit
from veracity.orbits.models import EvaluatedModel
from veracity.scores import Equivariance
from veracity.walk import Exhaustive


def as_explainers(given: Sequence[Any] | Mapping[str, Any], inputs: Inputs, orbit: Orbit, reference: Tensor | None) -> dict[str, Explainer]:
    """Explainers by label, bound to the data and the orbit; raises on those that cannot be followed along it."""
    named = labelled(given, controls=False)
    for label, one in named.items():
        if one.frame is not Frame.INPUT:
            raise InputError(
                f"'{label}' explains by {one.frame.value}, and what moves along an orbit are maps over the input: leave it out."
            )
        if maps_only(one):
            raise InputError(f"'{label}' is maps without their explainer, and moved inputs are explained anew: leave it out.")
        if one.needs:
            needed = ", ".join(sorted(need.value for need in one.needs))
            raise InputError(f"'{label}' needs {needed}, which an orbit evaluation does not have: leave it out.")
    if named:
        first = inputs.take(torch.zeros(1, dtype=torch.long))
        shape = orbit.space.move(orbit.elements[orbit.identity][None], first).values.shape[1:]
        if shape != inputs.shape:
            raise InputError(
                f"Explanations cannot be followed along '{orbit.name}', which makes inputs of shape {tuple(shape)} out of "
                f"{tuple(inputs.shape)}: leave the explainers out."
            )
    return {label: prepare_explainer(inputs, one.bind(reference, orbit.space)) for label, one in named.items()}


def explained_problem(
    models: Mapping[str, EvaluatedModel],
    budgets: Mapping[str, Budget],
    inputs: Inputs,
    orbit: Orbit,
    explainers: dict[str, Explainer],
    target: Target,
    seed: int,
    truth: Tensor | None = None,
) -> tuple[Problem, list[dict[str, str]]]:
    """The problem that explainers are asked, as in an audit, and the notes of their trial.

    The `truth` of a classification are the labels, which a target may ask for.
    """
    audited = {}
    unlabelled = truth is not None and bool((truth < 0).any())
    for name, one in models.items():
        outputs: Outputs | None = getattr(one.task, "outputs", None)
        labels = truth if one.task.kind == "classification" and (isinstance(target, Label) or not unlabelled) else None
        audited[name], _ = admit(name, one.module, inputs, labels, target, outputs, budgets[name])
    problem = Problem(audited, inputs, explainers, {}, target, Defaults(orbit.space, Exhaustive()), seed)
    return try_explainers(problem, budgets)


@dataclass(frozen=True, kw_only=True)
class Moved:
    """The explanation of a moved input, e(g x), the expected one, g e(x), how well they agree, and the number of the class explained."""

    found: Tensor
    expected: Tensor
    agreement: float
    target: int | None


class OrbitExplainer:
    """One explainer of one model, followed along orbits."""

    def __init__(self, problem: Problem, name: str, label: str, budget: Budget, store: RunFolder) -> None:
        explainer, module = problem.explainers[label], problem.models[name].module
        learnt = recall(store, problem.learnt_key(name, label), device_of(module))
        self.problem, self.name, self.budget, self.device = problem, name, budget, device_of(module)
        self.reader = Reader(problem, name, explainer, budget, learnt)
        self.score = Equivariance().for_subject(problem.subject(name, explainer))
        self.rows_each = max(explainer.cost(problem.inputs.shape).forward, explainer.cost(problem.inputs.shape).backward)
        self.weight = weight(explainer.cost(problem.inputs.shape))

    @torch.no_grad()
    def equivariance(self, samples: Tensor, orbit: Orbit, elements: Tensor, advance: Callable[[int], None] = lambda rows: None) -> Tensor:
        """The similarity of e(g x) and g e(x) at every element, (n, K), as the score `equivariance` measures it."""
        x, targets = self.problem.inputs.take(samples).to(self.device), self.problem.models[self.name].targets[samples].to(self.device)
        parts: list[Tensor] = []
        self.budget.spend(len(x), self.rows_each, lambda part: parts.append(self.explanation(x[part], targets[part], samples[part], 0)))
        before, length = torch.cat(parts), len(elements)
        found = torch.empty(len(samples) * length)

        def compare(part: slice) -> None:
            number = torch.arange(part.start, part.stop)
            row, element = (number // length).to(self.device), elements[number % length].to(self.device)
            moved = orbit.space.move(element, x[row])
            maps = self.explanation(moved, targets[row], samples[number // length], number % length + 1)
            base, here = (Reading(targets[row], {Reads.EXPLANATION: value}) for value in (before[row], maps))
            found[part] = self.score.observe(pair_of(orbit.space, element, base, here, Frame.INPUT)).float().cpu()
            advance(len(row) * self.weight)

        self.budget.spend(len(found), self.rows_each, compare)
        return found.reshape(len(samples), length)

    @torch.no_grad()
    def beside_expected(self, x: Signals, moved: Signals, element: Tensor, space: InputSpace, sample: int) -> Moved:
        """One sample's explanation after a transform, and the one before it, moved along."""
        numbers = torch.tensor([sample])
        targets = self.problem.models[self.name].targets[numbers].to(self.device)
        before = self.explanation(x.to(self.device), targets, numbers, 0)
        after = self.explanation(moved.to(self.device), targets, numbers, 1)
        base, here = (Reading(targets, {Reads.EXPLANATION: value}) for value in (before, after))
        pair = pair_of(space, element.to(self.device), base, here, Frame.INPUT)
        target = int(targets[0]) if targets.ndim == 1 and not targets.is_floating_point() else None
        return Moved(found=after[0], expected=self.score.expected(pair)[0], agreement=float(self.score.observe(pair)), target=target)

    def explanation(self, x: Signals, targets: Tensor, samples: Tensor, draw: Tensor | int) -> Tensor:
        """e(x) with the random numbers of a sample and a draw; draw 0 is the unmoved input."""
        numbers = torch.full_like(samples, draw) if isinstance(draw, int) else draw
        return self.reader.explanation(x, targets, Draws(self.problem.seed, samples, numbers))
