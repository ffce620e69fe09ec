"""Genetic search: selection, crossover and mutation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from veracity.core.errors import SpecError
from veracity.core.randomness import Draws
from veracity.core.registry import WALKS
from veracity.core.settings import Count, Whole, Within
from veracity.core.spaces import Space
from veracity.core.walks import Ask, Search, Searcher
from veracity.walk.record import RecordedSearch

LARGEST = 4.0
"""The largest absolute value of a latent; Phi(4) lies within 3e-5 of the boundary of a box."""


@WALKS.add
@dataclass(frozen=True, kw_only=True)
class Genetic(Search):
    """A genetic algorithm over the latents (section 8.2): selection by fitness, uniform crossover, mutation, fixed generations.

    The first generation has `population` points with Gaussian latents of standard deviation `spread` (1: uniform in the space). In
    each of `generations` further generations the `elites` best survive. The others are children of two parents, which are chosen with
    a probability that falls linearly with their rank. Each entry comes from either parent with equal probability, and a share `rate`
    of the entries moves by Gaussian noise of standard deviation `step`; if no entry would move, all do. Steps scale with the radius
    of a ball. Points that satisfy the constraint rank before all others, which rank by their distance from it.

    Evaluations: population + generations * (population - elites).
    """

    name = "genetic"
    reference = "Huang et al., SAFARI, ICCV 2023, section 8.2; Powell and Skolnick 1993 (superiority of feasible points)"
    population: Annotated[int, Within(least=2)] = 100
    generations: Whole = 60
    elites: Count = 10
    spread: Annotated[float, Within(above=0, most=10)] = 1.0
    step: Annotated[float, Within(above=0, most=10)] = 0.5
    rate: Annotated[float, Within(above=0, most=1)] = 0.2

    def searcher(self, space: Space, samples: Tensor, seed: int, event: float, device: torch.device) -> Searcher:
        """Start with random points; raises if the elites leave no room for children."""
        if self.elites >= self.population:
            raise SpecError(f"The walk '{self.name}' needs fewer elites than its population of {self.population}, not {self.elites}.")
        return Generations(self, space, samples, seed, device)

    @property
    def points(self) -> int:
        """The population."""
        return self.population

    def length(self, space: Space) -> int:
        """The number of evaluations."""
        return self.population + self.generations * (self.population - self.elites)


class Generations(RecordedSearch):
    """Populations (S, P, d) of all samples, one generation after the other."""

    def __init__(self, walk: Genetic, space: Space, samples: Tensor, seed: int, device: torch.device) -> None:
        super().__init__(space, samples, seed, device)
        self.walk, self.rows, self.generation = walk, torch.arange(len(samples)), 0
        self.latent = torch.empty(len(samples), 0, space.latents, device=device)
        self.merit = torch.empty(len(samples), 0, dtype=torch.float64, device=device)
        self.children = torch.empty(0)

    def ask(self) -> Ask | None:
        """The first population, or the children of the last."""
        if self.generation > self.walk.generations or len(self.samples) == 0:
            return None
        each = self.walk.population - (self.walk.elites if self.generation else 0)
        draws = self.next_draws(self.rows, each)
        noise = draws.to(self.device).normal(self.space.latents, stream="genetic").reshape(len(self.samples), each, -1)
        self.children = noise.mul_(self.walk.spread) if self.generation == 0 else self.breed(noise, draws)
        row = self.rows.repeat_interleave(each)
        self.asked = Ask(row, draws.draw, torch.zeros_like(row), self.space.decode(self.children.flatten(0, 1)))
        return self.asked

    def breed(self, noise: Tensor, draws: Draws) -> Tensor:
        """Children (S, C, d) of pairs of parents, mutated."""
        size, entries = noise.shape[:2], noise.shape[2]
        place = draws.uniform(2, stream="genetic.parents").to(self.device).reshape(*size, 2)
        chosen = parent_ranks(place, self.walk.population)[..., None].expand(-1, -1, -1, entries)
        first, second = (self.latent.gather(1, parent) for parent in chosen.unbind(2))
        child = torch.where(coins(draws, entries, "genetic.cross", self.device).reshape(noise.shape), first, second)
        mutate = mutations(draws, entries, self.walk.rate, self.device).reshape(noise.shape)
        mutate = mutate | ~mutate.any(dim=2, keepdim=True)
        return (child + noise * mutate * self.walk.step).clamp(-LARGEST, LARGEST)

    def tell(self, merit: Tensor, seen: Tensor, slope: Tensor | None = None) -> None:
        """Sort the elites and the children, which are the next parents."""
        self.record.see(self.asked, merit, seen)
        value = torch.where(merit.isnan(), -torch.inf, merit.double()).to(self.device).reshape(len(self.samples), -1)
        elites = self.walk.elites if self.generation else 0
        latent = torch.cat((self.latent[:, :elites], self.children), dim=1)
        every = torch.cat((self.merit[:, :elites], value), dim=1)
        self.merit, order = every.sort(dim=1, descending=True, stable=True)
        self.latent = latent.gather(1, order[:, :, None].expand_as(latent))
        self.record.mark(self.rows, self.generation)
        self.generation += 1


def parent_ranks(place: Tensor, population: int) -> Tensor:
    """Ranks from uniform numbers, 0 the best, with probabilities proportional to population - rank (eq. 20 on ranks).

    >>> parent_ranks(torch.tensor([0.0, 0.39, 0.41, 0.999]), 4)
    tensor([0, 0, 1, 3])
    """
    whole_sum = population * (population + 1) / 2
    left = (torch.sqrt(0.25 + 2.0 * (1.0 - place) * whole_sum) - 0.5).ceil()
    return (population - left).long().clamp_(0, population - 1)


def coins(draws: Draws, count: int, stream: str, device: torch.device) -> Tensor:
    """`count` fair coins per row, (N, count), eight from each random byte."""
    bits = (random_bytes(draws, -(-count // 8), stream, device)[:, :, None] >> torch.arange(8, dtype=torch.uint8, device=device)) & 1
    return bits.bool().flatten(1)[:, :count]


def mutations(draws: Draws, count: int, rate: float, device: torch.device) -> Tensor:
    """Which of `count` entries per row mutate, (N, count), each with probability `rate` rounded to a multiple of 1/256, at least 1/256."""
    return random_bytes(draws, count, "genetic.mutate", device).int() < max(1, round(rate * 256))


def random_bytes(draws: Draws, count: int, stream: str, device: torch.device) -> Tensor:
    """`count` random bytes per row, uint8 (N, count): four from each word, the lowest first."""
    words = draws.to(device).words(-(-count // 4), stream).contiguous()
    return words.view(torch.uint8).reshape(len(draws), -1, 8)[:, :, :4].flatten(1)[:, :count]
