"""What Quantus 0.6.0 gets wrong where it bears on a comparison: a sentence each, and the few lines that show it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.peers.replay import Replay, quantus, randomised, scores
from benchmarks.peers.subject import Array, apart, explain

Shown = tuple[bool, str]
FAULTS: dict[str, Callable[[], Shown]] = {}


def fault(sentence: str) -> Callable[[Callable[[], Shown]], Callable[[], Shown]]:
    """Keep a demonstration under the sentence that it shows."""

    def keep(show: Callable[[], Shown]) -> Callable[[], Shown]:
        FAULTS[sentence] = show
        return show

    return keep


def linear(weight: Array) -> nn.Module:
    """Two classes of a flat image (1, 2, 4): the second one is always 0."""
    layer = nn.Linear(8, 2, bias=False)
    layer.weight = nn.Parameter(torch.as_tensor(np.stack([weight, np.zeros(8)]), dtype=torch.float32))
    return nn.Sequential(nn.Flatten(), layer).eval()


def small(samples: int = 2) -> dict[str, Any]:
    """Inputs (samples, 1, 2, 4) without a zero, their class 0, and maps that differ."""
    generator = np.random.default_rng(0)
    x, maps = (generator.uniform(0.5, 1.0, (samples, 1, 2, 4)).astype(np.float32) for _ in range(2))
    model = linear(np.linspace(0.1, 0.8, 8))
    return {"model": model, "x_batch": x, "y_batch": np.zeros(samples, dtype=int), "a_batch": maps, "channel_first": True}


@fault("MPRT's average over layers counts the original model too, whose correlation is 1.")
def mprt_counts_the_original() -> Shown:
    """Two randomised models: the average of 1 and their two correlations."""
    given = {**small(), "explain_func": lambda model, inputs, targets: inputs * model[1].weight[0].detach().numpy().reshape(2, 4)}
    models = [linear(np.array([1.0, -1.0] * 4)), linear(np.array([-1.0, 1.0] * 4))]
    given["a_batch"] = explain_with(given)
    with randomised(models):
        mean = scores(quantus.MPRT(return_average_correlation=True, abs=False, normalise=False), **given)
    with randomised(models):
        metric = quantus.MPRT(abs=False, normalise=False)
        scores_of = metric(**given)
    layers = np.mean([scores_of["0"], scores_of["1"]], axis=0)
    return apart(mean, (1 + 2 * layers) / 3) < 1e-6, f"{mean[0]:.3f}, mean of the layers {layers[0]:.3f}"


def explain_with(given: dict[str, Any]) -> Array:
    """The maps of the given explanation function."""
    return np.asarray(given["explain_func"](given["model"], given["x_batch"], given["y_batch"]))


@fault("RIS and ROS are undefined as soon as one draw changes the prediction, though the maximum is over the draws that keep it.")
def one_changed_draw_is_all() -> Shown:
    """Three draws, one of them with another prediction."""
    given, found = {**small(1), "explain_func": explain}, []
    x = torch.from_numpy(given["x_batch"])
    for kind in (quantus.RelativeInputStability, quantus.RelativeOutputStability):
        replay = Replay(torch.stack([x * 1.01, -x, x * 1.02], dim=1))
        found.append(float(scores(kind(nr_samples=3, perturb_func=replay), **given)[0]))
    return bool(np.isnan(found).all()), f"{found[0]} and {found[1]}"


@fault("RIS divides by 0.000001 where a pixel is 0, so that one black pixel decides the score.")
def a_black_pixel_decides() -> Shown:
    """The same change of the input, with one entry 0 or .5."""
    found = []
    for value in (0.0, 0.5):
        given = small(1)
        given["x_batch"][0, 0, 0, 0] = value
        perturbed = torch.from_numpy(given["x_batch"])[:, None] + 0.01
        metric = quantus.RelativeInputStability(nr_samples=1, perturb_func=Replay(perturbed))
        found.append(float(scores(metric, **given, explain_func=explain)[0]))
    return found[0] < 1e-3 * found[1], f"{found[0]:.1e} with the pixel at 0, {found[1]:.1e} at .5"


@fault("Infidelity never takes a patch back: it perturbs the first patch, then the first two, and so on, and its repetitions are equal.")
def infidelity_accumulates() -> Shown:
    """A linear model whose map is right is perfect under any perturbation, so that the inputs themselves are looked at."""
    given, seen = small(1), []

    class Watched(nn.Module):
        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(x)
            found: torch.Tensor = self.model(x)
            return found

    given["model"] = Watched(given["model"]).eval()
    scores(quantus.Infidelity(perturb_patch_sizes=[2], n_perturb_samples=2, perturb_baseline=0.0), **given)
    changed = [int((one[0] != seen[0][0]).sum()) for one in seen[1:]]
    return changed == [4, 8, 4, 8], f"entries changed, call by call: {changed}"


@fault("Infidelity fails on images whose sides are no multiple of the patch.")
def infidelity_needs_multiples() -> Shown:
    """A 2x4 image and patches of 3."""
    try:
        scores(quantus.Infidelity(perturb_patch_sizes=[3]), **small(1))
    except (ValueError, IndexError) as error:
        return True, f"{type(error).__name__}: {error}"
    return False, "it ran"


@fault("Sparseness and Complexity change the user's maps in place (abs and normalise off).")
def maps_are_changed() -> Shown:
    """Non-negative maps before and after."""
    moved = []
    for kind in (quantus.Sparseness, quantus.Complexity):
        given = small()
        before = given["a_batch"].copy()
        with redirect_stdout(StringIO()):
            metric = kind(abs=False, normalise=False)
        scores(metric, **given)
        moved.append(apart(given["a_batch"], before))
    return min(moved) > 0, f"changed by up to {moved[0]:.0e} and {moved[1]:.0e}"


@fault("The average-second-moment normalisation, RIS's and ROS's own, rewrites the user's maps in place.")
def normalisation_rewrites() -> Shown:
    """RIS with normalise=True."""
    given = small()
    before = given["a_batch"].copy()
    scores(quantus.RelativeInputStability(nr_samples=1, normalise=True), **given, explain_func=explain)
    moved = apart(given["a_batch"], before)
    return moved > 0, f"changed by up to {moved:.1e}"


@fault("Maps are normalised over the whole batch, so that a sample's score depends on its batch mates.")
def batch_mates_matter() -> Shown:
    """MaxSensitivity of one sample, alone and beside another whose map grows under the perturbation."""
    found = []
    for samples in (1, 2):
        given = small(2)
        x = torch.from_numpy(given["x_batch"])
        perturbed = (x + torch.tensor([0.1, 1.0]).reshape(2, 1, 1, 1))[:, None]
        cut = {key: value[:samples] if key.endswith("_batch") else value for key, value in given.items()}
        cut["a_batch"] = cut["x_batch"].copy()
        metric = quantus.MaxSensitivity(nr_samples=1, normalise=True, perturb_func=Replay(perturbed[:samples]))
        found.append(float(scores(metric, **cut, explain_func=lambda model, inputs, targets: np.array(inputs))[0]))
    return abs(found[0] - found[1]) > 0.1, f"{found[0]:.3f} alone, {found[1]:.3f} in company"


@fault("Sparseness adds 0.0000001 to every entry after normalising by the batch's largest, so that faint maps lose their sparseness.")
def faint_maps_lose_sparseness() -> Shown:
    """One map twice, once a thousand million times fainter: the Gini index is free of scale."""
    given = small(2)
    given["a_batch"][1] = given["a_batch"][0] * 1e-9
    found = scores(quantus.Sparseness(), **given)
    return found[1] < 0.1 * found[0], f"{found[0]:.3f} and {found[1]:.3f}"


@fault("PixelFlipping's baselines 'mean' and 'white' are taken anew from the image that is flipped already, so that 'mean' drifts.")
def mean_baseline_drifts() -> Shown:
    """What the first and the last flipped pixel are replaced by."""
    given = small(1)
    metric = quantus.PixelFlipping(perturb_baseline="mean")
    filled = []
    inner = metric.perturb_func

    def watched(arr: Array, indices: Array, **settings: Any) -> Array:
        found: Array = inner(arr=arr, indices=indices, **settings)
        filled.append(float(found[0, indices[0, 0]]))
        return found

    metric.perturb_func = watched
    scores(metric, **given)
    return abs(filled[0] - filled[-1]) > 1e-3, f"{filled[0]:.4f}, {filled[-1]:.4f}; the image's mean is {given['x_batch'].mean():.4f}"


@fault("Randomised layers share one seed, so that layers of one shape get the same weights.")
def layers_are_twins() -> Shown:
    """Two equal layers after MPRT's randomisation."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    wrapped = quantus.helpers.model.pytorch_model.PyTorchModel(model)
    for _, made in wrapped.get_random_layer_generator():
        last = made
    return bool(torch.equal(last[0].weight, last[1].weight)), "equal"


