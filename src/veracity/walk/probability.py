"""Searches for the probability of a rare event: subset simulation, with the kernels that move its chains, and plain counting."""

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
from veracity.core.walks import Ask, Search, Searcher, Trace
from veracity.walk.record import NOTHING, Record, draws_of

EDGE = 1e-7


@dataclass(frozen=True, kw_only=True)
class Kernel(Component, ABC):
    """A proposal whose `width` grows or shrinks until a share of `acceptance` of the proposals is accepted; it begins at `width`."""

    role = "kernel"
    acceptance: Inside
    width: Inside

    @abstractmethod
    def propose(self, latent: Tensor, noise: Tensor, width: Tensor) -> tuple[Tensor, Tensor | None]:
        """Proposals for chains (A, n, d) from standard normal noise of the same shape, widths (A,) each sample's own.

        With the logarithm (A, n) of the ratio by which the target's and the proposal's densities differ there and back; None
        if it is 0, so that the event alone decides.
        """

    def adapted(self, width: Tensor, accepted: Tensor) -> Tensor:
        """Widths (A,) after a step of which shares (A,) were accepted: w exp(share - acceptance), within (1e-6, 0.999)."""
        return (width * torch.exp(accepted - self.acceptance)).clamp(1e-6, 0.999)


@KERNELS.add
@dataclass(frozen=True, kw_only=True)
class CrankNicolson(Kernel):
    """The preconditioned Crank-Nicolson step, u' = sqrt(1 - w^2) u + w xi, which keeps the normal distribution in any dimension.

    Whatever the dimension, a proposal is accepted if it stays in the event. Widths adapt to an acceptance of .44.
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

    The window [t - w, t + w] is cut at the cube's walls, which makes the proposal lopsided near them: equation (23), with
    its ratio the right way up, accepts with probability min(1, product of the window's lengths at t over those at t').
    In high dimension that ratio, or the event, rejects nearly everything, so that widths shrink and chains hardly move.
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
    """Subset simulation: nested events F_1 > F_2 > ... > F, each reached by a share `rho` of the samples of the one before (eq. 21).

    `population` points are drawn from the space; the threshold of the next event is the merit of the best share `rho`; those
    are copied until there are `population` again, and every copy makes `steps` Metropolis-Hastings steps of the `kernel`
    inside the event (section 8.3). It ends when a share of at least `rho` has reached the event itself, or when ln P falls
    to the `floor`: then ln P is censored there. Each level keeps its conditional probability p_i and its factor 1 + lambda_i
    (eq. 25), estimated from how alike the copies of one point still are; the interval on ln P follows from both (eq. 28).

    Evaluations: population * (1 + steps * levels). With few steps the copies stay alike and the interval is too narrow
    in spite of the factor; ten suffice for tails of 1e-12.
    """

    name = "subset_simulation"
    reference = "Au and Beck 2001; Huang et al., SAFARI, ICCV 2023, section 8.3"
    population: Annotated[int, Within(least=10)] = 500
    steps: Count = 10
    rho: Annotated[float, Within(above=0, most=0.5)] = 0.1
    floor: Annotated[float, Within(below=0)] = -100.0
    kernel: Kernel = field(default_factory=CrankNicolson)

    def searcher(self, space: Space, samples: Tensor, seed: int, event: float, device: torch.device) -> Searcher:
        """Begin with independent points."""
        return Levels(self, space, samples, seed, event, device)

    @property
    def levels(self) -> int:
        """How many levels, the first draws among them, bring ln P to the floor."""
        return math.ceil(self.floor / math.log(self.survivors / self.population))

    @property
    def survivors(self) -> int:
        """How many points the next level starts from."""
        return max(1, round(self.rho * self.population))

    @property
    def points(self) -> int:
        """The population."""
        return self.population

    def length(self, space: Space) -> int:
        """Evaluations of a sample that never reaches the event."""
        return self.population * (1 + self.steps * (self.levels - 1))


class Levels:
    """All samples that have not reached the event yet, each with its own population and threshold, in step with each other."""

    slopes = False

    def __init__(self, walk: SubsetSimulation, space: Space, samples: Tensor, seed: int, event: float, device: torch.device) -> None:
        self.walk, self.kernel, self.space, self.samples = walk, walk.kernel, space, samples
        self.seed, self.event, self.device = seed, event, device
        self.record = Record(len(samples))
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
        self.asked = NOTHING

    def draws(self) -> Draws:
        """The random numbers of the next evaluation of every point."""
        return draws_of(self.seed, self.samples[self.active], self.record.evaluations[self.active], self.walk.population)

    def ask(self) -> Ask | None:
        """A proposal for every point of every sample that is still under way."""
        if len(self.active) == 0:
            return None
        size, draws = (len(self.active), self.walk.population), self.draws()
        noise = draws.gaussian(self.space.latents, stream="subset", device=self.device).reshape(*size, -1)
        self.proposal, self.ratio = (noise, None) if self.level == 0 else self.kernel.propose(self.latent, noise, self.width)
        row = self.active.repeat_interleave(self.walk.population)
        self.asked = Ask(row, draws.draw, torch.zeros_like(row), self.space.decode(self.proposal.flatten(0, 1)))
        return self.asked

    def tell(self, merit: Tensor, seen: Tensor, slope: Tensor | None = None) -> None:
        """Accept what stays inside the event, and go a level down after enough steps."""
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
        self.width = self.kernel.adapted(self.width, share)
        self.step += 1
        if self.step == self.walk.steps:
            self.descend()

    def descend(self) -> None:
        """Set each sample's next threshold, let go of those that are done, and start chains from copies of the others' best."""
        walk, count = self.walk, self.walk.population
        best = above(self.merit, walk.survivors)
        reached = (self.merit >= self.event).double().mean(dim=1) >= walk.rho
        threshold = torch.where(reached, self.event, best.clamp(max=self.event))
        inside = self.merit >= threshold[:, None]
        share = inside.double().mean(dim=1)
        stuck = ~reached & (best == torch.inf)
        share = torch.where(stuck, self.none(), share)
        factor = likeness(inside, self.parent, share) if self.level else torch.ones_like(share)
        self.ln_p[self.active] += torch.where(stuck, 0.0, share.log()).cpu()
        sunk = self.ln_p[self.active] <= walk.floor
        self.record.mark(
            self.active,
            self.level,
            probability=share,
            variance=torch.where(stuck, torch.nan, (1.0 - share) / (share * count) * factor),
            factor=factor,
            threshold=torch.where(stuck, torch.nan, threshold),
            width=self.width if self.level else torch.full_like(share, torch.nan),
            acceptance=self.accepted if self.level else torch.full_like(share, torch.nan),
            state=ended(reached, stuck, sunk.to(self.device)),
        )
        self.keep(~(reached | stuck).cpu() & ~sunk, threshold)
        if len(self.active):
            self.latent, self.merit, self.parent = self.copied(inside[self.kept], count)
        self.level, self.step = self.level + 1, 0

    def none(self) -> Tensor:
        """What is known of the next share (A,) where no point is better than another: at most one of the first, independent, points.

        Nothing, NaN, where all of them are undefined, or where chains may just not have moved.
        """
        defined = (self.merit > -torch.inf).any(dim=1) & (self.level == 0)
        return self.merit.new_full((len(self.merit),), 1.0 / self.walk.population).where(defined, torch.nan)

    def keep(self, going: Tensor, threshold: Tensor) -> None:
        """Let go of the samples that are done."""
        self.kept = going.to(self.device)
        self.active = self.active[going]
        self.latent, self.merit = self.latent[self.kept], self.merit[self.kept]
        self.threshold, self.width = threshold[self.kept], self.width[self.kept]
        self.accepted = torch.zeros_like(self.threshold)

    def copied(self, inside: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Populations made of the points inside the event, each equally often up to one, in random order; and whose copy each is."""
        number = inside.sum(dim=1, keepdim=True)
        first = self.record.evaluations[self.active]
        key = Draws(self.seed, self.samples[self.active], first).uniform(count, stream="subset.copies").to(self.device)
        order = torch.where(inside, key, 2.0).argsort(dim=1, stable=True)
        parent = order.gather(1, torch.arange(count, device=self.device).expand_as(order) % number)
        row = torch.arange(len(parent), device=self.device)[:, None]
        return self.latent[row, parent], self.merit[row, parent], parent

    def trace(self) -> Trace:
        """One line a sample and level."""
        return self.record.trace()

    def worst(self) -> tuple[Ask, Tensor]:
        """The points with the largest merit that were met on the way."""
        return self.record.worst()


