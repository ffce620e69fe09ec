"""LIME over square patches, and over superpixels as published for images: one weighted ridge regression per input."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from veracity.core.randomness import Draws
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Positive
from veracity.explain.masking import MaskScores, PatchExplainer, baseline_row, patch_sums
from veracity.explain.superpixels import Superpixels, player_mask


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Lime(PatchExplainer):
    """A linear model of the score in the presence of patches, fitted near the input.

    Each of `samples` masks keeps a patch with probability one half and sets the others to the baseline. A mask has the weight
    exp(-d²/(2 `kernel_width`²)) with the cosine distance d between the input and the masked input, and `ridge` is the
    penalty on the squared coefficients. Each position gets its patch's coefficient, in every channel.
    """

    name = "lime"
    reference = "Ribeiro et al. 2016, arXiv:1602.04938"
    kernel_width: Positive = 0.25
    ridge: Positive = 1.0

    def coefficients(self, score_masks: MaskScores, inputs: Tensor, index: Tensor, draws: Draws, counts: Tensor | None = None) -> Tensor:
        patches = int(index.max()) + 1
        if counts is None:
            present = draws.uniform(self.samples, patches, stream="lime") < 0.5
        else:
            present = (draws.uniform(patches, self.samples, stream="lime").mT < 0.5) & player_mask(counts, patches).unsqueeze(1)
        weights = input_kernel(present, inputs, baseline_row(self.baseline, inputs).expand_as(inputs), index, self.kernel_width)
        return weighted_ridge(present.double(), score_masks(present), weights, self.ridge)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class SuperpixelLime(Superpixels):
    """A linear model of the score in the presence of superpixels, fitted near the input.

    The first of `samples` masks is the input itself; every other mask keeps a superpixel with probability one half. A mask has
    the weight exp(-d²/(2 `kernel_width`²)) with its cosine distance d to the full mask, and `ridge` is the penalty on the
    squared coefficients, so they are defined with fewer samples than superpixels too. Segmentation and baseline are those of
    all superpixel methods: quickshift on each explained input, or `fixed_segments`; the superpixel's mean colour.
    """

    name = "superpixel_lime"
    reference = "Ribeiro et al. 2016, arXiv:1602.04938; Vedaldi and Soatto 2008 (quickshift)"
    kernel_width: Positive = 0.25
    ridge: Positive = 1.0

    def coefficients(self, score_masks: MaskScores, counts: Tensor, draws: Draws) -> Tensor:
        present = self.masks(counts, draws)
        return weighted_ridge(present.double(), score_masks(present), mask_kernel(present, counts, self.kernel_width), self.ridge)

    def masks(self, counts: Tensor, draws: Draws) -> Tensor:
        """Which superpixels are present, (N, samples, most). A superpixel's draws do not depend on the number of the others."""
        most = int(counts.max())
        present = draws.uniform(most, self.samples, stream=self.name).mT < 0.5
        present[:, 0] = True
        return present & player_mask(counts, most).unsqueeze(1)


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
    weighted = (weights.unsqueeze(-1) * centred).mT
    gram = weighted @ centred + ridge * torch.eye(features.shape[-1], dtype=features.dtype)
    solution: Tensor = torch.linalg.solve(gram, weighted @ offsets)
    return solution.squeeze(-1)


def input_kernel(present: Tensor, inputs: Tensor, baseline: Tensor, index: Tensor, width: float) -> Tensor:
    """exp(-d² / (2 width²)), d = 1 - cos(x, masked x) over all numbers of the input: masks (N, S, M) -> (N, S).

    The inner products are sums over patches, so no masked input is built.
    """
    count = present.shape[-1]
    own, cross, other = (patch_sums(value, index, count) for value in (inputs * inputs, inputs * baseline, baseline * baseline))
    mask = present.double()
    product = torch.einsum("nsm,nm->ns", mask, own - cross) + cross.sum(1, keepdim=True)
    square = torch.einsum("nsm,nm->ns", mask, own - other) + other.sum(1, keepdim=True)
    lengths = (own.sum(1, keepdim=True) * square.clamp(min=0)).sqrt()
    cosine = torch.where(lengths > 0, product / lengths.clamp(min=1e-300), torch.zeros_like(lengths))
    return torch.exp(-((1 - cosine) ** 2) / (2 * width**2))


def mask_kernel(present: Tensor, counts: Tensor, width: float) -> Tensor:
    """exp(-d² / (2 width²)) with the cosine distance d = 1 - √(k/M) of a mask with k of M superpixels: (N, S, M) -> (N, S).

    >>> masks = torch.tensor([[[True, True, True, True], [True, False, False, False]]])
    >>> mask_kernel(masks, torch.tensor([4]), width=0.5).tolist()
    [[1.0, 0.6065306597126334]]
    """
    distance = 1 - (present.sum(-1).double() / counts.unsqueeze(1)).sqrt()
    return torch.exp(-(distance**2) / (2 * width**2))
