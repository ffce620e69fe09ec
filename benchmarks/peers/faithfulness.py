"""Metrics of faithfulness: does the prediction change as the explanation says?"""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.peers import ours
from benchmarks.peers.replay import Replay, answer, choosing, made, quantus, raised, scores
from benchmarks.peers.rows import DRAWS, PLAIN, Fault, Row, default, equal, fault
from benchmarks.peers.subject import STEPS, Array, Case, apart, minimal
from veracity.perturb.replaced import slic_segments
from veracity.scores import (
    IROF,
    ROAD,
    FaithfulnessEstimate,
    Monotonicity,
    MonotonicityCorrelation,
    RegionPerturbation,
    Selectivity,
    SensitivityN,
)
from veracity.scores.faithfulness.content import Sufficiency
from veracity.scores.faithfulness.correlation import FaithfulnessCorrelation, Infidelity
from veracity.scores.faithfulness.curves import PixelFlipping
from veracity.walk import Exhaustive

MAGNITUDES = {"abs": True, "normalise": False}


@equal("FaithfulnessCorrelation", "the same random subsets")
def faithfulness_correlation(case: Case) -> Row:
    """The subsets that Quantus draws are ours."""
    score = FaithfulnessCorrelation(nr_runs=100, subset_size=28)
    metric = quantus.FaithfulnessCorrelation(nr_runs=100, subset_size=28, return_aggregate=False, **PLAIN)
    with choosing(ours.elements(case, score)):
        theirs = scores(metric, **case.arrays())
    return Row(ours.values(case, score), theirs)


@default("FaithfulnessCorrelation", "other masks")
def other_masks(case: Case) -> Row:
    """The same comparison with the subsets of other samples, which must come out different."""
    score = FaithfulnessCorrelation(nr_runs=100, subset_size=28)
    metric = quantus.FaithfulnessCorrelation(nr_runs=100, subset_size=28, return_aggregate=False, **PLAIN)
    with choosing(ours.elements(case, score).roll(1, dims=0)):
        theirs = scores(metric, **case.arrays())
    mine = ours.values(case, score)
    return Row(mine, theirs, "not the same masks: it must differ", apart(mine, theirs) > 1e-3)


@equal("FaithfulnessEstimate", "logits")
def faithfulness_estimate(case: Case) -> Row:
    """Nothing is random; Quantus reads logits."""
    mine = ours.values(case, FaithfulnessEstimate(features_in_step=7, softmax=False))
    return Row(mine, scores(quantus.FaithfulnessEstimate(features_in_step=7, **PLAIN), **case.arrays()))


@equal("PixelFlipping", "points 1 apart")
def pixel_flipping(case: Case) -> Row:
    """Nothing is random; Quantus's points are 1 apart."""
    metric = quantus.PixelFlipping(features_in_step=7, return_auc_per_sample=True, **PLAIN)
    return Row(ours.values(case, PixelFlipping(features_in_step=7, dx=1.0)), scores(metric, **case.arrays()))


@default("PixelFlipping", "our default")
def pixel_flipping_default(case: Case) -> Row:
    """28 points are 27 steps."""
    mine = ours.values(case, PixelFlipping(features_in_step=7))
    theirs = scores(quantus.PixelFlipping(features_in_step=7, return_auc_per_sample=True, **PLAIN), **case.arrays())
    reason = "theirs grows with the number of steps, ours is the curve's mean height: theirs / 27"
    return Row(mine, theirs, reason, apart(mine, theirs / 27) < 1e-6)


@fault(
    "PixelFlipping", says="The baselines 'mean' and 'white' are taken anew from the image that is already flipped, so that 'mean' drifts."
)
def mean_baseline_drifts() -> Fault:
    """The curve of logits falls by the weight of each pixel times its distance from the mean of the whole image."""
    x = STEPS**2 / 64.0
    case = minimal(STEPS, x, STEPS)
    metric = quantus.PixelFlipping(perturb_baseline="mean", return_auc_per_sample=True, **PLAIN)
    order = np.argsort(-STEPS)
    curve = STEPS @ x - np.cumsum((STEPS * (x - x.mean()))[order])
    return Fault(
        "a linear model, each pixel set to the mean of the original image: the area under the logit",
        scores(metric, **case.arrays(), softmax=False)[0],
        ours.of_maps(case, PixelFlipping(perturb_baseline="mean", softmax=False, dx=1.0))[0],
        np.trapezoid(curve),
    )


