"""A block of samples on the model's device, and how its rows are explained."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from veracity.core import fingerprint
from veracity.core.models import device_of
from veracity.core.randomness import Draws
from veracity.core.scores import Request
from veracity.core.walks import Ask
from veracity.engine.memory import Budget
from veracity.engine.plan import Job, numbers
from veracity.engine.problem import Problem
from veracity.engine.progress import weight
from veracity.engine.reader import Reader


class Rows:
    """The samples of one job, their targets, and the budget of the model's rows; `moved` hears of the passes made."""

    def __init__(self, job: Job, problem: Problem, reader: Reader, moved: Callable[[int], None]) -> None:
        model = problem.models[job.model]
        self.seed, self.moved = problem.seed, moved
        self.device = device_of(model.module)
        self.samples = torch.tensor(job.samples)
        self.x = problem.inputs.take(self.samples).to(self.device)
        self.targets = model.targets[self.samples].to(self.device)
        self.budget: Budget = reader.budget
        self.rows_each = max(reader.cost.forward, reader.cost.backward)
        about = [model.fingerprint, model.outputs.value, problem.target.spec(), str(self.device)]
        self.key = fingerprint.of_json([*about, self.x.fingerprint(), numbers(self.samples)])

    def __len__(self) -> int:
        return len(self.samples)

    def draws(self, request: Request, piece: Ask) -> Draws:
        """The explainer's random numbers: those of e(x), or fresh ones for every draw and level."""
        fresh = piece.draw * request.space.levels + piece.level + 1
        return Draws(self.seed, self.samples[piece.row], torch.zeros_like(fresh) if request.common_draws else fresh)

    def explained(self, reader: Reader, request: Request, ask: Ask, targets: Tensor | None = None) -> Tensor:
        """Explanations of the block's own samples, in the order of the ask; of other outputs (samples,) where a model has its own."""
        chosen = self.targets if targets is None else targets
        parts: list[Tensor] = []

        def look(part: slice) -> None:
            piece = ask[part]
            here = piece.row.to(self.device)
            parts.append(reader.explanation(self.x[here], chosen[here], self.draws(request, piece), request.smoothing))
            self.moved(len(piece) * weight(reader.cost))

        self.budget.spend(len(ask), self.rows_each * repeats(request), look)
        return torch.cat(parts)


def repeats(request: Request) -> int:
    """How many explanations make one that is read."""
    return request.smoothing.count if request.smoothing else 1
