"""What every search keeps: the worst perturbation of each sample so far, and how many evaluations it took.

Several searches of the same space, of which the worst result counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from veracity.core.errors import SpecError
from veracity.core.randomness import Draws
from veracity.core.registry import WALKS
from veracity.core.spaces import Space
from veracity.core.walks import Ask, Search, Searcher, Trace
from veracity.walk.genetic import Genetic
from veracity.walk.gradient import GradientSearch


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


def owned(seed: int, samples: Tensor, first: Tensor, each: int) -> Draws:
    """The random numbers of the next `each` evaluations of samples (A,), of which `first` (A,) were made: (A * each) rows."""
    draw = (first[:, None] + torch.arange(each)).flatten()
    return Draws(seed, samples.repeat_interleave(each), draw)


@WALKS.add
@dataclass(frozen=True, kw_only=True)
class Strongest(Search):
    """Several searches one after the other, by default a genetic and a gradient one; the worst perturbation of all of them counts.

    A search that follows slopes is left out where there are none: explainers without a differentiable form, foreign spaces.
    """

    name = "strongest"
    searches: Sequence[Search] = (Genetic(), GradientSearch())

    def parts(self) -> list[Search]:
        """The searches, of which there must be one."""
        if not self.searches:
            raise SpecError(f"The walk '{self.name}' needs at least one search, such as searches=(Genetic(), GradientSearch()).")
        return list(self.searches)

    @property
    def held(self) -> int:
        """The largest population."""
        return max(one.held for one in self.parts())

    @property
    def follows_slopes(self) -> bool:
        """Whether any of them does."""
        return any(one.follows_slopes for one in self.parts())

    def blind(self) -> Search | None:
        """Those that need no slopes."""
        left = tuple(one for one in (part.blind() for part in self.parts()) if one is not None)
        return replace(self, searches=left) if left else None

    def hunt(self, space: Space, samples: Tensor, seed: int, target: float, device: torch.device) -> Searcher:
        """Begin with the first."""
        return InTurn([one.hunt(space, samples, seed, target, device) for one in self.parts()])

    def length(self, space: Space) -> int:
        """Evaluations of all of them."""
        return sum(one.length(space) for one in self.parts())


class InTurn:
    """One search after the other."""

    def __init__(self, searchers: Sequence[Searcher]) -> None:
        self.searchers, self.number = list(searchers), 0

    @property
    def slopes(self) -> bool:
        """As the search under way wishes."""
        return self.searchers[min(self.number, len(self.searchers) - 1)].slopes

    def ask(self) -> Ask | None:
        """What the search under way asks; the next one's first question when it is done."""
        while self.number < len(self.searchers):
            ask = self.searchers[self.number].ask()
            if ask is not None:
                return ask
            self.number += 1
        return None

    def tell(self, merit: Tensor, seen: Tensor, slope: Tensor | None = None) -> None:
        """To the one that asked."""
        self.searchers[self.number].tell(merit, seen, slope)

    def trace(self) -> Trace:
        """The searches' lines, each search a draw of its own."""
        traces = [one.trace() for one in self.searchers]
        names = list(dict.fromkeys(name for trace in traces for name in trace.quantities))
        blank = [torch.full((len(trace.row),), torch.nan, dtype=torch.float64) for trace in traces]
        return Trace(
            torch.cat([trace.row for trace in traces]),
            torch.cat([torch.full_like(trace.row, number) for number, trace in enumerate(traces)]),
            torch.cat([trace.level for trace in traces]),
            {name: torch.cat([trace.quantities.get(name, none) for trace, none in zip(traces, blank, strict=True)]) for name in names},
        )

    def worst(self) -> tuple[Ask, Tensor]:
        """The worst of all searches."""
        found = [one.worst() for one in self.searchers]
        row, merit = torch.cat([ask.row for ask, _ in found]), torch.cat([merit for _, merit in found])
        order = merit.argsort(descending=True, stable=True)
        order = order[row[order].argsort(stable=True)]
        first = torch.ones_like(order, dtype=torch.bool)
        first[1:] = row[order][1:] != row[order][:-1]
        chosen = order[first]
        draw, level = (torch.cat([getattr(ask, what) for ask, _ in found])[chosen] for what in ("draw", "level"))
        element = torch.cat([ask.element for ask, _ in found])
        return Ask(row[chosen], draw, level, element[chosen.to(element.device)]), merit[chosen]
