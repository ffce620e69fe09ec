"""Inputs with parts replaced by a baseline: the baseline, square patches as features, and the scores of masked inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self, TypeVar

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import BARE, Context, Cost, Explainer
from veracity.core.features import Features
from veracity.core.inputs import Signals
from veracity.core.models import View
from veracity.core.randomness import Draws
from veracity.core.settings import Count
from veracity.explain.passes import Structure, scores, select, value_table

Baseline = float | Tensor | str | None
"""The input that stands for "nothing there": a number, or a tensor that broadcasts to one input.

None is 0, but in a table with names its reference: the mean of each column, and the most frequent level of a category. There it may
also be "reference", "mean" or "median".
"""

MaskScores = Callable[[Tensor], Tensor]
"""From masks (N, S, M) to the scores of the masked inputs, (N, S) float64 on the CPU."""


@dataclass(frozen=True, kw_only=True)
class Patched(Explainer, ABC):
    """One number per square patch, which each of its positions gets, in every channel.

    In a vector, every feature is a patch. `groups` (d,) is the feature of each value, numbered from 0: values of one feature are kept
    or removed together, and share its number in equal parts.
    """

    structured = True
    patch: Count = 4
    baseline: Baseline = None
    groups: Tensor | None = field(default=None, metadata={"unset": True})

    def over(self, features: Features | None) -> Self:
        return over_table(self, features)

    def index(self, shape: Size) -> Tensor:
        """The patch, or the feature, of each position."""
        return patch_index(shape, self.patch) if self.groups is None else check_groups(self.name, self.groups, shape)

    def count(self, shape: Size) -> int:
        """The number of patches, or of features."""
        return int(self.index(shape).max()) + 1

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        size = spatial_shape(inputs.shape[1:])
        check_rows_of_numbers(self.name, model, inputs, context)
        if self.groups is None and patch_side(inputs.shape[1:], self.patch) > max(size):
            raise SpecError(f"patch of {self.name} is {self.patch}, larger than the input's size {tuple(size)}: use a smaller patch.")
        check_baseline(self.name, self.baseline, inputs.shape[1:])
        return ()

    def spread(self, values: Tensor, index: Tensor, inputs: Tensor) -> Tensor:
        """The numbers (N, M) of the patches as maps of the inputs."""
        maps = patch_map(values.to(inputs), index, inputs.shape[1:])
        return maps if self.groups is None else maps / group_sizes(self.groups).to(maps)


@dataclass(frozen=True, kw_only=True)
class PatchExplainer(Patched, ABC):
    """A linear model of the score in the presence of square patches, fitted to `samples` masks."""

    stochastic = True
    samples: Count = 200

    @abstractmethod
    def coefficients(self, score_masks: MaskScores, inputs: Tensor, index: Tensor, draws: Draws, counts: Tensor | None = None) -> Tensor:
        """The coefficients (N, M) of M patches; `index` is the patch of each position. Only the first counts (N,) patches exist."""

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=self.samples)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        index, baseline = self.index(inputs.shape[1:]), baseline_row(self.baseline, inputs)
        score_masks = partial(masked_scores, model, inputs, targets, baseline, index, context.batch, structure=context.structure)
        counts = None if context.present is None else context.present.flatten(1).sum(1).cpu()
        return self.spread(self.coefficients(score_masks, inputs, index, context.draws.on_cpu, counts), index, inputs)


E = TypeVar("E", bound=Explainer)


def over_table(explainer: E, features: Features | None) -> E:
    """An explainer with the groups and the baseline of a table, as far as it has such settings and they were left open."""
    changes: dict[str, Any] = {}
    given = getattr(explainer, "baseline", 0.0)
    if given is None or isinstance(given, str):
        if features is not None:
            changes["baseline"] = features.centre(given or "reference")
        elif given is None:
            changes["baseline"] = 0.0
    if features is not None and features.grouped and getattr(explainer, "groups", features) is None:
        changes["groups"] = features.groups
    return replace(explainer, **changes) if changes else explainer


def check_groups(name: str, groups: Tensor, shape: Size) -> Tensor:
    """The groups of a vector's values; raises unless there is one for each, numbered from 0."""
    whole = groups.ndim == 1 and not groups.is_floating_point() and groups.shape == shape
    if not whole or not torch.equal(groups.unique(), torch.arange(int(groups.max()) + 1, device=groups.device)):
        raise SpecError(
            f"groups of {name} must be the number of the feature, from 0, of each value of an input of shape {tuple(shape)}, "
            f"not a tensor of shape {tuple(groups.shape)}."
        )
    return groups.cpu()


