"""Digit classifiers along rotations (section 2 of the NERO paper), and whether their explanations rotate with the digit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from veracity.audit import Audit
from veracity.demo import digits
from veracity.explain import IntegratedGradients
from veracity.orbits import OrbitEvaluation
from veracity.orbits.layouts import RotationOrbit
from veracity.orbits.tasks import Classification
from veracity.perturb import Rotations
from veracity.recipe import Scale, recipe
from veracity.trainers.training import accuracy
from veracity.walk import Exhaustive
from veracity_papers.data.mnist import CLASSES, mnist
from veracity_papers.recipes.smoke import trained_classifier
from veracity_papers.zoo import orbit_digits
from veracity_papers.zoo.storage import facts

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
    models, (x, y) = networks(folder, scale), digit_images(scale)
    return OrbitEvaluation(
        title="How do digit classifiers see a digit that turns?",
        models=models,
        inputs=x,
        targets=y,
        orbit=RotationOrbit(step=STEPS[scale]),
        task=Classification(classes=CLASSES),
        about=run_facts("orbits-digits", scale, models),
    )


def digit_images(scale: Scale) -> tuple[Tensor, Tensor]:
    """Test digits (N, 1, side, side) in [0, 1] and their labels (N,)."""
    x, y = digits("test", PADDING) if scale is Scale.SMOKE else mnist("test")
    count = SAMPLES.get(scale, TINY)
    return x[:count], y[:count]


def networks(folder: Path, scale: Scale) -> dict[str, nn.Module]:
    """The three networks: shipped, or at smoke scale trained once on scikit-learn's digits and stored in the folder."""
    if scale is not Scale.SMOKE:
        return {name: orbit_digits.pretrained(name) for name in orbit_digits.NAMES}
    data = digits("train", PADDING)
    settings: dict[str, Any] = {"epochs": EPOCHS, "batch": 32, "rate": 1e-2}
    return {
        name: trained_classifier(
            folder,
            name,
            partial(orbit_digits.build, name, data[0].shape[-1], WIDTH, TURNS),
            data,
            augment=None if name == "plain" else orbit_digits.random_rotation,
            **settings,
        )
        for name in orbit_digits.NAMES
    }


def run_facts(name: str, scale: Scale, models: Mapping[str, nn.Module]) -> dict[str, object]:
    """What the manifest says about the recipe: the accuracy of each network on upright test digits."""
    if scale is Scale.SMOKE:
        scores = {model: round(accuracy(network, *digits("test", PADDING)), 4) for model, network in models.items()}
    else:
        scores = {model: float(facts(f"orbit-mnist-{model}")["test_accuracy"]) for model in models}
    return {"recipe": name, "scale": scale.value, "test_accuracy": scores}


SIZES = {Scale.SMOKE: (12, 90.0), Scale.SMALL: (100, 15.0), Scale.PAPER: (1000, 5.0)}
NOTE = (
    "A map's equivariance at an angle compares the map of the turned digit with the turned map of the upright one. Only quarter turns "
    "move whole pixels; at other angles a part of what is missing to 1 is interpolation."
)


@recipe("orbits-symmetry", reference=f"{PAPER}, section 2; Crabbé & van der Schaar 2023, eq. 2")
def orbits_symmetry(folder: Path, scale: Scale) -> OrbitEvaluation:
    """Do explanations of digit classifiers rotate with the digit? The equivariance of four explainers at every angle, three networks.

    Networks as in `orbits-digits`. The averaged one is exactly invariant to quarter turns, and its gradients exactly equivariant.
    Smoke: 12 digits, quarter turns, whose mean is the equivariance score of an audit of the same explainers
    (`quarter_turns`). Small: 100 digits every 15 degrees. Paper: 1,000 every 5 degrees.
    """
    count, step = SIZES[scale]
    models, (x, y) = networks(folder, scale), digit_images(scale)
    return OrbitEvaluation(
        title="Do explanations of digit classifiers rotate with the digit?",
        models=models,
        inputs=x[:count],
        targets=y[:count],
        orbit=RotationOrbit(step=step),
        task=Classification(classes=CLASSES),
        explainers=explainers(),
        notes=[NOTE],
        about=run_facts("orbits-symmetry", scale, models),
    )


def explainers() -> dict[str, Any]:
    """Four that differentiate the network in its input, whatever is inside it."""
    return {
        "gradient": "gradient",
        "saliency": "saliency",
        "input_x_gradient": "input_x_gradient",
        "integrated_gradients": IntegratedGradients(steps=20),
    }


def quarter_turns(evaluation: OrbitEvaluation) -> Audit:
    """The audit of an evaluation's explainers, models and inputs over the four quarter turns.

    Its equivariance score is the mean over the orbit of "equivariance: NAME" where the orbit is RotationOrbit(step=90).
    """
    return Audit(
        models=evaluation.models,
        inputs=evaluation.inputs,
        targets=evaluation.targets,
        explainers=evaluation.explainers,
        symmetry=Rotations(),
        walk=Exhaustive(),
        scores=["equivariance"],
        controls=False,
        seed=evaluation.seed,
    )
