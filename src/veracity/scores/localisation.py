"""Localisation: does an explanation point to where the ground truth says the object is? They read `Audit(truth=...)`.

The relevance of a position is the sum of the explanation over its channels. Equal positions share their ranks, so no map gains from the
order of its entries. A sample whose mask is empty is undefined.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from veracity.core.errors import InputError
from veracity.core.explainers import Frame
from veracity.core.measures import Direction
from veracity.core.registry import SCORES
from veracity.core.scores import Defaults, Pair, Reads, Request, Score, Subject
from veracity.core.settings import Fraction, Portion
from veracity.measure.rank import average_ranks, sorted_rows
from veracity.perturb import Redraw
from veracity.walk import MonteCarlo


@dataclass(frozen=True, kw_only=True)
class LocalisationScore(Score, ABC):
    """A score of an explanation and the mask of its sample; the model is not used. Undefined if the mask is empty."""

    before = frozenset({Reads.EXPLANATION, Reads.TRUTH})
    after = frozenset()
    direction = Direction.HIGHER

    @property
    def bounds(self) -> tuple[float, float]:
        """Those of a share."""
        return 0.0, 1.0

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Every map over the input, once."""
        explainer = subject.explainer
        if explainer is None or explainer.frame is not Frame.INPUT or explainer.categorical:
            return ()
        return (Request(Redraw(), MonteCarlo(draws=1)),)

    @abstractmethod
    def rate(self, relevance: Tensor, mask: Tensor) -> Tensor:
        """One number per sample (R,) from its relevance and its mask over P positions, both (R, P)."""

    def observe(self, pair: Pair) -> Tensor:
        """The score of each map, NaN where the mask is empty, (R,)."""
        relevance, mask = by_position(pair.before.explanation, pair.before.truth)
        return self.rate(relevance, mask).masked_fill(~mask.any(dim=1), torch.nan)


