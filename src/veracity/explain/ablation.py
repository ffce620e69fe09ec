"""The input that stands for "nothing there": one number, or one input.

Ablation of single numbers, in full batches and only where it changes anything.

Captum builds its ablated inputs one feature at a time, which costs many times the model passes of a small network, and
ablates numbers that are at the baseline already.

Feature permutation against an explicit reference set, so that a row does not depend on its neighbours in the batch.

Occlusion by a window that wraps around, so that no position is special.
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
from veracity.explain.passes import Structure, at, by_rows, scores, table_of
from veracity.explain.patches import over_channels, side_on, space_of

Baseline = float | Tensor


def as_row(baseline: Baseline, inputs: Tensor) -> Tensor:
    """The baseline as one input of the right type and place, (1, ...).

    >>> as_row(0.5, torch.zeros(3, 1, 2))
    tensor([[[0.5000, 0.5000]]])
    """
    value = torch.as_tensor(baseline, dtype=inputs.dtype, device=inputs.device)
    return value.expand(inputs.shape[1:]).unsqueeze(0)


def check_baseline(name: str, baseline: Baseline, shape: Size) -> None:
    """Raise unless the baseline is a number or broadcasts to one input of this shape."""
    if not isinstance(baseline, Tensor):
        return
    try:
        baseline.expand(shape)
    except RuntimeError:
        raise SpecError(
            f"The baseline of {name} has shape {tuple(baseline.shape)}, but one input has shape {tuple(shape)}: "
            "give a number or a tensor of one input's shape."
        ) from None


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class FeatureAblation(Explainer):
    """What the score loses when one number of the input is set to the baseline: e_i(x) = f(x) - f(r_i(x)).

    Equivariant for permutation representations that leave the baseline in place (Proposition D.8). Where a number is at
    the baseline already, its ablation changes nothing and is 0 without a pass.
    """

    name = "feature_ablation"
    reference = "Crabbé and van der Schaar 2023, Proposition D.8"
    structured = True
    baseline: Baseline = 0.0

    def cost(self, shape: Size) -> Cost:
        """At most one forward pass for each number of the input, and one for the input."""
        return Cost(forward=1 + shape.numel())

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise if the baseline does not fit."""
        check_baseline(self.name, self.baseline, inputs.shape[1:])
        return ()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Attributions of the inputs' shape."""
        flat, structure = inputs.detach().flatten(1), context.structure
        baseline = as_row(self.baseline, inputs).flatten()

        def whole(x: Tensor, t: Tensor, s: Structure) -> Tensor:
            return scores(model, x, t, s)

        before = by_rows(whole, inputs.detach(), targets, context.batch, structure)
        losses = torch.zeros_like(flat)
        row, place = (flat != baseline).nonzero(as_tuple=True)
        for part in torch.arange(len(row), device=row.device).split(context.batch):
            here, there = row[part], place[part]
            points = flat[here].scatter(1, there.unsqueeze(1), baseline[there].unsqueeze(1)).reshape(-1, *inputs.shape[1:])
            losses[here, there] = (before[here] - scores(model, points, targets[here], at(structure, here))).to(losses)
        return losses.reshape(inputs.shape)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class FeaturePermutation(Explainer):
    """What the score loses when one number of the input comes from a reference row: e_i(x) = f(x) - E f(x with x_i of r).

    The rows r of `reference_set` (B, ...) are drawn anew for each number, `draws` times. Reference rows are not
    invariant under a symmetry, so Proposition D.8 does not hold and this is not equivariant.
    """

    name = "feature_permutation"
    reference = "Fisher et al. 2019, arXiv:1801.01489"
    stochastic = True
    draws: Count = 1
    reference_set: Tensor | None = None

    def cost(self, shape: Size) -> Cost:
        """One forward pass for each number of the input and each draw, and one for the input."""
        return Cost(forward=1 + self.draws * shape.numel())

    def bind(self, reference: Tensor | None = None, space: InputSpace | None = None) -> FeaturePermutation:
        """With the audit's reference set, unless it has its own."""
        return replace(self, reference_set=reference) if self.reference_set is None else self

    def rows(self, shape: Size) -> Tensor:
        """The reference set, flattened to (B, numbers); raises if there is none or it does not fit."""
        if self.reference_set is None:
            raise SpecError(
                "feature_permutation needs a reference set: pass Audit(reference=...) or FeaturePermutation(reference_set=...)."
            )
        if self.reference_set.shape[1:] != shape or len(self.reference_set) == 0:
            raise SpecError(
                f"The reference set of feature_permutation has shape {tuple(self.reference_set.shape)}, but must be inputs of shape "
                f"{tuple(shape)} stacked along a first axis."
            )
        return self.reference_set.detach().flatten(1)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise without a reference set that fits."""
        self.rows(inputs.shape[1:])
        return ()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Attributions of the inputs' shape."""
        flat = inputs.detach().flatten(1)
        others, numbers = self.rows(inputs.shape[1:]).to(flat), flat.shape[1]
        chosen = context.draws.integers(len(others), self.draws * numbers, stream="feature_permutation").to(flat.device)

        def term(row: Tensor, item: Tensor) -> Tensor:
            place = (item - 1) % numbers
            points = flat[row]
            own, other = points.gather(1, place.unsqueeze(1)).squeeze(1), others[chosen[row, item - 1], place]
            points.scatter_(1, place.unsqueeze(1), torch.where(item > 0, other, own).unsqueeze(1))
            return scores(model, points.reshape(-1, *inputs.shape[1:]), targets[row])

        values = table_of(term, len(flat), 1 + self.draws * numbers, context.batch, flat.device)
        losses = values[:, :1] - values[:, 1:].reshape(len(flat), self.draws, numbers).mean(1)
        return losses.reshape(inputs.shape)