def above(merit: Tensor, survivors: int) -> Tensor:
    """The threshold (A,) that so many of the merits (A, n) reach; one that leaves some behind, or infinity if they are all alike.

    Where the least merit is so common that it would be the threshold, as where an explanation is piecewise constant or
    undefined, it is the smallest one above.

    >>> above(torch.tensor([[0.0, 1.0, 2.0, 3.0], [0.0, 0.0, 0.0, 2.0], [1.0, 1.0, 1.0, 1.0]]), 2)
    tensor([2., 2., inf])
    """
    least = merit.amin(dim=1, keepdim=True)
    best = merit.topk(survivors, dim=1).values[:, -1]
    return torch.where(best > least[:, 0], best, torch.where(merit > least, merit, torch.inf).amin(dim=1))


def ended(reached: Tensor, stuck: Tensor, sunk: Tensor) -> Tensor:
    """How each search ended, (A,): 1 reached, 2 stuck, 3 at the floor; 0 while it goes on."""
    return torch.where(reached, 1.0, torch.where(stuck, 2.0, torch.where(sunk, 3.0, 0.0)))


def likeness(inside: Tensor, parent: Tensor, share: Tensor) -> Tensor:
    """1 + lambda (A,): how many times the variance of a share p over copies (A, n) exceeds that of independent points, p (1 - p) / n.

    Copies of one parent are a cluster: their sums around p, squared, estimate the variance whatever the copies share. At
    least 1, since chains are never better than independent points.

    >>> inside = torch.tensor([[True, True, False, False]])
    >>> likeness(inside, torch.tensor([[0, 0, 1, 1]]), torch.tensor([0.5], dtype=torch.float64))
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

    def searcher(self, space: Space, samples: Tensor, seed: int, event: float, device: torch.device) -> Searcher:
        """Begin counting."""
        return HitCount(self, space, samples, seed, event, device)

    @property
    def points(self) -> int:
        """As many as are drawn at a time."""
        return min(self.population, self.draws)

    def length(self, space: Space) -> int:
        """The number of draws."""
        return self.draws


class HitCount:
    """Hits of each sample so far."""

    slopes = False

    def __init__(self, walk: SimpleMonteCarlo, space: Space, samples: Tensor, seed: int, event: float, device: torch.device) -> None:
        self.walk, self.space, self.samples, self.seed, self.event, self.device = walk, space, samples, seed, event, device
        self.record, self.asked, self.made = Record(len(samples)), NOTHING, 0
        self.hits = torch.zeros(len(samples), dtype=torch.float64)

    def ask(self) -> Ask | None:
        """The next points of all samples."""
        each = min(self.walk.population, self.walk.draws - self.made)
        if each <= 0 or len(self.samples) == 0:
            return None
        draws = draws_of(self.seed, self.samples, self.record.evaluations, each)
        row = torch.arange(len(self.samples)).repeat_interleave(each)
        element = self.space.decode(draws.gaussian(self.space.latents, stream="simple", device=self.device))
        self.asked, self.made = Ask(row, draws.draw, torch.zeros_like(row), element), self.made + each
        return self.asked

    def tell(self, merit: Tensor, seen: Tensor, slope: Tensor | None = None) -> None:
        """Count; what is undefined is not in the event."""
        self.record.see(self.asked, merit, seen)
        self.hits += (merit >= self.event).double().cpu().reshape(len(self.samples), -1).sum(dim=1)
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