def group_sizes(groups: Tensor) -> Tensor:
    """The number of values in the group of each value, (d,).

    >>> group_sizes(torch.tensor([0, 1, 1]))
    tensor([1, 2, 2])
    """
    return torch.bincount(groups)[groups]


def baseline_row(baseline: Baseline, inputs: Tensor) -> Tensor:
    """The baseline as one input with the inputs' type and device, (1, ...).

    >>> baseline_row(0.5, torch.zeros(3, 1, 2))
    tensor([[[0.5000, 0.5000]]])
    """
    if isinstance(baseline, str):
        raise SpecError(f"The baseline '{baseline}' is known for tables with names only: give a number or a tensor.")
    value = torch.as_tensor(0.0 if baseline is None else baseline, dtype=inputs.dtype, device=inputs.device)
    return value.expand(inputs.shape[1:]).unsqueeze(0)


def check_baseline(name: str, baseline: Baseline, shape: Size) -> None:
    """Raise unless the baseline is a number or broadcasts to one input of this shape."""
    if isinstance(baseline, str):
        raise SpecError(
            f"The baseline '{baseline}' of {name} is known for tables with names only: give a number or a tensor, or pass TableInputs."
        )
    if not isinstance(baseline, Tensor):
        return
    try:
        baseline.expand(shape)
    except RuntimeError:
        raise SpecError(
            f"The baseline of {name} has shape {tuple(baseline.shape)}, but one input has shape {tuple(shape)}: "
            "give a number or a tensor with the shape of one input."
        ) from None


def check_rows_of_numbers(name: str, model: nn.Module, inputs: Tensor, context: Context) -> None:
    """Raise on inputs with a structure, which windows do not fit, as that of a graph.

    Rows of numbers (N, U) have none, such as the gates of a text. An image beside a table is an image: a view of the model says so.
    """
    view, beside = model, False
    while isinstance(view, View):
        view, beside = view.model, beside or bool(getattr(view, "carries_parts", False))
    if context.structure and inputs.ndim != 2 and not beside:
        raise InputError(f"{name} explains plain tensors and texts, not graphs: use feature_ablation or an explainer by gradients.")


def spatial_shape(shape: Size) -> Size:
    """The axes that positions run over: the last two of (C, H, W), the last one of (C, T) or of (features,).

    >>> spatial_shape(Size((3, 8, 9))), spatial_shape(Size((2, 7)))
    (torch.Size([8, 9]), torch.Size([7]))
    """
    return shape[-2:] if len(shape) > 2 else shape[-1:]


def require_positions(name: str, inputs: Tensor, advice: str = "") -> None:
    """Raise unless the inputs are images or series; `advice` ends the sentence."""
    if inputs.ndim < 3:
        shape = tuple(inputs.shape[1:])
        raise InputError(f"{name} needs images (C, H, W) or series (C, T), but an input has shape {shape}{advice}.")


def broadcast_channels(maps: Tensor, shape: Size) -> Tensor:
    """Maps over positions (R, H, W) with axes of size one where the input has channels: they broadcast to (R, *shape)."""
    return maps.reshape(len(maps), *[1] * (len(shape) - maps.ndim + 1), *maps.shape[1:])


def patch_side(shape: Size, side: int) -> int:
    """The side length of a patch: `side`, but 1 on a vector of features, whose order means nothing.

    >>> patch_side(Size((1, 8, 8)), 4), patch_side(Size((10,)), 4)
    (4, 1)
    """
    return side if len(shape) > 1 else 1