@fault("The global random states of numpy and torch are drawn from and set.")
def global_state_moves() -> Shown:
    """FaithfulnessCorrelation moves numpy's, MPRT sets torch's."""
    before = states()
    scores(quantus.FaithfulnessCorrelation(nr_runs=3, subset_size=2), **small())
    quantus.MPRT()(**small(), explain_func=lambda model, inputs, targets: np.array(inputs))
    moved = [one != other for one, other in zip(before, states(), strict=True)]
    return all(moved), "both moved"


def states() -> tuple[str, bytes]:
    """The global random states of numpy and of torch."""
    return repr(np.random.get_state()), torch.random.get_rng_state().numpy().tobytes()  # noqa: NPY002 - it is what is looked at


@fault("Monotonicity adds nothing to the baseline: every map gets 1.")
def monotonicity_is_always_true() -> Shown:
    """A map, and its opposite, on a model that falls with every pixel."""
    given = small()
    given["model"] = linear(-np.linspace(0.1, 0.8, 8))
    found = [
        scores(quantus.Monotonicity(abs=False, normalise=False), **{**given, "a_batch": maps})
        for maps in (given["a_batch"], 2.0 - given["a_batch"])
    ]
    return bool(np.all(found)), f"{np.mean(found):.0f} for a map and for its opposite, though the prediction falls with every pixel"


