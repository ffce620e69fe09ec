"""The part that all searches share: a record of the worst perturbation of each sample and of the evaluations."""

from __future__ import annotations

import torch
from torch import Tensor

from veracity.core.randomness import Draws
from veracity.core.spaces import Space
from veracity.core.walks import Ask, Trace


class Record:
    """Per sample: the largest merit so far with its element and quantities, and the number of evaluations."""

    def __init__(self, samples: int) -> None:
        self.merit = torch.full((samples,), -torch.inf, dtype=torch.float64)
        self.draw = torch.zeros(samples, dtype=torch.int64)
        self.element: Tensor | None = None
        self.seen: Tensor | None = None
        self.evaluations = torch.zeros(samples, dtype=torch.int64)
        self.undefined = torch.zeros(samples, dtype=torch.int64)
        self.rows: list[tuple[Tensor, Tensor, dict[str, Tensor]]] = []

    def see(self, ask: Ask, merit: Tensor, seen: Tensor) -> None:
        """Add R evaluations, sorted by sample, with equally many per sample."""
        which = torch.unique_consecutive(ask.row)
        each = len(ask.row) // max(1, len(which))
        value = torch.where(merit.isnan(), -torch.inf, merit.double()).reshape(len(which), each)
        best, place = value.max(dim=1)
        best, chosen = best.cpu(), place.cpu() + torch.arange(len(which)) * each
        if self.element is None or self.seen is None:
            self.element = ask.element.new_zeros(len(self.merit), ask.element.shape[1])
            self.seen = torch.full((len(self.merit), seen.shape[1]), torch.nan, dtype=torch.float64)
        better = best > self.merit[which]
        rows, chosen = which[better], chosen[better]
        self.merit[rows], self.draw[rows] = best[better], ask.draw[chosen]
        self.element[rows.to(ask.element.device)] = ask.element[chosen.to(ask.element.device)].detach()
        self.seen[rows] = seen[chosen.to(seen.device)].detach().double().cpu()
        self.evaluations[which] += each
        self.undefined[which] += merit.isnan().reshape(len(which), each).sum(dim=1).cpu()

    def mark(self, which: Tensor, level: int, **quantities: Tensor) -> None:
        """Add a row to the trace of each of K samples: the state of the record, and further quantities (K,)."""
        seen = torch.full((len(self.merit), 0), torch.nan) if self.seen is None else self.seen
        columns = {
            "merit": torch.where(self.merit.isfinite(), self.merit, torch.nan),
            **{f"seen{number}": column for number, column in enumerate(seen.T)},
            "evaluations": self.evaluations.double(),
            "undefined": self.undefined.double(),
        }
        own = {name: value.detach().double().cpu().clone() for name, value in quantities.items()}
        self.rows.append((which.clone(), torch.full_like(which, level), {name: value[which] for name, value in columns.items()} | own))

    def trace(self) -> Trace:
        """All rows."""
        names = list(dict.fromkeys(name for _, _, kept in self.rows for name in kept))
        row, level = torch.cat([which for which, _, _ in self.rows]), torch.cat([level for _, level, _ in self.rows])
        lines = [(kept, torch.full((len(which),), torch.nan, dtype=torch.float64)) for which, _, kept in self.rows]
        quantities = {name: torch.cat([kept.get(name, nothing) for kept, nothing in lines]) for name in names}
        return Trace(row, torch.zeros_like(row), level, quantities)

    def worst(self) -> tuple[Ask, Tensor]:
        """The worst elements and their merits, for samples that have one."""
        row = self.merit.isfinite().nonzero()[:, 0]
        element = torch.zeros(len(row), 0) if self.element is None else self.element[row.to(self.element.device)]
        return Ask(row, self.draw[row], torch.zeros_like(row), element), self.merit[row]


NOTHING = Ask(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), torch.zeros(0, 0))
"""The ask before the first one."""


class RecordedSearch:
    """Base class of searchers, which keeps a record and the last ask."""

    slopes = False

    def __init__(self, space: Space, samples: Tensor, seed: int, device: torch.device) -> None:
        self.space, self.samples, self.seed, self.device = space, samples, seed, device
        self.record, self.asked = Record(len(samples)), NOTHING

    def next_draws(self, rows: Tensor, each: int) -> Draws:
        """The random numbers of the next `each` evaluations of the samples in `rows` (A,): (A * each) rows."""
        draw = (self.record.evaluations[rows][:, None] + torch.arange(each)).flatten()
        return Draws(self.seed, self.samples[rows].repeat_interleave(each), draw)

    def trace(self) -> Trace:
        """The history of the search."""
        return self.record.trace()

    def worst(self) -> tuple[Ask, Tensor]:
        """The worst perturbation of each sample, and its merit."""
        return self.record.worst()
