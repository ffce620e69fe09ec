"""Each score beside its namesake, on the same perturbations, and where our defaults go other ways than theirs, what holds instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.peers import ours
from benchmarks.peers.replay import Replay, choosing, quantus, randomised, scores
from benchmarks.peers.subject import Array, Case, apart, explain, with_weights
from veracity.core.scores import Score
from veracity.perturb.weights import FullRandomisation
from veracity.scores import (
    AUC,
    ROAD,
    AttributionLocalisation,
    Continuity,
    FaithfulnessEstimate,
    MaxSensitivity,
    PointingGame,
    RelevanceMassAccuracy,
    RelevanceRankAccuracy,
    Selectivity,
    TopKIntersection,
)
from veracity.scores.faithfulness.content import Complexity, Sparseness
from veracity.scores.faithfulness.correlation import FaithfulnessCorrelation, Infidelity
from veracity.scores.faithfulness.curves import PixelFlipping
from veracity.scores.randomisation import MPRT, EfficientMPRT
from veracity.scores.sensitivity import RelativeInputStability, RelativeOutputStability
from veracity.walk import MonteCarlo

EQUAL_TO = 1e-5
DRAWS = 12
PLAIN = {"abs": False, "normalise": False}


@dataclass(frozen=True)
class Row:
    """One comparison: our values and theirs, one a sample; `reason` says why they need not be equal, `holds` what is shown instead."""

    metric: str
    ours: Array
    theirs: Array
    reason: str = ""
    holds: bool = True

    @property
    def apart(self) -> float:
        """The largest difference over the largest value."""
        return apart(self.ours, self.theirs)


def faithfulness_correlation(case: Case) -> Row:
    """The subsets that Quantus draws are ours."""
    score = FaithfulnessCorrelation(nr_runs=100, subset_size=28)
    metric = quantus.FaithfulnessCorrelation(nr_runs=100, subset_size=28, return_aggregate=False, **PLAIN)
    with choosing(ours.elements(case, score)):
        theirs = scores(metric, **case.arrays())
    return Row("FaithfulnessCorrelation", ours.values(case, score), theirs)


def other_masks(case: Case) -> Row:
    """The same comparison with the subsets of other samples, which must come out different."""
    score = FaithfulnessCorrelation(nr_runs=100, subset_size=28)
    metric = quantus.FaithfulnessCorrelation(nr_runs=100, subset_size=28, return_aggregate=False, **PLAIN)
    with choosing(ours.elements(case, score).roll(1, dims=0)):
        theirs = scores(metric, **case.arrays())
    mine = ours.values(case, score)
    return Row(
        "FaithfulnessCorrelation, other masks", mine, theirs, "not the same masks: it must differ", apart(mine, theirs) > 100 * EQUAL_TO
    )


def pixel_flipping(case: Case) -> Row:
    """Nothing is random; Quantus's points are 1 apart."""
    metric = quantus.PixelFlipping(features_in_step=7, return_auc_per_sample=True, **PLAIN)
    return Row("PixelFlipping", ours.values(case, PixelFlipping(features_in_step=7, dx=1.0)), scores(metric, **case.arrays()))


def faithfulness_estimate(case: Case) -> Row:
    """Nothing is random; Quantus reads logits."""
    mine = ours.values(case, FaithfulnessEstimate(features_in_step=7, softmax=False))
    return Row("FaithfulnessEstimate", mine, scores(quantus.FaithfulnessEstimate(features_in_step=7, **PLAIN), **case.arrays()))


def selectivity(case: Case) -> Row:
    """The mean height of their curve, with the prediction for the whole input before it."""
    mine = ours.values(case, Selectivity(patch_size=7))
    curves = scores(quantus.Selectivity(patch_size=7, **PLAIN), **case.arrays())
    whole = case.model(case.x).softmax(1).gather(1, case.targets[:, None]).numpy()
    return Row("Selectivity, with its start", mine, np.trapezoid(np.concatenate((whole, curves), axis=1), axis=1) / curves.shape[1])


def road(case: Case) -> Row:
    """Without noise; the mean over samples at each percentage, over all of them."""
    percentages = (10.0, 30.0, 50.0, 70.0, 90.0)
    mine = ours.values(case, ROAD(percentages=percentages, noise=0.0))
    found = quantus.ROAD(percentages=list(percentages), noise=0.0, **PLAIN)(**case.arrays())
    return Row("ROAD, mean over percentages", np.array([mine.mean()]), np.array([np.mean(list(found.values()))]))


def continuity(case: Case) -> Row:
    """Theirs are all distances from -13 to 14, ours that of -14 too, but 0."""
    mine = ours.values(case, Continuity(nr_steps=1000, relative=False))
    theirs = scores(quantus.Continuity(nr_steps=28, **PLAIN), **case.arrays(), explain_func=explain)
    return Row("Continuity, every distance", mine, theirs)


