"""Metrics of localisation: does an explanation point to where the ground truth says the object is?"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks.peers import ours
from benchmarks.peers.replay import made, quantus, scores
from benchmarks.peers.rows import PLAIN, Fault, Row, equal, fault
from benchmarks.peers.subject import Case, minimal
from veracity.core.scores import Score
from veracity.inputs.tiles import tile_masks
from veracity.scores import AUC, AttributionLocalisation, PointingGame, RelevanceMassAccuracy, RelevanceRankAccuracy, TopKIntersection
from veracity.scores.localisation import Focus


def localised(score: Score, metric: Any, case: Case) -> Row:
    """A score and its namesake, for masks of the ink."""
    ink = case.x[:, 0] > 0.5
    return Row(ours.of_maps(case, score, truth=ink), scores(metric, **case.arrays(), s_batch=ink[:, None].numpy()))


def magnitudes(case: Case) -> Case:
    """The same with positive maps, in which nothing cancels."""
    return Case(case.model, case.x, case.targets, case.maps.abs())


@equal("PointingGame", "no two largest values are equal")
def pointing_game(case: Case) -> Row:
    """As they are."""
    return localised(PointingGame(), quantus.PointingGame(**PLAIN), case)


@equal("TopKIntersection", "with concept_influence")
def top_k_intersection(case: Case) -> Row:
    """With their second factor."""
    metric = quantus.TopKIntersection(k=20, concept_influence=True, **PLAIN)
    return localised(TopKIntersection(k=20, concept_influence=True), metric, case)


@equal("RelevanceMassAccuracy", "magnitudes")
def relevance_mass_accuracy(case: Case) -> Row:
    """For magnitudes, which cannot cancel."""
    return localised(RelevanceMassAccuracy(), quantus.RelevanceMassAccuracy(**PLAIN), magnitudes(case))


@equal("RelevanceRankAccuracy", "as it is")
def relevance_rank_accuracy(case: Case) -> Row:
    """As they are."""
    return localised(RelevanceRankAccuracy(), quantus.RelevanceRankAccuracy(**PLAIN), case)


@equal("AttributionLocalisation", "magnitudes")
def attribution_localisation(case: Case) -> Row:
    """For magnitudes."""
    return localised(AttributionLocalisation(), made("AttributionLocalisation", **PLAIN), magnitudes(case))


@equal("AUC", "as it is")
def auc(case: Case) -> Row:
    """As they are."""
    return localised(AUC(), quantus.AUC(**PLAIN), case)


@equal("Focus", "two of four tiles count")
def focus(case: Case) -> Row:
    """The images as mosaics of four tiles, of which every sample has other two."""
    pairs = torch.tensor([[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 1, 0, 1]])
    tiles = pairs[torch.arange(len(case.x)) % len(pairs)]
    theirs = scores(quantus.Focus(**PLAIN), **case.arrays(), custom_batch=tiles.numpy())
    return Row(ours.of_maps(case, Focus(), truth=tile_masks(tiles, 14, 14)), theirs)


HALF = np.array([1, 1, 0, 0, 1, 1, 0, 0])
"""The left half of a 2 x 4 image."""


def on_masks(case: Case, score: Score, metric: Any, masks: Any) -> tuple[Any, Any]:
    """What Quantus and we say about masks of eight positions each."""
    truth = np.broadcast_to(np.reshape(masks, (-1, 1, 2, 4)), case.x.shape).copy()
    return scores(metric, **case.arrays(), s_batch=truth), ours.of_maps(case, score, truth=torch.from_numpy(truth[:, 0]).bool())


@fault("PointingGame", says="It is a hit if any of several equal maxima lies inside, and where the mask is empty.")
def equal_maxima_and_empty_masks() -> Fault:
    """Two largest values, one of them inside; and a mask without a position."""
    case = minimal(np.ones(8), np.ones((2, 8)), [[3, 0, 0, 3, 0, 0, 1, 2], [3, 0, 0, 1, 0, 0, 1, 2]])
    theirs, mine = on_masks(case, PointingGame(), quantus.PointingGame(**PLAIN), np.stack((HALF, np.zeros(8, dtype=int))))
    return Fault("one of two equal maxima is inside: 0.5 for a random choice; an empty mask: undefined", theirs, mine, [0.5, np.nan])


@fault("RelevanceMassAccuracy", says="Sums are signed, so that the share of the mass may be any number.")
def signed_mass_is_no_share() -> Fault:
    """Positive relevance of 3 inside and 1 outside, and -2 outside."""
    case = minimal(np.ones(8), np.ones((1, 8)), [3, 0, 1, -2, 0, 0, 0, 0])
    theirs, mine = on_masks(case, RelevanceMassAccuracy(), quantus.RelevanceMassAccuracy(**PLAIN), HALF)
    return Fault("positive relevance of 3 inside and 1 outside: 3 / 4", theirs, mine, [0.75])


@fault(
    "AttributionLocalisation",
    says="weighted=True multiplies by the share of the mask instead of dividing by it, and computes it from the size of the batch.",
)
def weights_are_upside_down() -> Fault:
    """Half of the image inside, with 3 of 4 parts of the relevance; four samples that are the same."""
    case = minimal(np.ones(8), np.ones((4, 8)), np.tile([3, 0, 1, 0, 0, 0, 0, 0], (4, 1)))
    metric = made("AttributionLocalisation", weighted=True, **PLAIN)
    theirs, mine = on_masks(case, AttributionLocalisation(weighted=True), metric, HALF)
    return Fault("0.75 of the relevance on half of the image: 0.75 / 0.5", theirs[0], mine[0], 1.5)
