"""What the score loses when parts of the input are removed: single numbers, numbers of other samples, windows.

All run in full batches, and a row's map never depends on its neighbours in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import SpecError
from veracity.core.explainers import BARE, Context, Cost, Explainer
from veracity.core.features import Features, group_sums
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count
from veracity.core.spaces import InputSpace
from veracity.explain.masking import (
    Baseline,
    baseline_row,
    broadcast_channels,
    check_baseline,
    check_groups,
    check_rows_of_numbers,
    group_sizes,
    over_table,
    patch_side,
    spatial_shape,
)
from veracity.explain.passes import in_batches, scores, select, value_table


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class FeatureAblation(Explainer):
    """The loss of score when one number of the input is set to the baseline: e_i(x) = f(x) - f(x with x_i = b_i).

    Equivariant for permutation representations that leave the baseline in place (Proposition D.8). A number that equals
    the baseline already needs no pass: its value is 0. With `groups` (d,), the feature of each number, the numbers of a
    feature are set together and share its loss in equal parts.
    """

    name = "feature_ablation"
    reference = "Crabbé and van der Schaar 2023, Proposition D.8"
    structured = True
    baseline: Baseline = None
    groups: Tensor | None = field(default=None, metadata={"unset": True})

    def over(self, features: Features | None) -> Self:
        return over_table(self, features)

    def cost(self, shape: Size) -> Cost:
        """An upper bound: one pass per number, or feature, of the input, and one for the input."""
        return Cost(forward=1 + (shape.numel() if self.groups is None else len(self.groups.unique())))

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        check_baseline(self.name, self.baseline, inputs.shape[1:])
        if self.groups is not None:
            check_groups(self.name, self.groups, inputs.shape[1:])
        return ()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        flat, structure = inputs.detach().flatten(1), context.structure
        baseline = baseline_row(self.baseline, inputs).flatten()
        before = in_batches(lambda x, t, s: scores(model, x, t, s), inputs.detach(), targets, context.batch, structure)
        feature = torch.arange(flat.shape[1], device=flat.device) if self.groups is None else self.groups.to(flat.device)
        losses = flat.new_zeros(len(flat), int(feature.max()) + 1)
        rows, places = group_sums((flat != baseline).to(flat), feature).nonzero(as_tuple=True)
        for row, place in zip(rows.split(context.batch), places.split(context.batch), strict=True):
            points = torch.where(feature == place.unsqueeze(1), baseline, flat[row]).reshape(-1, *inputs.shape[1:])
            losses[row, place] = (before[row] - scores(model, points, targets[row], select(structure, row))).to(losses)
        return (losses if self.groups is None else shared(losses, feature)).reshape(inputs.shape)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class FeaturePermutation(Explainer):
    """The mean loss of score when one number comes from a reference row r: e_i(x) = f(x) - E f(x with x_i = r_i).

    The rows r of `reference_set` (B, ...) are drawn anew for each number, `draws` times. A symmetry moves the reference
    rows, so Proposition D.8 does not hold and this explainer is not equivariant. With `groups` (d,), the feature of each
    number, the numbers of a feature come from the same row and share the loss in equal parts.
    """

    name = "feature_permutation"
    reference = "Fisher et al. 2019, arXiv:1801.01489"
    stochastic = True
    draws: Count = 1
    reference_set: Tensor | None = None
    groups: Tensor | None = field(default=None, metadata={"unset": True})

    def over(self, features: Features | None) -> Self:
        found = over_table(self, features)
        return found if features is None or self.reference_set is not None else replace(found, reference_set=features.background)

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=1 + self.draws * (shape.numel() if self.groups is None else len(self.groups.unique())))

    def bind(self, reference: Tensor | None = None, space: InputSpace | None = None) -> FeaturePermutation:
        return replace(self, reference_set=reference) if self.reference_set is None else self

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        self.reference_rows(inputs.shape[1:])
        if self.groups is not None:
            check_groups(self.name, self.groups, inputs.shape[1:])
        return ()

    def reference_rows(self, shape: Size) -> Tensor:
        """The reference set, flattened to (B, numbers). Raises if there is none, or if it does not fit."""
        if self.reference_set is None:
            raise SpecError("feature_permutation needs a reference set: use Audit(reference=...) or FeaturePermutation(reference_set=...).")
        if self.reference_set.shape[1:] != shape or len(self.reference_set) == 0:
            raise SpecError(
                f"The reference set of feature_permutation has shape {tuple(self.reference_set.shape)}, but must be inputs of shape "
                f"{tuple(shape)} stacked along a first axis."
            )
        return self.reference_set.detach().flatten(1)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        flat = inputs.detach().flatten(1)
        reference = self.reference_rows(inputs.shape[1:]).to(flat)
        feature = torch.arange(flat.shape[1], device=flat.device) if self.groups is None else self.groups.to(flat.device)
        numbers = int(feature.max()) + 1
        choice = context.draws.integers(len(reference), self.draws * numbers, stream="feature_permutation").to(flat.device)

        def term(row: Tensor, item: Tensor) -> Tensor:  # item 0 is the input itself
            place = torch.where(item > 0, (item - 1) % numbers, -1)
            points = torch.where(feature == place.unsqueeze(1), reference[choice[row, item - 1]], flat[row])
            return scores(model, points.reshape(-1, *inputs.shape[1:]), targets[row])

        values = value_table(term, len(flat), 1 + self.draws * numbers, context.batch, flat.device)
        losses = values[:, :1] - values[:, 1:].reshape(len(flat), self.draws, numbers).mean(1)
        return (losses if self.groups is None else shared(losses, feature)).reshape(inputs.shape)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Occlusion(Explainer):
    """The loss of score when a window is set to the baseline, averaged over the windows that contain a position.

    e_i(x) = the mean of f(x) - f(x with w at the baseline) over the windows w that contain i. Windows have `window`
    positions per side, start at every position, wrap around the edges and cover all channels, so each position lies in
    window^k of them: equivariant under cyclic shifts if the baseline is. On a vector of features, whose order means
    nothing, a window is one feature: all numbers of it with `groups` (d,), as in feature_ablation.
    """

    name = "occlusion"
    reference = "Zeiler and Fergus 2013, arXiv:1311.2901; Crabbé and van der Schaar 2023, Proposition D.8"
    structured = True
    window: Count = 5
    baseline: Baseline = None
    groups: Tensor | None = field(default=None, metadata={"unset": True})

    def over(self, features: Features | None) -> Self:
        return over_table(self, features)

    def cost(self, shape: Size) -> Cost:
        return (
            FeatureAblation(groups=self.groups).cost(shape) if self.groups is not None else Cost(forward=1 + spatial_shape(shape).numel())
        )

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        check_baseline(self.name, self.baseline, inputs.shape[1:])
        check_rows_of_numbers(self.name, model, inputs, context)
        if self.groups is not None:
            check_groups(self.name, self.groups, inputs.shape[1:])
        size = spatial_shape(inputs.shape[1:])
        if patch_side(inputs.shape[1:], self.window) > min(size):
            raise SpecError(f"window of occlusion is {self.window}, larger than the input's size {tuple(size)}: use a smaller window.")
        return ()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        if self.groups is not None:
            return FeatureAblation(baseline=self.baseline, groups=self.groups).explain(model, inputs, targets, context)
        x, shape, size = inputs.detach(), inputs.shape[1:], spatial_shape(inputs.shape[1:])
        baseline, window = baseline_row(self.baseline, x), patch_side(shape, self.window)
        axes = [circular_windows(length, window).to(x.device) for length in size]

        def window_mask(start: Tensor) -> Tensor:
            if len(size) == 1:
                return axes[0][start]
            return axes[0][start // size[1]].unsqueeze(-1) & axes[1][start % size[1]].unsqueeze(-2)

        def term(row: Tensor, item: Tensor) -> Tensor:  # item 0 is the input itself
            mask = window_mask(item - 1)
            mask[item == 0] = False
            return scores(
                model, torch.where(broadcast_channels(mask, shape), baseline, x[row]), targets[row], select(context.structure, row)
            )

        values = value_table(term, len(x), 1 + size.numel(), context.batch, x.device)
        losses = (values[:, :1] - values[:, 1:]).reshape(len(x), *size)
        return broadcast_channels(window_mean(losses, window, len(size)), shape).expand_as(x).contiguous()


def shared(values: Tensor, feature: Tensor) -> Tensor:
    """Values of features (N, features) as values of their numbers (N, d), in equal parts.

    >>> shared(torch.tensor([[1.0, 6.0]]), torch.tensor([0, 1, 1]))
    tensor([[1., 3., 3.]])
    """
    return values[:, feature] / group_sizes(feature)


def circular_windows(size: int, window: int) -> Tensor:
    """The positions on a circle that lie in the window starting at each position: (size, size).

    >>> circular_windows(4, 2).int()
    tensor([[1, 1, 0, 0],
            [0, 1, 1, 0],
            [0, 0, 1, 1],
            [1, 0, 0, 1]], dtype=torch.int32)
    """
    position = torch.arange(size)
    return (position[None, :] - position[:, None]) % size < window


def window_mean(values: Tensor, window: int, axes: int) -> Tensor:
    """The mean over the windows that contain each position, from values per window start, around the last `axes` axes.

    >>> window_mean(torch.tensor([[1.0, 0.0, 0.0, 0.0]]), window=2, axes=1)
    tensor([[0.5000, 0.5000, 0.0000, 0.0000]])
    """
    for axis in range(-axes, 0):
        values = torch.stack([values.roll(offset, axis) for offset in range(window)]).mean(0)
    return values