def localised(name: str, score: Score, metric: Any, case: Case, positive: bool = False) -> Row:
    """A score of localisation and its namesake, for masks of the ink; `positive` compares magnitudes."""
    ink = case.x[:, 0] > 0.5
    given = {**case.arrays(), "s_batch": ink[:, None].numpy()}
    if not positive:
        return Row(name, ours.values(case, score, truth=ink), scores(metric, **given))
    given["a_batch"] = np.abs(given["a_batch"])
    mine = ours.values(case, score, truth=ink, explainers={"magnitudes": case.maps.abs()})
    return Row(name, mine, scores(metric, **given))


def pointing_game(case: Case) -> Row:
    """No two largest values are equal."""
    return localised("PointingGame", PointingGame(), quantus.PointingGame(**PLAIN), case)


def top_k_intersection(case: Case) -> Row:
    """With their second factor."""
    metric = quantus.TopKIntersection(k=20, concept_influence=True, **PLAIN)
    return localised("TopKIntersection", TopKIntersection(k=20, concept_influence=True), metric, case)


def relevance_rank_accuracy(case: Case) -> Row:
    """As they are."""
    return localised("RelevanceRankAccuracy", RelevanceRankAccuracy(), quantus.RelevanceRankAccuracy(**PLAIN), case)


def relevance_mass_accuracy(case: Case) -> Row:
    """For magnitudes, which cannot cancel."""
    return localised("RelevanceMassAccuracy", RelevanceMassAccuracy(), quantus.RelevanceMassAccuracy(**PLAIN), case, positive=True)


def attribution_localisation(case: Case) -> Row:
    """For magnitudes."""
    return localised("AttributionLocalisation", AttributionLocalisation(), quantus.AttributionLocalisation(**PLAIN), case, positive=True)


def auc(case: Case) -> Row:
    """As they are."""
    return localised("AUC", AUC(), quantus.AUC(**PLAIN), case)


