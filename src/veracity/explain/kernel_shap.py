"""KernelSHAP over square patches: Shapley values by constrained least squares, all inputs solved at once.

KernelSHAP over superpixels: Shapley values of as many players as the image has pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import SpecError
from veracity.core.explainers import BARE, Context, Cost, Explainer
from veracity.core.randomness import Draws
from veracity.core.registry import EXPLAINERS
from veracity.core.settings import Count
from veracity.explain.ablation import Baseline, as_row, check_baseline
from veracity.explain.patches import check_patch, masked_scores, patch_count, patch_numbers, spread_over
from veracity.explain.superpixels import Scored, Superpixels, present_among


def coalitions_of(patches: int, samples: int) -> int:
    """How many coalitions are run: all proper ones if they are no more than `samples`.

    >>> coalitions_of(patches=3, samples=200), coalitions_of(patches=16, samples=200)
    (6, 200)
    """
    return min(2**patches - 2, samples) if patches < 63 else samples


def all_coalitions(patches: int) -> tuple[Tensor, Tensor]:
    """Every proper coalition (2^M - 2, M) and its Shapley kernel weight (M - 1) / (C(M, k) k (M - k)).

    >>> masks, weights = all_coalitions(2)
    >>> masks.tolist(), weights.tolist()
    ([[True, False], [False, True]], [0.5, 0.5])
    """
    numbers = torch.arange(1, 2**patches - 1)
    masks = (numbers[:, None] >> torch.arange(patches)) & 1 == 1
    by_size = [0.0, *((patches - 1) / (comb(patches, k) * k * (patches - k)) for k in range(1, patches))]
    return masks, torch.tensor(by_size, dtype=torch.float64)[masks.sum(1)]


def random_coalitions(draws: Draws, patches: int, samples: int) -> Tensor:
    """Coalitions (N, samples, M): sizes k with probability in proportion to 1 / (k (M - k)), each beside its complement."""
    half = -(-samples // 2)
    sizes = torch.arange(1, patches, dtype=torch.float64)
    steps = (1 / (sizes * (patches - sizes))).cumsum(0)
    size = 1 + torch.searchsorted(steps / steps[-1], draws.uniform(half, stream="kernel_shap.size")).clamp(max=patches - 2)
    rank = draws.uniform(half, patches, stream="kernel_shap.members").argsort(-1).argsort(-1)
    chosen = rank < size.unsqueeze(-1)
    return torch.stack((chosen, ~chosen), dim=2).flatten(1, 2)[:, :samples]


def shapley_regression(present: Tensor, gains: Tensor, weights: Tensor, total: Tensor, counts: Tensor | None = None) -> Tensor:
    """N weighted least squares fits whose coefficients sum to `total`: (N, S, M), (N, S), (N, S), (N,) -> (N, M).

    Minimises Σ_s w_s (v_s - z_s·φ)² under Σ φ = total, as φ = total/M + the shortest solution that sums to zero. With
    `counts` (N,) only the first so many players of a row take part.

    >>> z = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]], dtype=torch.float64)
    >>> values = shapley_regression(z, torch.tensor([[1.0, 4.0]]).double(), torch.ones(1, 2).double(), torch.tensor([7.0]).double())
    >>> [round(value, 9) for value in values[0].tolist()]
    [2.0, 5.0]
    """
    most = present.shape[-1]
    count = torch.full((len(present), 1), most) if counts is None else counts.unsqueeze(-1)
    playing = torch.arange(most) < count
    even = total.unsqueeze(-1) / count
    sizes = present.sum(-1)
    centred = (present - (sizes / count).unsqueeze(-1)) * playing.unsqueeze(1)
    rest = gains - sizes * even
    pulled = (weights.unsqueeze(-1) * centred).mT
    inverse: Tensor = torch.linalg.pinv(pulled @ centred, hermitian=True, rtol=1e-10)
    return (even + (inverse @ (pulled @ rest.unsqueeze(-1))).squeeze(-1)) * playing


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class KernelShap(Explainer):
    """Shapley values of the patches in the game v(S) = f(x with the patches outside S at the baseline).

    Coalitions are sampled in proportion to the Shapley kernel, each beside its complement; where all 2^M - 2 of them
    are no more than `samples`, they are counted out and the values are exact. The patches' values sum to
    f(x) - f(baseline) always. Each position gets its patch's value, in every channel.
    """

    name = "kernel_shap"
    reference = "Lundberg and Lee 2017, arXiv:1705.07874; Covert and Lee 2021, arXiv:2012.01536"
    stochastic = True
    samples: Count = 200
    patch: Count = 4
    baseline: Baseline = 0.0

    def cost(self, shape: Size) -> Cost:
        """One forward pass for each coalition, for the input and for the baseline."""
        return Cost(forward=2 + coalitions_of(patch_count(shape, self.patch), self.samples))

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise on settings that do not fit; say if there are too few samples for so many patches."""
        check_patch(self.name, self.patch, inputs.shape[1:])
        check_baseline(self.name, self.baseline, inputs.shape[1:])
        patches = patch_count(inputs.shape[1:], self.patch)
        if coalitions_of(patches, self.samples) < self.samples or self.samples >= 2 * patches:
            return ()
        return (
            f"kernel_shap estimates {patches} patch values from {self.samples} samples, fewer than two a patch: "
            "use a larger patch or more samples.",
        )

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Attributions of the inputs' shape."""
        shape, batch = inputs.shape[1:], context.batch
        numbers, patches, baseline = patch_numbers(shape, self.patch), patch_count(shape, self.patch), as_row(self.baseline, inputs)
        if 2**patches - 2 <= self.samples:
            masks, kernel = all_coalitions(patches)
            present, weights = masks.expand(len(inputs), *masks.shape), kernel.expand(len(inputs), -1)
        else:
            present = random_coalitions(context.draws, patches, self.samples)
            weights = torch.ones(present.shape[:2], dtype=torch.float64)
        ends = torch.stack((torch.zeros(patches, dtype=torch.bool), torch.ones(patches, dtype=torch.bool))).expand(len(inputs), 2, patches)
        values = masked_scores(model, inputs, targets, torch.cat((ends, present), dim=1), baseline, numbers, batch)
        empty, full, gains = values[:, 0], values[:, 1], values[:, 2:] - values[:, :1]
        fitted = shapley_regression(present.double(), gains, weights, full - empty)
        return spread_over(fitted.to(inputs), numbers, shape).contiguous()


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
