"""Noise around the input: every point of a ball is as likely as any other."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Size, Tensor

from veracity.core.draws import Draws
from veracity.core.errors import InputError, SpecError, unknown
from veracity.core.spaces import InputSpace, Representation

NORMS = ("linf", "l2")


@dataclass(frozen=True, kw_only=True)
class Ball(InputSpace):
    """Noise of at most `radius` added to the input, uniform in the ball |z| <= radius of the norm "linf" or "l2": x' = x + z.

    Elements (N, d) are the noise itself, one number for each of the d entries of a sample, in the latents' precision. It
    is a set of perturbations without algebra: the sum of two may leave the ball, and nothing that lives in the input's
    frame moves along.

    >>> ball = Ball(radius=0.1).fit(Size([2]))
    >>> ball.decode(torch.tensor([[0.0, 50.0]]))
    tensor([[0.0000, 0.1000]])
    """

    name = "ball"
    moves_frame = False
    representation = Representation.APPROXIMATE
    reference = "Yeh et al., On the (in)fidelity and sensitivity of explanations, NeurIPS 2019"

    radius: float = 0.02
    norm: str = "linf"
    size: int | None = None

    def fit(self, shape: Size) -> Self:
        """The ball around inputs of this shape."""
        if self.norm not in NORMS:
            raise unknown("norm of a ball", str(self.norm), NORMS)
        if isinstance(self.radius, bool) or not isinstance(self.radius, (int, float)) or not 0 < self.radius < math.inf:
            raise SpecError(f"The radius of a ball must be a positive number, such as 0.02, not {self.radius!r}.")
        if self.size not in (None, math.prod(shape)):
            raise InputError(f"This ball was made for samples of {self.size} entries, but one sample has shape {tuple(shape)}.")
        return replace(self, size=math.prod(shape))

    @property
    def latents(self) -> int:
        """One for each entry of a sample."""
        if self.size is None:
            raise SpecError("The ball does not know the inputs' size yet: call fit(shape) with one sample's shape.")
        return self.size

    def drawn(self, draws: Draws) -> Tensor:
        """Uniform noise; in the cube of "linf" straight from uniform numbers, without the detour over normal ones."""
        if self.norm != "linf":
            return super().drawn(draws)
        return draws.uniform(self.latents, stream="walk").mul_(2.0).sub_(1.0).mul_(self.radius)

    def decode(self, latent: Tensor) -> Tensor:
        """A smooth map from Gaussian latents (N, d) onto the ball, under which their distribution becomes uniform.

        linf: z_i = radius (2 Phi(u_i) - 1). l2: z = radius F(|u|^2)^(1/d) u / |u|, F the chi-squared distribution with d
        degrees of freedom.
        """
        if self.norm == "linf":
            return torch.erf(latent / math.sqrt(2.0)) * self.radius
        wide = latent.double()
        length = wide.norm(dim=1, keepdim=True).clamp(min=torch.finfo(wide.dtype).tiny)
        half = torch.full_like(length, 0.5 * latent.shape[1])
        share: Tensor = torch.special.gammainc(half, 0.5 * length.square()) ** (1.0 / latent.shape[1])
        noise: Tensor = wide * (self.radius * share / length)
        return noise.to(latent.dtype)

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """The inputs with their noise."""
        needed = (len(x), math.prod(x.shape[1:]))
        if elements.shape != needed:
            raise InputError(f"Inputs of shape {tuple(x.shape)} need noise of shape {needed}, but the ball got {tuple(elements.shape)}.")
        return x + elements.to(x).reshape(x.shape)
