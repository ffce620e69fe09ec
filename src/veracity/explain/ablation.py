"""What the score loses when parts of the input are removed: single numbers, numbers of other samples, windows.

All run in full batches, and a row's map never depends on its neighbours in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import SpecError
from veracity.core.explainers import BARE, Context, Cost, Explainer
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count
from veracity.core.spaces import InputSpace
from veracity.explain.masking import (
    Baseline,
    baseline_row,
    broadcast_channels,
    check_baseline,
    check_rows_of_numbers,
    patch_side,
    spatial_shape,
)
from veracity.explain.passes import in_batches, scores, select, value_table


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class FeatureAblation(Explainer):
    """The loss of score when one number of the input is set to the baseline: e_i(x) = f(x) - f(x with x_i = b_i).

    Equivariant for permutation representations that leave the baseline in place (Proposition D.8). A number that equals
    the baseline already needs no pass: its value is 0.
    """

    name = "feature_ablation"
    reference = "Crabbé and van der Schaar 2023, Proposition D.8"
    structured = True
    baseline: Baseline = 0.0

    def cost(self, shape: Size) -> Cost:
        """An upper bound: one pass per number of the input, and one for the input."""
        return Cost(forward=1 + shape.numel())

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        check_baseline(self.name, self.baseline, inputs.shape[1:])
        return ()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        flat, structure = inputs.detach().flatten(1), context.structure
        baseline = baseline_row(self.baseline, inputs).flatten()
        before = in_batches(lambda x, t, s: scores(model, x, t, s), inputs.detach(), targets, context.batch, structure)
        losses = torch.zeros_like(flat)
        rows, places = (flat != baseline).nonzero(as_tuple=True)
        for row, place in zip(rows.split(context.batch), places.split(context.batch), strict=True):
            points = flat[row].scatter(1, place.unsqueeze(1), baseline[place].unsqueeze(1)).reshape(-1, *inputs.shape[1:])
            losses[row, place] = (before[row] - scores(model, points, targets[row], select(structure, row))).to(losses)
        return losses.reshape(inputs.shape)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class FeaturePermutation(Explainer):
    """The mean loss of score when one number comes from a reference row r: e_i(x) = f(x) - E f(x with x_i = r_i).

    The rows r of `reference_set` (B, ...) are drawn anew for each number, `draws` times. A symmetry moves the reference
    rows, so Proposition D.8 does not hold and this explainer is not equivariant.
    """

    name = "feature_permutation"
    reference = "Fisher et al. 2019, arXiv:1801.01489"
    stochastic = True
    draws: Count = 1
    reference_set: Tensor | None = None

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=1 + self.draws * shape.numel())

    def bind(self, reference: Tensor | None = None, space: InputSpace | None = None) -> FeaturePermutation:
        return replace(self, reference_set=reference) if self.reference_set is None else self

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        self.reference_rows(inputs.shape[1:])
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
        reference, numbers = self.reference_rows(inputs.shape[1:]).to(flat), flat.shape[1]
        choice = context.draws.integers(len(reference), self.draws * numbers, stream="feature_permutation").to(flat.device)

        def term(row: Tensor, item: Tensor) -> Tensor:  # item 0 is the input itself
            place, points = (item - 1) % numbers, flat[row]
            own, other = points.gather(1, place.unsqueeze(1)).squeeze(1), reference[choice[row, item - 1], place]
            points.scatter_(1, place.unsqueeze(1), torch.where(item > 0, other, own).unsqueeze(1))
            return scores(model, points.reshape(-1, *inputs.shape[1:]), targets[row])

        values = value_table(term, len(flat), 1 + self.draws * numbers, context.batch, flat.device)
        losses = values[:, :1] - values[:, 1:].reshape(len(flat), self.draws, numbers).mean(1)
        return losses.reshape(inputs.shape)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Occlusion(Explainer):
    """The loss of score when a window is set to the baseline, averaged over the windows that contain a position.

    e_i(x) = the mean of f(x) - f(x with w at the baseline) over the windows w that contain i. Windows have `window`
    positions per side, start at every position, wrap around the edges and cover all channels, so each position lies in
    window^k of them: equivariant under cyclic shifts if the baseline is. On a vector of features, whose order means
    nothing, a window is one feature.
    """

    name = "occlusion"
    reference = "Zeiler and Fergus 2013, arXiv:1311.2901; Crabbé and van der Schaar 2023, Proposition D.8"
    structured = True
    window: Count = 5
    baseline: Baseline = 0.0

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=1 + spatial_shape(shape).numel())

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        check_baseline(self.name, self.baseline, inputs.shape[1:])
        check_rows_of_numbers(self.name, inputs, context)
        size = spatial_shape(inputs.shape[1:])
        if patch_side(inputs.shape[1:], self.window) > min(size):
            raise SpecError(f"window of occlusion is {self.window}, larger than the input's size {tuple(size)}: use a smaller window.")
        return ()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
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