def by_position(explanation: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Explanations, summed in double precision over the axes along which masks (R, ...) do not vary, and the masks: both (R, P).

    >>> by_position(torch.tensor([[[1.0, 2.0], [3.0, 5.0]]]), torch.tensor([[[True, False]]]))
    (tensor([[4., 7.]], dtype=torch.float64), tensor([[ True, False]]))
    """
    given, needed = tuple(explanation.shape[1:]), tuple(truth.shape[1:])
    if len(given) != len(needed) or any(a != b and 1 not in (a, b) for a, b in zip(given, needed, strict=True)):
        raise InputError(f"Localisation needs an explanation of each position of masks of shape {needed}, but the maps have shape {given}.")
    found, mask = explanation, truth.to(explanation.device)
    for axis, size in enumerate(needed, start=1):
        if size == 1 and found.shape[axis] > 1:
            found = found.double().sum(dim=axis, keepdim=True)
    return found.expand(len(found), *needed).flatten(1), mask.flatten(1)


def top_share(relevance: Tensor, mask: Tensor, count: Tensor) -> Tensor:
    """The share (R,) of the `count` (R,) most relevant positions that lie inside the mask, both (R, P).

    Of positions that are equal to the last of them, it is the share that is expected of a random choice.

    >>> top_share(torch.tensor([[3.0, 2.0, 2.0]]), torch.tensor([[True, True, False]]), torch.tensor([2]))
    tensor([0.7500], dtype=torch.float64)
    """
    place = relevance.shape[1] - count.clamp(min=1)
    last = sorted_rows(relevance).gather(1, place[:, None])
    above, equal = relevance > last, relevance == last
    left, tied = count - above.sum(dim=1), equal.sum(dim=1).clamp(min=1)
    inside = (above & mask).sum(dim=1) + (equal & mask).sum(dim=1).double() * left / tied
    return inside / count.clamp(min=1)


def mass_share(relevance: Tensor, mask: Tensor) -> Tensor:
    """The share (R,) of the positive relevance (R, P) that lies inside the mask; NaN if there is none.

    >>> mass_share(torch.tensor([[3.0, 1.0, -5.0]]), torch.tensor([[True, False, False]]))
    tensor([0.7500], dtype=torch.float64)
    """
    positive = relevance.double().clamp(min=0.0)
    total = positive.sum(dim=1)
    return torch.where(mask, positive, 0.0).sum(dim=1) / total.masked_fill(total == 0, torch.nan)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class PointingGame(LocalisationScore):
    """Whether the most relevant position lies inside the mask: 1 if it does, else 0.

    The mean over samples is the share of hits. Of several positions with the same largest relevance, the share that lies inside
    counts, as for a random choice among them: a constant map scores the size of the mask. The paper also counts hits close to the object.

    Quantus 0.6.0 counts a hit if any of these positions lies inside, so a constant map always hits, and so does every map if the mask is
    empty.
    """

    name = "pointing_game"
    reference = "Zhang et al., Top-down neural attention by excitation backprop (IJCV 2018)"

    def rate(self, relevance: Tensor, mask: Tensor) -> Tensor:
        """The share of the maxima inside, (R,)."""
        most = relevance == relevance.amax(dim=1, keepdim=True)
        return (most & mask).sum(dim=1).double() / most.sum(dim=1).clamp(min=1)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class TopKIntersection(LocalisationScore):
    """Share of the k most relevant positions that lie inside the mask.

        |top_k(e) and m| / k

    `k` is a number of positions, or a share of them. With `concept_influence` it is divided by the share of positions that the mask
    covers, so that 1 is what a random map gets, whatever the size of the mask.
    """

    name = "top_k_intersection"
    title = "top-k intersection"
    reference = "Theiner, Müller-Budack and Ewerth, Interpretable semantic photo geolocation (WACV 2022)"
    k: Portion = 0.1
    concept_influence: bool = False

    @property
    def bounds(self) -> tuple[float, float]:
        """A share, which is divided by another one if `concept_influence`."""
        return (0.0, torch.inf) if self.concept_influence else (0.0, 1.0)

    @property
    def null(self) -> float | None:
        """1 with `concept_influence`."""
        return 1.0 if self.concept_influence else None

    def requests(self, subject: Subject, defaults: Defaults) -> Sequence[Request]:
        """Every map over the input, once; raises if k is larger than a mask."""
        self.check_count(self.k if isinstance(self.k, int) else 1, (subject.shape if subject.mask is None else subject.mask).numel())
        return super().requests(subject, defaults)

    def check_count(self, count: int, positions: int) -> None:
        """Raise if k is larger than a sample."""
        if count > positions:
            raise InputError(f"k={count} is more than the {positions} positions of a sample: give {self.name} a smaller k, or a share.")

    def rate(self, relevance: Tensor, mask: Tensor) -> Tensor:
        """The share of the top k inside, (R,)."""
        positions = relevance.shape[1]
        count = self.k if isinstance(self.k, int) else max(1, round(self.k * positions))
        self.check_count(count, positions)
        found = top_share(relevance, mask, torch.full_like(mask[:, 0], count, dtype=torch.int64))
        return found / mask.double().mean(dim=1).clamp(min=1.0 / positions) if self.concept_influence else found


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class RelevanceRankAccuracy(LocalisationScore):
    """Share of the K most relevant positions that lie inside the mask, which covers K positions.

    |top_K(e) and m| / K,   K = |m|
    """

    name = "relevance_rank_accuracy"
    reference = "Arras, Osman and Samek, CLEVR-XAI: a benchmark dataset for the ground truth evaluation of explanations (2022)"

    def rate(self, relevance: Tensor, mask: Tensor) -> Tensor:
        """The share of the top K inside, (R,)."""
        return top_share(relevance, mask, mask.sum(dim=1))


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class RelevanceMassAccuracy(LocalisationScore):
    """Share of the positive relevance that lies inside the mask.

        sum over m of max(e, 0) / sum of max(e, 0)

    Undefined for a map without positive relevance. Give maps of magnitudes to count negative relevance, too. Quantus 0.6.0 takes the
    signed sums, whose ratio is no share: where positive and negative relevance cancel, it may be any number.
    """

    name = "relevance_mass_accuracy"
    reference = "Arras, Osman and Samek, CLEVR-XAI: a benchmark dataset for the ground truth evaluation of explanations (2022)"

    def rate(self, relevance: Tensor, mask: Tensor) -> Tensor:
        """The share of the mass, (R,)."""
        return mass_share(relevance, mask)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class AttributionLocalisation(LocalisationScore):
    """Share of the positive relevance that lies inside the mask, for masks that are small enough.

        mu = sum over m of max(e, 0) / sum of max(e, 0),   weighted: mu |x| / |m|

    Samples whose mask covers more than the share `max_size` of the positions are undefined, since any map scores well on them. `weighted`
    divides by the share that the mask covers, as the paper's mu_w does: 1 is then what a random map gets. Undefined for a map without
    positive relevance.

    Quantus 0.6.0 multiplies by that share instead, and computes it from the size of the batch.
    """

    name = "attribution_localisation"
    reference = "Kohlbrenner et al., Towards best practice in explaining neural network decisions with LRP (IJCNN 2020)"
    weighted: bool = False
    max_size: Fraction = 1.0

    @property
    def bounds(self) -> tuple[float, float]:
        """A share, which is divided by another one if `weighted`."""
        return (0.0, torch.inf) if self.weighted else (0.0, 1.0)

    @property
    def null(self) -> float | None:
        """1 if `weighted`."""
        return 1.0 if self.weighted else None

    def rate(self, relevance: Tensor, mask: Tensor) -> Tensor:
        """The share of the mass, (R,)."""
        size = mask.double().mean(dim=1)
        found = mass_share(relevance, mask).masked_fill(size > self.max_size, torch.nan)
        return found / size.clamp(min=1.0 / mask.shape[1]) if self.weighted else found


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class AUC(LocalisationScore):
    """Area under the ROC curve of the relevance as a classifier of the positions inside the mask.

    The probability that a position inside is more relevant than one outside, where equal ones count half: .5 for a random map. Undefined
    if the mask covers everything, too.
    """

    name = "auc"
    title = "AUC"
    reference = "Fawcett, An introduction to ROC analysis (2006)"

    @property
    def null(self) -> float | None:
        """The value of a random map."""
        return 0.5

    def rate(self, relevance: Tensor, mask: Tensor) -> Tensor:
        """From the sum of the ranks inside, (R,)."""
        inside, outside = (part.sum(dim=1).double() for part in (mask, ~mask))
        ranks = torch.where(mask, average_ranks(relevance), 0.0).sum(dim=1)
        pairs = inside * outside
        return (ranks - inside * (inside + 1) / 2) / pairs.masked_fill(pairs == 0, torch.nan)


@SCORES.add
@dataclass(frozen=True, kw_only=True)
class Focus(LocalisationScore):
    """Share of the positive relevance that lies on the images of the explained class, in a mosaic of images of several classes.

        sum over m of max(e, 0) / sum of max(e, 0),   m the tiles of the explained class

    The inputs are mosaics, the target is the class of some of their tiles, and the truth marks these tiles: `veracity.inputs.mosaics` makes
    all three. Two of four tiles give .5 to a random map. Undefined for a map without positive relevance.
    """

    name = "focus"
    reference = "Arias-Duart et al., Focus! Rating XAI methods and finding biases (FUZZ-IEEE 2022)"

    def rate(self, relevance: Tensor, mask: Tensor) -> Tensor:
        """The share of the mass, (R,)."""
        return mass_share(relevance, mask)
