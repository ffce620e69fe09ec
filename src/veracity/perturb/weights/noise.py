"""Noise on the weights: paths of growing strength, and a neighbourhood of the model in which every row has weights of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError, SpecError
from veracity.core.registry import SPACES
from veracity.core.settings import Count, Positive, Whole
from veracity.core.spaces import Space, StrengthPath
from veracity.perturb.weights.copies import ModelCopies, Pairs, generator, parameters_of


@dataclass(frozen=True, kw_only=True)
class WeightNoise(StrengthPath, ModelCopies, ABC):
    """Gaussian noise on every parameter, in `steps` steps z of growing strength, each walked in `segments` equal segments t.

    Level z * segments + t has the strength (t + 1) / segments * sigma_z, with sigma_z = (z + 1) * sigma / steps; where
    `first` is given, sigma_z goes evenly from `first` to sigma. With several segments a level is compared with the one
    before it, and each step starts again from the unperturbed model, which makes the sum over its segments the length of
    its own path.

    One direction eta belongs to each (seed, draw) and is shared by all levels; `independent` gives each step its own. It
    is standard normal, drawn on the CPU from a generator of its own and divided among the parameters in the order of their
    names, so that any copy is made again from its numbers on any device. As long as sigma is None, the space waits for a
    calibration.
    """

    reference = "Hedström et al., Evaluating interpretable methods via geometric alignment of functional distortions, TMLR 2025"

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
        """The space itself, if its settings make sense and the model has parameters."""
        parameters_of(model)
        self.check()
        return self

    def check(self) -> None:
        """Raise on settings that make no path."""
        if self.first is not None and self.sigma is not None and self.first > self.sigma:
            raise SpecError(f"The space '{self.name}' starts at first={self.first}, which must not exceed sigma={self.sigma}.")

    def endpoint(self, sigma: float) -> WeightNoise | None:
        """The last step alone, in one segment, at this strength, as long as there is no sigma."""
        alone = replace(self, sigma=sigma, steps=1, segments=1, independent=False, first=None)
        return alone if self.sigma is None else None

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
        if self.sigma is None:
            raise SpecError(f"The space '{self.name}' has no sigma yet: give it one, such as sigma=0.5, or calibrate it first.")
        if not 0 <= level < self.levels:
            raise SpecError(f"The space '{self.name}' has levels 0 to {self.levels - 1}, not {level}.")
        step, segment = divmod(level, self.segments)
        return (segment + 1) / self.segments * self.reach(self.sigma, step)

    def reach(self, sigma: float, step: int) -> float:
        """sigma_z of a step, on the way to the strength sigma."""
        if self.first is None:
            return (step + 1) * sigma / self.steps
        return sigma - (sigma - self.first) * (self.steps - 1 - step) / max(1, self.steps - 1)

    def direction(self, level: int) -> int:
        """The number of the direction that a level follows: one for all of them, or one per step."""
        return level // self.segments if self.independent else -1

    def copies(self, model: nn.Module, pairs: Pairs, seed: int) -> dict[str, Tensor]:
        """Every parameter of every copy, (copies, ...); each direction is drawn once."""
        parameters = parameters_of(model)
        names = [(draw, self.direction(level)) for draw, level in pairs]
        once = sorted(set(names))
        sizes = [value.numel() for value in parameters.values()]
        noise = torch.stack([torch.randn(sum(sizes), generator=generator("weights", seed, *name), dtype=torch.float32) for name in once])
        noise = noise.to(next(iter(parameters.values())).device)
        which = torch.tensor([once.index(name) for name in names], dtype=torch.int64)
        strength = torch.tensor([self.strength(level) for _, level in pairs], dtype=torch.float64)
        made = {}
        for (name, value), eta in zip(parameters.items(), noise.split(sizes, dim=1), strict=True):
            shape = (-1, *[1] * value.ndim)
            direction = eta.to(value)[which.to(value.device)].reshape(len(pairs), *value.shape)
            made[name] = self.noisy(value, direction * strength.to(value).reshape(shape))
        return made

    @abstractmethod
    def noisy(self, value: Tensor, noise: Tensor) -> Tensor:
        """A parameter (...) under Gaussian noise of the wanted strength (copies, ...)."""


@dataclass(frozen=True, kw_only=True)
class ParameterScaling(WeightNoise):
    """Every parameter is scaled by its own random factor, theta' = theta * (1 + s eta) with eta ~ N(0, 1) (section 5.1).

    Its sign and size stay on average, a parameter of zero stays zero. Levels, steps and segments as in WeightNoise; with
    one direction for all levels, copies of one draw lie on a straight line, and a linear model explained by its weights is
    distorted in proportion at every level (A.1.3).

    >>> model = nn.Linear(1, 1, bias=False)
    >>> one, two = (ParameterScaling(sigma=0.2, steps=2).perturbed(model, 0, level, seed=0)["weight"] for level in (0, 1))
    >>> bool(((two - model.weight) / (one - model.weight) - 2).abs() < 1e-4)
    True
    """

    name = "parameter_scaling"

    def noisy(self, value: Tensor, noise: Tensor) -> Tensor:
        """theta * (1 + noise)."""
        return value * (1 + noise)


@dataclass(frozen=True, kw_only=True)
class FreshScaling(ParameterScaling):
    """Parameter scaling in which every look has weights of its own, as in the public code of exact GEF.

    Step z has `segments` looks at the explanation, at strengths evenly spaced from `start` to sigma_z, and then one at the
    output, at sigma_z. Each has fresh noise. `repeats` more explanations of the same weights follow every look at the
    explanation, for explainers that draw random numbers; they are compared with the look that they repeat, and everything else
    with the unperturbed model. The levels of step z are the looks with their repeats, one after the other, and the output.

    >>> space = FreshScaling(sigma=1.0, steps=2, segments=3, first=0.5, start=0.1)
    >>> [round(space.strength(level), 2) for level in range(space.levels)], [space.answers(level) for level in range(4)]
    ([0.1, 0.3, 0.5, 0.5, 0.1, 0.55, 1.0, 1.0], [False, False, False, True])
    """

    name = "fresh_scaling"

    start: Positive = 1e-4
    repeats: Whole = 0

    @property
    def looks(self) -> int:
        """Levels of a step: explanations with their repeats, and one output."""
        return self.segments * (1 + self.repeats) + 1

    @property
    def levels(self) -> int:
        """Steps times looks."""
        return self.steps * self.looks

    def endpoint(self, sigma: float) -> WeightNoise | None:
        """That of parameter scaling, whose strength it shares."""
        return ParameterScaling(sigma=sigma, steps=1) if self.sigma is None else None

    def place(self, level: int) -> tuple[int, int, int]:
        """A level's step, its look at the explanation (`segments` for the output), and its repeat, 0 for the look itself."""
        step, look = divmod(level, self.looks)
        return step, *divmod(look, 1 + self.repeats)

    def starts(self, level: int) -> bool:
        """All but repeats are compared with the unperturbed model."""
        return self.place(level)[2] == 0

    def leads(self, level: int) -> bool:
        """Repeats are compared with the look that they repeat."""
        return self.starts(level)

    def explains(self, level: int) -> bool:
        """All but the last level of a step."""
        return not self.answers(level)

    def answers(self, level: int) -> bool:
        """The last level of each step."""
        return level % self.looks == self.looks - 1

    def strength(self, level: int) -> float:
        """Evenly spaced from `start` to sigma_z, which is also the output's."""
        if self.sigma is None:
            raise SpecError(f"The space '{self.name}' has no sigma yet: give it one, such as sigma=0.5, or calibrate it first.")
        if not 0 <= level < self.levels:
            raise SpecError(f"The space '{self.name}' has levels 0 to {self.levels - 1}, not {level}.")
        step, look, _ = self.place(level)
        end = self.reach(self.sigma, step)
        return end if look >= self.segments - 1 else self.start + (end - self.start) * look / (self.segments - 1)

    def direction(self, level: int) -> int:
        """One per look; repeats share that of theirs."""
        step, look, _ = self.place(level)
        return step * (self.segments + 1) + look


