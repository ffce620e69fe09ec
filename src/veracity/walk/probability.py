"""Searches for the probability of a rare event: subset simulation with its kernels, and simple Monte Carlo."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Annotated

import torch
from torch import Tensor

from veracity.core.component import Component
from veracity.core.randomness import Draws
from veracity.core.registry import KERNELS, WALKS
from veracity.core.settings import Count, Inside, Within
from veracity.core.spaces import Space
from veracity.core.walks import Ask, Search, Searcher
from veracity.walk.record import RecordedSearch

EDGE = 1e-7


@dataclass(frozen=True, kw_only=True)
class Kernel(Component, ABC):
    """A proposal with an initial `width`, which adapts until a share `acceptance` of the proposals is accepted."""

    role = "kernel"
    acceptance: Inside
    width: Inside

    @abstractmethod
    def propose(self, latent: Tensor, noise: Tensor, width: Tensor) -> tuple[Tensor, Tensor | None]:
        """Proposals for chains (A, n, d) from standard normal noise of the same shape and the widths of the samples (A,).

        Also the logarithm (A, n) of the Metropolis-Hastings ratio, without the event; None if it is always 0.
        """

    def adapt(self, width: Tensor, accepted: Tensor) -> Tensor:
        """Widths (A,) after a step with accepted shares (A,): w exp(share - acceptance), within (1e-6, 0.999)."""
        return (width * torch.exp(accepted - self.acceptance)).clamp(1e-6, 0.999)


@KERNELS.add
@dataclass(frozen=True, kw_only=True)
class CrankNicolson(Kernel):
    """The preconditioned Crank-Nicolson step, u' = sqrt(1 - w^2) u + w xi, which preserves the normal distribution.

    In any dimension, a proposal is accepted if it lies in the event. Widths adapt to an acceptance of .44.
    """

    name = "crank_nicolson"
    reference = "Papaioannou et al., MCMC algorithms for subset simulation, Probabilistic Engineering Mechanics 2015"
    acceptance: Inside = 0.44
    width: Inside = 0.8

    def propose(self, latent: Tensor, noise: Tensor, width: Tensor) -> tuple[Tensor, Tensor | None]:
        """A step towards fresh noise."""
        wide = width.to(latent)[:, None, None]
        return torch.sqrt(1.0 - wide.square()) * latent + wide * noise, None


@KERNELS.add
@dataclass(frozen=True, kw_only=True)
class Window(Kernel):
    """A uniform step in a window around the point, in the coordinates t = Phi(u) in which the target is uniform on a cube.

    The window [t - w, t + w] is cut at the boundary of the cube, which makes the proposal asymmetric: by equation (23), with its ratio
    inverted, the acceptance probability is min(1, product of the window's lengths at t over those at t'). In high dimension nearly
    all proposals are rejected, so widths shrink and chains hardly move.
    """

    name = "window"
    reference = "Huang et al., SAFARI: versatile and efficient evaluations for robustness of interpretability, ICCV 2023, section 8.3"
    acceptance: Inside = 0.234
    width: Inside = 0.1

    def propose(self, latent: Tensor, noise: Tensor, width: Tensor) -> tuple[Tensor, Tensor | None]:
        """A uniform point of the window, and the ratio of the windows' volumes."""
        wide = width.to(latent)[:, None, None]
        here = torch.special.ndtr(latent)
        low, high = (here - wide).clamp(min=0.0), (here + wide).clamp(max=1.0)
        there = low + (high - low) * torch.special.ndtr(noise)
        back = (there + wide).clamp(max=1.0) - (there - wide).clamp(min=0.0)
        ratio = ((high - low).double().log() - back.double().log()).sum(dim=2)
        return torch.special.ndtri(there.clamp(EDGE, 1.0 - EDGE)), ratio