def infidelity(case: Case) -> Row:
    """Its perturb_func gives our patches instead of adding one to another: four patches of side 7, three times."""
    score = Infidelity(patch_size=7, n_perturb_samples=DRAWS)
    metric = quantus.Infidelity(perturb_patch_sizes=[7], n_perturb_samples=DRAWS // 4, perturb_func=Replay(ours.perturbed(case, score)))
    return Row("Infidelity", ours.values(case, score), scores(metric, **case.arrays()))


def infidelity_captum(case: Case) -> Row:
    """Captum asks for x - x' and x' together."""
    from captum.metrics import infidelity

    score = Infidelity(patch_size=7, n_perturb_samples=DRAWS)
    after = iter(ours.perturbed(case, score).transpose(0, 1))

    def perturb(x: Tensor) -> tuple[Tensor, Tensor]:
        there = next(after)
        return x - there, there

    theirs = infidelity(
        case.model, perturb, case.x, case.maps, target=case.targets, n_perturb_samples=DRAWS, max_examples_per_batch=len(case.x)
    )
    return Row("Infidelity (Captum)", ours.values(case, score), theirs.detach().numpy())


def relative_input_stability(case: Case) -> Row:
    """With floor=0, their definition."""
    score = RelativeInputStability(walk=MonteCarlo(draws=DRAWS), floor=0.0)
    metric = quantus.RelativeInputStability(nr_samples=DRAWS, perturb_func=Replay(ours.perturbed(case, score)))
    return Row("RelativeInputStability", ours.values(case, score), scores(metric, **case.arrays(), explain_func=explain))


def relative_output_stability(case: Case) -> Row:
    """With floor=0, their definition, and noise that the single precision of their outputs resolves."""
    score = RelativeOutputStability(walk=MonteCarlo(draws=DRAWS), floor=0.0, sigma=0.02)
    metric = quantus.RelativeOutputStability(nr_samples=DRAWS, perturb_func=Replay(ours.perturbed(case, score)))
    return Row("RelativeOutputStability", ours.values(case, score), scores(metric, **case.arrays(), explain_func=explain))


def max_sensitivity(case: Case) -> Row:
    """Relative to the explanation's length, as theirs always is."""
    score = MaxSensitivity(walk=MonteCarlo(draws=DRAWS), radius=0.2, relative=True)
    metric = quantus.MaxSensitivity(nr_samples=DRAWS, perturb_func=Replay(ours.perturbed(case, score)))
    return Row("MaxSensitivity", ours.values(case, score), scores(metric, **case.arrays(), explain_func=explain))


def mprt_last(case: Case) -> Row:
    """All layers random."""
    score = MPRT(layers="last")
    with randomised(ours.copies(case, score)):
        theirs = scores(quantus.MPRT(return_last_correlation=True, **PLAIN), **case.arrays(), explain_func=explain)
    return Row("MPRT, last layer", ours.values(case, score), theirs)


def mprt_layers(case: Case) -> Row:
    """The mean over their correlations layer by layer, without that of the original model."""
    score = MPRT()
    models = ours.copies(case, score)
    with randomised(models):
        found = quantus.MPRT(**PLAIN)(**case.arrays(), explain_func=explain)
    layers = np.mean([found[str(number)] for number in range(len(models))], axis=0)
    return Row("MPRT, mean of layers", ours.values(case, score), layers)


def batch_norm(case: Case) -> Row:
    """Running statistics of a batch normalisation once all layers are random, from the layers that Quantus randomises itself."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 12 * 12, 10)).train()
        model(case.x.float() + 1.0)
        model.eval()
        *_, (_, last) = quantus.helpers.model.pytorch_model.PyTorchModel(model).get_random_layer_generator(order="top_down", seed=0)
    mine = with_weights(model, FullRandomisation().of(model).parameters(model, 0, 0, ours.SEED))
    states = [one.state_dict() for one in (mine, last)]
    found, theirs = (np.concatenate([one["1.running_mean"].numpy(), one["1.running_var"].numpy()]) for one in states)
    return Row("MPRT, batch normalisation", found, theirs)


def efficient_mprt(case: Case) -> Row:
    """The same randomised model, and 100 bins."""
    score = EfficientMPRT()
    metric = quantus.EfficientMPRT(complexity_func_kwargs={"n_bins": 100})
    with randomised(ours.copies(case, score)):
        theirs = scores(metric, **case.arrays(), explain_func=explain)
    return Row("EfficientMPRT", ours.values(case, score), theirs)


def complexity(case: Case) -> Row:
    """As they are."""
    return Row("Complexity", ours.values(case, Complexity()), scores(quantus.Complexity(), **case.arrays()))


def sparseness(case: Case) -> Row:
    """As they are."""
    return Row("Sparseness", ours.values(case, Sparseness()), scores(quantus.Sparseness(), **case.arrays()))


def pixel_flipping_default(case: Case) -> Row:
    """28 points are 27 steps."""
    mine = ours.values(case, PixelFlipping(features_in_step=7))
    theirs = scores(quantus.PixelFlipping(features_in_step=7, return_auc_per_sample=True, **PLAIN), **case.arrays())
    reason = "theirs grows with the number of steps, ours is the curve's mean height: theirs / 27"
    return Row("PixelFlipping, our default", mine, theirs, reason, apart(mine, theirs / 27) < EQUAL_TO)


def mprt_average(case: Case) -> Row:
    """Their average is that of the layers and of a 1."""
    score = MPRT()
    models = ours.copies(case, score)
    with randomised(models):
        theirs = scores(quantus.MPRT(return_average_correlation=True, **PLAIN), **case.arrays(), explain_func=explain)
    mine, count = ours.values(case, score), len(models)
    reason = f"theirs counts the original model as a layer more: (1 + {count} ours) / {count + 1}"
    return Row("MPRT, their average", mine, theirs, reason, apart((1 + count * mine) / (count + 1), theirs) < EQUAL_TO)


def ris_default(case: Case) -> Row:
    """Their denominator, and the part of it that pixels of exactly 0 make."""
    score = RelativeInputStability(walk=MonteCarlo(draws=DRAWS))
    moved = ours.perturbed(case, score)
    metric = quantus.RelativeInputStability(nr_samples=DRAWS, perturb_func=Replay(moved))
    theirs = scores(metric, **case.arrays(), explain_func=explain)
    x = case.x[:, None]
    square = ((moved - x) / torch.where(x == 0, 1e-6, x)).square()
    black = float(torch.where(x == 0, square, 0.0).sum() / square.sum())
    reason = f"theirs divides by what is {black:.4%} the change of pixels that are exactly 0"
    return Row("RelativeInputStability, our default", ours.values(case, score), theirs, reason, black > 0.9999)


def infidelity_default(case: Case) -> Row:
    """Their number is that of patches which pile up: one, two, three, all four of them."""
    mine = ours.values(case, Infidelity(patch_size=7))
    theirs = scores(quantus.Infidelity(perturb_patch_sizes=[7], n_perturb_samples=1), **case.arrays())
    corners = ((0, 0), (0, 7), (7, 0), (7, 7))
    here = case.model(case.x).gather(1, case.targets[:, None])[:, 0]
    there, errors = case.x.clone(), []
    for row, column in corners:
        there[..., row : row + 7, column : column + 7] = case.x.flatten(1).amin(1).reshape(-1, 1, 1, 1)
        foretold = (case.maps * (case.x - there)).flatten(1).sum(1)
        errors.append((here - case.model(there).gather(1, case.targets[:, None])[:, 0] - foretold).square())
    piled = torch.stack(errors).mean(0).numpy()
    return Row(
        "Infidelity, our default",
        mine,
        theirs,
        "theirs never puts a patch back: 1, 2, 3, then 4 of them are gone",
        apart(piled, theirs) < EQUAL_TO,
    )


EQUAL: tuple[Callable[[Case], Row], ...] = (
    faithfulness_correlation,
    faithfulness_estimate,
    pixel_flipping,
    selectivity,
    road,
    continuity,
    pointing_game,
    top_k_intersection,
    relevance_rank_accuracy,
    relevance_mass_accuracy,
    attribution_localisation,
    auc,
    infidelity,
    infidelity_captum,
    relative_input_stability,
    relative_output_stability,
    max_sensitivity,
    mprt_last,
    mprt_layers,
    batch_norm,
    efficient_mprt,
    complexity,
    sparseness,
)
EXPLAINED: tuple[Callable[[Case], Row], ...] = (
    pixel_flipping_default,
    infidelity_default,
    ris_default,
    mprt_average,
    other_masks,
)