@fault("PointingGame counts a hit where the mask is empty.")
def an_empty_mask_is_hit() -> Shown:
    """Masks without a position."""
    given = small()
    found = scores(quantus.PointingGame(abs=False, normalise=False), **given, s_batch=np.zeros_like(given["x_batch"]))
    return bool((found == 1.0).all()), f"{found.tolist()}"


@fault("AttributionLocalisation(weighted=True) depends on the size of the batch.")
def weights_depend_on_the_batch() -> Shown:
    """The same samples, once and three times."""
    given = small(4)
    masks = np.zeros_like(given["x_batch"])
    masks[..., 0] = 1.0
    again = {name: np.concatenate([given[name]] * 3) for name in ("x_batch", "y_batch", "a_batch")}
    metric = quantus.AttributionLocalisation(weighted=True, normalise=False)
    once = scores(metric, **given, s_batch=masks)
    thrice = scores(metric, **{**given, **again}, s_batch=np.concatenate([masks] * 3))
    return apart(once, thrice[:4]) > 0.1, f"{once[0]:.4f} of four samples, {thrice[0]:.4f} of twelve"


@fault("InputInvariance fails the gradient if the first convolution pads: its two models differ.")
def padding_breaks_input_invariance() -> Shown:
    """The gradient, which is the same where a shift is taken away."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(16, 2)).eval()
    given = {**small(), "model": model, "explain_func": explain}
    given["a_batch"] = explain(model, given["x_batch"], given["y_batch"])
    found = scores(quantus.InputInvariance(), **given)
    return bool((found == 0.0).all()), f"{found.tolist()}, though the gradient of the same function at the same place is the same"


@fault("ROAD raises on colour images.")
def road_raises_on_colours() -> Shown:
    """Three channels, and maps with one or three."""
    x = np.random.default_rng(0).uniform(size=(2, 3, 4, 4)).astype(np.float32)
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 2)).eval()
    seen = []
    for channels in (1, 3):
        given = {"model": model, "x_batch": x, "y_batch": np.zeros(2, dtype=int), "a_batch": x[:, :channels] + 0.0, "channel_first": True}
        try:
            quantus.ROAD(percentages=[50], abs=False, normalise=False, disable_warnings=True)(**given)
        except IndexError as error:
            seen.append(str(error))
    return len(seen) == 2, seen[0] if seen else "nothing raised"
