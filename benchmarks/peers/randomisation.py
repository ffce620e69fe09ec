"""Metrics of randomisation: does an explanation change if the weights, or the class that is explained, are replaced at random?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from unittest import mock

import numpy as np
import torch
from scipy.stats import spearmanr
from skimage.metrics import structural_similarity
from torch import Tensor, nn

from benchmarks.peers import ours
from benchmarks.peers.replay import answer, quantus, randomised, scores
from benchmarks.peers.rows import PLAIN, Fault, Row, default, equal, fault
from benchmarks.peers.subject import STEPS, Array, Case, apart, explain, gradient, minimal, with_weights
from veracity.measure import spearman, ssim
from veracity.perturb.weights import FullRandomisation
from veracity.scores.faithfulness.correlation import FaithfulnessCorrelation
from veracity.scores.randomisation import MPRT, EfficientMPRT, RandomLogit, SmoothMPRT


@equal("MPRT", "the same random weights, last layer")
def mprt_last(case: Case) -> Row:
    """All layers random."""
    score = MPRT(layers="last")
    with randomised(ours.copies(case, score)):
        theirs = scores(quantus.MPRT(return_last_correlation=True, **PLAIN), **case.arrays(), explain_func=explain)
    return Row(ours.values(case, score), theirs)


@equal("MPRT", "the same random weights, mean of layers")
def mprt_layers(case: Case) -> Row:
    """The mean over their correlations layer by layer, without that of the original model."""
    score = MPRT()
    models = ours.copies(case, score)
    with randomised(models):
        found = answer(quantus.MPRT(**PLAIN), **case.arrays(), explain_func=explain)
    return Row(ours.values(case, score), np.mean([found[str(number)] for number in range(len(models))], axis=0))


@equal("MPRT", "running statistics of a batch normalisation")
def batch_norm(case: Case) -> Row:
    """Once all layers are random, from the layers that Quantus randomises itself."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 12 * 12, 10)).train()
        model(case.x.float() + 1.0)
        model.eval()
        *_, (_, last) = quantus.helpers.model.pytorch_model.PyTorchModel(model).get_random_layer_generator(order="top_down", seed=0)
    mine = with_weights(model, FullRandomisation().of(model).parameters(model, 0, 0, ours.SEED))
    states = [one.state_dict() for one in (mine, last)]
    found, theirs = (np.concatenate([one["1.running_mean"].numpy(), one["1.running_var"].numpy()]) for one in states)
    return Row(found, theirs)


@default("MPRT", "their average")
def mprt_average(case: Case) -> Row:
    """Their average is that of the layers and of a 1."""
    score = MPRT()
    models = ours.copies(case, score)
    with randomised(models):
        theirs = scores(quantus.MPRT(return_average_correlation=True, **PLAIN), **case.arrays(), explain_func=explain)
    mine, layers = ours.values(case, score), len(models)
    reason = f"theirs counts the original model as a layer more: (1 + {layers} ours) / {layers + 1}"
    return Row(mine, theirs, reason, apart((1 + layers * mine) / (layers + 1), theirs) < 1e-6)


@fault("MPRT", "SmoothMPRT", says="The average over layers counts the original model too, whose correlation is 1.")
def mprt_counts_the_original() -> Fault:
    """A single layer, so that the average is its rank correlation; the gradient of a linear model is the same with noise."""
    case = minimal(STEPS, np.linspace(0.1, 0.8, 8), STEPS)
    theirs, mine = list[float](), list[float]()
    for name, score in (("MPRT", MPRT()), ("SmoothMPRT", SmoothMPRT())):
        (model,) = models = ours.copies(case, score)
        metric = getattr(quantus, name)(return_average_correlation=True, **PLAIN)
        with randomised(models), mock.patch.object(quantus, "explain", explain):
            theirs.append(float(scores(metric, **case.arrays(), explain_func=explain)[0]))
        mine.append(float(ours.values(case, score)[0]))
    after = gradient(model, case.x, case.targets).flatten()
    right = float(spearmanr(case.maps.flatten().numpy(), after.numpy())[0])
    return Fault("a model of one layer: the rank correlation of the two maps, by both metrics", theirs, mine, [right, right])


