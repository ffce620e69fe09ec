"""Reads a model, or a copy of it with other weights: outputs, one layer, explanations."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import Cost, Explainer
from veracity.core.inputs import Signals
from veracity.core.models import LayerScores, ScoreRecorder
from veracity.core.randomness import Draws
from veracity.core.scores import Reads, Smoothing
from veracity.engine.memory import Budget, Found
from veracity.engine.problem import Problem


class Reader:
    """One model and one explainer of it, on the model's own weights or on a copy's."""

    def __init__(
        self,
        problem: Problem,
        name: str,
        explainer: Explainer | None,
        budget: Budget,
        learnt: Mapping[str, Tensor],
        copy: nn.Module | None = None,
    ) -> None:
        self.problem, self.name, self.explainer, self.budget, self.learnt = problem, name, explainer, budget, learnt
        self.module = problem.models[name].module if copy is None else copy
        self.view = problem.view(name, self.module)
        self.outputs_are = problem.models[name].outputs
        self.training = problem.training_of(name, explainer, self.module) if explainer else None
        self.cost = explainer.cost(problem.inputs.shape) if explainer else Cost(forward=1)

    def on(self, copy: nn.Module) -> Reader:
        """The same explainer on a copy of the model."""
        return Reader(self.problem, self.name, self.explainer, self.budget, self.learnt, copy)

    def informed(self) -> Reader:
        """Itself, once the explainer has found out about this copy what it must know of a model."""
        if self.explainer is not None and self.explainer.learns:
            nobody = Draws.of(self.problem.seed, torch.arange(0))
            context = self.problem.context(self.name, nobody, self.budget.rows, training=self.training)
            with torch.enable_grad():
                self.learnt = self.explainer.lesson.learn(self.view, context)
        return self

    def outputs(self, what: frozenset[Reads], x: Signals, layer: str | None) -> Found:
        """Scores, probabilities and one layer's output of R rows, with as few passes as they need."""
        found: Found = {}
        if Reads.SCORES in what:
            found[Reads.SCORES] = x.through(self.view)
        if Reads.OUTPUT in what:
            same = self.view is self.module and Reads.SCORES in found
            found[Reads.OUTPUT] = self.outputs_are.read(found[Reads.SCORES] if same else x.through(self.module))
        if Reads.REPRESENTATION in what:
            if layer is None:
                raise InputError("A score that reads a representation must name its layer.")
            found[Reads.REPRESENTATION] = x.through(LayerScores(self.module, layer))
        return found

    def explanation(self, x: Signals, targets: Tensor, draws: Draws, smoothing: Smoothing | None = None) -> Tensor:
        """e(x), as the explainer gives it; with smoothing, its mean over draws around x."""
        if self.explainer is None:
            raise InputError("A score of explanations needs an explainer.")
        if smoothing is not None:
            return self.smoothed(x, targets, draws, smoothing)
        with torch.enable_grad():
            context = self.problem.context(self.name, draws, self.budget.rows, x.structure, self.learnt, self.training)
            found = self.explainer.explain(self.view, x.values, targets, context)
        return found.detach()

    def heard(self, x: Signals, targets: Tensor | None, draws: Draws) -> tuple[Tensor, Tensor]:
        """e(x) of a local explainer, and the scores (R, K) that its pass saw; without targets the predicted class is explained."""
        if self.explainer is None:
            raise InputError("A score of explanations needs an explainer.")
        heard = ScoreRecorder(self.view, follow=targets is None)
        chosen = torch.zeros(len(x), dtype=torch.long, device=x.values.device) if targets is None else targets
        with torch.enable_grad():
            context = self.problem.context(self.name, draws, max(self.budget.rows, len(x)), x.structure, self.learnt, self.training)
            found = self.explainer.explain(heard, x.values, chosen, context)
        return found.detach(), heard.scores(len(x))

    def smoothed(self, x: Signals, targets: Tensor, draws: Draws, smoothing: Smoothing) -> Tensor:
        """The mean over `count` draws of a space around each row, the same ones whatever the weights."""
        count, space = smoothing.count, smoothing.space.fit(x.values.shape[1:])
        row = torch.arange(len(x)).repeat_interleave(count)
        around = Draws(draws.seed, draws.sample[row], torch.arange(count).repeat(len(x)))
        element = space.decode(around.normal(space.latents, stream="smoothing")).to(x.values.device)
        parts: list[Tensor] = []

        def some(part: slice) -> None:
            here = row[part].to(x.values.device)
            own = Draws(draws.seed, draws.sample[row[part]], draws.draw[row[part]] * count + around.draw[part])
            parts.append(self.explanation(space.move(element[part], x[here]), targets[here], own))

        self.budget.spend(len(row), max(self.cost.forward, self.cost.backward), some)
        return torch.cat(parts).reshape(len(x), count, *parts[0].shape[1:]).mean(1)
