"""What every search remembers: the worst perturbation of each sample so far, and how many evaluations it took."""

from __future__ import annotations

import torch
from torch import Tensor

from veracity.core.randomness import Draws
from veracity.core.walks import Ask, Trace


class Record:
    """Per sample of a group: the largest merit so far, the element and the observation there, and the evaluations made."""

    def __init__(self, samples: int) -> None:
        self.merit = torch.full((samples,), -torch.inf, dtype=torch.float64)
        self.draw = torch.zeros(samples, dtype=torch.int64)
        self.element: Tensor | None = None
        self.seen: Tensor | None = None
        self.evaluations = torch.zeros(samples, dtype=torch.int64)
        self.undefined = torch.zeros(samples, dtype=torch.int64)
        self.rows: list[tuple[Tensor, Tensor, dict[str, Tensor]]] = []

    def see(self, ask: Ask, merit: Tensor, seen: Tensor) -> None:
        """Take in R evaluations, equally many of each sample in the ask, sample by sample."""
        which, each = group(ask.row)
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
        """Keep a line for each of some samples (K,): where the search stands, and what else (K,) is to be kept."""
        seen = torch.full((len(self.merit), 0), torch.nan) if self.seen is None else self.seen
        defined = torch.where(self.merit.isfinite(), self.merit, torch.nan)
        kept = {
            "merit": defined[which],
            **{f"seen{number}": column[which] for number, column in enumerate(seen.T)},
            "evaluations": self.evaluations[which].double(),
            "undefined": self.undefined[which].double(),
            **{name: value.detach().double().cpu() for name, value in quantities.items()},
        }
        self.rows.append((which.clone(), torch.full_like(which, level), {name: value.clone() for name, value in kept.items()}))

    def trace(self) -> Trace:
        """All lines."""
        names = list(dict.fromkeys(name for _, _, kept in self.rows for name in kept))
        row, level = torch.cat([which for which, _, _ in self.rows]), torch.cat([level for _, level, _ in self.rows])
        lines = [(kept, torch.full((len(which),), torch.nan, dtype=torch.float64)) for which, _, kept in self.rows]
        quantities = {name: torch.cat([kept.get(name, nothing) for kept, nothing in lines]) for name in names}
        return Trace(row, torch.zeros_like(row), level, quantities)

    def worst(self) -> tuple[Ask, Tensor]:
        """The worst elements, of the samples that have one, and their merits."""
        row = self.merit.isfinite().nonzero()[:, 0]
        element = torch.zeros(len(row), 0) if self.element is None else self.element[row.to(self.element.device)]
        return Ask(row, self.draw[row], torch.zeros_like(row), element), self.merit[row]


NOTHING = Ask(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), torch.zeros(0, 0))
"""Before anything was asked."""


def group(row: Tensor) -> tuple[Tensor, int]:
    """The samples of an ask that goes sample by sample, and how many rows each has.

    >>> group(torch.tensor([3, 3, 5, 5]))
    (tensor([3, 5]), 2)
    """
    which = torch.unique_consecutive(row)
    return which, len(row) // max(1, len(which))


def draws_of(seed: int, samples: Tensor, first: Tensor, each: int) -> Draws:
    """The random numbers of the next `each` evaluations of samples (A,), of which `first` (A,) were made: (A * each) rows."""
    draw = (first[:, None] + torch.arange(each)).flatten()
    return Draws(seed, samples.repeat_interleave(each), draw)