@equal("RegionPerturbation", "the sum of their curve over L + 1 (equation 26)")
def region_perturbation(case: Case) -> Row:
    """Quantus gives the drops; the score of the paper is their sum, with the 0 at the start, over the number of points."""
    curves = scores(quantus.RegionPerturbation(patch_size=7, **PLAIN), **case.arrays())
    return Row(ours.values(case, RegionPerturbation(patch_size=7)), curves.sum(axis=1) / (curves.shape[1] + 1))


@fault("RegionPerturbation", says="get_auc_score leaves out the start of the curve and does not divide by the number of its points.")
def region_perturbation_has_no_mean() -> Fault:
    """Two patches that weigh 1 and 3: drops of 3 and 4."""
    case = minimal([0.25, 0.25, 0.75, 0.75] * 2, np.ones(8), [1, 1, 2, 2] * 2)
    metric = quantus.RegionPerturbation(patch_size=2, perturb_baseline=0.0, **PLAIN)
    answer(metric, **case.arrays(), softmax=False)
    score = RegionPerturbation(patch_size=2, perturb_baseline=0.0, softmax=False)
    return Fault("drops of 0, 3 and 4: (0 + 3 + 4) / 3", metric.get_auc_score, ours.of_maps(case, score)[0], 7 / 3)


@equal("Monotonicity", "with a perturb_func that adds features")
def monotonicity(case: Case) -> Row:
    """Theirs adds nothing; here it restores the entries of the image. Every other map is the opposite, so that both answers occur."""
    signs = torch.where(torch.arange(len(case.x)) % 2 == 0, 1.0, -1.0).reshape(-1, 1, 1, 1)
    given = Case(case.model, case.x, case.targets, case.maps * case.x * signs)
    image = case.x.flatten(1).numpy()

    def restore(arr: Array, indices: Array, **settings: Any) -> Array:
        found = arr.copy()
        rows = np.arange(len(arr))[:, None]
        found[rows, indices] = image[rows, indices]
        return found

    metric = quantus.Monotonicity(features_in_step=98, perturb_func=restore, **PLAIN)
    return Row(ours.of_maps(given, Monotonicity(features_in_step=98)), scores(metric, **given.arrays()))


@fault("Monotonicity", says="Nothing is added to the baseline: entries of the baseline become the baseline, so that every map gets 1.")
def monotonicity_is_always_true() -> Fault:
    """Every pixel that is added makes the prediction fall."""
    case = minimal(-STEPS, np.ones(8), STEPS, bias=100.0)
    metric = made("Monotonicity", perturb_baseline=0.0, **PLAIN)
    mine = ours.of_maps(case, Monotonicity(perturb_baseline=0.0, softmax=False))[0]
    return Fault("a prediction that falls with every added pixel: 0", scores(metric, **case.arrays(), softmax=False)[0], mine, 0.0)


@equal("MonotonicityCorrelation", "the same random values")
def monotonicity_correlation(case: Case) -> Row:
    """Its perturb_func puts the values that we drew for the same entries."""
    score = MonotonicityCorrelation(features_in_step=7, nr_samples=DRAWS)
    metric = quantus.MonotonicityCorrelation(features_in_step=7, nr_samples=DRAWS, perturb_func=Drawn(case, score), **MAGNITUDES)
    return Row(ours.values(case, score), scores(metric, **case.arrays()))


