"""Noise on the most relevant features, or on all others: amounts move, categories change their level."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from veracity.core.features import Features
from veracity.core.settings import Count, Portion, Positive
from veracity.perturb.masks import filling
from veracity.perturb.replaced import DrawnMasks

NOISE = "noise"
"""The baseline that is the sample itself plus noise."""


@dataclass(frozen=True, kw_only=True)
class NoisyFeatures(DrawnMasks):
    """Gaussian noise on the k features of largest magnitude in the sample's own explanation; with `insertion` on all others.

    k goes up to `most`, a number of features or their share rounded up, in at most `steps` equal steps. An amount x becomes
    x + sigma z, and in a table with names x + sigma s z with the column's standard deviation s. A category takes, with probability
    sqrt(2 / pi) sigma, another of its levels, each as likely. All levels of k share their noise. With another `baseline` than "noise"
    nothing is random. Elements (N, d) that `steer` returns are z, and NaN where the sample stays.

    >>> noise = NoisyFeatures(most=1, sigma=0.5).fit(torch.Size([2]))
    >>> x = torch.tensor([[1.0, 2.0]])
    >>> drawn = noise.at(noise.decode(torch.tensor([[4.0, 8.0]])), torch.tensor([0]))
    >>> noise.act(noise.steer(drawn, noise.guide(x, torch.tensor([[0.1, -0.9]]))), x)
    tensor([[1., 6.]])
    """

    name = "noisy_features"
    does = "perturbs"
    own_baselines = (NOISE,)
    reference = "Agarwal et al., OpenXAI: towards a transparent evaluation of model explanations (NeurIPS 2022)"

    baseline: float | str | Tensor = NOISE
    most: Portion
    sigma: Positive = 0.1
    steps: Count = 20
    scales: Tensor | None = field(default=None, metadata={"unset": True})
    categorical: Tensor | None = field(default=None, metadata={"unset": True})
    background: Tensor | None = field(default=None, metadata={"unset": True})

    def over(self, features: Features) -> Self:
        """The noise of a table's columns, in their units, with the levels of its categories."""
        bound = super().over(features)
        if not self.random or self.scales is not None:
            return bound
        some = bool(features.categorical.any())
        kinds, rows = (features.categorical, features.drawn) if some else (None, None)
        return replace(bound, scales=features.unit, categorical=kinds, background=rows)

    @property
    def largest(self) -> int:
        """The largest k."""
        given = self.most if isinstance(self.most, int) else math.ceil(self.most * self.units - 1e-9)
        return min(max(given, 1), self.units)

    @property
    def stride(self) -> int:
        """The difference of two k in a row: the smallest one that needs no more than `steps` of them."""
        return -(-self.largest // self.steps)

    @property
    def levels(self) -> int:
        """One per step."""
        return -(-self.largest // self.stride)

    def count(self, level: Tensor) -> Tensor:
        """k at each level (N,), the largest one at the last.

        >>> noise = NoisyFeatures(most=25, steps=10).fit(torch.Size([40]))
        >>> noise.count(torch.arange(noise.levels)).tolist()
        [1, 4, 7, 10, 13, 16, 19, 22, 25]
        """
        return self.largest - (self.levels - 1 - level) * self.stride

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """The inputs with noise where an element is a number."""
        drawn = elements.to(x.device)
        stays = drawn.isnan().reshape(x.shape)
        if not self.random:
            return torch.where(stays, x, filling(self.baseline, x))
        z = drawn.nan_to_num(0.0).to(x)
        unit = 1.0 if self.scales is None else self.scales.to(x)
        values = x + (self.sigma * unit * z).reshape(x.shape)
        if self.categorical is not None:
            values = self.with_other_levels(values, x, z)
        return torch.where(stays, x, values)

    def with_other_levels(self, values: Tensor, x: Tensor, z: Tensor) -> Tensor:
        """Values (N, d) in which categories change their level with the probability of the noise."""
        if self.categorical is None or self.background is None:
            return values
        numbers = torch.arange(len(self.categorical)) if self.groups is None else self.groups
        values, change = values.clone(), min(1.0, math.sqrt(2.0 / math.pi) * self.sigma)
        for feature in numbers[self.categorical].unique().tolist():
            columns = ((numbers == feature) & self.categorical).nonzero().flatten().to(x.device)
            levels = self.background.to(x)[:, columns].unique(dim=0)
            if len(levels) < 2:
                continue
            share = torch.special.ndtr(z[:, columns[0]].double()) / change  # below 1 if the level changes, and then uniform
            values[:, columns] = torch.where((share < 1.0)[:, None], other_level(levels, x[:, columns], share), x[:, columns])
        return values


def other_level(levels: Tensor, own: Tensor, share: Tensor) -> Tensor:
    """One of the levels (L, c) that differs from each row (N, c), chosen by shares (N,) from 0 to 1; any if the row's is not among them.

    >>> other_level(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[2.0], [2.0], [9.0]]), torch.tensor([0.1, 0.9, 0.9]))
    tensor([[1.],
            [3.],
            [3.]])
    """
    same = (levels[None] == own[:, None]).all(dim=2)
    others = len(levels) - same.any(dim=1).long()
    place = torch.minimum((share * others).long(), others - 1)
    return levels[place + (same.any(dim=1) & (place >= same.long().argmax(dim=1))).long()]
