"""Masks: some entries of a sample are replaced by a baseline.

Units are masked as a whole: single entries, square patches with all their channels, or the features of a table. They are chosen at
random, all at once, or step by step in the order of an explanation or in random order.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Self

import torch
from torch import Size, Tensor
from torch.nn.functional import pad

from veracity.core.errors import InputError, SpecError, unknown
from veracity.core.features import CENTRES, Features, group_sums
from veracity.core.randomness import Draws
from veracity.core.settings import Count, Fraction, Within, short_repr
from veracity.core.spaces import FeatureSpace, FiniteSpace, GuidedSpace, Representation, check_known

BASELINES: dict[str, Callable[..., Tensor]] = {
    "black": torch.amin,
    "mean": torch.mean,
    "median": lambda x, dim: x.median(dim=dim).values,
    "white": torch.amax,
}


@dataclass(frozen=True, kw_only=True)
class Masks(FeatureSpace, GuidedSpace, ABC):
    """Some entries of a sample are replaced by the `baseline`: x'_i = m_i b(x) + (1 - m_i) x_i.

    The baseline is "black" (the sample's own smallest value), "white" (its largest), "mean" or "median" (its own), a number, or a
    tensor of one sample's shape. In a table "reference" and "mean" are the column's mean and "median" is its median, over the
    reference set; a category becomes its most frequent level. `steer` turns elements into masks (N, d) over a sample's d entries, True
    where the baseline is put; `act` takes masks over units (N, units) too.
    """

    moves_frame = False
    representation = Representation.APPROXIMATE

    own_baselines: ClassVar[tuple[str, ...]] = ()
    """Names of further baselines that a subclass knows."""
    baseline: float | str | Tensor = "black"
    shape: tuple[int, ...] | None = None

    def over(self, features: Features) -> Self:
        """The masks of a table, whose baseline is a value of each column if it is named after one."""
        named = isinstance(self.baseline, str) and self.baseline in CENTRES
        return replace(self, baseline=features.centre(str(self.baseline)).reshape(self.known_shape)) if named else self

    def fit(self, shape: Size) -> Self:
        """The masks of samples of this shape."""
        known = (*BASELINES, *CENTRES, *self.own_baselines)
        if isinstance(self.baseline, str) and self.baseline not in known:
            raise unknown(f"baseline of the space '{self.name}'", self.baseline, known)
        if isinstance(self.baseline, Tensor) and self.baseline.ndim > 0 and self.baseline.shape != shape:
            raise InputError(
                f"The baseline of the space '{self.name}' has shape {tuple(self.baseline.shape)}, but one sample has shape "
                f"{tuple(shape)}: give a number, or a value for each entry."
            )
        if self.shape not in (None, tuple(shape)):
            raise InputError(f"These {self.name} were made for samples of shape {self.shape}, but one sample has shape {tuple(shape)}.")
        return replace(self, shape=tuple(shape))

    @property
    def known_shape(self) -> Size:
        """The shape of one sample; raises before `fit`."""
        return Size(check_known(self, self.shape, "the inputs' shape"))

    @property
    @abstractmethod
    def units(self) -> int:
        """The number of units that can be masked."""

    @abstractmethod
    def spread(self, masks: Tensor) -> Tensor:
        """Masks over units (N, units) as masks over entries (N, d)."""

    def guide(self, x: Tensor, explanation: Tensor | None) -> Tensor:
        """An empty guide (B, 1); `steer` is needed all the same."""
        return x.new_zeros(len(x), 1)

    def steer(self, elements: Tensor, guide: Tensor) -> Tensor:
        """Masks over entries (N, d)."""
        return self.spread(elements)

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """The inputs with the baseline where the mask is True."""
        if elements.dtype != torch.bool:
            raise InputError(
                f"The space '{self.name}' acts by masks of True and False, not by {elements.dtype}: use at(...) and steer(...)."
            )
        masks = self.spread(elements) if elements.shape[1:] == (self.units,) else elements
        needed = (len(x), math.prod(x.shape[1:]))
        if masks.shape != needed:
            raise InputError(
                f"Inputs of shape {tuple(x.shape)} need masks of shape {needed}, but the space '{self.name}' got {tuple(masks.shape)}."
            )
        return torch.where(masks.to(x.device).reshape(x.shape), filling(self.baseline, x), x)


@dataclass(frozen=True, kw_only=True)
class PatchMasks(Masks, ABC):
    """Masks over single entries, over square patches with sides of `patch` positions and all their channels, or over features.

    `groups` (d,) is the feature of each entry, numbered from 0: the entries of a feature are masked together.
    """

    patch: Count = 1
    groups: Tensor | None = field(default=None, metadata={"unset": True})

    def over(self, features: Features) -> Self:
        """The masks of a table, in which columns of one feature are masked together."""
        bound = super().over(features)
        if not features.grouped or self.groups is not None:
            return bound
        return replace(bound, groups=features.groups).fit(self.known_shape)

    def fit(self, shape: Size) -> Self:
        """The masks of samples of this shape."""
        if self.patch > max(positions(shape), default=1):
            raise SpecError(
                f"The patch of the space '{self.name}' is {self.patch}, larger than the sample's positions {tuple(positions(shape))}: "
                "use a smaller one."
            )
        return super().fit(shape)

    @property
    def units(self) -> int:
        """The number of entries, of patches, or of features."""
        return unit_count(self.known_shape, self.patch) if self.groups is None else int(self.groups.max()) + 1

    def unit_sums(self, values: Tensor) -> Tensor:
        """The sums of the values (N, ...) over the entries of each unit, (N, units)."""
        return unit_sums(values, self.patch) if self.groups is None else group_sums(values.flatten(1).double(), self.groups)

    def spread(self, masks: Tensor) -> Tensor:
        """Every entry has the value of its unit."""
        if self.groups is not None:
            return masks[:, self.groups.to(masks.device)]
        return masks if self.patch == 1 else masks[:, unit_numbers(self.known_shape, self.patch).to(masks.device)]


def filling(baseline: float | str | Tensor, x: Tensor) -> Tensor:
    """The baseline value of each sample, or of each entry, in a shape that broadcasts against x (N, ...).

    >>> filling("black", torch.tensor([[1.0, 2.0], [3.0, 5.0]])).flatten()
    tensor([1., 3.])
    """
    if not isinstance(baseline, str):
        return torch.as_tensor(baseline, dtype=x.dtype, device=x.device)
    if baseline not in BASELINES:
        raise SpecError(f"The baseline '{baseline}' is known for tables only: give a number, or one of {', '.join(BASELINES)}.")
    return BASELINES[baseline](x.flatten(1), dim=1).reshape(-1, *[1] * (x.ndim - 1))


def positions(shape: Size) -> Size:
    """The axes that patches cover: the last two of (C, H, W), the last one of (C, T) or (features,).

    >>> positions(Size((3, 8, 9))), positions(Size((2, 7)))
    (torch.Size([8, 9]), torch.Size([7]))
    """
    return shape[-2:] if len(shape) > 2 else shape[-1:]


def unit_count(shape: Size, patch: int) -> int:
    """The number of units of a sample; with a patch of 1, every entry of every channel is a unit.

    >>> unit_count(Size((3, 8, 9)), 1), unit_count(Size((3, 8, 9)), 4)
    (216, 6)
    """
    return shape.numel() if patch == 1 else Size(-(-length // patch) for length in positions(shape)).numel()


def unit_numbers(shape: Size, patch: int) -> Tensor:
    """The unit of each entry of a flattened sample, (d,); patches at the far edge may be smaller.

    >>> unit_numbers(Size((2, 3)), 2)
    tensor([0, 0, 1, 0, 0, 1])
    """
    if patch == 1:
        return torch.arange(shape.numel())
    number = torch.zeros((), dtype=torch.int64)
    for length in positions(shape):
        number = number.unsqueeze(-1) * (-(-length // patch)) + torch.arange(length) // patch
    return number.expand(shape).flatten()


def unit_sums(values: Tensor, patch: int) -> Tensor:
    """The sums of the values (N, ...) over the entries of each unit, (N, units); patches are summed in float64.

    >>> unit_sums(torch.tensor([[1.0, 2.0, 4.0]]), 2)
    tensor([[3., 4.]], dtype=torch.float64)
    """
    if patch == 1:
        return values.flatten(1)
    shape = values.shape[1:]
    space = positions(shape)
    sums = values.double().reshape(len(values), shape.numel() // space.numel(), *space).sum(dim=1)
    sums = pad(sums, [side for length in reversed(space) for side in (0, -length % patch)])
    for axis in range(sums.ndim - 1, 0, -1):
        sums = sums.unflatten(axis, (-1, patch)).sum(dim=axis + 1)
    return sums.flatten(1)


@dataclass(frozen=True, kw_only=True)
class RandomMasks(PatchMasks):
    """A random subset S of a sample's units; all subsets of its size are equally likely (eq. 24).

    `size` is the number of units of a subset, such as 224, or their share, such as 0.2. Elements (N, units) are True inside the
    subset.

    >>> masks = RandomMasks(size=2).fit(Size([4]))
    >>> masks.decode(torch.tensor([[0.3, -1.0, 2.0, 0.1]]))
    tensor([[False,  True, False,  True]])
    """

    name = "random_masks"
    reference = "Bhatt et al., Evaluating and aggregating feature-based model explanations, IJCAI 2020"

    size: int | float

    def fit(self, shape: Size) -> Self:
        """The subsets for samples of this shape; raises if they have too few units."""
        size, fitted = self.size, super().fit(shape)
        if not 0 < size < 1 and not (isinstance(size, int) and size >= 1):
            raise SpecError(
                f"The size of random masks must be a whole number, such as 224, or a share, such as 0.2, not {short_repr(size)}."
            )
        if size > fitted.units:
            raise InputError(
                f"Random masks of {size} units do not fit a sample of {fitted.units}: use a smaller size, or a share such as 0.2."
            )
        return fitted

    @property
    def count(self) -> int:
        """The number of units of a subset, at least 1."""
        return self.size if isinstance(self.size, int) else max(1, round(self.size * self.units))

    @property
    def latents(self) -> int:
        """One per unit."""
        return self.units

    def sample(self, draws: Draws) -> Tensor:
        """Random subsets, drawn place by place, since most of the latents of a small subset would not be used."""
        return draws.subsets(self.units, self.count, stream="walk")

    def decode(self, latent: Tensor) -> Tensor:
        """The units with the smallest latents (N, units)."""
        chosen = latent.topk(self.count, dim=1, largest=False, sorted=False).indices
        return torch.zeros_like(latent, dtype=torch.bool).scatter_(1, chosen, True)


@dataclass(frozen=True, kw_only=True)
class FullMask(Masks, FiniteSpace):
    """The whole sample is replaced by the baseline. There is only this one element, (N, 1).

    >>> FullMask(baseline="white").fit(Size([3])).act(torch.tensor([[True]]), torch.tensor([[1.0, 2.0, 5.0]]))
    tensor([[5., 5., 5.]])
    """

    name = "full_mask"
    order = 1
    units = 1

    def unrank(self, index: Tensor) -> Tensor:
        """Always True."""
        return torch.ones(len(index), 1, dtype=torch.bool, device=index.device)

    def spread(self, masks: Tensor) -> Tensor:
        """Every entry has the value of the only unit."""
        return masks.expand(-1, self.known_shape.numel())


@dataclass(frozen=True, kw_only=True)
class CumulativeMasks(PatchMasks, ABC):
    """Units are masked in some order, more at each level, until all are masked.

    Each step masks `features` units, by default one; the last step may mask fewer. `steps` alone divides all units into this many
    equal steps; both together stop after `steps` steps. With `insertion` all units are masked at first and each step restores some.
    `origin` adds a level before the first step. With `alone` each step masks its own units only; it needs `features`.
    """

    features: Count | None = None
    steps: Count | None = None
    insertion: bool = False
    origin: bool = False
    alone: bool | None = field(default=None, metadata={"unset": True})

    def fit(self, shape: Size) -> Self:
        """The masks of samples of this shape."""
        if self.alone and (self.features is None or self.origin):
            raise SpecError(f"The space '{self.name}' with alone=True needs features=..., the units of one step, and has no origin.")
        return super().fit(shape)

    @property
    def levels(self) -> int:
        """One per step, and one for the origin."""
        whole = -(-self.units // (self.features or 1))
        return min(whole, self.steps or whole) + self.origin

    def count(self, level: Tensor) -> Tensor:
        """The number of units that are masked, or restored, at each level (N,)."""
        step = level + (not self.origin)
        if self.features is None and self.steps is not None:
            return step * self.units // min(self.steps, self.units)
        return (step * (self.features or 1)).clamp(max=self.units)

    def masks(self, ranks: Tensor, count: Tensor) -> Tensor:
        """Masks (N, units) from the ranks of the units (N, units) and the counts (N, 1)."""
        count = count.to(ranks)
        chosen = ranks < count
        if self.alone:
            chosen &= ranks >= (count - 1) // (self.features or 1) * (self.features or 1)
        return ~chosen if self.insertion else chosen


@dataclass(frozen=True, kw_only=True)
class OrderedMasks(CumulativeMasks, FiniteSpace):
    """Units are masked in the order of the sample's own explanation, the most relevant first (section A.4.5, eq. 25, 26).

    The relevance of a unit is the sum of the explanation over its entries; equal units keep their order in the sample. With
    `ascending` the least relevant units come first. Nothing is random: the only element (N, 1) holds the count of its level, and
    `steer` makes it a mask.

    >>> masks = OrderedMasks(features=2).fit(torch.Size([3]))
    >>> x = torch.zeros(1, 3)
    >>> order = masks.guide(x, torch.tensor([[0.1, 0.9, 0.5]]))
    >>> first = masks.at(masks.enumerate(), torch.tensor([0]))
    >>> masks.levels, masks.steer(first, order)
    (2, tensor([[False,  True,  True]]))
    """

    name = "ordered_masks"
    by_explanation: ClassVar[bool] = True
    reference = "Bach et al., On pixel-wise explanations for non-linear classifier decisions, PLoS ONE 2015"
    order = 1

    ascending: bool = False

    def unrank(self, index: Tensor) -> Tensor:
        """Counts of zero, (N, 1)."""
        return torch.zeros(len(index), 1, dtype=torch.int64, device=index.device)

    def at(self, elements: Tensor, level: Tensor) -> Tensor:
        """The count of each level, (N, 1)."""
        return self.count(level)[:, None]

    def guide(self, x: Tensor, explanation: Tensor | None) -> Tensor:
        """The rank of each unit in the explanation, (B, units)."""
        if explanation is None:
            raise InputError(f"The space '{self.name}' masks in the order of an explanation, and there is none: give explainers.")
        return ranks(self.unit_sums(expand_explanation(explanation, x)), descending=not self.ascending)

    def steer(self, elements: Tensor, guide: Tensor) -> Tensor:
        """Masks over entries (N, d)."""
        return self.spread(self.masks(guide, elements.to(guide.device)))


Percentage = Annotated[float, Within(least=0, below=100)]


@dataclass(frozen=True, kw_only=True)
class ShareMasks(OrderedMasks):
    """The most relevant units are masked, `percentages[l]` % of them at level l, rounded up; with `insertion` all others are masked.

    >>> masks = ShareMasks(percentages=(1, 50)).fit(Size([5]))
    >>> masks.count(torch.arange(masks.levels)).tolist()
    [1, 3]
    """

    name = "share_masks"
    reference = "DeYoung et al., ERASER: a benchmark to evaluate rationalized NLP models (ACL 2020)"

    percentages: tuple[Percentage, ...]

    def fit(self, shape: Size) -> Self:
        """The masks of samples of this shape; raises without a percentage."""
        if not self.percentages:
            raise SpecError(f"The space '{self.name}' needs at least one percentage, such as percentages=(10, 50).")
        return super().fit(shape)

    @property
    def levels(self) -> int:
        """One per percentage."""
        return len(self.percentages)

    def count(self, level: Tensor) -> Tensor:
        """The number of units at each level (N,)."""
        share = torch.tensor(self.percentages, dtype=torch.float64, device=level.device)[level] / 100.0
        return (share * self.units - 1e-9).ceil().long()


@dataclass(frozen=True, kw_only=True)
class RandomOrderMasks(CumulativeMasks):
    """Units are masked in random order. All levels of a draw share the order, so a draw is one path (Assumption 3).

    Elements (N, units) are the ranks of the units; `at` makes them masks.

    >>> masks = RandomOrderMasks(features=1).fit(torch.Size([3]))
    >>> order = masks.decode(torch.tensor([[0.3, -1.0, 2.0]]))
    >>> masks.at(order, torch.tensor([1]))
    tensor([[ True,  True, False]])
    """

    name = "random_order_masks"
    reference = "Hedström et al., Evaluating interpretable methods via geometric alignment of functional distortions (TMLR 2025)"

    @property
    def latents(self) -> int:
        """One per unit."""
        return self.units

    def decode(self, latent: Tensor) -> Tensor:
        """The ranks of the latents (N, units)."""
        return ranks(latent, descending=False)

    def at(self, elements: Tensor, level: Tensor) -> Tensor:
        """Masks over units (N, units)."""
        return self.masks(elements, self.count(level)[:, None])


@dataclass(frozen=True, kw_only=True)
class RandomSubsets(RandomOrderMasks):
    """Random subsets of several sizes: units are masked in random order, up to a share `most` of them, and never all.

    Sizes are whole numbers in `steps` steps, as equal as they can be, or multiples of `features`. They follow from the number of units,
    so a table's sizes count its features and a text's its own words. A sample with too few units has no level.

    >>> subsets = RandomSubsets(most=0.8, steps=10).fit(Size([784]))
    >>> subsets.count(torch.arange(subsets.levels)).tolist()
    [62, 125, 188, 250, 313, 376, 438, 501, 564, 627]
    """

    name = "random_subsets"
    reference = "Ancona et al., Towards better understanding of gradient-based attribution methods for deep neural networks (ICLR 2018)"

    most: Fraction
    steps: Count = 10

    def over(self, features: Features) -> Self:
        """The subsets of a table's features; raises if it has too few."""
        return super().over(features).checked()

    def checked(self) -> Self:
        """These subsets; raises if samples have too few units for the smallest one."""
        if self.levels == 0:
            raise InputError(
                f"Subsets of {self.features or 1} features are too large for samples of {self.units} features and a share of at most "
                f"{self.most:g} of them: use smaller steps, or leave features_in_step out."
            )
        return self

    @property
    def largest(self) -> int:
        """The largest size that is allowed."""
        return min(int(self.most * self.units + 1e-9), self.units - 1)

    @property
    def levels(self) -> int:
        """One per size."""
        return min(self.steps, self.largest) if self.features is None else self.largest // self.features

    def count(self, level: Tensor) -> Tensor:
        """The size at each level (N,)."""
        step = level + 1
        return step * self.features if self.features is not None else step * self.largest // max(self.levels, 1)


def ranks(values: Tensor, *, descending: bool) -> Tensor:
    """The rank of each entry in its row, from 0, int32 (N, n); equal entries keep their order.

    >>> ranks(torch.tensor([[5.0, 7.0, 5.0]]), descending=True)
    tensor([[1, 0, 2]], dtype=torch.int32)
    """
    order = values.argsort(dim=1, descending=descending, stable=True)
    number = torch.arange(values.shape[1], dtype=torch.int32, device=values.device)
    return torch.empty_like(order, dtype=torch.int32).scatter_(1, order, number.expand_as(order))


def expand_explanation(explanation: Tensor, x: Tensor) -> Tensor:
    """The explanation in the shape of the inputs; one map for all channels is repeated."""
    fits = explanation.ndim == x.ndim and all(own in (1, other) for own, other in zip(explanation.shape[1:], x.shape[1:], strict=True))
    if not fits or len(explanation) != len(x):
        raise InputError(
            f"An explanation of shape {tuple(explanation.shape)} gives no order to inputs of shape {tuple(x.shape)}: masking by relevance "
            "needs explanations in the input's frame."
        )
    return explanation.expand_as(x)
