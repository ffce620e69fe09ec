"""Noise added to the input: Gaussian, of growing strength along one direction; or uniform."""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Size, Tensor

from veracity.core.errors import InputError, SpecError
from veracity.core.features import Features
from veracity.core.registry import SPACES
from veracity.core.settings import Count, Positive
from veracity.core.spaces import FeatureSpace, Representation, StrengthPath, check_known


@dataclass(frozen=True, kw_only=True)
class AddedNoise(FeatureSpace, ABC):
    """Noise added to each of the d entries of a sample, x' = x + z; elements (N, d) are the noise itself.

    With `scales` (d,) it is x' = x + scales z. In a table with names they are the columns' standard deviations, and 0 for categories,
    which noise leaves alone: a strength of 0.1 is a tenth of a standard deviation of every column.
    """

    moves_frame = False
    representation = Representation.APPROXIMATE

    size: int | None = None
    scales: Tensor | None = field(default=None, metadata={"unset": True})

    def over(self, features: Features) -> Self:
        """The noise in units of the columns of a table."""
        return replace(self, scales=features.unit) if self.scales is None and features.unit is not None else self

    def fit(self, shape: Size) -> Self:
        """The noise for inputs of this shape."""
        if self.size not in (None, math.prod(shape)):
            raise InputError(
                f"The space '{self.name}' was made for samples of {self.size} entries, but one sample has shape {tuple(shape)}."
            )
        return replace(self, size=math.prod(shape))

    @property
    def entries(self) -> int:
        """The number of entries of a sample; raises before `fit`."""
        return check_known(self, self.size, "the inputs' size")

    @property
    def smallest(self) -> float | None:
        """A typical size of the weakest noise in one entry; None if it is not known yet."""
        return None

    @property
    def latents(self) -> int:
        """One per entry of a sample."""
        return self.entries

    def noise_for(self, elements: Tensor, x: Tensor) -> Tensor:
        """The noise in the shape of the inputs, before it is scaled."""
        needed = (len(x), math.prod(x.shape[1:]))
        if elements.shape != needed:
            raise InputError(
                f"Inputs of shape {tuple(x.shape)} need noise of shape {needed}, but the space '{self.name}' got {tuple(elements.shape)}."
            )
        return elements.to(x).reshape(x.shape)

    def unit(self, x: Tensor) -> Tensor | float:
        """The factor on the noise of each entry, which broadcasts against x; 1 without scales."""
        return 1.0 if self.scales is None else self.scales.to(x).reshape(x.shape[1:])

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """The inputs plus their noise."""
        return x + self.noise_for(elements, x) * self.unit(x)


def uniform_noise(latent: Tensor, radius: float) -> Tensor:
    """Gaussian latents as uniform numbers in (-radius, radius): radius (2 Phi(u) - 1).

    >>> uniform_noise(torch.tensor([0.0, 50.0]), 0.1)
    tensor([0.0000, 0.1000])
    """
    return torch.erf(latent / math.sqrt(2.0)) * radius


@SPACES.add
@dataclass(frozen=True, kw_only=True)
class GaussianNoise(StrengthPath, AddedNoise):
    """Gaussian noise, x' = x + sigma_l eta with eta ~ N(0, 1) and sigma_l = (l + 1) / levels * sigma (section A.5).

    All levels of a draw share one direction eta, so a draw is a straight path away from the input; with `independent` each level has
    its own direction. A sigma of None is found by a calibration. Elements hold the noise of the last level; with `independent` that
    of all levels, one after the other.

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
        """The last level at this strength, if sigma is None."""
        return replace(self, sigma=sigma, levels=1, independent=False) if self.sigma is None else None

    def with_strength(self, sigma: float) -> Self:
        """The path up to this strength."""
        return replace(self, sigma=sigma)

    @property
    def smallest(self) -> float | None:
        """The strength of the first level."""
        return None if self.sigma is None else self.sigma / self.levels

    @property
    def strength(self) -> float:
        """Sigma; raises if it is None."""
        if self.sigma is None:
            raise SpecError(f"The space '{self.name}' has no sigma yet: give it one, such as sigma=0.1, or calibrate it first.")
        return self.sigma

    @property
    def latents(self) -> int:
        """One per entry of a sample; with `independent` one per entry and level."""
        return self.entries * (self.levels if self.independent else 1)

    def decode(self, latent: Tensor) -> Tensor:
        """Sigma times the latents."""
        return latent * self.strength

    def at(self, elements: Tensor, level: Tensor) -> Tensor:
        """The noise (N, d) at each level."""
        share = (level + 1).to(elements) / self.levels
        if self.independent:
            row = level.reshape(-1, 1, 1).expand(-1, 1, self.entries)
            elements = elements.unflatten(1, (self.levels, self.entries)).gather(1, row).squeeze(1)
        return elements * share[:, None]

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """The inputs plus their noise."""
        _ = self.strength
        return super().act(elements, x)


@SPACES.add
@dataclass(frozen=True, kw_only=True)
class UniformNoise(AddedNoise):
    """Independent uniform noise in every entry, z ~ U(low, high), or U(-radius, radius) if a radius is given (section A.3).

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
    def smallest(self) -> float:
        """The root mean square of the noise."""
        low, high = self.interval
        return math.sqrt((low * low + low * high + high * high) / 3.0)

    @property
    def interval(self) -> tuple[float, float]:
        """The smallest and the largest value of the noise."""
        if self.radius is not None and self.low is None and self.high is None:
            return -self.radius, self.radius
        if self.radius is not None or self.low is None or self.high is None or not -math.inf < self.low < self.high < math.inf:
            raise SpecError(
                f"The space '{self.name}' needs a radius, or low below high, not radius={self.radius}, low={self.low}, high={self.high}."
            )
        return self.low, self.high

    def decode(self, latent: Tensor) -> Tensor:
        """Uniform noise (N, d) around the middle of the interval."""
        low, high = self.interval
        return uniform_noise(latent, 0.5 * (high - low)) + 0.5 * (low + high)
