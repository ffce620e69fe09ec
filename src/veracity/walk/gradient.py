"""Gradient search: many restarts climb the slope of the merit at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from veracity.core.errors import SpecError
from veracity.core.randomness import Draws
from veracity.core.registry import WALKS
from veracity.core.settings import Count, Positive
from veracity.core.spaces import Space
from veracity.core.walks import Ask, Search, Searcher, Trace
from veracity.walk.record import NOTHING, Record

FAR = 4.0
"""How far from zero a latent may go: of a cube, all but 6e-5 lies within, and from there a few steps still lead back."""

NEAR = 0.1
"""The spread of the restart that begins close to the centre, where the slope of an unchanged explanation would be zero."""


@WALKS.add
@dataclass(frozen=True, kw_only=True)
class GradientSearch(Search):
    """Climb the merit's slope from `population` starts a sample, `steps` steps each: u <- clamp(u + rate_t sign(∂merit/∂u), -4, 4).

    u are the Gaussian latents of an element, and rate_t falls from `rate` to zero along a straight line. The slope along the
    elements is taken back to the latents through the space's own map, so that a step never leaves the space. Only signs
    count: in a cube every entry moves on, however flat the map is close to a wall, and the scale of the merit does not
    matter. The first start lies close to the centre, the others are uniform in the space. Slopes may be a smooth stand-in's;
    what is kept is judged by the merit of the real model at each of the population x steps points.
    """

    name = "gradient"
    reference = "Ghorbani et al. 2019, arXiv:1710.10547; Madry et al. 2018, arXiv:1706.06083 (steps by sign)"
    population: Count = 10
    steps: Count = 50
    rate: Positive = 1.0

    @property
    def points(self) -> int:
        """The restarts."""
        return self.population

    @property
    def follows_slopes(self) -> bool:
        """It does."""
        return True

    def length(self, space: Space) -> int:
        """Every restart at every step."""
        return self.population * self.steps

    def searcher(self, space: Space, samples: Tensor, seed: int, event: float, device: torch.device) -> Searcher:
        """Begin at the starts of every sample."""
        if not has_slopes(space):
            raise SpecError(
                f"The walk 'gradient' climbs slopes, and '{space.name}' has none to climb: its elements do not change smoothly, so use "
                "the walk 'genetic'."
            )
        return Climb(self, space, samples, seed, device)


def has_slopes(space: Space) -> bool:
    """Whether elements change smoothly with their latents."""
    with torch.enable_grad():
        return space.latents > 0 and space.decode(torch.full((1, space.latents), NEAR, requires_grad=True)).requires_grad


class Climb:
    """One gradient search under way: the restarts of all samples, latents (S P, d), step together."""

    slopes = True

    def __init__(self, walk: GradientSearch, space: Space, samples: Tensor, seed: int, device: torch.device) -> None:
        self.walk, self.space, self.samples = walk, space, samples
        self.record = Record(len(samples))
        self.row, start = torch.arange(len(samples)).repeat_interleave(walk.population), torch.arange(walk.population).repeat(len(samples))
        noise = Draws(seed, samples[self.row], start).gaussian(space.latents, stream="gradient", device=device)
        self.start, self.latent = start, noise * torch.where(start == 0, NEAR, 1.0).to(noise)[:, None]
        self.step, self.asked, self.element = 0, NOTHING, noise

    def ask(self) -> Ask | None:
        """Where the restarts stand, sample by sample."""
        if self.step == self.walk.steps or not len(self.samples):
            return None
        with torch.enable_grad():
            self.element = self.space.decode(self.latent.requires_grad_())
        draw = self.step * self.walk.population + self.start
        self.asked = Ask(self.row, draw, torch.zeros_like(draw), self.element.detach())
        return self.asked

    def tell(self, merit: Tensor, seen: Tensor, slope: Tensor | None = None) -> None:
        """Keep the worst so far, and step uphill; a restart whose merit or slope is undefined stays where it is."""
        if slope is None:
            raise SpecError("The walk 'gradient' needs the slopes of the merit, and got none: use the walk 'genetic'.")
        self.record.see(self.asked, merit, seen)
        self.record.mark(torch.arange(len(self.samples)), self.step)
        place = self.latent.detach()
        (uphill,) = torch.autograd.grad(self.element, self.latent, slope.detach().to(self.element))
        defined = uphill.isfinite().all(1) & slope.isfinite().all(1).to(place.device) & ~merit.isnan().to(place.device)
        rate = self.walk.rate * (1.0 - self.step / self.walk.steps)
        self.latent = torch.where(defined[:, None], (place + rate * uphill.sign()).clamp(-FAR, FAR), place)
        self.step += 1

    def trace(self) -> Trace:
        """One line per sample and step: the worst so far."""
        return self.record.trace()

    def worst(self) -> tuple[Ask, Tensor]:
        """The worst of all steps."""
        return self.record.worst()
