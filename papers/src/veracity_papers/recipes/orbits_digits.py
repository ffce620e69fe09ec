"""How do three digit classifiers see a digit that turns? The paper's first example, section 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor, nn

from veracity.demo import digits
from veracity.orbits import OrbitEvaluation
from veracity.orbits.layouts import RotationOrbit
from veracity.orbits.tasks import Classification
from veracity.recipe import Scale, recipe, trained_once
from veracity.trainers.training import accuracy, initialised, train
from veracity_papers.data.mnist import CLASSES, mnist
from veracity_papers.zoo import orbit_digits

PAPER = "Zhao et al., Evaluating machine learning models with NERO"
PADDING = 3
TINY = 120
EPOCHS, WIDTH, TURNS = 10, 12, 4
SAMPLES = {Scale.SMALL: 1000, Scale.PAPER: 10_000}
STEPS = {Scale.SMOKE: 10.0, Scale.SMALL: 5.0, Scale.PAPER: 5.0}


@recipe("orbits-digits", reference=f"{PAPER}, section 2 and Figures 3 to 6")
def orbits_digits(folder: Path, scale: Scale) -> OrbitEvaluation:
    """Accuracy and confidence of three digit classifiers as the digit turns: trained upright, trained turned, averaged over turns.

    All have the same layers; the third takes its log-probabilities together over eight turns of the digit. Smoke: 120 of
    scikit-learn's digits every 10 degrees, networks trained on the spot (four turns). Small: 1,000 test digits of MNIST every 5
    degrees, shipped networks. Paper: all 10,000.
    """
    models, (x, y) = networks(folder, scale), sampled(scale)
    return OrbitEvaluation(
        title="How do digit classifiers see a digit that turns?",
        models=models,
        inputs=x,
        targets=y,
        orbit=RotationOrbit(step=STEPS[scale]),
        task=Classification(classes=CLASSES),
        about=described("orbits-digits", scale, models),
    )


def sampled(scale: Scale) -> tuple[Tensor, Tensor]:
    """Test digits (N, 1, side, side) in [0, 1] and their labels (N,)."""
    x, y = digits("test", PADDING) if scale is Scale.SMOKE else mnist("test")
    count = SAMPLES.get(scale, TINY)
    return x[:count], y[:count]


def networks(folder: Path, scale: Scale) -> dict[str, nn.Module]:
    """The three networks: shipped, or at smoke scale trained once and kept in the folder."""
    return {name: small(folder, name) if scale is Scale.SMOKE else orbit_digits.pretrained(name) for name in orbit_digits.NAMES}


def small(folder: Path, name: str) -> nn.Module:
    """One of the networks for scikit-learn's digits, seconds to train."""
    x, y = digits("train", PADDING)

    def fit(model: nn.Module, report: Callable[[int, float], None]) -> nn.Module:
        augment = orbit_digits.augmentation(name)
        return train(model, x, y, epochs=EPOCHS, batch=32, rate=1e-2, augment=augment, report=report)

    def build() -> nn.Module:
        return initialised(lambda: orbit_digits.build(name, x.shape[-1], WIDTH, TURNS), seed=0)

    return trained_once(folder, name, build, EPOCHS, fit)


def described(name: str, scale: Scale, models: Mapping[str, nn.Module]) -> dict[str, object]:
    """What the manifest says of the recipe: how well each network reads upright test digits."""
    if scale is Scale.SMOKE:
        scores = {model: round(accuracy(network, *digits("test", PADDING)), 4) for model, network in models.items()}
    else:
        scores = {model: orbit_digits.score(model) for model in models}
    return {"recipe": name, "scale": scale.value, "test_accuracy": scores}