class Drawn:
    """A `perturb_func` that replaces entries by the values that we drew for them, draw by draw."""

    def __init__(self, case: Case, score: MonotonicityCorrelation) -> None:
        changed = ours.perturbed(case, score).flatten(2)
        moved = changed.reshape(len(case.x), score.nr_samples, -1, changed.shape[-1])
        drawn = ours.elements(case, score).reshape(moved.shape)
        self.values = torch.where(drawn.isnan(), 0.0, moved).sum(dim=2).numpy()
        self.calls = 0

    def __call__(self, arr: Array, indices: Array, **settings: Any) -> Array:
        """The inputs with other values at these indices (samples, entries)."""
        found, rows = arr.copy(), np.arange(len(arr))[:, None]
        found[rows, indices] = self.values[rows, self.calls % self.values.shape[1], indices]
        self.calls += 1
        return found


@fault("MonotonicityCorrelation", says="It raises if the prediction for one sample of a batch is 0, or nearly so.")
def a_prediction_of_zero_raises() -> Fault:
    """The weights are in the order of the losses (w_i (x_i - 10))^2 of both samples, whose predictions are 36 and 0."""
    case = minimal(STEPS, [np.ones(8), [8, 0, 0, 0, 0, 0, 0, -1]], [STEPS, STEPS])
    metric = quantus.MonotonicityCorrelation(nr_samples=1, perturb_baseline=10.0, **MAGNITUDES)
    mine = ours.of_maps(case, MonotonicityCorrelation(softmax=False, perturb_baseline=10.0))
    return Fault(
        "maps in the order of the losses: 1, 1", raised(metric, ValueError, "boolean", **case.arrays(), softmax=False), mine, np.ones(2)
    )


@equal("Selectivity", "with the start of the curve; its mean height")
def selectivity(case: Case) -> Row:
    """The mean height of their curve, with the prediction for the whole input before it."""
    mine = ours.values(case, Selectivity(patch_size=7))
    curves = scores(quantus.Selectivity(patch_size=7, **PLAIN), **case.arrays())
    whole = case.model(case.x).softmax(1).gather(1, case.targets[:, None]).numpy()
    return Row(mine, np.trapezoid(np.concatenate((whole, curves), axis=1), axis=1) / curves.shape[1])


@fault("Selectivity", says="The curve, and get_auc_score, leave out the prediction for the whole input.")
def selectivity_has_no_start() -> Fault:
    """Two patches that weigh 1 and 3: predictions of 4, 1 and 0."""
    case = minimal([0.25, 0.25, 0.75, 0.75] * 2, np.ones(8), [1, 1, 2, 2] * 2)
    metric = quantus.Selectivity(patch_size=2, perturb_baseline=0.0, **PLAIN)
    answer(metric, **case.arrays(), softmax=False)
    mine = ours.of_maps(case, Selectivity(patch_size=2, perturb_baseline=0.0, softmax=False))[0]
    return Fault("predictions of 4, 1 and 0, which have the mean height (2.5 + 0.5) / 2", metric.get_auc_score, mine, 1.5)


@fault(
    "SensitivityN",
    says="It draws no subsets: it masks by relevance, and correlates over samples the attribution of a step with the drop since the first.",
)
def sensitivity_n_has_no_subsets() -> Fault:
    """The contributions of a linear model, which add up for every subset."""
    x = np.random.default_rng(0).uniform(0.5, 1.0, (4, 8))
    case = minimal(STEPS, x, STEPS * x)
    metric = quantus.SensitivityN(perturb_baseline=0.0, **PLAIN)
    mine = ours.of_maps(case, SensitivityN(perturb_baseline=0.0, softmax=False)).mean()
    theirs = scores(metric, **case.arrays(), softmax=False)[0]
    return Fault("contributions of a linear model, which have sensitivity-n for every n: 1", theirs, mine, 1.0)


SEGMENTS = "quantus.helpers.utils.get_superpixel_segments"


def our_segments(img: Array, segmentation_method: str) -> Array:
    """Our superpixels of an image (height, width, channels)."""
    found: Array = slic_segments(torch.from_numpy(np.moveaxis(img, -1, 0).copy())[None], SUPERPIXELS)[0].numpy()
    return found


SUPERPIXELS = 25


