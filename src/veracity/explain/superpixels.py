"""Superpixels as features: the pieces of an image that look alike are present together or replaced together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Annotated, Any

import numpy as np
import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError, SpecError, missing_extra
from veracity.core.explainers import BARE, Context, Cost, InputObserver
from veracity.core.randomness import Draws
from veracity.core.settings import Count, Positive, Within
from veracity.explain.masking import Baseline, baseline_row, check_baseline, masked_scores, patch_map, require_positions, spatial_shape

MASK_ENTRIES = 2**22  # in memory at once
LEAST_HIDDEN = 0.02  # the share of an input's variance that mean colours must hide
LIGHTNESS = 100.0  # the range of Lab's first channel; other channels are scaled to it


@dataclass(frozen=True, kw_only=True)
class Superpixels(InputObserver, ABC):
    """A linear model of the score in the presence of superpixels; each position gets its superpixel's coefficient.

    Quickshift (`kernel_size`, `max_dist`, `ratio`) segments each explained input, also perturbed ones. With
    `fixed_segments`, the superpixels of the unperturbed input are used; `prepare` computes them, or `segments`
    (samples, H, W) gives them. The defaults make about 40 pieces: the median is 35 on MNIST (28 x 28), 40 on MNIST enlarged to
    32 x 32 and 49 on CIFAR-10. An absent superpixel gets the `baseline`, a number or one input; without one, its own mean
    colour, which hides 7 % of the variance of photographs (CIFAR-10) but .7 % of that of digits: give those a number.
    """

    stochastic = True
    samples: Count = 200
    kernel_size: Annotated[float, Within(least=1)] = 1.0
    max_dist: Positive = 3.0
    ratio: Annotated[float, Within(above=0, most=1)] = 0.2
    baseline: Baseline | None = None
    fixed_segments: bool = False
    segments: Tensor | None = None

    @abstractmethod
    def coefficients(self, score_masks: Callable[[Tensor], Tensor], counts: Tensor, draws: Draws) -> Tensor:
        """The superpixels' coefficients (N, most) for inputs with `counts` (N,) superpixels, at most `most`.

        `score_masks` maps masks (N, S, most) to the scores of the masked inputs, (N, S) float64 on the CPU.
        """

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=self.samples)

    def prepare(self, inputs: Tensor) -> Superpixels:
        return replace(self, segments=self.segment(inputs)) if self.fixed_segments and self.segments is None else self

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise on settings that do not fit; note too few samples, and mean colours that hide almost nothing."""
        require_positions(self.name, inputs, ": use lime or kernel_shap for it")
        if self.baseline is not None:
            check_baseline(self.name, self.baseline, inputs.shape[1:])
        if self.segments is not None and not self.fixed_segments:
            raise SpecError(f"{self.name} has segments, but fixed_segments is off: set fixed_segments=True or leave the segments out.")
        first, notes = inputs[:1].detach(), []
        segments = self.segment(first) if self.segments is None else self.stored_segments(torch.arange(1), first)
        pieces, hidden = int(segments.max()) + 1, hidden_share(first, segments)
        if self.samples < pieces:
            notes.append(
                f"{self.name} fits {pieces} superpixels of the first input to {self.samples} samples, fewer than one each, so "
                "another draw gives another explanation: use more samples."
            )
        if self.baseline is None and hidden < LEAST_HIDDEN:
            notes.append(
                f"The superpixels of the first input are so even that their mean colours hide only {hidden:.1%} of its variance. "
                f"{self.name} measures almost nothing: give a baseline, such as baseline=0.0."
            )
        return tuple(notes)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        x = inputs.detach()
        segments = self.stored_segments(context.draws.sample, x) if self.fixed_segments else self.segment(x)
        fill = mean_colours(x, segments) if self.baseline is None else baseline_row(self.baseline, x).expand_as(x)
        counts, own = segments.flatten(1).amax(1) + 1, context.draws.on_cpu

        def explain_rows(rows: Tensor) -> Tensor:
            here, index = rows.to(x.device), segments[rows]
            score_masks = partial(masked_scores, model, x[here], targets[here], fill[here], index, context.batch)
            return patch_map(self.coefficients(score_masks, counts[rows], own[rows]).to(x), index, x.shape[1:])

        rows_at_once = max(1, MASK_ENTRIES // (self.samples * int(counts.max())))
        return torch.cat([explain_rows(rows) for rows in torch.arange(len(x)).split(rows_at_once)])

    def segment(self, inputs: Tensor) -> Tensor:
        """The superpixel of each position, (N, H, W)."""
        return quickshift_segments(inputs, self.kernel_size, self.max_dist, self.ratio)

    def stored_segments(self, samples: Tensor, inputs: Tensor) -> Tensor:
        """The superpixels of these samples' unperturbed inputs, (N, H, W)."""
        if self.segments is None:
            raise InputError(f"{self.name} uses the superpixels of the unperturbed inputs: call prepare(inputs) first or give segments.")
        size, given = spatial_shape(inputs.shape[1:]), self.segments
        if given.shape[1:] != size or given.dtype != torch.int64 or bool((given < 0).any()):
            raise InputError(
                f"segments of {self.name} must be whole numbers (int64) from 0 of shape (samples, {', '.join(map(str, size))}), "
                f"not {given.dtype} of shape {tuple(given.shape)}."
            )
        if len(samples) and int(samples.max()) >= len(given):
            raise InputError(f"{self.name} has segments of {len(given)} inputs, but sample {int(samples.max())} is explained: give more.")
        return given.cpu()[samples.cpu()]


def quickshift_segments(inputs: Tensor, kernel_size: float, max_dist: float, ratio: float) -> Tensor:
    """The superpixel of each position, from 0, by scikit-image's quickshift: (N, C, H, W) -> int64 (N, H, W), on the CPU.

    Each input is scaled to [0, 1] on its own. One channel is repeated to three; three are compared as colours in Lab space;
    any other number is compared as it is. A series (C, T) is an image of height one.

    >>> half = torch.tensor([0.0, 1.0]).repeat_interleave(4).expand(1, 1, 8, 8)
    >>> segments = quickshift_segments(half, kernel_size=1.0, max_dist=10.0, ratio=1.0)[0]
    >>> int(segments.max()) + 1, (segments == segments[0, 0])[5].tolist()
    (2, [True, True, True, True, False, False, False, False])
    """
    if find_spec("skimage") is None:
        raise missing_extra("scikit-image", "superpixels")
    from skimage.segmentation import quickshift

    size = spatial_shape(inputs.shape[1:])
    x = inputs.detach().double().cpu().reshape(len(inputs), -1, *[1] * (2 - len(size)), *size)
    low, high = x.amin((1, 2, 3), keepdim=True), x.amax((1, 2, 3), keepdim=True)
    x = (x - low) / torch.where(high > low, high - low, 1.0)
    x = x.expand(-1, 3, -1, -1) if x.shape[1] == 1 else x
    colour = x.shape[1] == 3
    images: Any = (x if colour else LIGHTNESS * x).movedim(1, -1).numpy()
    found = [quickshift(image, kernel_size=kernel_size, max_dist=max_dist, ratio=ratio, convert2lab=colour) for image in images]
    return torch.from_numpy(np.stack(found)).long().reshape(len(inputs), *size)


def mean_colours(inputs: Tensor, segments: Tensor) -> Tensor:
    """Each position gets its superpixel's mean, per channel: (N, C, H, W), (N, H, W) -> (N, C, H, W).

    >>> mean_colours(torch.tensor([[[1.0, 3.0, 5.0]]]), torch.tensor([[0, 0, 1]]))
    tensor([[[2., 2., 5.]]])
    """
    x = inputs.detach().reshape(len(inputs), -1, segments[0].numel()).double()
    index = segments.to(x.device).reshape(len(inputs), 1, -1).expand_as(x)
    empty = x.new_zeros(*x.shape[:2], int(segments.max()) + 1)
    sums, sizes = empty.scatter_add(2, index, x), empty.scatter_add(2, index, torch.ones_like(x))
    return (sums / sizes.clamp(min=1)).gather(2, index).reshape(inputs.shape).to(inputs)


def hidden_share(inputs: Tensor, segments: Tensor) -> float:
    """The share of the inputs' variance, per channel, that mean colours remove.

    >>> hidden_share(torch.tensor([[[1.0, 3.0, 8.0, 8.0]]]), torch.tensor([[0, 0, 1, 1]]))
    0.05263157894736842
    """
    x = inputs.detach().double()
    lost = x - mean_colours(x, segments)
    whole = x - mean_colours(x, torch.zeros_like(segments))
    return float((lost**2).sum() / (whole**2).sum().clamp(min=1e-300))


def player_mask(counts: Tensor, most: int) -> Tensor:
    """Which of `most` places hold a superpixel, for inputs with `counts` superpixels: (N,) -> bool (N, most).

    >>> player_mask(torch.tensor([1, 3]), 3)
    tensor([[ True, False, False],
            [ True,  True,  True]])
    """
    return torch.arange(most) < counts.unsqueeze(1)
