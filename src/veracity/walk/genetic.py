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
from veracity.core.walks import Ask, Search, Searcher, Trace
from veracity.walk.record import NOTHING, Record, draws_of

LARGEST = 4.0
"""How far from the middle a latent may go; Phi(4) is the wall of a box but for 3e-5 of its width."""


@WALKS.add
@dataclass(frozen=True, kw_only=True)
class Genetic(Search):
    """A genetic algorithm over the latents (section 8.2): selection by fitness, uniform crossover, mutation, fixed generations.

    It begins with `population` points of the space, the middle of the box with latents of standard deviation `spread` around
    it (1: uniform in the space). In each of `generations` generations the `elites` best survive, and the others are children
    of two parents each, chosen with a probability that falls linearly with their rank; half of the entries, at random,
    come from either parent, and a share `rate` of them moves by Gaussian noise of standard deviation `step`; all do where
    none would, so that few latents do not make copies. Latents measure a ball in units of its radius, so that steps scale
    with it. Points that keep the constraint rank before all that do not, which rank by how far they are from it.

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
        """Begin with random points."""
        self.check()
        return Generations(self, space, samples, seed, device)

    @property
    def points(self) -> int:
        """The population."""
        return self.population

    def length(self, space: Space) -> int:
        """Evaluations of a sample."""
        return self.population + self.generations * (self.population - self.elites)

    def check(self) -> None:
        """Raise on settings that breed nothing."""
        if self.elites >= self.population:
            raise SpecError(f"The walk '{self.name}' needs fewer elites than its population of {self.population}, not {self.elites}.")


class Generations:
    """Populations (S, P, d) of all samples, one generation after the other."""

    slopes = False

    def __init__(self, walk: Genetic, space: Space, samples: Tensor, seed: int, device: torch.device) -> None:
        self.walk, self.space, self.samples, self.seed, self.device = walk, space, samples, seed, device
        self.record = Record(len(samples))
        self.generation = 0
        self.latent = torch.empty(len(samples), 0, space.latents, device=device)
        self.merit = torch.empty(len(samples), 0, dtype=torch.float64, device=device)
        self.children = torch.empty(0)
        self.asked = NOTHING

    def ask(self) -> Ask | None:
        """The first population, or the children of the last."""
        if self.generation > self.walk.generations or len(self.samples) == 0:
            return None
        each = self.walk.population - (self.walk.elites if self.generation else 0)
        draws = draws_of(self.seed, self.samples, self.record.evaluations, each)
        noise = draws.gaussian(self.space.latents, stream="genetic", device=self.device).reshape(len(self.samples), each, -1)
        self.children = noise.mul_(self.walk.spread) if self.generation == 0 else self.breed(noise, draws)
        row = torch.arange(len(self.samples)).repeat_interleave(each)
        self.asked = Ask(row, draws.draw, torch.zeros_like(row), self.space.decode(self.children.flatten(0, 1)))
        return self.asked

    def breed(self, noise: Tensor, draws: Draws) -> Tensor:
        """Children (S, C, d) of pairs of parents, mutated."""
        size, entries = noise.shape[:2], noise.shape[2]
        place = draws.uniform(2, stream="genetic.parents").to(self.device).reshape(*size, 2)
        chosen = ranked(place, self.walk.population)[..., None].expand(-1, -1, -1, entries)
        first, second = (self.latent.gather(1, parent) for parent in chosen.unbind(2))
        child = torch.where(coins(draws, entries, "genetic.cross", self.device).reshape(noise.shape), first, second)
        moved = share_of(draws, entries, "genetic.mutate", self.device, self.walk.rate).reshape(noise.shape)
        moved = moved | ~moved.any(dim=2, keepdim=True)
        return (child + noise * moved * self.walk.step).clamp(-LARGEST, LARGEST)

    def tell(self, merit: Tensor, seen: Tensor, slope: Tensor | None = None) -> None:
        """The elites and their children, sorted, are the next parents."""
        self.record.see(self.asked, merit, seen)
        value = torch.where(merit.isnan(), -torch.inf, merit.double()).to(self.device).reshape(len(self.samples), -1)
        elites = self.walk.elites if self.generation else 0
        latent = torch.cat((self.latent[:, :elites], self.children), dim=1)
        every = torch.cat((self.merit[:, :elites], value), dim=1)
        self.merit, order = every.sort(dim=1, descending=True, stable=True)
        self.latent = latent.gather(1, order[:, :, None].expand_as(latent))
        self.record.mark(torch.arange(len(self.samples)), self.generation)
        self.generation += 1

    def trace(self) -> Trace:
        """One line per sample and generation: the best so far."""
        return self.record.trace()

    def worst(self) -> tuple[Ask, Tensor]:
        """The best of all generations."""
        return self.record.worst()


def ranked(place: Tensor, population: int) -> Tensor:
    """From uniform numbers to ranks, 0 the best, chosen with probability proportional to population - rank (eq. 20 on ranks).

    >>> ranked(torch.tensor([0.0, 0.39, 0.41, 0.999]), 4)
    tensor([0, 0, 1, 3])
    """
    whole_sum = population * (population + 1) / 2
    left = (torch.sqrt(0.25 + 2.0 * (1.0 - place) * whole_sum) - 0.5).ceil()
    return (population - left).long().clamp_(0, population - 1)


def coins(draws: Draws, count: int, stream: str, device: torch.device) -> Tensor:
    """`count` fair coins per row, (N, count), from one word for 32 of them."""
    bits = (octets(draws, -(-count // 8), stream, device)[:, :, None] >> torch.arange(8, dtype=torch.uint8, device=device)) & 1
    return bits.bool().flatten(1)[:, :count]


def share_of(draws: Draws, count: int, stream: str, device: torch.device, rate: float) -> Tensor:
    """Which of `count` entries per row mutate, each with probability `rate` to one part in 256: (N, count), from a byte each."""
    most = max(1, round(rate * 256))
    found = octets(draws, count, stream, device)
    return found < most if most < 256 else torch.ones_like(found, dtype=torch.bool)


def octets(draws: Draws, count: int, stream: str, device: torch.device) -> Tensor:
    """`count` random bytes per row, uint8 (N, count): the four of every word, the lowest first."""
    words = draws.words_on(-(-count // 4), stream, device).contiguous()
    return words.view(torch.uint8).reshape(len(draws), -1, 8)[:, :, :4].flatten(1)[:, :count]
