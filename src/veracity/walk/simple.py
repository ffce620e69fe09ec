"""The probability of an event by counting: simple Monte Carlo."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from veracity.core.registry import WALKS
from veracity.core.searches import Search, Searcher, Trace
from veracity.core.settings import Count
from veracity.core.spaces import Space
from veracity.core.walks import Ask
from veracity.walk.record import NOTHING, Record, owned

NO_HIT = 3.0
"""How many hits in N draws stand for none: P is at most 3 / N with a confidence of 95 %."""


@WALKS.add
@dataclass(frozen=True, kw_only=True)
class SimpleMonteCarlo(Search):
    """Independent random points of the space, `draws` for every sample, `population` at a time; only how many were in the event is kept.

    For moderate probabilities, and as ground truth: P is known to a coefficient of variation of sqrt((1 - P) / (P draws)).
    Unlike `monte_carlo` it keeps no single draw, so that a million of them take no space.
    """

    name = "simple_monte_carlo"
    reference = "Huang et al., SAFARI, ICCV 2023, section 8.3"
    draws: Count = 10_000
    population: Count = 1000

    def hunt(self, space: Space, samples: Tensor, seed: int, target: float, device: torch.device) -> Searcher:
        """Begin counting."""
        return Counting(self, space, samples, seed, target, device)

    @property
    def held(self) -> int:
        """As many as are drawn at a time."""
        return min(self.population, self.draws)

    def length(self, space: Space) -> int:
        """The number of draws."""
        return self.draws


class Counting:
    """Hits of each sample so far."""

    slopes = False

    def __init__(self, walk: SimpleMonteCarlo, space: Space, samples: Tensor, seed: int, target: float, device: torch.device) -> None:
        self.walk, self.space, self.samples, self.seed, self.target, self.device = walk, space, samples, seed, target, device
        self.record, self.asked, self.made = Record(len(samples)), NOTHING, 0
        self.hits = torch.zeros(len(samples), dtype=torch.float64)

    def ask(self) -> Ask | None:
        """The next points of all samples."""
        each = min(self.walk.population, self.walk.draws - self.made)
        if each <= 0 or len(self.samples) == 0:
            return None
        draws = owned(self.seed, self.samples, self.record.evaluations, each)
        row = torch.arange(len(self.samples)).repeat_interleave(each)
        element = self.space.decode(draws.gaussian(self.space.latents, stream="simple", device=self.device))
        self.asked, self.made = Ask(row, draws.draw, torch.zeros_like(row), element), self.made + each
        return self.asked

    def tell(self, merit: Tensor, seen: Tensor, slope: Tensor | None = None) -> None:
        """Count; what is undefined is not in the event."""
        self.record.see(self.asked, merit, seen)
        self.hits += (merit >= self.target).double().cpu().reshape(len(self.samples), -1).sum(dim=1)
        if self.made >= self.walk.draws:
            blank = self.record.undefined >= self.made
            share = torch.where(blank, torch.nan, (torch.where(self.hits > 0, self.hits, NO_HIT) / self.made).clamp(max=1.0))
            self.record.mark(
                torch.arange(len(self.samples)),
                0,
                probability=share,
                variance=torch.where(self.hits > 0, (1.0 - share) / (share * self.made), torch.nan),
                state=torch.where(blank, torch.nan, torch.where(self.hits > 0, 1.0, 3.0)),
            )

    def trace(self) -> Trace:
        """One line a sample; without a hit, ln P is censored at ln(3 / draws)."""
        return self.record.trace()

    def worst(self) -> tuple[Ask, Tensor]:
        """The points with the largest merit."""
        return self.record.worst()
