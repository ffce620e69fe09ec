"""KernelSHAP over square patches and over superpixels: Shapley values by constrained least squares, all inputs at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import torch
from torch import Size, Tensor, nn

from veracity.core.errors import SpecError
from veracity.core.explainers import BARE, Context, Cost
from veracity.core.randomness import Draws
from veracity.core.registry import EXPLAINERS
from veracity.explain.masking import MaskScores, PatchExplainer
from veracity.explain.superpixels import Superpixels, player_mask

ENDS = 2  # the samples of superpixel_shap that are the input and the baseline


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class KernelShap(PatchExplainer):
    """Shapley values of the patches in the game v(S) = f(x with the patches outside S at the baseline).

    Coalitions are sampled in proportion to the Shapley kernel, each together with its complement. If all 2^M - 2 of them
    are no more than `samples`, they are enumerated and the values are exact. The patches' values always sum to
    f(x) - f(baseline). Each position gets its patch's value, in every channel. In a table a patch is a feature, and the columns of
    one category are one feature, whose value they share in equal parts.
    """

    name = "kernel_shap"
    reference = "Lundberg and Lee 2017, arXiv:1705.07874; Covert and Lee 2021, arXiv:2012.01536"

    def cost(self, shape: Size) -> Cost:
        """One pass per coalition, one for the input and one for the baseline."""
        return Cost(forward=2 + coalition_count(self.count(shape), self.samples))

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        super().check(model, inputs, targets, context)
        patches = self.count(inputs.shape[1:])
        if coalition_count(patches, self.samples) < self.samples or self.samples >= 2 * patches:
            return ()
        of = "features" if context.present is None else "words or tokens"
        what, fix = ("patches", "use a larger patch or more samples") if inputs.ndim > 2 else (of, "use more samples")
        return (f"kernel_shap estimates the values of {patches} {what} from {self.samples} samples, fewer than two for each: {fix}.",)

    def coefficients(self, score_masks: MaskScores, inputs: Tensor, index: Tensor, draws: Draws, counts: Tensor | None = None) -> Tensor:
        patches = int(index.max()) + 1
        if counts is not None:
            present, weights = superpixel_coalitions(draws, counts, self.samples)
            missing = torch.zeros(*present.shape[:2], patches - present.shape[2], dtype=torch.bool)
            return shapley_values(score_masks, torch.cat((present, missing), dim=2), weights, counts)
        if 2**patches - 2 <= self.samples:
            present, weights = (part.expand(len(inputs), *part.shape) for part in all_coalitions(patches))
        else:
            present = patch_coalitions(draws, patches, self.samples)
            weights = torch.ones(present.shape[:2], dtype=torch.float64)
        return shapley_values(score_masks, present, weights, torch.full((len(inputs),), patches))


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class SuperpixelShap(Superpixels):
    """Shapley values of the superpixels in the game v(S) = f(x with the superpixels outside S replaced).

    Two of `samples` masks are the input and the baseline; the others are sampled in proportion to the Shapley kernel, each
    together with its complement. If all 2^M - 2 coalitions fit, they are enumerated and the values are exact; with fewer
    samples than superpixels the values are the shortest solution. They always sum to f(x) - f(baseline). Segmentation and
    baseline are those of all superpixel methods: quickshift on each explained input, or `fixed_segments`; the
    superpixel's mean colour.
    """

    name = "superpixel_shap"
    reference = "Lundberg and Lee 2017, arXiv:1705.07874; Vedaldi and Soatto 2008 (quickshift)"

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        notes = super().check(model, inputs, targets, context)
        if self.samples <= ENDS:
            raise SpecError(f"samples of {self.name} must be at least 3, since two are the input and the baseline, not {self.samples}.")
        return notes

    def coefficients(self, score_masks: MaskScores, counts: Tensor, draws: Draws) -> Tensor:
        return shapley_values(score_masks, *superpixel_coalitions(draws, counts, self.samples - ENDS), counts)


def shapley_values(score_masks: MaskScores, present: Tensor, weights: Tensor, counts: Tensor) -> Tensor:
    """Shapley values (N, M) from the scores of the empty coalition, the full one and S others (N, S, M) of counts (N,) players."""
    players = player_mask(counts, present.shape[-1]).unsqueeze(1)
    values = score_masks(torch.cat((torch.zeros_like(players), players, present), dim=1))
    return shapley_regression(present.double(), values[:, 2:] - values[:, :1], weights, values[:, 1] - values[:, 0], counts)


def shapley_regression(present: Tensor, gains: Tensor, weights: Tensor, total: Tensor, counts: Tensor) -> Tensor:
    """N weighted least squares fits whose coefficients sum to `total`: (N, S, M), (N, S), (N, S), (N,), (N,) -> (N, M).

    Minimises Σ_s w_s (v_s - z_s·φ)² under Σ φ = total, as φ = total/M + the shortest solution that sums to zero. Row n has
    only its first counts[n] players.

    >>> z = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]], dtype=torch.float64)
    >>> gains, total = torch.tensor([[1.0, 4.0]]).double(), torch.tensor([7.0]).double()
    >>> values = shapley_regression(z, gains, torch.ones(1, 2).double(), total, counts=torch.tensor([2]))
    >>> [round(value, 9) for value in values[0].tolist()]
    [2.0, 5.0]
    """
    count, players = counts.unsqueeze(-1), player_mask(counts, present.shape[-1])
    even = total.unsqueeze(-1) / count
    sizes = present.sum(-1)
    centred = (present - (sizes / count).unsqueeze(-1)) * players.unsqueeze(1)
    surplus = gains - sizes * even
    weighted = (weights.unsqueeze(-1) * centred).mT
    inverse: Tensor = torch.linalg.pinv(weighted @ centred, hermitian=True, rtol=1e-10)
    return (even + (inverse @ (weighted @ surplus.unsqueeze(-1))).squeeze(-1)) * players


def coalition_count(patches: int, samples: int) -> int:
    """How many coalitions are run: all proper ones if they are no more than `samples`.

    >>> coalition_count(patches=3, samples=200), coalition_count(patches=16, samples=200)
    (6, 200)
    """
    return min(2**patches - 2, samples) if patches < 63 else samples


def all_coalitions(players: int) -> tuple[Tensor, Tensor]:
    """Every proper coalition (2^M - 2, M) and its Shapley kernel weight (M - 1) / (C(M, k) k (M - k)).

    >>> masks, weights = all_coalitions(2)
    >>> masks.tolist(), weights.tolist()
    ([[True, False], [False, True]], [0.5, 0.5])
    """
    numbers = torch.arange(1, 2**players - 1)
    masks = (numbers[:, None] >> torch.arange(players)) & 1 == 1
    by_size = [0.0, *((players - 1) / (comb(players, k) * k * (players - k)) for k in range(1, players))]
    return masks, torch.tensor(by_size, dtype=torch.float64)[masks.sum(1)]


def patch_coalitions(draws: Draws, patches: int, samples: int) -> Tensor:
    """Random coalitions (N, samples, M): of size k in proportion to 1 / (k (M - k)), each followed by its complement."""
    half = -(-samples // 2)
    sizes = torch.arange(1, patches, dtype=torch.float64)
    steps = (1 / (sizes * (patches - sizes))).cumsum(0)
    size = 1 + torch.searchsorted(steps / steps[-1], draws.uniform(half, stream="kernel_shap.size")).clamp(max=patches - 2)
    members = lowest(draws.uniform(half, patches, stream="kernel_shap.members"), size)
    return torch.stack((members, ~members), dim=2).flatten(1, 2)[:, :samples]


def superpixel_coalitions(draws: Draws, counts: Tensor, samples: int) -> tuple[Tensor, Tensor]:
    """Coalitions (N, samples, most) of counts (N,) superpixels, and weights (N, samples): all proper ones if they fit, else random."""
    present = random_superpixel_coalitions(draws, counts, samples)
    weights = torch.ones(present.shape[:2], dtype=torch.float64)
    for count in counts[counts < (samples + 2).bit_length()].unique().tolist():
        masks, kernel = all_coalitions(count)
        rows = counts == count
        present[rows], weights[rows] = False, 0.0
        present[rows, : len(masks), :count] = masks
        weights[rows, : len(masks)] = kernel
    return present, weights


def random_superpixel_coalitions(draws: Draws, counts: Tensor, samples: int) -> Tensor:
    """The same as `patch_coalitions` for M = counts (N,) players; a row does not depend on `most`, the largest M."""
    half, most = -(-samples // 2), int(counts.max())
    players, sizes = player_mask(counts, most), torch.arange(1, most, dtype=torch.float64)
    shares = torch.where(players[:, 1:], 1 / (sizes * (counts.unsqueeze(1) - sizes)), 0.0)
    chance = draws.uniform(half, stream="superpixel_shap.size") * shares.sum(1, keepdim=True)
    size = 1 + torch.searchsorted(shares.cumsum(1), chance)
    order = draws.uniform(most, half, stream="superpixel_shap.members").mT.masked_fill(~players.unsqueeze(1), 2.0)
    members = lowest(order, size)
    return torch.stack((members, ~members & players.unsqueeze(1)), dim=2).flatten(1, 2)[:, :samples]


def lowest(order: Tensor, size: Tensor) -> Tensor:
    """Which entries are among the `size` (...,) lowest of `order` (..., M).

    >>> lowest(torch.tensor([[0.5, 0.1, 0.9]]), torch.tensor([2]))
    tensor([[ True,  True, False]])
    """
    return order.argsort(-1).argsort(-1) < size.unsqueeze(-1)