@WALKS.add
@dataclass(frozen=True, kw_only=True)
class SubsetSimulation(Search):
    """Subset simulation: nested events F_1 > F_2 > ... > F, each with a share `rho` of the points of the one before (eq. 21).

    `population` points are drawn from the space. The next threshold is the merit that the best share `rho` reaches. These points are
    copied until there are `population` again, and every copy makes `steps` Metropolis-Hastings steps of the `kernel` inside the event
    (section 8.3). The search ends when a share of at least `rho` lies in the final event, or when ln P falls to the `floor`, where
    it is censored. Each level stores its conditional probability p_i and its factor 1 + lambda_i (eq. 25), estimated from the
    similarity of copies of one point. The interval of ln P follows from both (eq. 28).

    Evaluations: population * (1 + steps * levels). With few steps copies stay similar and the interval is too narrow in spite of the
    factor; ten steps suffice for probabilities of 1e-12.
    """

    name = "subset_simulation"
    reference = "Au and Beck 2001; Huang et al., SAFARI, ICCV 2023, section 8.3"
    population: Annotated[int, Within(least=10)] = 500
    steps: Count = 10
    rho: Annotated[float, Within(above=0, most=0.5)] = 0.1
    floor: Annotated[float, Within(below=0)] = -100.0
    kernel: Kernel = field(default_factory=CrankNicolson)

    def searcher(self, space: Space, samples: Tensor, seed: int, event: float, device: torch.device) -> Searcher:
        """Start with independent points."""
        return Levels(self, space, samples, seed, event, device)

    @property
    def levels(self) -> int:
        """The number of levels, including the first, after which ln P is at the floor."""
        return math.ceil(self.floor / math.log(self.survivors / self.population))

    @property
    def survivors(self) -> int:
        """The number of points that the next level starts from."""
        return max(1, round(self.rho * self.population))

    @property
    def points(self) -> int:
        """The population."""
        return self.population

    def length(self, space: Space) -> int:
        """The number of evaluations if the event is never reached."""
        return self.population * (1 + self.steps * (self.levels - 1))


