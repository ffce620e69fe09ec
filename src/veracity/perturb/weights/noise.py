"""Noise on the weights: paths of growing strength, and a neighbourhood of the model in which every row has its own weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError, SpecError
from veracity.core.registry import SPACES
from veracity.core.settings import Count, Positive, Whole
from veracity.core.spaces import Space, StrengthPath, check_known, check_level
from veracity.core.transfer import send
from veracity.perturb.weights.copies import MOST_BYTES, ModelCopies, Pairs, direction_noise, parameters_of


@dataclass(frozen=True, kw_only=True)
class WeightNoise(StrengthPath, ModelCopies, ABC):
    """Gaussian noise on every parameter, in `steps` steps z of growing strength, each in `segments` equal segments t.

    Level z * segments + t has the strength (t + 1) / segments * sigma_z, with sigma_z = (z + 1) * sigma / steps; with `first`,
    sigma_z goes evenly from `first` to sigma. With several segments a level is compared with the one before it, and each step starts
    again from the unperturbed model: the sum over its segments is the length of its path.

    All levels of a (seed, draw) share one direction eta; with `independent` each step has its own. It is standard normal and divided
    among the parameters in the order of names. Copies are the same on every device, up to rounding. A sigma of None is found by a
    calibration.
    """

    reference = "Hedström et al., Evaluating interpretable methods via geometric alignment of functional distortions (TMLR 2025)"

    elementwise: ClassVar[bool] = False
    """Whether a noisy number depends on no other number of its parameter."""

    sigma: Positive | None
    steps: Count = 5
    segments: Count = 1
    independent: bool = False
    first: Positive | None = None

    @property
    def levels(self) -> int:
        """Steps times segments."""
        return self.steps * self.segments

    def of(self, model: nn.Module) -> Self:
        """The space itself; raises if a setting is invalid or the model has no parameters."""
        parameters_of(model)
        self.check()
        return self

    def check(self) -> None:
        """Raise if the path would not grow."""
        if self.first is not None and self.sigma is not None and self.first > self.sigma:
            raise SpecError(f"The space '{self.name}' starts at first={self.first}, which must not exceed sigma={self.sigma}.")

    def endpoint(self, sigma: float) -> WeightNoise | None:
        """The last step in one segment at this strength, if sigma is None."""
        return replace(self, sigma=sigma, steps=1, segments=1, independent=False, first=None) if self.sigma is None else None

    def with_strength(self, sigma: float) -> Self:
        """The path up to this strength."""
        found = replace(self, sigma=sigma)
        found.check()
        return found

    def starts(self, level: int) -> bool:
        """The first segment of a step starts at the unperturbed model."""
        return level % self.segments == 0

    def strength(self, level: int) -> float:
        """(t + 1) / segments * sigma_z.

        >>> [round(ParameterScaling(sigma=1.0, steps=2, segments=2).strength(level), 2) for level in range(4)]
        [0.25, 0.5, 0.5, 1.0]
        """
        step, segment = divmod(check_level(self, level), self.segments)
        return (segment + 1) / self.segments * self.reach(step)

    def reach(self, step: int) -> float:
        """sigma_z, the strength at the end of a step; raises if sigma is None."""
        if self.sigma is None:
            raise SpecError(f"The space '{self.name}' has no sigma yet: give it one, such as sigma=0.5, or calibrate it first.")
        if self.first is None:
            return (step + 1) * self.sigma / self.steps
        return self.sigma - (self.sigma - self.first) * (self.steps - 1 - step) / max(1, self.steps - 1)

    def direction(self, level: int) -> int:
        """The number of a level's direction: one for all levels, or one per step."""
        return level // self.segments if self.independent else -1

    def copies(self, model: nn.Module, pairs: Pairs, seed: int) -> dict[str, Tensor]:
        """Every parameter of every copy, (copies, ...); each direction is drawn once."""
        parameters = parameters_of(model)
        names = [(draw, self.direction(level)) for draw, level in pairs]
        once = sorted(set(names))
        sizes = [value.numel() for value in parameters.values()]
        device = next(iter(parameters.values())).device
        drawn = [direction_noise(sum(sizes), seed, *name, device) for name in once]
        noise = drawn[0].unsqueeze(0) if len(drawn) == 1 else torch.stack(drawn)
        which = None if once == names else torch.tensor([once.index(name) for name in names], dtype=torch.int64)
        strength = torch.tensor([self.strength(level) for _, level in pairs], dtype=torch.float64)
        kinds = {(value.dtype, value.device) for value in parameters.values()}
        small = sum(value.nbytes for value in parameters.values()) <= MOST_BYTES
        if self.elementwise and len(kinds) == 1 and small:  # all parameters as one vector: a model may have hundreds of them
            theta = torch.cat([value.flatten() for value in parameters.values()])
            eta = noise.to(theta) if which is None else noise.to(theta)[send(which, theta.device)]
            scale = send(strength.to(theta.dtype), theta.device)[:, None]
            whole = self.noisy(theta, eta * scale if len(drawn) == 1 else eta.mul_(scale))  # one may be remembered
            parts = zip(parameters.items(), whole.split(sizes, dim=1), strict=True)
            return {name: part.reshape(len(pairs), *value.shape) for (name, value), part in parts}
        strengths = {(kind, place): send(strength.to(kind), place) for kind, place in kinds}  # sent once, without waiting for a GPU
        places = {} if which is None else {place: send(which, place) for _, place in kinds}
        made = {}
        for (name, value), eta in zip(parameters.items(), noise.split(sizes, dim=1), strict=True):
            direction = (eta.to(value)[places[value.device]] if places else eta.to(value)).reshape(len(pairs), *value.shape)
            scale = strengths[value.dtype, value.device].reshape(-1, *[1] * value.ndim)
            made[name] = self.noisy(value, direction * scale if len(drawn) == 1 else direction.mul_(scale))  # one may be remembered
        return made

    @abstractmethod
    def noisy(self, value: Tensor, noise: Tensor) -> Tensor:
        """A parameter (...) with Gaussian noise (copies, ...), which may be overwritten."""


