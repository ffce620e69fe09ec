"""How do point cloud classifiers see a shape that turns in space? The paper's third application, section 3.3."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import Tensor, nn

from veracity.core.inputs import Inputs
from veracity.orbits import OrbitEvaluation
from veracity.orbits.layouts import DiskOrbit
from veracity.orbits.tasks import Classification
from veracity.recipe import Scale, recipe, trained_once
from veracity.trainers.training import initialised, train
from veracity_papers.data import files
from veracity_papers.data.modelnet import CLASSES, furniture, modelnet
from veracity_papers.recipes.orbits_digits import PAPER
from veracity_papers.zoo import pointnet

REFERENCE = f"{PAPER}, section 3.3 and Figure 11"
SIZES = {Scale.SMOKE: (12, 45.0), Scale.SMALL: (60, 15.0), Scale.PAPER: (295, 5.0)}
POINTS, LEARNT, EPOCHS = 128, 240, 10


@recipe("orbits-points", reference=REFERENCE)
def orbits_points(folder: Path, scale: Scale) -> OrbitEvaluation:
    """Accuracy and confidence of PointNets as a shape turns about every axis in the xy plane: trained upright, and trained turned.

    Benches, chairs and monitors of ModelNet as 256 points; `orbits-points-xz` and `orbits-points-yz` are the other two planes. Smoke: 12
    generated shapes, every 45 degrees, networks trained on the spot. Small: 60 shapes, every 15 degrees. Paper: all 295 test
    shapes, every 5 degrees. Where the data folder holds the public weights of a PointNet for all forty classes (trained
    upright), it stands beside the two, except at smoke scale.
    """
    return on_disk(folder, "orbits-points", "xy", scale)


@recipe("orbits-points-xz", reference=REFERENCE)
def orbits_points_xz(folder: Path, scale: Scale) -> OrbitEvaluation:
    """The same as `orbits-points` with axes in the xz plane."""
    return on_disk(folder, "orbits-points-xz", "xz", scale)


@recipe("orbits-points-yz", reference=REFERENCE)
def orbits_points_yz(folder: Path, scale: Scale) -> OrbitEvaluation:
    """The same as `orbits-points` with axes in the yz plane."""
    return on_disk(folder, "orbits-points-yz", "yz", scale)


def on_disk(folder: Path, name: str, plane: str, scale: Scale) -> OrbitEvaluation:
    """The evaluation with axes of rotation in one plane."""
    samples, step = SIZES[scale]
    shapes, labels = clouds(samples, scale)
    return OrbitEvaluation(
        title=f"How do point cloud classifiers see a shape that turns about axes in {plane}?",
        models=networks(folder, scale),
        inputs=shapes,
        targets=labels,
        orbit=DiskOrbit(plane=plane, step=step),
        task=Classification(classes=CLASSES),
        about={"recipe": name, "scale": scale.value},
    )


def clouds(samples: int, scale: Scale) -> tuple[Tensor | Inputs, Tensor]:
    """Test shapes and their labels; at smoke scale generated ones."""
    if scale is Scale.SMOKE:
        return furniture(samples, POINTS, seed=1)
    test = modelnet("test").some(samples)
    return test.inputs, test.labels


def networks(folder: Path, scale: Scale) -> dict[str, nn.Module]:
    """The two shipped networks, and the public one if it is available; at smoke scale two that are trained once and stored."""
    if scale is Scale.SMOKE:
        return {name: small(folder, name) for name in pointnet.NAMES}
    models: dict[str, nn.Module] = {name: pointnet.pretrained(name) for name in pointnet.NAMES}
    if files.locate(f"weights/{pointnet.FILE}") is not None:
        models["public"] = pointnet.public()
    return models


def small(folder: Path, name: str) -> nn.Module:
    """One of the networks for generated shapes, seconds to train."""
    x, y = furniture(LEARNT, POINTS, seed=0)

    def fit(model: nn.Module, report: Callable[[int, float], None]) -> nn.Module:
        return train(model, x, y, epochs=EPOCHS, batch=32, rate=5e-3, augment=pointnet.augmentation(name), report=report)

    return trained_once(folder, name, lambda: initialised(lambda: pointnet.PointNet(len(CLASSES)), seed=0), EPOCHS, fit)
