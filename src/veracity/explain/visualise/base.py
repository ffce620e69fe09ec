"""Global explanations: what a model looks for in a class, e = phi(f, c), whatever the input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import Context, Cost, Frame, Learner
from veracity.core.randomness import Draws

CLASSES, DRAW = "classes", "draw"
"""The tensors of a lesson that name its classes, (C,), in increasing order, and their draws, (C,)."""


@dataclass(frozen=True, kw_only=True)
class GlobalExplainer(Learner, ABC):
    """An explainer whose explanations depend on the model and the class alone: every input of a class has the same one.

    Each class is explained once per copy of the model, and the inputs gather the explanations of their classes. Random numbers are
    keyed by (seed, class), and are the same for every copy of a model unless the explainer is `stochastic`.
    """

    frame: ClassVar[Frame] = Frame.GLOBAL
    by_class: ClassVar[bool] = True

    def cost(self, shape: Size) -> Cost:
        """Nothing per input; `lesson_cost` counts the passes per model."""
        return Cost()

    @abstractmethod
    def explain_classes(self, model: nn.Module, classes: Tensor, draws: Draws, like: Tensor, context: Context) -> Mapping[str, Tensor]:
        """Explanations of C classes (C,), with one row of random numbers each, for inputs like (1, ...): tensors (C, ...) by name."""

    @abstractmethod
    def read(self, learnt: Mapping[str, Tensor], rows: Tensor) -> Tensor:
        """The explanations (N, ...) of this explainer from those that its lesson stored, at some of their rows (N,)."""

    def keyed(self, draws: Draws) -> Draws:
        """The random numbers of classes."""
        return draws if self.stochastic else Draws.of(draws.seed, draws.sample)

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        """The explanations of all classes that the audit explains."""
        if context.example is None or len(context.draws) == 0:
            raise InputError(f"{self.name} learns about classes: pass Context(draws=Draws.of(seed, classes), example=inputs[:1], ...).")
        classes = context.draws.sample
        found = self.explain_classes(model, classes, self.keyed(context.draws), context.example, context)
        return {CLASSES: classes, DRAW: context.draws.draw, **found}

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """The explanation of each input's class. Classes and draws that no lesson was about are explained now, each once.

        Draw 0 is the lesson's own draw.
        """
        targets, draw = targets.to(inputs.device), self.keyed(context.draws.to(inputs.device)).draw
        new, parts = torch.ones_like(targets, dtype=torch.bool), list[Tensor]()
        if CLASSES in context.learnt:
            known, usual = (context.learnt[name].to(inputs.device) for name in (CLASSES, DRAW))
            rows = torch.searchsorted(known, targets).clamp(max=len(known) - 1)
            new = (known[rows] != targets) | ((draw != 0) & (draw != usual[rows]))
            parts.append(self.read(context.learnt, rows[~new]).to(inputs))
        if bool(new.any()):
            distinct, rows = torch.stack((targets[new], draw[new])).unique(dim=1, return_inverse=True)
            own = Draws(context.draws.seed, distinct[0], distinct[1])
            parts.append(self.read(self.explain_classes(model, distinct[0], own, inputs[:1].detach(), context), rows).to(inputs))
        order = torch.cat(((~new).nonzero()[:, 0], new.nonzero()[:, 0]))
        return torch.cat(parts)[order.argsort()]