@fault("MPRT", "SmoothMPRT", "EfficientMPRT", says="Randomised layers share one seed, so that layers of one shape get the same weights.")
def layers_are_twins() -> Fault:
    """Two layers of one shape after all layers were randomised."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(8, 8), nn.Linear(8, 8)).double().eval().requires_grad_(False)
    x = torch.ones(1, 1, 2, 4, dtype=torch.float64)
    case = Case(model, x, model(x).argmax(1), x)
    with torch.random.fork_rng(devices=[]):
        *_, (_, last) = quantus.helpers.model.pytorch_model.PyTorchModel(model).get_random_layer_generator()
    mine = ours.copies(case, MPRT())[-1]
    weights = [one.state_dict() for one in (last, mine)]
    theirs, found = (float(torch.equal(one["1.weight"], one["2.weight"])) for one in weights)
    return Fault("1 if two random layers of one shape are the same: 0", theirs, found, 0.0)


@fault("FaithfulnessCorrelation", "MPRT", says="The global random states of numpy and torch are drawn from and set.")
def global_state_moves() -> Fault:
    """FaithfulnessCorrelation moves numpy's, MPRT sets torch's."""
    case = minimal(STEPS, np.ones((2, 8)), np.stack((STEPS, np.arange(8.0, 0.0, -1))))
    before = states()
    scores(quantus.FaithfulnessCorrelation(nr_runs=3, subset_size=2), **case.arrays())
    answer(quantus.MPRT(), **case.arrays(), explain_func=explain)
    between = states()
    for score in (FaithfulnessCorrelation(nr_runs=3, subset_size=2), MPRT()):
        ours.values(case, score)
    after = states()
    theirs, mine = ([float(one != other) for one, other in zip(*both, strict=True)] for both in ((before, between), (between, after)))
    return Fault("1 if the state of numpy, and of torch, moved: 0, 0", theirs, mine, [0.0, 0.0])


def states() -> tuple[str, bytes]:
    """The global random states of numpy and of torch."""
    return repr(np.random.get_state()), torch.random.get_rng_state().numpy().tobytes()  # noqa: NPY002 - it is what is looked at


@equal("SmoothMPRT", "the same noise and random weights, mean of layers")
def smooth_mprt(case: Case) -> Row:
    """Quantus explains by quantus.explain whatever function it is given, here at our noisy inputs."""
    score = SmoothMPRT(nr_samples=4, noise_magnitude=0.1)
    models = ours.copies(case, score)
    with randomised(models), explaining(ours.smoothed_inputs(case, score)):
        found = answer(quantus.SmoothMPRT(nr_samples=4, **PLAIN), **{**case.arrays(), "a_batch": None}, explain_func=explain)
    return Row(ours.values(case, score), np.mean([found[str(number)] for number in range(len(models))], axis=0))


@contextmanager
def explaining(noisy: Tensor) -> Iterator[None]:
    """Gradients at noisy inputs (samples, draws, ...), draw by draw, instead of what quantus.explain gives."""
    calls = count()

    def explained(model: nn.Module, inputs: Array, targets: Array, **settings: Any) -> Array:
        return gradient(model, noisy[:, next(calls) % noisy.shape[1]], torch.as_tensor(targets)).numpy()

    with mock.patch.object(quantus, "explain", explained):
        yield


def model_free(model: nn.Module, inputs: Any, targets: Any, **settings: Any) -> Any:
    """An explanation that ignores the model: the input itself."""
    return inputs * 1.0


@fault("SmoothMPRT", says="It does not call your explain_func, but quantus.explain with its default method.")
def the_explain_func_is_not_called() -> Fault:
    """An explanation that ignores the model stays the same whatever the weights."""
    x = np.linspace(0.1, 0.8, 8)
    case = minimal(STEPS, x, x)
    metric = quantus.SmoothMPRT(nr_samples=2, return_average_correlation=True, **PLAIN)
    theirs = scores(metric, **{**case.arrays(), "a_batch": None}, explain_func=model_free)[0]
    mine = ours.values(case, SmoothMPRT(), explainers={"model_free": model_free})[0]
    return Fault("an explanation that ignores the model does not change: 1", theirs, mine, 1.0)


@fault("SmoothMPRT", says="The last draw has no noise, so that with nr_samples=1 nothing is smoothed.")
def the_last_draw_has_no_noise() -> Fault:
    """The inputs that Quantus asks to be explained first, for the original model."""
    x = np.linspace(0.1, 0.8, 8)
    case, score, seen = minimal(STEPS, x, x), SmoothMPRT(nr_samples=3), list[Array]()

    def watched(model: nn.Module, inputs: Array, targets: Array, **settings: Any) -> Array:
        seen.append(inputs)
        return explain(model, inputs, targets)

    with mock.patch.object(quantus, "explain", watched):
        answer(quantus.SmoothMPRT(nr_samples=3, **PLAIN), **{**case.arrays(), "a_batch": None}, explain_func=explain)
    theirs = sum(bool((one != case.x.numpy()).any()) for one in seen[:3])
    mine = int((ours.smoothed_inputs(case, score) != case.x[:, None]).flatten(2).any(dim=2).sum())
    return Fault("how many of 3 draws of Gaussian noise change the input: 3", float(theirs), float(mine), 3.0)


@equal("EfficientMPRT", "the same random weights, 100 bins")
def efficient_mprt(case: Case) -> Row:
    """The same randomised model."""
    score = EfficientMPRT()
    metric = quantus.EfficientMPRT(complexity_func_kwargs={"n_bins": 100})
    with randomised(ours.copies(case, score)):
        theirs = scores(metric, **case.arrays(), explain_func=explain)
    return Row(ours.values(case, score), theirs)


@contextmanager
def other_classes(case: Case, score: RandomLogit) -> Iterator[None]:
    """Our classes instead of those that Quantus draws by np.random.randint, which numbers all but the target."""
    chosen = ours.other_classes(case, score)
    with mock.patch("numpy.random.randint", return_value=(chosen - (chosen > case.targets).long()).numpy()):
        yield


@equal("RandomLogit", "the same other classes, by Spearman's correlation")
def random_logit(case: Case) -> Row:
    """Their similarity_func may be any."""
    score = RandomLogit(measure=spearman)
    similar = quantus.functions.similarity_func.correlation_spearman
    with other_classes(case, score):
        theirs = scores(quantus.RandomLogit(similar, num_classes=10, **PLAIN), **case.arrays(), explain_func=explain)
    return Row(ours.values(case, score), theirs)


@fault("RandomLogit", says="The structural similarity is that of the flattened maps, in windows of 7 values of a row, not of 7 x 7 pixels.")
def flat_maps_have_no_structure() -> Fault:
    """Two classes of an image, explained by their weights; scikit-image compares the two maps as images."""
    weights = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 64)))
    layer = nn.Linear(64, 2, bias=False).double()
    layer.weight = nn.Parameter(weights, requires_grad=False)
    model, x = nn.Sequential(nn.Flatten(), layer).eval(), torch.ones(1, 1, 8, 8, dtype=torch.float64)
    targets = model(x).argmax(1)
    case = Case(model, x, targets, gradient(model, x, targets))
    theirs = scores(quantus.RandomLogit(num_classes=2, **PLAIN), **case.arrays(), explain_func=explain)[0]
    a, b = (one.reshape(8, 8).numpy() for one in weights)
    span = max(a.max(), b.max()) - min(a.min(), b.min())
    right = float(structural_similarity(a, b, win_size=7, data_range=span, use_sample_covariance=False))
    mine = ours.values(case, RandomLogit(measure=ssim.using(window="uniform", size=7)))[0]
    return Fault("the weights of two classes as images of 8 x 8, by scikit-image", theirs, mine, right)