class Levels(RecordedSearch):
    """Subset simulation of all samples that have not reached the event, each with its own population and threshold."""

    def __init__(self, walk: SubsetSimulation, space: Space, samples: Tensor, seed: int, event: float, device: torch.device) -> None:
        super().__init__(space, samples, seed, device)
        self.walk, self.event = walk, event
        self.active = torch.arange(len(samples))
        self.level = self.step = 0
        self.ln_p = torch.zeros(len(samples), dtype=torch.float64)
        count = (len(samples), walk.population)
        self.latent = torch.empty(0)
        self.merit = torch.full(count, -torch.inf, dtype=torch.float64, device=device)
        self.parent = torch.zeros(count, dtype=torch.int64, device=device)
        self.threshold = torch.full((len(samples),), -torch.inf, dtype=torch.float64, device=device)
        self.width = torch.full((len(samples),), walk.kernel.width, dtype=torch.float64, device=device)
        self.accepted = torch.zeros(len(samples), dtype=torch.float64, device=device)
        self.proposal = torch.empty(0)
        self.ratio: Tensor | None = None

    def ask(self) -> Ask | None:
        """A proposal for every point of every active sample."""
        if len(self.active) == 0:
            return None
        draws = self.next_draws(self.active, self.walk.population)
        noise = draws.to(self.device).normal(self.space.latents, stream="subset")
        noise = noise.reshape(len(self.active), self.walk.population, -1)
        self.proposal, self.ratio = (noise, None) if self.level == 0 else self.walk.kernel.propose(self.latent, noise, self.width)
        row = self.active.repeat_interleave(self.walk.population)
        self.asked = Ask(row, draws.draw, torch.zeros_like(row), self.space.decode(self.proposal.flatten(0, 1)))
        return self.asked

    def tell(self, merit: Tensor, seen: Tensor, slope: Tensor | None = None) -> None:
        """Accept proposals inside the event; after the last step, start the next level."""
        self.record.see(self.asked, merit, seen)
        value = torch.where(merit.isnan(), -torch.inf, merit.double()).to(self.device).reshape(len(self.active), -1)
        if self.level == 0:
            self.latent, self.merit = self.proposal, value
            self.descend()
            return
        accept = value >= self.threshold[:, None]
        if self.ratio is not None:
            own = Draws(self.seed, self.samples[self.asked.row], self.asked.draw)
            accept &= own.uniform(1, stream="subset.accept").to(self.device).log().reshape(value.shape) < self.ratio
        self.latent = torch.where(accept[:, :, None], self.proposal, self.latent)
        self.merit = torch.where(accept, value, self.merit)
        share = accept.double().mean(dim=1)
        self.accepted += share / self.walk.steps
        self.width = self.walk.kernel.adapt(self.width, share)
        self.step += 1
        if self.step == self.walk.steps:
            self.descend()

    def descend(self) -> None:
        """Set the next threshold of each sample, drop samples that are done, and start chains from the best points of the others."""
        walk, count = self.walk, self.walk.population
        best = above(self.merit, walk.survivors)
        reached = (self.merit >= self.event).double().mean(dim=1) >= walk.rho
        threshold = torch.where(reached, self.event, best.clamp(max=self.event))
        inside = self.merit >= threshold[:, None]
        share = inside.double().mean(dim=1)
        stuck = ~reached & (best == torch.inf)
        # If no point is better than another, the share is at most 1 / population at level 0. Later, chains may just not have moved.
        defined = (self.merit > -torch.inf).any(dim=1) & (self.level == 0)
        share = torch.where(stuck, torch.where(defined, torch.full_like(share, 1.0 / count), torch.nan), share)
        factor = variance_factor(inside, self.parent, share) if self.level else torch.ones_like(share)
        self.ln_p[self.active] += torch.where(stuck, 0.0, share.log()).cpu()
        sunk = (self.ln_p[self.active] <= walk.floor).to(self.device)
        self.record.mark(
            self.active,
            self.level,
            probability=share,
            variance=torch.where(stuck, torch.nan, (1.0 - share) / (share * count) * factor),
            factor=factor,
            threshold=torch.where(stuck, torch.nan, threshold),
            width=self.width if self.level else torch.full_like(share, torch.nan),
            acceptance=self.accepted if self.level else torch.full_like(share, torch.nan),
            state=torch.where(reached, 1.0, torch.where(stuck, 2.0, torch.where(sunk, 3.0, 0.0))),
        )
        going = ~(reached | stuck | sunk)
        self.active = self.active[going.cpu()]
        self.latent, self.merit = self.latent[going], self.merit[going]
        self.threshold, self.width = threshold[going], self.width[going]
        self.accepted = torch.zeros_like(self.threshold)
        if len(self.active):
            self.resample(inside[going])
        self.level, self.step = self.level + 1, 0

    def resample(self, inside: Tensor) -> None:
        """Fill each population with copies of the points inside the event, in random order; their numbers differ by at most one."""
        number, count = inside.sum(dim=1, keepdim=True), inside.shape[1]
        first = self.record.evaluations[self.active]
        key = Draws(self.seed, self.samples[self.active], first).uniform(count, stream="subset.copies").to(self.device)
        order = torch.where(inside, key, 2.0).argsort(dim=1, stable=True)
        self.parent = order.gather(1, torch.arange(count, device=self.device).expand_as(order) % number)
        row = torch.arange(len(order), device=self.device)[:, None]
        self.latent, self.merit = self.latent[row, self.parent], self.merit[row, self.parent]


def above(merit: Tensor, survivors: int) -> Tensor:
    """The threshold (A,) that `survivors` of the merits (A, n) reach; infinity if all merits are equal.

    The threshold always excludes the smallest merit, even if that is common, as for piecewise constant explanations.

    >>> above(torch.tensor([[0.0, 1.0, 2.0, 3.0], [0.0, 0.0, 0.0, 2.0], [1.0, 1.0, 1.0, 1.0]]), 2)
    tensor([2., 2., inf])
    """
    least = merit.amin(dim=1, keepdim=True)
    best = merit.topk(survivors, dim=1).values[:, -1]
    return torch.where(best > least[:, 0], best, torch.where(merit > least, merit, torch.inf).amin(dim=1))