def windows(size: int, window: int) -> Tensor:
    """Which positions of a circle lie in the window that starts at each: (size, size).

    >>> windows(4, 2).int()
    tensor([[1, 1, 0, 0],
            [0, 1, 1, 0],
            [0, 0, 1, 1],
            [1, 0, 0, 1]], dtype=torch.int32)
    """
    position = torch.arange(size)
    return (position[None, :] - position[:, None]) % size < window


def box_mean(values: Tensor, window: int, axes: int) -> Tensor:
    """The mean over the windows that contain each position, from values by window start, around the last `axes` axes.

    >>> box_mean(torch.tensor([[1.0, 0.0, 0.0, 0.0]]), window=2, axes=1)
    tensor([[0.5000, 0.5000, 0.0000, 0.0000]])
    """
    for axis in range(-axes, 0):
        values = torch.stack([values.roll(offset, axis) for offset in range(window)]).mean(0)
    return values


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Occlusion(Explainer):
    """What the score loses when a window of the input is set to the baseline, averaged over the windows at a position.

    Windows have `window` positions a side, start at every position, wrap around the edges and cover all channels; each
    position lies in exactly window^k of them. e_i(x) = the mean of f(x) - f(x occluded by w) over the windows w that
    contain i: equivariant under cyclic shifts if the baseline is. On a vector of features, whose order means nothing, a
    window is one feature.
    """

    name = "occlusion"
    reference = "Zeiler and Fergus 2013, arXiv:1311.2901; Crabbé and van der Schaar 2023, Proposition D.8"
    window: Count = 5
    baseline: Baseline = 0.0

    def cost(self, shape: Size) -> Cost:
        """One forward pass for each position, and one for the input."""
        return Cost(forward=1 + space_of(shape).numel())

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise on settings that do not fit."""
        check_baseline(self.name, self.baseline, inputs.shape[1:])
        space = space_of(inputs.shape[1:])
        if side_on(inputs.shape[1:], self.window) > min(space):
            raise SpecError(
                f"window of occlusion is {self.window}, larger than the input's positions {tuple(space)}: use a smaller window."
            )
        return ()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Attributions of the inputs' shape, the same in every channel."""
        x, shape, space = inputs.detach(), inputs.shape[1:], space_of(inputs.shape[1:])
        baseline = as_row(self.baseline, x)
        window = side_on(shape, self.window)
        along = [windows(size, window).to(x.device) for size in space]

        def occluded(position: Tensor) -> Tensor:
            if len(space) == 1:
                return along[0][position]
            return along[0][position // space[1]].unsqueeze(-1) & along[1][position % space[1]].unsqueeze(-2)

        def term(row: Tensor, item: Tensor) -> Tensor:
            hidden = occluded(item - 1)
            hidden[item == 0] = False
            return scores(model, torch.where(over_channels(hidden, shape), baseline, x[row]), targets[row])

        values = table_of(term, len(x), 1 + space.numel(), context.batch, x.device)
        losses = (values[:, :1] - values[:, 1:]).reshape(len(x), *space)
        return over_channels(box_mean(losses, window, len(space)), shape).expand_as(x).contiguous()
