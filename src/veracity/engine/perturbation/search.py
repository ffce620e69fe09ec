"""A search around each sample of a block: evaluate what the search asks for, and tell it how bad that was."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from veracity.core.errors import InputError, SpecError
from veracity.core.scores import Pair, Reading, Reads
from veracity.core.spaces import InputSpace, Space
from veracity.core.walks import Ask, Search, Searcher, Trace
from veracity.engine.memory import Readings
from veracity.engine.perturbation.base import Lines, Measurements, Perturbation, See
from veracity.engine.perturbation.inputs import RowPerturbation
from veracity.engine.progress import weight
from veracity.explain.differentiable import Form, SoftReLU, differentiable
from veracity.scores.robustness import SearchScore

BETA = 20.0
"""How sharp the softplus is that stands for a ReLU where slopes are taken."""

SLOPE_MEMORY = 4
"""How many times the memory of a plain pass a pass takes whose explanation is differentiated."""

SHOWN = 8
"""How many of a block's worst points are stored for pictures."""


class SearchRun(Perturbation[Space]):
    """One score that follows a search, on one block; the rows are perturbed as the `inner` perturbation does."""

    def __init__(self, inner: Perturbation[Any]) -> None:
        super().__init__(inner.block, inner.cells, inner.space, inner.before)
        (self.cell,) = inner.cells
        score, walk = self.cell.score, self.request.walk
        if not isinstance(score, SearchScore) or not isinstance(walk, Search):
            raise SpecError(f"The score '{self.cell.name}' has no merit that the walk '{walk.name}' could follow.")
        if not isinstance(inner, RowPerturbation):
            raise SpecError(
                f"The walk '{walk.name}' searches around each sample, but all samples share the elements of '{self.space.name}'."
            )
        self.inner, self.score, self.walk = inner, score, walk
        self.form: Form | None = None
        if inner.explaining and walk.follows_slopes and self.block.explainer is not None:
            self.form = differentiable(self.block.explainer)

    def observe(self, ask: Ask, see: See) -> None:
        """As the inner perturbation does."""
        self.inner.observe(ask, see)

    def measure(self) -> list[Lines]:
        """Search around every sample that the score is defined for."""
        sound = ~self.broken.cpu()
        searched = sound & self.block.correct if self.score.correct_only else sound
        with torch.no_grad():
            found = self.search(searched.nonzero()[:, 0])
        return [lambda: found]

    def search(self, rows: Tensor) -> Measurements:
        """Search around these rows of the block, as many at once as memory allows."""
        samples, traces, worst = self.block.samples, list[tuple[Tensor, Trace]](), list[tuple[Ask, Tensor]]()
        for some in rows.split(self.walk.together(self.space)) if len(rows) else ():
            searcher = self.walk.searcher(self.space, samples[some], self.block.seed, self.score.event, self.block.device)
            self.follow(searcher, some)
            trace, (ask, merit) = searcher.trace(), searcher.worst()
            traces.append((some[trace.row], trace))
            worst.append((Ask(some[ask.row], ask.draw, ask.level, ask.element), merit))
        return lines_of(traces, samples, self.score.quantities, self.worst_points(worst))

    def follow(self, searcher: Searcher, some: Tensor) -> None:
        """Evaluate until the search is done."""
        while (ask := searcher.ask()) is not None:
            whole = Ask(some[ask.row], ask.draw, ask.level, ask.element)
            seen = self.seen(whole)
            searcher.tell(self.score.merit(seen), seen, self.slope(whole) if searcher.slopes else None)

    def seen(self, ask: Ask) -> Tensor:
        """What the score observes of every row, (R, Q)."""
        parts: dict[int, Tensor] = {}

        def see(part: slice, pair: Pair) -> None:
            parts[part.start] = self.score.observe(pair).detach().double()

        self.observe(ask, see)
        return torch.cat([parts[start] for start in sorted(parts)])

    def slope(self, ask: Ask) -> Tensor:
        """How the smooth merit changes along each element, (R, p), with softplus in the place of every ReLU."""
        space, block, reader, parts = self.space, self.block, self.block.reader, list[Tensor]()
        if not isinstance(space, InputSpace):
            raise SpecError(f"The walk '{self.walk.name}' follows slopes, and the space '{space.name}' has none: use the walk 'genetic'.")

        def some(part: slice) -> None:
            piece, row = ask[part], ask.row[part].to(block.device)
            with torch.enable_grad():
                element = piece.element.to(block.device).detach().requires_grad_()
                x = space.move(element, block.x[row])
                with SoftReLU(BETA), sdpa_kernel(SDPBackend.MATH):  # fused attention has no second derivative
                    scores = x.through(reader.view)
                    targets = scores.argmax(dim=1) if self.request.follow else block.targets[row]
                    found: Readings = {Reads.SCORES: scores, Reads.INPUT: x.values}
                    if self.form is not None:
                        draws = block.draws(self.request, piece)
                        context = block.problem.context(
                            reader.name, draws, block.budget.rows, x.structure, reader.learnt, present=x.present
                        )
                        found[Reads.EXPLANATION] = self.form(reader.view, x.values, targets, context)
                merit = self.score.smooth(self.score.observe(self.pair(row, element, Reading(targets, found))))
                if not merit.requires_grad:
                    raise InputError(f"The score '{self.score.name}' does not depend differentiably on the input: use the walk 'genetic'.")
                parts.append(torch.autograd.grad(merit.nan_to_num().sum(), element)[0])
            block.advance(len(piece) * weight(reader.cost))

        block.budget.spend(len(ask), block.rows_each * SLOPE_MEMORY, some)
        return torch.cat(parts)

    def worst_points(self, worst: list[tuple[Ask, Tensor]]) -> dict[str, Tensor] | None:
        """The inputs and explanations of the block's worst points that keep the constraint, for pictures."""
        if not worst or not self.inner.explaining or not isinstance(self.space, InputSpace):
            return None
        merit = torch.cat([found for _, found in worst])
        order = merit.argsort(descending=True, stable=True)[:SHOWN]
        order = order[merit[order] >= 0]
        if len(order) == 0:
            return None
        row, draw, level = (torch.cat([getattr(ask, what) for ask, _ in worst])[order] for what in ("row", "draw", "level"))
        element = torch.cat([ask.element for ask, _ in worst])
        ask = Ask(row, draw, level, element[order.to(element.device)])
        parts: dict[int, dict[str, Tensor]] = {}

        def see(part: slice, pair: Pair) -> None:
            seen, points = self.score.observe(pair), ask[part]
            parts[part.start] = {
                "sample": self.block.samples[points.row],
                "draw": points.draw,
                "element": points.element,
                "value": seen[:, 0],
                "merit": self.score.merit(seen),
                "input": pair.before.input,
                "moved": pair.after.input,
                "explanation": pair.before.explanation,
                "expected": self.score.expected(pair),
                "found": pair.after.explanation,
                "label": pair.before.scores.argmax(dim=1),
                "predicted": pair.after.scores.argmax(dim=1),
            }

        self.observe(ask, see)
        return {name: torch.cat([parts[start][name].cpu() for start in sorted(parts)]) for name in parts[0]}


