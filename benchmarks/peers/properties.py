"""Metrics of complexity and of axioms: what a map is like, and what every explanation should fulfil."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.peers import ours
from benchmarks.peers.replay import made, quantus, raised, scores
from benchmarks.peers.rows import PLAIN, Fault, Row, equal, fault
from benchmarks.peers.subject import STEPS, Array, Case, explain, gradient, minimal, times_input
from veracity.scores import EffectiveComplexity, InputInvariance, NonSensitivity
from veracity.scores.faithfulness.content import Completeness, Complexity, Sparseness


@equal("Sparseness", "maps times 1000000, beside which the 0.0000001 that they add vanishes")
def sparseness(case: Case) -> Row:
    """The Gini index does not depend on the scale."""
    bright = Case(case.model, case.x, case.targets, case.maps * 1e6)
    return Row(ours.of_maps(bright, Sparseness()), scores(made("Sparseness", abs=True, normalise=False), **bright.arrays()))


@fault(
    "Sparseness",
    says="It adds 0.0000001 after dividing by the largest entry of the batch, so that faint maps lose their sparseness.",
)
def faint_maps_lose_sparseness() -> Fault:
    """One map twice, the second time a thousand million times fainter: by pairs, sum |a - b| / (2 n^2 mean)."""
    case = minimal(np.ones(8), np.ones((2, 8)), [STEPS, 1e-9 * STEPS])
    gini = np.abs(STEPS[:, None] - STEPS).sum() / (2 * 8**2 * STEPS.mean())
    return Fault(
        "a map, and the same map 1e9 times fainter: its Gini index, twice",
        scores(quantus.Sparseness(), **case.arrays()),
        ours.of_maps(case, Sparseness()),
        [gini, gini],
    )


@equal("Complexity", "as it is")
def complexity(case: Case) -> Row:
    """As they are."""
    return Row(ours.of_maps(case, Complexity()), scores(quantus.Complexity(), **case.arrays()))


@fault("Sparseness", "Complexity", says="With abs=False and normalise=False it changes your maps in place.")
def maps_are_changed() -> Fault:
    """Positive maps before and after."""
    case = minimal(np.ones(8), np.ones((2, 8)), [STEPS, STEPS[::-1].copy()])
    theirs, mine, before = list[float](), list[float](), case.maps.clone().numpy()
    for name, score in (("Sparseness", Sparseness()), ("Complexity", Complexity())):
        given = case.arrays()
        scores(made(name, **PLAIN), **given)
        theirs.append(float(np.abs(given["a_batch"] - before).max() > 0))
        ours.of_maps(case, score)
        mine.append(float(np.abs(case.maps.numpy() - before).max() > 0))
    return Fault("1 if a given map changed: 0, 0", theirs, mine, [0.0, 0.0])


@fault("EffectiveComplexity", says="It counts attributions above eps and does not ask the model how many features it needs.")
def the_model_is_not_asked() -> Fault:
    """A model of one feature, and a map whose largest entry is that feature."""
    case = minimal([0, 0, 0, 0, 0, 0, 0, 1], np.linspace(0.0, 1.0, 8), STEPS)
    theirs = scores(made("EffectiveComplexity"), **case.arrays())[0]
    mine = 8 * ours.of_maps(case, EffectiveComplexity(softmax=False))[0]
    return Fault("a model that uses one of 8 features, and a map that puts it first: 1 is enough", theirs, mine, 1.0)


@equal("Completeness", "a linear model of whole numbers: whether our gap is 0")
def completeness(case: Case) -> Row:
    """Their answer is yes or no, exactly; every other map is off by one."""
    x = np.random.default_rng(0).integers(1, 9, (len(case.x), 8)).astype(np.float64)
    maps = STEPS * x
    maps[::2, 0] += 1.0
    given = minimal(STEPS, x, maps)
    gap = ours.of_maps(given, Completeness(perturb_baseline=0.0, relative=False))
    return Row((gap == 0.0).astype(np.float64), scores(quantus.Completeness(perturb_baseline=0.0, **PLAIN), **given.arrays()))


@fault(
    "Completeness",
    says="Two floats must be equal in every digit; and by default the maps are divided by their largest value before the sum.",
)
def rounding_is_incompleteness() -> Fault:
    """The contributions of a linear model, which are complete."""
    x = np.random.default_rng(0).uniform(0.1, 1.0, (4, 8))
    case = minimal(STEPS / 7.0, x, STEPS / 7.0 * x)
    theirs = [scores(quantus.Completeness(perturb_baseline=0.0, **more), **case.arrays()).mean() for more in (PLAIN, {})]
    share = float((ours.of_maps(case, Completeness(perturb_baseline=0.0)) < 1e-9).mean())
    return Fault(
        "4 maps of the contributions to a linear model, which add up: a share of 1, and by default 1", theirs, [share, share], [1.0, 1.0]
    )


@equal("NonSensitivity", "maps with largest entry 1; their number over that of the features")
def non_sensitivity(case: Case) -> Row:
    """Every pixel at 0.5, with eps=.01 for shares of the map and for probabilities."""
    size = case.maps.flatten(1).abs().amax(1).reshape(-1, 1, 1, 1)
    given = Case(case.model, case.x, case.targets, case.maps / size)
    metric = quantus.NonSensitivity(eps=0.01, perturb_baseline=0.5, abs=True, normalise=False)
    mine = ours.of_maps(given, NonSensitivity(eps=0.01, perturb_baseline=0.5))
    return Row(mine, scores(metric, **given.arrays()) / case.x[0].numel())


@fault("NonSensitivity", says="eps is not relative to the map, so that a faint map beside a strong one gives nothing to any feature.")
def faint_maps_give_nothing() -> Fault:
    """A linear model of all eight features, explained by its weights."""
    case = minimal(STEPS, np.ones((2, 8)), [STEPS, 1e-9 * STEPS])
    theirs = scores(quantus.NonSensitivity(perturb_baseline=0.0), **case.arrays(), softmax=False)
    mine = 8 * ours.of_maps(case, NonSensitivity(perturb_baseline=0.0, softmax=False))
    return Fault("all 8 features matter, and both maps give each something: 0 and 0 mistakes", theirs, mine, [0.0, 0.0])


@fault("NonSensitivity", says="It raises with features_in_step above 1.")
def only_single_features() -> Fault:
    """The same model, two features at a time."""
    case = minimal(STEPS, np.ones((1, 8)), STEPS)
    mine = ours.of_maps(case, NonSensitivity(features_in_step=2, perturb_baseline=0.0, softmax=False))[0]
    metric = quantus.NonSensitivity(features_in_step=2, perturb_baseline=0.0)
    theirs = raised(metric, ValueError, "broadcast", **case.arrays(), softmax=False)
    return Fault("all pairs of features matter, and the map gives each something: 0 mistakes", theirs, mine, 0.0)


def shift_all(arr: Array, input_shift: float, **settings: Any) -> Array:
    """A `perturb_func` that shifts every pixel."""
    return arr + input_shift


@equal(
    "InputInvariance",
    "with a perturb_func that shifts every pixel; gradients, and gradients times input, of a network that pads in circles",
)
def input_invariance(case: Case) -> Row:
    """The response of its first layer to a constant is a constant, so that their model takes the shift away exactly."""
    score, products = InputInvariance(), Case(case.model, case.x, case.targets, case.maps * case.x)
    mine = [ours.values(case, score), ours.values(case, score, explainers=["input_x_gradient"])]
    theirs = [
        scores(quantus.InputInvariance(perturb_func=shift_all), **given.arrays(), explain_func=how)
        for given, how in ((case, explain), (products, times_input))
    ]
    return Row(np.concatenate(mine), np.concatenate(theirs))


@fault("InputInvariance", says="The first pixel is not shifted, so that the input of the second model is another one.")
def the_first_pixel_stays() -> Fault:
    """The first convolution does not pad."""
    case = convolution(padding=0)
    theirs = scores(quantus.InputInvariance(), **case.arrays(), explain_func=explain)
    mine = ours.values(case, InputInvariance())
    return Fault("the gradient of the same function at the same place is the same: 1, 1", theirs, mine, np.ones(2))


@fault("InputInvariance", says="If the first convolution pads with zeros, the two models differ, also where every pixel is shifted.")
def padding_breaks_input_invariance() -> Fault:
    """The first convolution pads."""
    case = convolution(padding=1)
    theirs = scores(quantus.InputInvariance(perturb_func=shift_all), **case.arrays(), explain_func=explain)
    mine = ours.values(case, InputInvariance())
    return Fault("the gradient of the same function at the same place is the same: 1, 1", theirs, mine, np.ones(2))


def convolution(padding: int) -> Case:
    """Gradients of a small network with a convolution, for two images of 4 x 4."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        size = 2 * (2 + 2 * padding) ** 2
        layers = (nn.Conv2d(1, 2, 3, padding=padding), nn.Tanh(), nn.Flatten(), nn.Linear(size, 2))
        model = nn.Sequential(*layers).double().eval().requires_grad_(False)
    x = torch.linspace(0.1, 1.6, 32, dtype=torch.float64).reshape(2, 1, 4, 4)
    targets = model(x).argmax(1)
    return Case(model, x, targets, gradient(model, x, targets))
