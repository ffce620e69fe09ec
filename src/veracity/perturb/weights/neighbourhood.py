"""All models near a model: weight noise that a search may steer, each row of an evaluation with weights of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

from torch import Tensor, nn

from veracity.core.errors import InputError, SpecError
from veracity.core.registry import SPACES
from veracity.core.settings import Positive
from veracity.core.spaces import Space
from veracity.perturb.weights.copies import parameters_of


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