@dataclass(frozen=True, kw_only=True)
class ParameterScaling(WeightNoise):
    """Every parameter is scaled by its own random factor, theta' = theta * (1 + s eta) with eta ~ N(0, 1) (section 5.1).

    Its mean stays the same, and a parameter of zero stays zero. Steps and segments are those of WeightNoise. With one direction for all
    levels, the copies of a draw lie on a straight line, and the distortion of a linear model that is explained by its weights is
    proportional to the strength (A.1.3).

    >>> model = nn.Linear(1, 1, bias=False)
    >>> one, two = (ParameterScaling(sigma=0.2, steps=2).parameters(model, 0, level, seed=0)["weight"] for level in (0, 1))
    >>> bool(((two - model.weight) / (one - model.weight) - 2).abs() < 1e-4)
    True
    """

    name = "parameter_scaling"
    elementwise = True

    def noisy(self, value: Tensor, noise: Tensor) -> Tensor:
        """theta * (1 + noise)."""
        return noise.add_(1).mul_(value)


@dataclass(frozen=True, kw_only=True)
class FreshScaling(ParameterScaling):
    """Parameter scaling with new noise at every level, as in the public code of exact GEF.

    Step z reads the explanation at `segments` strengths, evenly spaced from `start` to sigma_z, and then the output at sigma_z. Each
    reading has its own noise. After each explanation, `repeats` more are read with the same weights, for explainers that draw random
    numbers; these are compared with the explanation that they repeat, and all other levels with the unperturbed model.

    >>> space = FreshScaling(sigma=1.0, steps=2, segments=3, first=0.5, start=0.1)
    >>> [round(space.strength(level), 2) for level in range(space.levels)], [space.answers(level) for level in range(4)]
    ([0.1, 0.3, 0.5, 0.5, 0.1, 0.55, 1.0, 1.0], [False, False, False, True])
    """

    name = "fresh_scaling"

    start: Positive = 1e-4
    repeats: Whole = 0

    @property
    def looks(self) -> int:
        """The number of levels of a step: explanations with their repeats, and one output."""
        return self.segments * (1 + self.repeats) + 1

    @property
    def levels(self) -> int:
        """Steps times looks."""
        return self.steps * self.looks

    def endpoint(self, sigma: float) -> WeightNoise | None:
        """The end of parameter scaling, which has the same strength."""
        return ParameterScaling(sigma=sigma, steps=1) if self.sigma is None else None

    def place(self, level: int) -> tuple[int, int, int]:
        """A level as step, number of the explanation (`segments` for the output), and repeat (0 for the first reading)."""
        step, look = divmod(level, self.looks)
        return step, *divmod(look, 1 + self.repeats)

    def starts(self, level: int) -> bool:
        """Whether the level is not a repeat."""
        return self.place(level)[2] == 0

    def leads(self, level: int) -> bool:
        """Whether repeats are compared with this level."""
        return self.starts(level)

    def explains(self, level: int) -> bool:
        """Whether the level is not the last of its step."""
        return not self.answers(level)

    def answers(self, level: int) -> bool:
        """Whether the level is the last of its step."""
        return level % self.looks == self.looks - 1

    def strength(self, level: int) -> float:
        """Evenly spaced from `start` to sigma_z for explanations, sigma_z for outputs."""
        step, look, _ = self.place(check_level(self, level))
        end = self.reach(step)
        return end if look >= self.segments - 1 else self.start + (end - self.start) * look / (self.segments - 1)

    def direction(self, level: int) -> int:
        """One per explanation or output; repeats share it."""
        step, look, _ = self.place(level)
        return step * (self.segments + 1) + look


