"""EfficientNet-Lite0 on photographs that turn or zoom, as the NERO paper evaluates classifiers of digits."""

from __future__ import annotations

from pathlib import Path

from veracity.orbits import Orbit, OrbitEvaluation
from veracity.orbits.layouts import RotationOrbit, ScaleOrbit
from veracity.orbits.tasks import Classification
from veracity.recipe import Scale, recipe
from veracity_papers.data.imagenet import class_names
from veracity_papers.recipes.imagenet import UNTRAINED, photographs
from veracity_papers.recipes.orbits_digits import PAPER

SAMPLES = {Scale.SMOKE: 6, Scale.SMALL: 40, Scale.PAPER: 500}
TURNS = {Scale.SMOKE: 90.0, Scale.SMALL: 30.0, Scale.PAPER: 10.0}
ZOOMS = {Scale.SMOKE: 1.0, Scale.SMALL: 0.25, Scale.PAPER: 0.125}
SIDES = {Scale.SMALL: 128}
"""Forward passes alone are cheaper than explanations, so that a small run can have larger images."""
BLACK = "What a turned or shrunk photograph leaves empty is black, which the network never saw in training."


@recipe("orbits-imagenet", reference=f"{PAPER}, section 2")
def orbits_imagenet(folder: Path, scale: Scale) -> OrbitEvaluation:
    """Accuracy and confidence of EfficientNet-Lite0 as photographs of ImageNet turn: which classes does it know only upright?

    Corners that turn out of the frame are lost, and empty ones are black. The network has probably seen the photographs. Needs the extra
    "imagenet". Smoke: 6 images of 32 pixels, quarter turns, a tiny untrained network. Small: 40 of 128 pixels every 30 degrees.
    Paper: all 500 of 224 pixels every 10 degrees.
    """
    return evaluation("orbits-imagenet", "How does a classifier see photographs that turn?", RotationOrbit(step=TURNS[scale]), scale)


@recipe("orbits-imagenet-scale", reference=f"{PAPER}, section 2")
def orbits_imagenet_scale(folder: Path, scale: Scale) -> OrbitEvaluation:
    """Accuracy and confidence of EfficientNet-Lite0 as photographs of ImageNet shrink to one half and grow to double.

    As `orbits-imagenet`. Smoke: factors 1/2, 1 and 2. Small: 9 factors. Paper: 17 factors.
    """
    return evaluation(
        "orbits-imagenet-scale", "How does a classifier see photographs that shrink and grow?", ScaleOrbit(step=ZOOMS[scale]), scale
    )


def evaluation(name: str, title: str, orbit: Orbit, scale: Scale) -> OrbitEvaluation:
    """The network along one orbit."""
    seen = photographs(SAMPLES[scale], scale, SIDES.get(scale))
    return OrbitEvaluation(
        title=title,
        models={seen.name: seen.model},
        inputs=seen.images,
        targets=seen.labels,
        orbit=orbit,
        task=Classification() if seen.name == UNTRAINED else Classification(classes=class_names()),
        notes=[BLACK],
        about={"recipe": name, **seen.facts},
    )
