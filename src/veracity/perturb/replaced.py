"""Masks by relevance that put something else than a baseline: random values of the data, or what the neighbours suggest.

Also masks over superpixels, whose number differs from sample to sample.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Size, Tensor
from torch.nn.functional import conv1d, pad

from veracity.core.errors import InputError, SpecError, missing_extra
from veracity.core.features import Features
from veracity.core.settings import Count, NonNegative
from veracity.core.spaces import RangedSpace
from veracity.perturb.masks import CumulativeMasks, OrderedMasks, Percentage, expand_explanation, filling, positions, ranks

UNIFORM = "uniform"
"""The baseline that is drawn at random."""


@dataclass(frozen=True, kw_only=True)
class DrawnMasks(CumulativeMasks, ABC):
    """Units get something that is drawn for each of them, in the order of their magnitude in the sample's own explanation.

    Elements are a draw per unit beside the count of their level, (N, units + 1). Those that `steer` returns are the draws over entries
    (N, d), and NaN where the sample stays. With a baseline that is not one of `own_baselines` nothing is random.
    """

    by_explanation: ClassVar[bool] = True
    does: ClassVar[str] = "replaces"
    """What the space does in the order of an explanation."""

    @property
    def random(self) -> bool:
        """Whether anything is drawn."""
        return isinstance(self.baseline, str) and self.baseline in self.own_baselines

    @property
    def latents(self) -> int:
        """One per unit."""
        return self.units

    def decode(self, latent: Tensor) -> Tensor:
        """The latents as they are, (N, units)."""
        return latent

    def at(self, elements: Tensor, level: Tensor) -> Tensor:
        """The draws with the count of their level, (N, units + 1)."""
        return torch.cat((elements, self.count(level)[:, None].to(elements)), dim=1)

    def ranked(self, maps: Tensor) -> Tensor:
        """The rank of each unit in explanations (B, ...) in the shape of the inputs, by its magnitude: (B, units)."""
        return ranks(self.unit_sums(maps).abs(), descending=True)

    def guide(self, x: Tensor, explanation: Tensor | None) -> Tensor:
        """The rank of each unit in the explanation, (B, units)."""
        if explanation is None:
            raise InputError(f"The space '{self.name}' {self.does} in the order of an explanation, and there is none: give explainers.")
        return self.ranked(expand_explanation(explanation, x))

    def steer(self, elements: Tensor, guide: Tensor) -> Tensor:
        """The draws (N, d), NaN where the sample stays."""
        elements = elements.to(guide.device)
        return self.spread(torch.where(self.masks(guide, elements[:, -1:]), elements[:, :-1], torch.nan))


@dataclass(frozen=True, kw_only=True)
class RandomValues(RangedSpace, DrawnMasks):
    """Units are replaced by random values, in the order of their magnitude in the sample's own explanation, the largest first.

    A value is uniform between the smallest and the largest value of the data. In a table it is the value of a random sample of the
    reference set, in the same column; columns of one feature are taken from one sample. A larger reference set is represented by 1,000 of
    its samples, which are chosen at random, once. All entries of a patch get the same value. With
    another `baseline` than "uniform" nothing is random. Elements (N, d) that `steer` returns are quantiles, and NaN where the sample
    stays.

    >>> values = RandomValues(features=1, alone=True, range=(10.0, 20.0)).fit(Size([2]))
    >>> guide = values.guide(torch.zeros(1, 2), torch.tensor([[0.1, -0.9]]))
    >>> drawn = values.at(values.decode(torch.zeros(1, 2)), torch.tensor([0]))
    >>> values.act(values.steer(drawn, guide), torch.tensor([[1.0, 2.0]]))
    tensor([[ 1., 15.]])
    """

    name = "random_values"
    own_baselines = (UNIFORM,)
    reference = "Nguyen and Martínez, On quantitative aspects of model interpretability (2020)"

    baseline: float | str | Tensor = UNIFORM
    range: tuple[float, float] | None = None
    background: Tensor | None = field(default=None, metadata={"unset": True})

    @property
    def needs_range(self) -> bool:
        """Whether values are drawn from a range that is not known yet."""
        return self.random and self.background is None and self.range is None

    def within(self, low: float, high: float) -> Self:
        """Values between these two."""
        return replace(self, range=(low, high)) if self.needs_range else self

    def over(self, features: Features) -> Self:
        """The values of a table's columns, of at most 1,000 samples."""
        bound = super().over(features)
        return replace(bound, background=features.drawn) if self.random and self.background is None else bound

    def decode(self, latent: Tensor) -> Tensor:
        """The quantiles of the latents, (N, units)."""
        quantile: Tensor = torch.special.ndtr(latent.double())
        return quantile

    def ranked(self, maps: Tensor) -> Tensor:
        """The rank of each unit by the sum of its magnitudes, (B, units)."""
        return ranks(self.unit_sums(maps.abs()), descending=True)

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """The inputs with other values where an element is a number."""
        drawn = elements.to(x.device)
        if self.random and self.background is not None:
            rows = (drawn.nan_to_num(0.0) * len(self.background)).long().clamp_(0, len(self.background) - 1)
            values = self.background.to(x).gather(0, rows).reshape(x.shape)
        elif self.random:
            if self.range is None:
                raise SpecError(f"The space '{self.name}' does not know the range of the data yet: call within(low, high).")
            low, high = self.range
            values = (drawn * (high - low) + low).to(x).reshape(x.shape)
            return torch.where(values.isnan(), x, values)
        else:
            values = filling(self.baseline, x)
        return torch.where(drawn.isnan().reshape(x.shape), x, values)