def lines_of(
    traces: list[tuple[Tensor, Trace]], samples: Tensor, quantities: tuple[str, ...], worst: dict[str, Tensor] | None
) -> Measurements:
    """The traces of all searches, each with the block's row of every line, as measurements of one cell.

    What a score saw goes by the score's names for it; a sample that was not searched has one undefined line.
    """
    own = {name: f"seen{number}" for number, name in enumerate(quantities)}
    named = {key: name for name, key in own.items()}
    names = list(dict.fromkeys([*quantities, *(named.get(name, name) for _, trace in traces for name in trace.quantities)]))
    searched = torch.cat([row for row, _ in traces]) if traces else torch.zeros(0, dtype=torch.int64)
    left = torch.tensor(np.setdiff1d(np.arange(len(samples)), searched.numpy()), dtype=torch.int64)
    draw, level = (torch.cat([*(getattr(trace, what) for _, trace in traces), torch.zeros_like(left)]) for what in ("draw", "level"))

    def column(name: str) -> Tensor:
        found = [trace.quantities.get(own.get(name, name), torch.full((len(trace.row),), torch.nan)) for _, trace in traces]
        return torch.cat([*(part.double() for part in found), torch.full((len(left),), torch.nan, dtype=torch.float64)])

    return Measurements(samples[torch.cat((searched, left))], draw, level, {name: column(name) for name in names}, worst)
