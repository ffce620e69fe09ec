"""What searches kept of a block's samples, until they are all done.

A search on one block of samples: what it asks for is evaluated, and how bad it was is told.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from veracity.core.errors import InputError, SpecError
from veracity.core.scores import Pair, Reading, Reads
from veracity.core.spaces import InputSpace
from veracity.core.walks import Ask, Search, Searcher, Trace
from veracity.engine.memory import Found
from veracity.engine.perturbation.inputs import Perturbed
from veracity.engine.plan import Cell
from veracity.engine.progress import weight
from veracity.engine.tally import Lines
from veracity.explain.differentiable import Form, differentiable, softened
from veracity.scores.robustness import Hunted


class Kept:
    """The lines of one cell's searches, group after group; the columns a score sees go by the score's names for them."""

    def __init__(self, cell: Cell, samples: Tensor) -> None:
        self.cell, self.samples = cell, samples
        self.lines: list[tuple[Tensor, Trace]] = []

    def add(self, rows: Tensor, trace: Trace) -> None:
        """The trace of a group, whose samples are these rows of the block."""
        self.lines.append((rows[trace.row], trace))

    def whole(self, worst: dict[str, Tensor] | None) -> Lines:
        """The cell, with the points for the eye; a sample that was not searched has one undefined line."""
        quantities = self.cell.score.quantities
        seen = {f"seen{number}": name for number, name in enumerate(quantities)}
        names = list(dict.fromkeys([*quantities, *(seen.get(name, name) for _, trace in self.lines for name in trace.quantities)]))
        searched = torch.cat([row for row, _ in self.lines]) if self.lines else torch.zeros(0, dtype=torch.int64)
        left = torch.tensor(np.setdiff1d(np.arange(len(self.samples)), searched.numpy()), dtype=torch.int64)
        row = torch.cat((searched, left))
        nothing = torch.zeros_like(left)
        draw, level = (torch.cat([*(getattr(trace, what) for _, trace in self.lines), nothing]) for what in ("draw", "level"))
        columns = {}
        for name in names:
            parts = [column(trace, name, seen) for _, trace in self.lines]
            columns[name] = torch.cat([*parts, torch.full((len(left),), torch.nan, dtype=torch.float64)])
        return Lines(self.samples[row], draw, level, columns, worst)


def column(trace: Trace, name: str, seen: dict[str, str]) -> Tensor:
    """One quantity of a trace by the score's name for it; NaN where it has none."""
    own = next((key for key, value in seen.items() if value == name), name)
    found = trace.quantities.get(own)
    return torch.full((len(trace.row),), torch.nan, dtype=torch.float64) if found is None else found


BETA = 20.0
"""How sharp the softplus is that stands for a ReLU where slopes are taken."""

SLOPED = 4
"""How many times the memory of a plain pass a pass takes whose explanation is differentiated."""

KEEP = 8
"""How many of a block's worst points are kept for the eye."""


class Glimpse:
    """What a score sees of one ask, row by row."""

    def __init__(self, score: Hunted) -> None:
        self.score = score
        self.parts: dict[int, Tensor] = {}

    def see(self, part: slice, pair: Pair) -> None:
        """Some rows of the ask."""
        self.parts[part.start] = self.score.observe(pair).detach().double()

    def seen(self) -> Tensor:
        """All rows, (R, Q)."""
        return torch.cat([self.parts[start] for start in sorted(self.parts)])