def variance_factor(inside: Tensor, parent: Tensor, share: Tensor) -> Tensor:
    """1 + lambda (A,): the variance of a share p over copies (A, n), relative to that of independent points, p (1 - p) / n.

    The copies of one parent are a cluster, and the squared sums of clusters around p estimate the variance. The factor is at least 1,
    because chains are never better than independent points.

    >>> inside = torch.tensor([[True, True, False, False]])
    >>> variance_factor(inside, torch.tensor([[0, 0, 1, 1]]), torch.tensor([0.5], dtype=torch.float64))
    tensor([4.], dtype=torch.float64)
    """
    count = inside.shape[1]
    around = inside.double() - share[:, None]
    sums = torch.zeros_like(around).scatter_add_(1, parent, around)
    clusters = torch.zeros_like(around).scatter_(1, parent, 1.0).sum(dim=1)
    variance = sums.square().sum(dim=1) / count**2 * clusters / (clusters - 1.0).clamp(min=1.0)
    alone = share * (1.0 - share) / count
    return torch.where(alone > 0, variance / alone.clamp(min=1e-300), 1.0).clamp(min=1.0)


NO_HIT = 3.0
"""If none of N draws is a hit, P is at most 3 / N with a confidence of 95 %."""


@WALKS.add
@dataclass(frozen=True, kw_only=True)
class SimpleMonteCarlo(Search):
    """`draws` independent random points per sample, `population` at a time. Only the number of points in the event is stored.

    For moderate probabilities, and as ground truth: the coefficient of variation of P is sqrt((1 - P) / (P draws)). Unlike
    `monte_carlo` it stores no single draws, so a million of them take no space.
    """

    name = "simple_monte_carlo"
    reference = "Huang et al., SAFARI, ICCV 2023, section 8.3"
    draws: Count = 10_000
    population: Count = 1000

    def searcher(self, space: Space, samples: Tensor, seed: int, event: float, device: torch.device) -> Searcher:
        """Start with no hits."""
        return HitCount(self, space, samples, seed, event, device)

    @property
    def points(self) -> int:
        """The number of points that are drawn at a time."""
        return min(self.population, self.draws)

    def length(self, space: Space) -> int:
        """The number of draws."""
        return self.draws


class HitCount(RecordedSearch):
    """The number of points of each sample that lie in the event."""

    def __init__(self, walk: SimpleMonteCarlo, space: Space, samples: Tensor, seed: int, event: float, device: torch.device) -> None:
        super().__init__(space, samples, seed, device)
        self.walk, self.event, self.made = walk, event, 0
        self.rows, self.hits = torch.arange(len(samples)), torch.zeros(len(samples), dtype=torch.float64)

    def ask(self) -> Ask | None:
        """The next points of all samples."""
        each = min(self.walk.population, self.walk.draws - self.made)
        if each <= 0 or len(self.samples) == 0:
            return None
        draws = self.next_draws(self.rows, each)
        row = self.rows.repeat_interleave(each)
        element = self.space.decode(draws.to(self.device).normal(self.space.latents, stream="simple"))
        self.asked, self.made = Ask(row, draws.draw, torch.zeros_like(row), element), self.made + each
        return self.asked

    def tell(self, merit: Tensor, seen: Tensor, slope: Tensor | None = None) -> None:
        """Count the hits; undefined points are not in the event. Without a hit, ln P is censored at ln(3 / draws)."""
        self.record.see(self.asked, merit, seen)
        self.hits += (merit >= self.event).double().cpu().reshape(len(self.samples), -1).sum(dim=1)
        if self.made >= self.walk.draws:
            blank = self.record.undefined >= self.made
            share = torch.where(blank, torch.nan, (torch.where(self.hits > 0, self.hits, NO_HIT) / self.made).clamp(max=1.0))
            self.record.mark(
                self.rows,
                0,
                probability=share,
                variance=torch.where(self.hits > 0, (1.0 - share) / (share * self.made), torch.nan),
                state=torch.where(blank, torch.nan, torch.where(self.hits > 0, 1.0, 3.0)),
            )
