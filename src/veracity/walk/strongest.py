"""Several searches of the same space; the worst result counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from veracity.core.errors import SpecError
from veracity.core.registry import WALKS
from veracity.core.spaces import Space
from veracity.core.walks import Ask, Search, Searcher, Trace
from veracity.walk.genetic import Genetic
from veracity.walk.gradient import GradientSearch


@WALKS.add
@dataclass(frozen=True, kw_only=True)
class Strongest(Search):
    """Several searches one after the other, by default a genetic and a gradient search; the worst perturbation of all counts.

    Searches that follow slopes are left out for explainers without a differentiable form and for spaces that are not smooth.
    """

    name = "strongest"
    searches: Sequence[Search] = (Genetic(), GradientSearch())

    def parts(self) -> list[Search]:
        """The searches; raises if there is none."""
        if not self.searches:
            raise SpecError(f"The walk '{self.name}' needs at least one search, such as searches=(Genetic(), GradientSearch()).")
        return list(self.searches)

    @property
    def points(self) -> int:
        """The largest population."""
        return max(one.points for one in self.parts())

    @property
    def follows_slopes(self) -> bool:
        """Whether any search does."""
        return any(one.follows_slopes for one in self.parts())

    def without_slopes(self) -> Search | None:
        """The searches that need no slopes; None if there is none."""
        left = tuple(filter(None, (part.without_slopes() for part in self.parts())))
        return replace(self, searches=left) if left else None

    def searcher(self, space: Space, samples: Tensor, seed: int, event: float, device: torch.device) -> Searcher:
        """Start all searches."""
        return SearchSequence([one.searcher(space, samples, seed, event, device) for one in self.parts()])

    def length(self, space: Space) -> int:
        """The number of evaluations of all searches."""
        return sum(one.length(space) for one in self.parts())


class SearchSequence:
    """One search after the other."""

    def __init__(self, searchers: Sequence[Searcher]) -> None:
        self.searchers, self.number = list(searchers), 0

    @property
    def slopes(self) -> bool:
        """Whether the current search needs slopes."""
        return self.searchers[min(self.number, len(self.searchers) - 1)].slopes

    def ask(self) -> Ask | None:
        """The next ask of the current search, or the first ask of the next search."""
        while self.number < len(self.searchers):
            ask = self.searchers[self.number].ask()
            if ask is not None:
                return ask
            self.number += 1
        return None

    def tell(self, merit: Tensor, seen: Tensor, slope: Tensor | None = None) -> None:
        """Tell the search that asked."""
        self.searchers[self.number].tell(merit, seen, slope)

    def trace(self) -> Trace:
        """The rows of all searches; each search is a draw of its own."""
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
        chosen = order[row[order].diff(prepend=torch.tensor([-1])) != 0]
        draw, level = (torch.cat([getattr(ask, what) for ask, _ in found])[chosen] for what in ("draw", "level"))
        element = torch.cat([ask.element for ask, _ in found])
        return Ask(row[chosen], draw, level, element[chosen.to(element.device)]), merit[chosen]
