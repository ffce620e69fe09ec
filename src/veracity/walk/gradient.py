"""Gradient search: gradient ascent on the merit from several starts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from veracity.core.errors import SpecError
from veracity.core.randomness import Draws
from veracity.core.registry import WALKS
from veracity.core.settings import Count, Positive
from veracity.core.spaces import Space
from veracity.core.walks import Ask, Search, Searcher
from veracity.walk.record import RecordedSearch

FAR = 4.0
"""The largest absolute value of a latent: all but 6e-5 of a cube lies within it, and a few steps lead back from there."""

NEAR = 0.1
"""The spread of the first start. It is close to the centre, but not in it, where the slope of an unchanged explanation is zero."""


@WALKS.add
@dataclass(frozen=True, kw_only=True)
class GradientSearch(Search):
    """Gradient ascent on the merit from `population` starts per sample, `steps` steps each: u <- clamp(u + rate_t sign(∂merit/∂u), -4, 4).

    u are the Gaussian latents of an element, and rate_t falls linearly from `rate` to zero. The slope along the elements is propagated
    to the latents through the space's own map, so steps never leave the space. Only signs count: the scale of the merit does not
    matter, and entries close to the boundary of a cube still move. The first start lies close to the centre; the others are uniform in
    the space. Slopes may come from a smooth replacement of the model, but points are compared by the merit of the real model.
    """

    name = "gradient"
    reference = "Ghorbani et al. 2019, arXiv:1710.10547; Madry et al. 2018, arXiv:1706.06083 (steps by sign)"
    population: Count = 10
    steps: Count = 50
    rate: Positive = 1.0

    @property
    def points(self) -> int:
        """The number of starts."""
        return self.population

    @property
    def follows_slopes(self) -> bool:
        """Always."""
        return True

    def length(self, space: Space) -> int:
        """Starts times steps."""
        return self.population * self.steps

    def searcher(self, space: Space, samples: Tensor, seed: int, event: float, device: torch.device) -> Searcher:
        """Start the ascent; raises if elements are not differentiable in their latents."""
        if not has_slopes(space):
            raise SpecError(
                f"The walk 'gradient' follows slopes, but the elements of '{space.name}' do not change smoothly: use the walk 'genetic'."
            )
        return Ascent(self, space, samples, seed, device)


def has_slopes(space: Space) -> bool:
    """Whether elements are differentiable in their latents."""
    with torch.enable_grad():
        return space.latents > 0 and space.decode(torch.full((1, space.latents), NEAR, requires_grad=True)).requires_grad


class Ascent(RecordedSearch):
    """Gradient ascent of all samples and starts at once, latents (S P, d)."""

    slopes = True

    def __init__(self, walk: GradientSearch, space: Space, samples: Tensor, seed: int, device: torch.device) -> None:
        super().__init__(space, samples, seed, device)
        self.walk = walk
        self.row, start = torch.arange(len(samples)).repeat_interleave(walk.population), torch.arange(walk.population).repeat(len(samples))
        noise = Draws(seed, samples[self.row], start).to(device).normal(space.latents, stream="gradient")
        self.start, self.latent = start, noise * torch.where(start == 0, NEAR, 1.0).to(noise)[:, None]
        self.step, self.element = 0, noise

    def ask(self) -> Ask | None:
        """The current points, sample by sample."""
        if self.step == self.walk.steps or not len(self.samples):
            return None
        with torch.enable_grad():
            self.element = self.space.decode(self.latent.requires_grad_())
        draw = self.step * self.walk.population + self.start
        self.asked = Ask(self.row, draw, torch.zeros_like(draw), self.element.detach())
        return self.asked

    def tell(self, merit: Tensor, seen: Tensor, slope: Tensor | None = None) -> None:
        """Record the points and step uphill; a point whose merit or slope is undefined stays."""
        if slope is None:
            raise SpecError("The walk 'gradient' needs the slopes of the merit, but got none: use the walk 'genetic'.")
        self.record.see(self.asked, merit, seen)
        self.record.mark(torch.arange(len(self.samples)), self.step)
        place = self.latent.detach()
        (uphill,) = torch.autograd.grad(self.element, self.latent, slope.detach().to(self.element))
        defined = uphill.isfinite().all(1) & slope.isfinite().all(1).to(place.device) & ~merit.isnan().to(place.device)
        rate = self.walk.rate * (1.0 - self.step / self.walk.steps)
        self.latent = torch.where(defined[:, None], (place + rate * uphill.sign()).clamp(-FAR, FAR), place)
        self.step += 1