def patch_index(shape: Size, patch: int) -> Tensor:
    """The patch of each position, counted from 0. Patches at the far edge may be smaller.

    >>> patch_index(Size((1, 2, 3)), 2)
    tensor([[0, 0, 1],
            [0, 0, 1]])
    """
    index, side = torch.zeros((), dtype=torch.int64), patch_side(shape, patch)
    for size in spatial_shape(shape):
        index = index.unsqueeze(-1) * (-(-size // side)) + torch.arange(size) // side
    return index


def patch_count(shape: Size, patch: int) -> int:
    """The number of patches that cover the positions.

    >>> patch_count(Size((1, 14, 14)), 4)
    16
    """
    return int(patch_index(shape, patch).max()) + 1


def patch_map(values: Tensor, index: Tensor, shape: Size) -> Tensor:
    """Each position gets its patch's value, in every channel: (N, patches) -> (N, *shape).

    `index` gives the patch of each position, (H, W) for all rows or (N, H, W).
    """
    maps = gather_patches(values, index.to(values.device).expand(len(values), *spatial_shape(shape)))
    return broadcast_channels(maps, shape).expand(len(values), *shape).contiguous()


def gather_patches(values: Tensor, index: Tensor) -> Tensor:
    """The value of each position's patch: (R, patches), (R, H, W) -> (R, H, W).

    >>> gather_patches(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[0, 0, 1], [1, 0, 0]]))
    tensor([[1., 1., 2.],
            [4., 3., 3.]])
    """
    return values.gather(1, index.flatten(1)).reshape(index.shape)


def patch_sums(values: Tensor, index: Tensor, count: int) -> Tensor:
    """The sum of the values (N, ...) in each patch, over all channels: (N, patches), float64 on the CPU."""
    flat = values.detach().double().cpu().reshape(len(values), -1, index.numel()).sum(1)
    return torch.zeros(len(values), count, dtype=torch.float64).index_add_(1, index.flatten(), flat)


def masked_scores(
    model: nn.Module, inputs: Tensor, targets: Tensor, baseline: Tensor, index: Tensor, batch: int, masks: Tensor, structure: Structure = ()
) -> Tensor:
    """Scores with absent patches at the baseline: masks (N, S, patches) -> (N, S), float64 on the CPU.

    The baseline is (1, ...) for all rows or (N, ...); the patch `index` is (H, W) or (N, H, W).
    """
    x, shape = inputs.detach(), inputs.shape[1:]
    index, baseline = index.to(x.device).expand(len(x), *spatial_shape(shape)), baseline.expand_as(x)

    def term(row: Tensor, item: Tensor) -> Tensor:
        mask = gather_patches(masks[row.cpu(), item.cpu()].to(x.device), index[row])
        return scores(model, torch.where(broadcast_channels(mask, shape), x[row], baseline[row]), targets[row], select(structure, row))

    return value_table(term, len(x), masks.shape[1], batch, x.device).double().cpu()


def largest(maps: Tensor, k: int, present: Tensor | None = None) -> Tensor:
    """Ones at the k largest numbers of every map (N, ...), the first of equal ones; only where numbers are present (N, ...).

    >>> largest(torch.tensor([[0.5, 2.0, -1.0, 0.5], [torch.nan, 1.0, 2.0, 3.0]]), 2)
    tensor([[1., 1., 0., 0.],
            [nan, nan, nan, nan]])
    >>> largest(torch.tensor([[0.5, 2.0, 7.0]]), 2, torch.tensor([[True, False, False]]))
    tensor([[1., 0., 0.]])
    """
    signals = Signals(maps, (), present)
    flat, exists = signals.blank(maps).flatten(1), torch.ones_like(maps, dtype=torch.bool) if present is None else present
    order = flat.masked_fill(~exists.flatten(1), -torch.inf).argsort(dim=1, descending=True, stable=True)
    chosen = torch.zeros_like(flat).scatter(1, order[:, :k], 1.0).reshape(maps.shape)
    return signals.blank(torch.where(flat.isnan().any(1).reshape(-1, *[1] * (maps.ndim - 1)), maps.new_full((), torch.nan), chosen))