@equal("IROF", "one sample at a time, our superpixels, with the start of the curve, as a share")
def irof(case: Case) -> Row:
    """Their area over L points from the first removal on becomes ours by the first step of the curve, from 1, and by L."""
    metric = quantus.IROF(perturb_baseline=0.0, return_aggregate=False, **PLAIN)
    with mock.patch(SEGMENTS, our_segments):
        areas = scores(metric, **{**case.arrays(), "batch_size": 1})
    pieces = slic_segments(case.x, SUPERPIXELS)
    first, counts = case.x.clone(), []
    for row, (piece, relevance) in enumerate(zip(pieces, case.maps[:, 0], strict=True)):
        means = torch.stack([relevance[piece == number].mean() for number in range(int(piece.max()) + 1)])
        first[row, 0][piece == means.argmax()] = 0.0
        counts.append(len(means))
    before, after = (case.model(x).softmax(1).gather(1, case.targets[:, None])[:, 0] for x in (case.x, first))
    start = (1.0 + (after / before).numpy()) / 2
    return Row(ours.values(case, IROF(segments=SUPERPIXELS, perturb_baseline=0.0)), (areas - start) / np.array(counts))


@fault(
    "IROF",
    says="The curve leaves out its start but counts it, so that a prediction that never falls has an area of 1; in a batch with an image "
    "of more superpixels, 0.5.",
)
def irof_counts_a_point_too_many() -> Fault:
    """A model that predicts the same for every input, and images with two and with eight superpixels: nothing lies over the curves."""
    x = np.zeros((2, 1, 8, 8))
    x[0, 0, :, 4:], x[1, 0] = 1.0, np.arange(8.0)[:, None]
    case = constant_model(x)
    metric = quantus.IROF(perturb_baseline=0.0, return_aggregate=False, **PLAIN)
    with mock.patch(SEGMENTS, lambda img, segmentation_method: img[:, :, 0].astype(int)):
        alone, together = (scores(metric, **{**case.arrays(), "batch_size": size})[0] for size in (1, 2))
    mine = ours.of_maps(case, IROF())[0]
    return Fault("a prediction that never falls, alone and in a batch: 0, 0", [alone, together], [mine, mine], [0.0, 0.0])


@fault("IROF", "ROAD", says="It raises on colour images.")
def colours_raise() -> Fault:
    """Three channels, and a model that always predicts the same."""
    case = constant_model(np.random.default_rng(0).uniform(size=(2, 3, 8, 8)))
    irof = raised(quantus.IROF(**PLAIN), AssertionError, "mask shape", **case.arrays())
    road = raised(quantus.ROAD(percentages=[50], **PLAIN), IndexError, "out of bounds", **case.arrays())
    mine = [ours.of_maps(case, IROF()).mean(), ours.of_maps(case, ROAD(percentages=(50.0,))).mean()]
    return Fault("a prediction that never changes, by IROF and by ROAD: 0, 1", f"{irof}, {road}", mine, [0.0, 1.0])


def constant_model(x: Array) -> Case:
    """Images, maps that differ, and a model that predicts class 0 for every input."""
    inputs = torch.from_numpy(x)
    layer = nn.Linear(inputs[0].numel(), 2).double()
    layer.weight = nn.Parameter(torch.zeros_like(layer.weight), requires_grad=False)
    layer.bias = nn.Parameter(torch.tensor([1.0, 0.0], dtype=torch.float64), requires_grad=False)
    maps = torch.arange(float(inputs.numel()), dtype=torch.float64).reshape(inputs.shape)
    return Case(nn.Sequential(nn.Flatten(), layer).eval(), inputs, torch.zeros(len(x), dtype=torch.long), maps)


@equal("ROAD", "without noise; the mean over percentages")
def road(case: Case) -> Row:
    """The mean over samples at each percentage, over all of them."""
    percentages = (10.0, 30.0, 50.0, 70.0, 90.0)
    mine = ours.values(case, ROAD(percentages=percentages, noise=0.0))
    found = answer(quantus.ROAD(percentages=list(percentages), noise=0.0, **PLAIN), **case.arrays())
    return Row(np.array([mine.mean()]), np.array([np.mean(list(found.values()))]))


