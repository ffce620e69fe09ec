"""LIME over superpixels, as the method was published for images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from veracity.core.draws import Draws
from veracity.core.explainers import BARE, Context
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Positive
from veracity.explain.lime import weighted_ridge
from veracity.explain.superpixels import Scored, Superpixels, present_among


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