@dataclass(frozen=True, kw_only=True)
class ParameterNoise(WeightNoise):
    """Every parameter gets noise in proportion to its tensor, theta' = theta + s rms(theta) eta, rms the root of the mean square.

    Relative to each tensor, since layers differ in size: s = 1 drowns each of them in noise as large as itself. Unlike under
    scaling, small weights move as much as large ones; a tensor that is zero throughout stays so.
    """

    name = "parameter_noise"

    def noisy(self, value: Tensor, noise: Tensor) -> Tensor:
        """theta + rms(theta) * noise."""
        return value + noise * value.square().mean().sqrt()


@dataclass(frozen=True, kw_only=True)
class RowWeightSpace(Space, ABC):
    """A space whose elements (N, p) are other weights for the model, one row each: N rows have N models.

    Unlike copies that are known by their numbers and shared by all samples, every evaluation of every sample is free to
    have its own, so that any search by Gaussian latents can look among them.
    """

    @abstractmethod
    def of(self, model: nn.Module) -> Self:
        """The space for this model; raises if the model has nothing to change."""

    @abstractmethod
    def parameters(self, model: nn.Module, elements: Tensor) -> dict[str, Tensor]:
        """The parameters that N elements (N, p) make of the model's, by name, each (N, ...); the model is never changed."""


@SPACES.add
@dataclass(frozen=True, kw_only=True)
class WeightNeighbourhood(RowWeightSpace):
    """Gaussian noise on every parameter, w' = w (1 + sigma u) with u standard normal; or w' = w + sigma u if not `relative`.

    Elements (N, p) are the noise sigma u itself, one number for each of the model's p parameters in the order of their
    names, biases too; buffers, such as a batch normalisation's running means, stay. Under relative noise a parameter of
    zero stays zero, as under ParameterScaling. `of(model)` counts the parameters.

    >>> import torch
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
    reference = "Hedström et al., Evaluating interpretable methods via geometric alignment of functional distortions, TMLR 2025, 5.1"

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
        """One for each parameter of the model."""
        if self.size is None:
            raise SpecError(f"The space '{self.name}' does not know the model's parameters yet: call of(model).")
        return self.size

    def decode(self, latent: Tensor) -> Tensor:
        """The noise, sigma u: (N, p)."""
        return latent * self.sigma

    def parameters(self, model: nn.Module, elements: Tensor) -> dict[str, Tensor]:
        """Every parameter under N noises (N, p), by name, each (N, ...), in its own precision and on its own device."""
        own = parameters_of(model)
        sizes = [value.numel() for value in own.values()]
        if elements.ndim != 2 or elements.shape[1] != sum(sizes):
            raise InputError(f"The elements of '{self.name}' must have the shape (N, {sum(sizes)}), not {tuple(elements.shape)}.")
        made = {}
        for (name, value), part in zip(own.items(), elements.split(sizes, dim=1), strict=True):
            noise = part.to(value).reshape(-1, *value.shape)
            made[name] = value * (1 + noise) if self.relative else value + noise
        return made