@equal("Infidelity", "with a perturb_func that gives our patches")
def infidelity(case: Case) -> Row:
    """Four patches of side 7, three times, each alone instead of one added to another."""
    score = Infidelity(patch_size=7, n_perturb_samples=DRAWS)
    metric = quantus.Infidelity(perturb_patch_sizes=[7], n_perturb_samples=DRAWS // 4, perturb_func=Replay(ours.perturbed(case, score)))
    return Row(ours.values(case, score), scores(metric, **case.arrays()))


@equal("Infidelity", "Captum's, with our patches")
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
    return Row(ours.values(case, score), theirs.detach().numpy())


@default("Infidelity", "our default")
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
    return Row(mine, theirs, "theirs never puts a patch back: 1, 2, 3, then 4 of them are gone", apart(piled, theirs) < 1e-6)


class SquaredSum(nn.Module):
    """Two classes: the square of the sum of the input, and 0."""

    def forward(self, x: Tensor) -> Tensor:
        """(N, 2)."""
        total = x.flatten(1).sum(1)
        return torch.stack((total**2, 0.0 * total), dim=1)


@fault("Infidelity", says="It never puts a patch back: it perturbs the first patch, then the first two, and so on.")
def infidelity_accumulates() -> Fault:
    """Without either of two patches the square of the sum falls from 64 to 16, and the map of ones foretells 4."""
    x = torch.ones(1, 1, 2, 4, dtype=torch.float64)
    maps = torch.ones_like(x)
    maps[0, 0, 0] += 1e-9  # Quantus refuses maps of ones
    case = Case(SquaredSum().eval(), x, torch.zeros(1, dtype=torch.long), maps)
    metric = quantus.Infidelity(perturb_patch_sizes=[2], n_perturb_samples=2, perturb_baseline=0.0, **PLAIN)
    mine = ours.of_maps(case, Infidelity(patch_size=2, perturb_baseline=0.0))[0]
    return Fault(
        "the square of the sum of 8 ones, without either half; a map of ones: (64 - 16 - 4)^2",
        scores(metric, **case.arrays())[0],
        mine,
        44.0**2,
    )


@fault("Infidelity", says="It raises on images whose sides are no multiple of the patch.")
def infidelity_needs_multiples() -> Fault:
    """The weights of a linear model foretell every drop."""
    case = minimal(STEPS, np.ones(8), STEPS)
    theirs = raised(quantus.Infidelity(perturb_patch_sizes=[3], **PLAIN), IndexError, "out of bounds", **case.arrays())
    mine = ours.of_maps(case, Infidelity(patch_size=3))[0]
    return Fault("the weights of a linear model, on 2 x 4 pixels with patches of 3: 0", theirs, mine, 0.0)


@equal("Sufficiency", "with our distance, not standardised")
def sufficiency(case: Case) -> Row:
    """Their distance_func may be any; every other sample is compared."""

    def distance(a: Array, b: Array, V: None = None) -> float:
        return float(np.linalg.norm(a / np.linalg.norm(a) - b / np.linalg.norm(b)) / 2)

    metric = quantus.Sufficiency(threshold=0.65, distance_func=distance, normalise_func=lambda found: found, **PLAIN)
    mine = ours.values(case, Sufficiency(threshold=0.65, walk=Exhaustive()))
    return Row(mine, scores(metric, **case.arrays()))


@fault(
    "Sufficiency",
    says="Distances are divided by the largest of the batch, so that two maps alone are never similar; and a sample without a similar one "
    "gets 0, not undefined.",
)
def the_largest_distance_is_never_near() -> Fault:
    """Two maps that differ by a millionth, and two that are opposite."""
    theirs, mine = [], []
    for other in (STEPS + 1e-6 * STEPS**2, 9.0 - 1.9 * STEPS):
        case = minimal(STEPS, [np.ones(8), np.full(8, 2.0)], [STEPS, other])
        theirs.append(scores(quantus.Sufficiency(**PLAIN), **case.arrays())[0])
        mine.append(ours.of_samples(case, Sufficiency(walk=Exhaustive()))[0])
    return Fault("the same prediction, with nearly the same map: 1; with an opposite map: undefined", theirs, mine, [1.0, np.nan])
