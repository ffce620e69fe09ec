"""Noise added to the input: Gaussian, of growing strength along one direction, or uniform."""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import dataclass, replace
from typing import Self

from torch import Size, Tensor

from veracity.core.errors import InputError, SpecError
from veracity.core.registry import SPACES
from veracity.core.settings import Count, Positive
from veracity.core.spaces import InputSpace, Representation, StrengthPath
from veracity.perturb.ball import Ball


@dataclass(frozen=True, kw_only=True)
class AddedNoise(InputSpace, ABC):
    """Noise added to each of the d entries of a sample, x' = x + z; elements (N, d) are the noise itself."""

    moves_frame = False
    representation = Representation.APPROXIMATE

    size: int | None = None

    def fit(self, shape: Size) -> Self:
        """The noise for inputs of this shape."""
        if self.size not in (None, math.prod(shape)):
            raise InputError(
                f"The space '{self.name}' was made for samples of {self.size} entries, but one sample has shape {tuple(shape)}."
            )
        return replace(self, size=math.prod(shape))

    @property
    def entries(self) -> int:
        """How many entries a sample has, once that is known."""
        if self.size is None:
            raise SpecError(f"The space '{self.name}' does not know the inputs' size yet: call fit(shape) with one sample's shape.")
        return self.size

    @property
    def latents(self) -> int:
        """One for each entry of a sample."""
        return self.entries

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """The inputs with their noise."""
        needed = (len(x), math.prod(x.shape[1:]))
        if elements.shape != needed:
            raise InputError(
                f"Inputs of shape {tuple(x.shape)} need noise of shape {needed}, but the space '{self.name}' got {tuple(elements.shape)}."
            )
        return x + elements.to(x).reshape(x.shape)


@SPACES.add
@dataclass(frozen=True, kw_only=True)
class GaussianNoise(StrengthPath, AddedNoise):
    """Gaussian noise, x' = x + sigma_l eta with eta ~ N(0, 1) and sigma_l = (l + 1) / levels * sigma (section A.5).

    All levels of a draw share one direction eta, so that a draw is one straight path away from the input; `independent`
    gives each level noise of its own. As long as sigma is None, the space waits for a calibration and cannot act.
    Drawn elements hold the noise of the last level; with independent noise that of all levels, one after the other.

    >>> import torch
    >>> noise = GaussianNoise(sigma=0.5, levels=2).fit(Size([2]))
    >>> noise.at(noise.decode(torch.tensor([[1.0, -2.0]])), torch.tensor([0]))
    tensor([[ 0.2500, -0.5000]])
    """

    name = "gaussian_noise"
    reference = "Hedström et al., Evaluating interpretable methods via geometric alignment of functional distortions, TMLR 2025"

    sigma: Positive | None
    levels: Count = 1
    independent: bool = False

    def endpoint(self, sigma: float) -> Self | None:
        """The last level alone, at this strength, as long as there is no sigma."""
        return replace(self, sigma=sigma, levels=1, independent=False) if self.sigma is None else None

    def with_strength(self, sigma: float) -> Self:
        """The path up to this strength."""
        return replace(self, sigma=sigma)

    @property
    def strength(self) -> float:
        """Sigma, once there is one."""
        if self.sigma is None:
            raise SpecError(f"The space '{self.name}' has no sigma yet: give it one, such as sigma=0.1, or calibrate it first.")
        return self.sigma

    @property
    def latents(self) -> int:
        """One for each entry of a sample, and for each level where levels are independent."""
        return self.entries * (self.levels if self.independent else 1)

    def decode(self, latent: Tensor) -> Tensor:
        """The latents, sigma times."""
        return latent * self.strength

    def at(self, elements: Tensor, level: Tensor) -> Tensor:
        """The noise (N, d) at each level."""
        share = (level + 1).to(elements) / self.levels
        if self.independent:
            row = level.reshape(-1, 1, 1).expand(-1, 1, self.entries)
            elements = elements.unflatten(1, (self.levels, self.entries)).gather(1, row).squeeze(1)
        return elements * share[:, None]

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """The inputs with their noise."""
        _ = self.strength
        return super().act(elements, x)


@SPACES.add
@dataclass(frozen=True, kw_only=True)
class UniformNoise(AddedNoise):
    """Independent uniform noise in every entry, z ~ U(low, high), or U(-radius, radius) where a radius is given (section A.3).

    >>> import torch
    >>> UniformNoise(low=0.0, high=4.0).fit(Size([2])).decode(torch.tensor([[0.0, 50.0]]))
    tensor([[2., 4.]])
    """

    name = "uniform_noise"
    reference = "Hedström et al., The meta-evaluation problem in explainable AI, TMLR 2023"

    radius: Positive | None = None
    low: float | None = None
    high: float | None = None

    def fit(self, shape: Size) -> Self:
        """The noise for inputs of this shape."""
        _ = self.interval
        return super().fit(shape)

    @property
    def interval(self) -> tuple[float, float]:
        """Between which values the noise lies."""
        if self.radius is not None and self.low is None and self.high is None:
            return -self.radius, self.radius
        if self.radius is not None or self.low is None or self.high is None or not -math.inf < self.low < self.high < math.inf:
            raise SpecError(
                f"The space '{self.name}' needs a radius, or low below high, not radius={self.radius}, low={self.low}, high={self.high}."
            )
        return self.low, self.high

    def decode(self, latent: Tensor) -> Tensor:
        """The middle of the interval, and the ball's smooth map of the latents (N, d) around it."""
        low, high = self.interval
        return Ball(radius=0.5 * (high - low)).decode(latent) + 0.5 * (low + high)