class Hunt:
    """One search score of one subject on one block."""

    def __init__(self, perturbed: Perturbed, cell: Cell) -> None:
        if not isinstance(cell.score, Hunted) or not isinstance(cell.request.walk, Search):
            raise SpecError(f"The score '{cell.name}' has no merit that the walk '{cell.request.walk.name}' could follow.")
        self.perturbed, self.cell = perturbed, cell
        self.rows, self.reader = perturbed.rows, perturbed.reader
        self.score, self.walk, self.request = cell.score, cell.request.walk, cell.request
        self.form: Form | None = None
        if perturbed.explaining and self.walk.follows_slopes and self.reader.explainer is not None:
            self.form = differentiable(self.reader.explainer)

    def run(self, rows: Tensor) -> Lines:
        """Search around these rows of the block, as many at once as memory allows."""
        space, kept = self.request.space, Kept(self.cell, self.rows.samples)
        worst: list[tuple[Ask, Tensor]] = []
        for some in rows.split(self.walk.together(space)) if len(rows) else ():
            searcher = self.walk.hunt(space, self.rows.samples[some], self.rows.seed, self.score.target, self.rows.device)
            self.follow(searcher, some)
            kept.add(some, searcher.trace())
            ask, merit = searcher.worst()
            worst.append((Ask(some[ask.row], ask.draw, ask.level, ask.element), merit))
        return kept.whole(self.shown_of(worst))

    def follow(self, searcher: Searcher, some: Tensor) -> None:
        """Evaluate until the search is done."""
        number = 0
        while (ask := searcher.ask()) is not None:
            whole, glimpse = Ask(some[ask.row], ask.draw, ask.level, ask.element), Glimpse(self.score)
            self.perturbed.observe(whole, number, glimpse.see)
            seen = glimpse.seen()
            slope = self.slope(whole) if searcher.slopes else None
            searcher.tell(self.score.merit(seen), seen, slope)
            number += 1

    def slope(self, ask: Ask) -> Tensor:
        """How the smooth merit changes along each element, (R, p), with softplus in the place of every ReLU."""
        space, device, parts = self.request.space, self.rows.device, list[Tensor]()
        if not isinstance(space, InputSpace):
            raise SpecError(f"The walk '{self.walk.name}' follows slopes, and the space '{space.name}' has none: use the walk 'genetic'.")

        def some(part: slice) -> None:
            piece = ask[part]
            with torch.enable_grad():
                element = piece.element.to(device).detach().requires_grad_()
                x = space.move(element, self.rows.x[piece.row.to(device)])
                with softened(BETA):
                    scores = x.through(self.reader.view)
                    targets = scores.argmax(dim=1) if self.request.follow else self.rows.targets[piece.row.to(device)]
                    found: Found = {Reads.SCORES: scores, Reads.INPUT: x.values}
                    if self.form is not None:
                        draws, learnt = self.rows.draws(self.request, piece), self.reader.learnt
                        context = self.reader.problem.context(self.reader.name, draws, self.rows.budget.rows, x.structure, learnt)
                        found[Reads.EXPLANATION] = self.form(self.reader.view, x.values, targets, context)
                merit = self.score.smooth(self.score.observe(self.perturbed.pair(element, piece, Reading(targets, found))))
                if not merit.requires_grad:
                    raise InputError(f"The score '{self.score.name}' does not depend differentiably on the input: use the walk 'genetic'.")
                parts.append(torch.autograd.grad(merit.nan_to_num().sum(), element)[0])
            self.rows.moved(len(piece) * weight(self.reader.cost))

        self.rows.budget.spend(len(ask), self.rows.rows_each * SLOPED, some)
        return torch.cat(parts)

    def shown_of(self, worst: list[tuple[Ask, Tensor]]) -> dict[str, Tensor] | None:
        """The inputs and maps of the block's worst points that keep the constraint."""
        space = self.request.space
        if not worst or not self.perturbed.explaining or not isinstance(space, InputSpace):
            return None
        merit = torch.cat([found for _, found in worst])
        order = merit.argsort(descending=True, stable=True)[:KEEP]
        order = order[merit[order] >= 0]
        if len(order) == 0:
            return None
        row, draw, level = (torch.cat([getattr(ask, what) for ask, _ in worst])[order] for what in ("row", "draw", "level"))
        element = torch.cat([ask.element for ask, _ in worst])
        ask = Ask(row, draw, level, element[order.to(element.device)])
        parts: dict[int, dict[str, Tensor]] = {}
        self.perturbed.observe(ask, -1, lambda part, pair: parts.__setitem__(part.start, self.shown(ask[part], pair)))
        return {name: torch.cat([parts[start][name].cpu() for start in sorted(parts)]) for name in parts[0]}

    def shown(self, ask: Ask, pair: Pair) -> dict[str, Tensor]:
        """Some points as they are kept: what was perturbed how, its explanations, its classes, and how bad it is."""
        seen = self.score.observe(pair)
        return {
            "sample": self.rows.samples[ask.row],
            "draw": ask.draw,
            "element": ask.element,
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
