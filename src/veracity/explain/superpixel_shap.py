"""KernelSHAP over superpixels: Shapley values of as many players as the image has pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from veracity.core.draws import Draws
from veracity.core.errors import SpecError
from veracity.core.explainers import BARE, Context
from veracity.core.registry import EXPLAINERS
from veracity.explain.kernel_shap import all_coalitions, shapley_regression
from veracity.explain.superpixels import Scored, Superpixels, present_among

ENDS = 2  # the input and the baseline


def sampled_coalitions(draws: Draws, counts: Tensor, samples: int) -> Tensor:
    """Coalitions (N, samples, most) of M = counts (N,) players, of size k in proportion to 1 / (k (M - k)), beside their complements.

    A row's coalitions do not depend on `most`, the largest M.
    """
    half, most = -(-samples // 2), int(counts.max())
    players, sizes = present_among(counts, most), torch.arange(1, most, dtype=torch.float64)
    shares = torch.where(players[:, 1:], 1 / (sizes * (counts.unsqueeze(1) - sizes)), 0.0)
    chance = draws.uniform(half, stream="superpixel_shap.size") * shares.sum(1, keepdim=True)
    size = 1 + torch.searchsorted(shares.cumsum(1), chance)
    order = draws.uniform(most, half, stream="superpixel_shap.members").mT.masked_fill(~players.unsqueeze(1), 2.0)
    chosen = order.argsort(-1).argsort(-1) < size.unsqueeze(-1)
    return torch.stack((chosen, ~chosen & players.unsqueeze(1)), dim=2).flatten(1, 2)[:, :samples]


def weighted_coalitions(draws: Draws, counts: Tensor, samples: int) -> tuple[Tensor, Tensor]:
    """Coalitions (N, samples, most) and weights (N, samples): all proper ones where they are no more than `samples`, else random ones."""
    present = sampled_coalitions(draws, counts, samples)
    weights = torch.ones(present.shape[:2], dtype=torch.float64)
    for players in counts[counts < (samples + 2).bit_length()].unique().tolist():
        masks, kernel = all_coalitions(players)
        rows = counts == players
        present[rows], weights[rows] = False, 0.0
        present[rows, : len(masks), :players] = masks
        weights[rows, : len(masks)] = kernel
    return present, weights


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class SuperpixelShap(Superpixels):
    """Shapley values of the superpixels in the game v(S) = f(x with the superpixels outside S replaced).

    Two of `samples` masks are the input and the baseline; the others are sampled in proportion to the Shapley kernel, each
    beside its complement. Where all 2^M - 2 coalitions fit they are counted out and the values are exact; with fewer samples
    than superpixels the values are the shortest solution. They sum to f(x) - f(baseline) always. Segmentation and baseline are
    those of all superpixel methods: quickshift on whatever input is explained, or `fixed_segments`; the superpixel's mean colour.
    """

    name = "superpixel_shap"
    reference = "Lundberg and Lee 2017, arXiv:1705.07874; Vedaldi and Soatto 2008 (quickshift)"

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise on settings that do not fit; say if there are fewer samples than superpixels."""
        said = super().check(model, inputs, targets, context)
        if self.samples <= ENDS:
            raise SpecError(f"samples of {self.name} must be at least 3, since two are the input and the baseline, not {self.samples}.")
        return said

    def coefficients(self, scored: Scored, counts: Tensor, draws: Draws) -> Tensor:
        """The Shapley values."""
        present, weights = weighted_coalitions(draws, counts, self.samples - ENDS)
        players = present_among(counts, present.shape[-1]).unsqueeze(1)
        values = scored(torch.cat((torch.zeros_like(players), players, present), dim=1))
        empty, full, gains = values[:, 0], values[:, 1], values[:, 2:] - values[:, :1]
        return shapley_regression(present.double(), gains, weights, full - empty, counts)