@dataclass(frozen=True, kw_only=True)
class LinearImputation(DrawnMasks):
    """The most relevant positions, with all their channels, are replaced by a mean of their neighbours plus a little noise.

        x_p = sum over neighbours q of w_pq x_q,   w = 1/6 beside p and 1/12 diagonally (1/2 on both sides in a series)

    for all removed positions at once: a system of linear equations, in which weights that would lie outside the image are left out and the
    others are scaled to 1. Level l removes `percentages[l]` % of the positions; `ascending` removes the least relevant ones. Gaussian noise
    with standard deviation `noise` is added to what is removed. Elements (N, d) that `steer` returns are this noise, and NaN where the
    sample stays.
    """

    name = "linear_imputation"
    does = "removes"
    reference = "Rong et al., A consistent and efficient evaluation strategy for attribution methods (ICML 2022)"

    percentages: tuple[Percentage, ...]
    noise: NonNegative = 0.01
    ascending: bool = False

    def fit(self, shape: Size) -> Self:
        """For samples of this shape; raises if their values have no neighbours."""
        if len(shape) < 2:
            raise InputError(
                f"The space '{self.name}' replaces values by a mean of their neighbours, which inputs of shape {tuple(shape)} do not have: "
                "use it for images (C, H, W) or series (C, T)."
            )
        if not self.percentages:
            raise SpecError(f"The space '{self.name}' needs at least one percentage, such as percentages=(10, 50, 90).")
        along, fitted = positions(shape).numel(), super().fit(shape)
        groups = None if along == shape.numel() else torch.arange(along).expand(shape.numel() // along, along).flatten()
        return replace(fitted, groups=groups)

    @property
    def levels(self) -> int:
        """One per percentage."""
        return len(self.percentages)

    def count(self, level: Tensor) -> Tensor:
        """The number of removed positions at each level (N,); at least one position stays."""
        share = torch.tensor(self.percentages, dtype=torch.float64, device=level.device)[level] / 100.0
        return (share * self.units + 1e-9).long().clamp(max=self.units - 1)

    @property
    def latents(self) -> int:
        """One per entry."""
        return self.known_shape.numel()

    def ranked(self, maps: Tensor) -> Tensor:
        """The rank of each position by its relevance, (B, positions)."""
        return ranks(self.unit_sums(maps), descending=not self.ascending)

    def steer(self, elements: Tensor, guide: Tensor) -> Tensor:
        """The noise (N, d), NaN where the sample stays."""
        elements = elements.to(guide.device)
        removed = self.spread(guide < elements[:, -1:].to(guide))
        return torch.where(removed, elements[:, :-1], torch.nan)

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """The inputs with imputed values where an element is a number."""
        drawn = elements.to(x).reshape(x.shape)
        removed, along = ~drawn.isnan(), positions(x.shape[1:])
        by_channel = (len(x), -1, *along)
        found = impute(x.reshape(by_channel), removed.reshape(by_channel)).reshape(x.shape)
        return torch.where(removed, found + self.noise * drawn.nan_to_num(0.0), x)


TOLERANCE, ROUNDS = 1e-6, 10_000
"""The residual of the imputation, as a share of the right-hand side; and the most rounds that it may take."""


def impute(x: Tensor, removed: Tensor) -> Tensor:
    """Images (N, C, H, W) or series (N, C, T) whose `removed` values are the weighted means of their neighbours, in one solve for all.

    Conjugate gradients on (D - W) v = W k over the removed values v, where k are the values that stay, W has the weights of neighbours, and
    D the sums of its rows; the matrix is symmetric, and positive definite as long as some value of each channel stays. Rows whose residual
    is small are left alone, so a sample does not depend on its batch, and dropped once they are half of those that are left.

    >>> impute(torch.tensor([[[1.0, 9.0, 9.0, 4.0]]]), torch.tensor([[[False, True, True, False]]]))
    tensor([[[1., 2., 3., 4.]]])
    """
    along = x.shape[2:]
    k = x.double().reshape(-1, 1, *along)
    hole = removed.reshape(k.shape)
    near = neighbour_sum(k)
    total = near(torch.ones_like(k[:1]))
    axes = tuple(range(1, k.ndim))

    def dot(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).sum(dim=axes, keepdim=True)

    def inside(values: Tensor) -> Tensor:
        return torch.where(hole, values, 0.0)

    right = inside(near(torch.where(hole, 0.0, k)))
    goal = TOLERANCE**2 * dot(right, right)
    v = inside(right / total)
    residual = right - inside(total * v - near(v))
    scaled = residual / total
    way, size = scaled, dot(residual, scaled)
    every, rows, found = hole, torch.arange(len(k), device=k.device), v.clone()
    for _ in range(ROUNDS):
        open_rows = dot(residual, residual) > goal
        left = int(open_rows.sum())
        if 2 * left <= len(rows):
            found[rows] = v
            keep = open_rows.flatten().nonzero().flatten()
            rows, hole, goal, v, residual, way, size, open_rows = (
                one[keep] for one in (rows, hole, goal, v, residual, way, size, open_rows)
            )
        if not left:
            break
        image = inside(total * way - near(way))
        bend = dot(way, image)
        step = torch.where(open_rows & (bend > 0), size / torch.where(bend > 0, bend, 1.0), 0.0)
        v, residual = v + step * way, residual - step * image
        scaled = residual / total
        new = dot(residual, scaled)
        way, size = scaled + new / torch.where(size > 0, size, 1.0) * way, new
    found[rows] = v
    return torch.where(every, found, k).reshape(x.shape).to(x)


def neighbour_sum(like: Tensor) -> Any:
    """The function that gives each position of images (N, 1, H, W) or series (N, 1, T) the weighted sum of its neighbours."""
    if like.ndim == 3:
        sides = like.new_tensor([[[0.5, 0.0, 0.5]]])
        return lambda values: conv1d(values, sides, padding=1)

    def around(values: Tensor) -> Tensor:  # (1 2 1) along both axes, without the centre: faster than a convolution in float64
        wide = pad(values, (1, 1, 1, 1))
        rows = wide[..., :-2] + wide[..., 2:] + 2.0 * wide[..., 1:-1]
        return (rows[..., :-2, :] + rows[..., 2:, :] + 2.0 * rows[..., 1:-1, :] - 4.0 * values) / 12.0

    return around


@dataclass(frozen=True, kw_only=True)
class SegmentMasks(OrderedMasks):
    """Superpixels are masked one after the other, in the order of their mean relevance, the most relevant first.

    SLIC makes about `segments` superpixels of each sample. A sample with fewer is masked as a whole from its last one on; if it has more, a
    few are masked together.
    """

    name = "segment_masks"
    reference = "Achanta et al., SLIC superpixels compared to state-of-the-art superpixel methods (TPAMI 2012)"

    segments: Count = 100

    def fit(self, shape: Size) -> Self:
        """For samples of this shape; raises if they have no superpixels."""
        if len(shape) < 2:
            raise InputError(
                f"The space '{self.name}' masks superpixels, which inputs of shape {tuple(shape)} do not have: use it for images (C, H, W) "
                "or series (C, T)."
            )
        if find_spec("skimage") is None:
            raise missing_extra("scikit-image", "superpixels")
        return super().fit(shape)

    @property
    def units(self) -> int:
        """The largest number of steps."""
        return min(self.segments, positions(self.known_shape).numel())

    def spread(self, masks: Tensor) -> Tensor:
        """Masks over entries, as they are: units differ from sample to sample."""
        return masks

    def guide(self, x: Tensor, explanation: Tensor | None) -> Tensor:
        """The step at which each entry is masked, (B, d)."""
        if explanation is None:
            raise InputError(f"The space '{self.name}' masks in the order of an explanation, and there is none: give explainers.")
        pieces = slic_segments(x, self.units).flatten(1).to(x.device)
        along = pieces.shape[1]
        relevance = expand_explanation(explanation, x).double().reshape(len(x), -1, along).sum(dim=1)
        empty = relevance.new_zeros(len(x), int(pieces.max()) + 1)
        sums, sizes = empty.scatter_add(1, pieces, relevance), empty.scatter_add(1, pieces, torch.ones_like(relevance))
        order = ranks(torch.where(sizes > 0, sums / sizes.clamp(min=1.0), -torch.inf), descending=not self.ascending)
        if self.ascending:
            order = order - (sizes == 0).sum(dim=1, keepdim=True)
        count = (sizes > 0).sum(dim=1, keepdim=True)
        step = torch.where(count > self.units, order * self.units // count, order)
        return step.gather(1, pieces)[:, None].expand(-1, x.shape[1:].numel() // along, -1).flatten(1)


def slic_segments(inputs: Tensor, count: int) -> Tensor:
    """The superpixel of each position, from 0, by scikit-image's SLIC: (N, C, H, W) -> int64 (N, H, W), on the CPU.

    Each input is scaled to [0, 1] on its own. Three channels are compared as colours in Lab space, others as they are. A series (C, T) is
    an image of height one.

    >>> half = torch.tensor([0.0, 1.0]).repeat_interleave(4).expand(1, 1, 8, 8)
    >>> slic_segments(half, 4)[0, 5]
    tensor([2, 2, 2, 2, 3, 3, 3, 3])
    """
    from skimage.segmentation import slic

    along = positions(inputs.shape[1:])
    x = inputs.detach().double().cpu().reshape(len(inputs), -1, *[1] * (2 - len(along)), *along)
    low, high = x.amin((1, 2, 3), keepdim=True), x.amax((1, 2, 3), keepdim=True)
    images: Any = ((x - low) / torch.where(high > low, high - low, 1.0)).movedim(1, -1).numpy()
    colour = x.shape[1] == 3
    settings: dict[str, Any] = {"convert2lab": colour, "compactness": 10.0 if colour else 0.1, "start_label": 0, "channel_axis": -1}
    found = [np.unique(slic(image, n_segments=count, **settings), return_inverse=True)[1].reshape(image.shape[:2]) for image in images]
    return torch.from_numpy(np.stack(found)).long().reshape(len(inputs), *along)
