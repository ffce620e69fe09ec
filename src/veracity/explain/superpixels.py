"""Superpixels as features: pieces of an image that look alike are present together or replaced together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Annotated, Any

import numpy as np
import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError, SpecError, missing_extra
from veracity.core.explainers import BARE, Context, Cost, InputObserver
from veracity.core.randomness import Draws
from veracity.core.settings import Count, Positive, Within
from veracity.explain.ablation import Baseline, as_row, check_baseline
from veracity.explain.patches import masked_scores, space_of, spread_over

TOGETHER = 2**22  # entries of masks that are held at once
HIDDEN = 0.02  # the share of an input's variance that mean colours must hide
LIGHTNESS = 100.0  # the range of Lab's first channel, which other channels are brought to

Scored = Callable[[Tensor], Tensor]
"""From masks (N, S, M) to the scores of the masked inputs, (N, S) float64 on the CPU."""


def segmented(inputs: Tensor, kernel_size: float, max_dist: float, ratio: float) -> Tensor:
    """The superpixel of each position, from 0, by scikit-image's quickshift: (N, C, H, W) -> int64 (N, H, W), on the CPU.

    Each input is brought to [0, 1] for itself. One channel is repeated to three; three are compared as colours in Lab space;
    any other number is compared as it is. A series (C, T) is an image one position high.

    >>> half = torch.tensor([0.0, 1.0]).repeat_interleave(4).expand(1, 1, 8, 8)
    >>> found = segmented(half, kernel_size=1.0, max_dist=10.0, ratio=1.0)[0]
    >>> int(found.max()) + 1, (found == found[0, 0])[5].tolist()
    (2, [True, True, True, True, False, False, False, False])
    """
    space = space_of(inputs.shape[1:])
    x = inputs.detach().double().cpu().reshape(len(inputs), -1, *[1] * (2 - len(space)), *space)
    low, high = x.amin((1, 2, 3), keepdim=True), x.amax((1, 2, 3), keepdim=True)
    x = (x - low) / torch.where(high > low, high - low, 1.0)
    x = x.expand(-1, 3, -1, -1) if x.shape[1] == 1 else x
    colour = x.shape[1] == 3
    pictures: Any = (x if colour else LIGHTNESS * x).movedim(1, -1).numpy()
    shift: Any = quickshift()
    found = [shift(image, kernel_size=kernel_size, max_dist=max_dist, ratio=ratio, convert2lab=colour) for image in pictures]
    return torch.from_numpy(np.stack(found)).long().reshape(len(inputs), *space)


def quickshift() -> Any:
    """scikit-image's function."""
    if find_spec("skimage") is None:
        raise missing_extra("scikit-image", "superpixels")
    from skimage.segmentation import quickshift as found

    return found


def mean_colours(inputs: Tensor, segments: Tensor) -> Tensor:
    """Each position gets its superpixel's mean, channel by channel: (N, C, H, W), (N, H, W) -> (N, C, H, W).

    >>> mean_colours(torch.tensor([[[1.0, 3.0, 5.0]]]), torch.tensor([[0, 0, 1]]))
    tensor([[[2., 2., 5.]]])
    """
    x = inputs.detach().reshape(len(inputs), -1, segments[0].numel()).double()
    index = segments.to(x.device).reshape(len(inputs), 1, -1).expand_as(x)
    empty = x.new_zeros(*x.shape[:2], int(segments.max()) + 1)
    sums, sizes = empty.scatter_add(2, index, x), empty.scatter_add(2, index, torch.ones_like(x))
    return (sums / sizes.clamp(min=1)).gather(2, index).reshape(inputs.shape).to(inputs)


def hidden_share(inputs: Tensor, segments: Tensor) -> float:
    """The share of the inputs' variance, channel by channel, that mean colours take away.

    >>> hidden_share(torch.tensor([[[1.0, 3.0, 8.0, 8.0]]]), torch.tensor([[0, 0, 1, 1]]))
    0.05263157894736842
    """
    x = inputs.detach().double()
    lost = x - mean_colours(x, segments)
    whole = x - mean_colours(x, torch.zeros_like(segments))
    return float((lost**2).sum() / (whole**2).sum().clamp(min=1e-300))


def present_among(counts: Tensor, most: int) -> Tensor:
    """Which of `most` places hold a superpixel of inputs that have `counts` of them: (N,) -> bool (N, most).

    >>> present_among(torch.tensor([1, 3]), 3)
    tensor([[ True, False, False],
            [ True,  True,  True]])
    """
    return torch.arange(most) < counts.unsqueeze(1)


