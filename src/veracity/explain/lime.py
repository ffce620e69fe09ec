"""LIME over square patches: a weighted ridge regression for each input, all solved at once.

LIME over superpixels, as the method was published for images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Size, Tensor, nn

from veracity.core.explainers import BARE, Context, Cost, Explainer
from veracity.core.randomness import Draws
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count, Positive
from veracity.explain.ablation import Baseline, as_row, check_baseline
from veracity.explain.patches import check_patch, masked_scores, patch_count, patch_numbers, spread_over, sums_over
from veracity.explain.superpixels import Scored, Superpixels, present_among


def weighted_ridge(features: Tensor, values: Tensor, weights: Tensor, ridge: float) -> Tensor:
    """Coefficients of N weighted ridge regressions with a free intercept: (N, S, M), (N, S), (N, S) -> (N, M).

    Minimises Σ_s w_s (y_s - c - z_s·β)² + ridge |β|².

    >>> z = torch.tensor([[[0.0], [1.0]]], dtype=torch.float64)
    >>> weighted_ridge(z, torch.tensor([[1.0, 4.0]]).double(), torch.ones(1, 2).double(), ridge=0.5).item()
    1.5
    """
    share = (weights / weights.sum(1, keepdim=True)).unsqueeze(-1)
    centred = features - (share * features).sum(1, keepdim=True)
    offsets = values.unsqueeze(-1) - (share * values.unsqueeze(-1)).sum(1, keepdim=True)
    pulled = (weights.unsqueeze(-1) * centred).mT
    gram = pulled @ centred + ridge * torch.eye(features.shape[-1], dtype=features.dtype)
    solved: Tensor = torch.linalg.solve(gram, pulled @ offsets)
    return solved.squeeze(-1)


def cosine_kernel(present: Tensor, inputs: Tensor, baseline: Tensor, numbers: Tensor, width: float) -> Tensor:
    """exp(-d² / (2 width²)), d = 1 - cos(x, masked x) over all numbers of the input: masks (N, S, M) -> (N, S).

    The products are sums over patches, so that no masked input is built.
    """
    count = present.shape[-1]
    own, cross, other = (sums_over(value, numbers, count) for value in (inputs * inputs, inputs * baseline, baseline * baseline))
    keep = present.double()
    product = torch.einsum("nsm,nm->ns", keep, own - cross) + cross.sum(1, keepdim=True)
    square = torch.einsum("nsm,nm->ns", keep, own - other) + other.sum(1, keepdim=True)
    lengths = (own.sum(1, keepdim=True) * square.clamp(min=0)).sqrt()
    cosine = torch.where(lengths > 0, product / lengths.clamp(min=1e-300), torch.zeros_like(lengths))
    return torch.exp(-((1 - cosine) ** 2) / (2 * width**2))


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Lime(Explainer):
    """A linear model of the score in the presence of patches, fitted near the input.

    Each of `samples` masks keeps a patch with probability one half and sets the others to the baseline; masks weigh
    exp(-d²/(2 `kernel_width`²)) with the cosine distance d between the input and the masked input, and `ridge` is the
    penalty on the squared coefficients. Each position gets its patch's coefficient, in every channel.
    """

    name = "lime"
    reference = "Ribeiro et al. 2016, arXiv:1602.04938"
    stochastic = True
    samples: Count = 200
    patch: Count = 4
    kernel_width: Positive = 0.25
    ridge: Positive = 1.0
    baseline: Baseline = 0.0

    def cost(self, shape: Size) -> Cost:
        """One forward pass for each mask."""
        return Cost(forward=self.samples)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise on settings that do not fit."""
        check_patch(self.name, self.patch, inputs.shape[1:])
        check_baseline(self.name, self.baseline, inputs.shape[1:])
        return ()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Attributions of the inputs' shape."""
        shape = inputs.shape[1:]
        numbers, baseline = patch_numbers(shape, self.patch), as_row(self.baseline, inputs)
        present = context.draws.uniform(self.samples, patch_count(shape, self.patch), stream="lime") < 0.5
        values = masked_scores(model, inputs, targets, present, baseline, numbers, context.batch)
        weights = cosine_kernel(present, inputs, baseline.expand_as(inputs), numbers, self.kernel_width)
        return spread_over(weighted_ridge(present.double(), values, weights, self.ridge).to(inputs), numbers, shape).contiguous()


def mask_kernel(present: Tensor, counts: Tensor, width: float) -> Tensor:
    """exp(-d² / (2 width²)) with the cosine distance d = 1 - √(k/M) of a mask of k among M to the full one: (N, S, M) -> (N, S).

    >>> masks = torch.tensor([[[True, True, True, True], [True, False, False, False]]])
    >>> mask_kernel(masks, torch.tensor([4]), width=0.5).tolist()
    [[1.0, 0.6065306597126334]]
    """
    distance = 1 - (present.sum(-1).double() / counts.unsqueeze(1)).sqrt()
    return torch.exp(-(distance**2) / (2 * width**2))


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class SuperpixelLime(Superpixels):
    """A linear model of the score in the presence of superpixels, fitted near the input.

    The first of `samples` masks is the input itself, each other keeps a superpixel with probability one half. A mask weighs
    exp(-d²/(2 `kernel_width`²)) with its cosine distance d to the full one, and `ridge` is the penalty on the squared
    coefficients, so that they are defined with fewer samples than superpixels too. Segmentation and baseline are those of
    all superpixel methods: quickshift on whatever input is explained, or `fixed_segments`; the superpixel's mean colour.
    """

    name = "superpixel_lime"
    reference = "Ribeiro et al. 2016, arXiv:1602.04938; Vedaldi and Soatto 2008 (quickshift)"
    kernel_width: Positive = 0.25
    ridge: Positive = 1.0

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise on settings that do not fit; say if there are fewer samples than superpixels."""
        return super().check(model, inputs, targets, context)

    def coefficients(self, scored: Scored, counts: Tensor, draws: Draws) -> Tensor:
        """The ridge regression's."""
        present = self.masks(counts, draws)
        return weighted_ridge(present.double(), scored(present), mask_kernel(present, counts, self.kernel_width), self.ridge)

    def masks(self, counts: Tensor, draws: Draws) -> Tensor:
        """Which superpixels are present, (N, samples, most); a superpixel's numbers do not depend on how many others there are."""
        most = int(counts.max())
        present = draws.uniform(most, self.samples, stream=self.name).mT < 0.5
        present[:, 0] = True
        return present & present_among(counts, most).unsqueeze(1)
