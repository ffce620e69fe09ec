"""Several searches of the same space, of which the worst result counts."""

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
    def points(self) -> int:
        """The largest population."""
        return max(one.points for one in self.parts())

    @property
    def follows_slopes(self) -> bool:
        """Whether any of them does."""
        return any(one.follows_slopes for one in self.parts())

    def without_slopes(self) -> Search | None:
        """Those that need no slopes."""
        left = tuple(one for one in (part.without_slopes() for part in self.parts()) if one is not None)
        return replace(self, searches=left) if left else None

    def searcher(self, space: Space, samples: Tensor, seed: int, event: float, device: torch.device) -> Searcher:
        """Begin with the first."""
        return SearchSequence([one.searcher(space, samples, seed, event, device) for one in self.parts()])

    def length(self, space: Space) -> int:
        """Evaluations of all of them."""
        return sum(one.length(space) for one in self.parts())


class SearchSequence:
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