@dataclass(frozen=True, kw_only=True)
class Superpixels(InputObserver, ABC):
    """A linear model of the score in the presence of superpixels; each position gets its superpixel's coefficient.

    Quickshift (`kernel_size`, `max_dist`, `ratio`) segments whatever input is explained, a perturbed one too; with
    `fixed_segments` the superpixels of the unperturbed input are kept, which `prepare` finds or `segments` (samples, H, W)
    gives. The defaults make about 40 pieces: in the median 35 on MNIST (28 x 28), 40 on MNIST enlarged to 32 x 32 and 49 on
    CIFAR-10. An absent superpixel gets the `baseline`, a number or one input; without one, its own mean colour, which hides 7 % of the
    variance of photographs (CIFAR-10) but .7 % of that of digits: give those a number.
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
    def coefficients(self, scored: Scored, counts: Tensor, draws: Draws) -> Tensor:
        """The superpixels' coefficients (N, most), for inputs with `counts` superpixels (N,), of which `most` is the largest."""

    def cost(self, shape: Size) -> Cost:
        """One forward pass for each mask."""
        return Cost(forward=self.samples)

    def prepare(self, inputs: Tensor) -> Superpixels:
        """The explainer that knows the superpixels of the unperturbed inputs (samples, ...), if it is to keep them."""
        return replace(self, segments=self.found(inputs)) if self.fixed_segments and self.segments is None else self

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise on settings that do not fit; say if there are fewer samples than superpixels, or mean colours hide nothing."""
        if inputs.ndim < 3:
            raise InputError(
                f"{self.name} needs images (C, H, W) or series (C, T), but an input has shape {tuple(inputs.shape[1:])}: "
                "use lime or kernel_shap there."
            )
        if self.baseline is not None:
            check_baseline(self.name, self.baseline, inputs.shape[1:])
        if self.segments is not None and not self.fixed_segments:
            raise SpecError(f"{self.name} was given segments but is not to keep them: set fixed_segments=True or give none.")
        first = inputs[:1].detach()
        return self.remarks(first, self.found(first) if self.segments is None else self.kept(torch.arange(1), first))

    def remarks(self, first: Tensor, segments: Tensor) -> Sequence[str]:
        """What the first input (1, ...) and its superpixels give away."""
        pieces, said = int(segments.max()) + 1, []
        if self.samples < pieces:
            said.append(
                f"{self.name} fits {pieces} superpixels of the first input to {self.samples} samples, fewer than one each, so that "
                "another draw gives another explanation: use more samples."
            )
        hidden = hidden_share(first, segments)
        if self.baseline is None and hidden < HIDDEN:
            said.append(
                f"The superpixels of the first input are so even that painting them over with their mean colours hides {hidden:.1%} of "
                f"its variance, and {self.name} sees next to nothing: give a baseline, such as baseline=0.0."
            )
        return tuple(said)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Attributions of the inputs' shape, the same in every channel."""
        x = inputs.detach()
        segments = self.kept(context.draws.sample, x) if self.fixed_segments else self.found(x)
        fill = mean_colours(x, segments) if self.baseline is None else as_row(self.baseline, x).expand_as(x)
        counts = segments.flatten(1).amax(1) + 1

        def some(part: Tensor) -> Tensor:
            here, numbers = part.to(x.device), segments[part]

            def scored(present: Tensor) -> Tensor:
                return masked_scores(model, x[here], targets[here], present, fill[here], numbers, context.batch)

            values = self.coefficients(scored, counts[part], context.draws[part])
            return spread_over(values.to(x), numbers, x.shape[1:])

        return torch.cat([some(part) for part in torch.arange(len(x)).split(max(1, TOGETHER // (self.samples * int(counts.max()))))])

    def found(self, inputs: Tensor) -> Tensor:
        """The superpixels of these inputs."""
        return segmented(inputs, self.kernel_size, self.max_dist, self.ratio)

    def kept(self, samples: Tensor, inputs: Tensor) -> Tensor:
        """The superpixels of the unperturbed inputs with these numbers."""
        if self.segments is None:
            raise InputError(
                f"{self.name} is to keep the superpixels of the unperturbed inputs: call prepare(inputs) first or give segments."
            )
        space, given = space_of(inputs.shape[1:]), self.segments
        if given.shape[1:] != space or given.dtype != torch.int64 or bool((given < 0).any()):
            raise InputError(
                f"segments of {self.name} must be whole numbers (int64) from 0 of shape (samples, {', '.join(map(str, space))}), "
                f"not {given.dtype} of shape {tuple(given.shape)}."
            )
        if len(samples) and int(samples.max()) >= len(given):
            raise InputError(
                f"{self.name} has segments of {len(given)} inputs, but sample {int(samples.max())} is explained: prepare them all."
            )
        return given.cpu()[samples.cpu()]