@dataclass(frozen=True, kw_only=True)
class ParameterNoise(WeightNoise):
    """Every parameter gets noise in proportion to its tensor: theta' = theta + s rms(theta) eta, with the root mean square rms.

    At s = 1 the noise is as large as the tensor itself. Unlike with ParameterScaling, small weights move as much as large ones. A
    tensor of zeros stays zero.
    """

    name = "parameter_noise"

    def noisy(self, value: Tensor, noise: Tensor) -> Tensor:
        """theta + rms(theta) * noise."""
        return value + noise * value.square().mean().sqrt()


@dataclass(frozen=True, kw_only=True)
class RowWeightSpace(Space, ABC):
    """A space whose elements (N, p) are other weights for the model, one model per row.

    Unlike the copies of a WeightSpace, which all samples share, every evaluation of every sample may have its own weights, so a
    search can look for the worst.
    """

    @abstractmethod
    def of(self, model: nn.Module) -> Self:
        """The space for this model; raises if the model has nothing to change."""

    @abstractmethod
    def parameters(self, model: nn.Module, elements: Tensor) -> dict[str, Tensor]:
        """The parameters of N models by name, each (N, ...), from N elements (N, p); the model itself is never changed."""


@SPACES.add
@dataclass(frozen=True, kw_only=True)
class WeightNeighbourhood(RowWeightSpace):
    """Gaussian noise on every parameter, w' = w (1 + sigma u) with u standard normal; or w' = w + sigma u if not `relative`.

    Elements (N, p) are the noise sigma u, one number per parameter in the order of names, including biases. Buffers, such as the running
    means of a batch normalisation, stay the same. With relative noise a parameter of zero stays zero.

    >>> model = nn.Linear(2, 1, bias=False)
    >>> _ = nn.init.constant_(model.weight, 2.0)
    >>> space = WeightNeighbourhood(sigma=0.1).of(model)
    >>> elements = space.decode(torch.tensor([[1.0, -1.0], [0.0, 2.0]]))
    >>> space.parameters(model, elements)["weight"]
    tensor([[[2.2000, 1.8000]],
    <BLANKLINE>
            [[2.0000, 2.4000]]])
    """

    name = "weight_neighbourhood"
    reference = "Hedström et al., Evaluating interpretable methods via geometric alignment of functional distortions (TMLR 2025), 5.1"

    sigma: Positive = 0.1
    relative: bool = True
    size: int | None = None

    def of(self, model: nn.Module) -> Self:
        """The neighbourhood of this model."""
        found = sum(value.numel() for value in parameters_of(model).values())
        if self.size not in (None, found):
            raise InputError(
                f"This weight neighbourhood was made for a model of {self.size} parameters, but {type(model).__name__} has {found}: "
                "leave out its size."
            )
        return replace(self, size=found)

    @property
    def latents(self) -> int:
        """One per parameter of the model."""
        return check_known(self, self.size, "the model's parameters", "of(model)")

    def decode(self, latent: Tensor) -> Tensor:
        """The noise, sigma u: (N, p)."""
        return latent * self.sigma

    def parameters(self, model: nn.Module, elements: Tensor) -> dict[str, Tensor]:
        """The parameters of N models by name, each (N, ...), in their own precision and on their own device."""
        own = parameters_of(model)
        sizes = [value.numel() for value in own.values()]
        if elements.ndim != 2 or elements.shape[1] != sum(sizes):
            raise InputError(f"The elements of '{self.name}' must have the shape (N, {sum(sizes)}), not {tuple(elements.shape)}.")
        made = {}
        for (name, value), part in zip(own.items(), elements.split(sizes, dim=1), strict=True):
            noise = part.to(value).reshape(-1, *value.shape)
            made[name] = value * (1 + noise) if self.relative else value + noise
        return made
