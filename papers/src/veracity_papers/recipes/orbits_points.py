"""How do point cloud classifiers see a shape that turns in space? The paper's third application, section 3.3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from veracity.orbits import OrbitEvaluation
from veracity.orbits.layouts import DiskOrbit
from veracity.orbits.tasks import Classification
from veracity.recipe import Scale, recipe
from veracity_papers.data import files
from veracity_papers.data.labelled import Labelled
from veracity_papers.data.modelnet import CLASSES, furniture, modelnet
from veracity_papers.recipes.orbits_digits import PAPER
from veracity_papers.recipes.smoke import trained_classifier
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
    return disk_evaluation(folder, "orbits-points", "xy", scale)


@recipe("orbits-points-xz", reference=REFERENCE)
def orbits_points_xz(folder: Path, scale: Scale) -> OrbitEvaluation:
    """The same as `orbits-points` with axes in the xz plane."""
    return disk_evaluation(folder, "orbits-points-xz", "xz", scale)


@recipe("orbits-points-yz", reference=REFERENCE)
def orbits_points_yz(folder: Path, scale: Scale) -> OrbitEvaluation:
    """The same as `orbits-points` with axes in the yz plane."""
    return disk_evaluation(folder, "orbits-points-yz", "yz", scale)


def disk_evaluation(folder: Path, name: str, plane: str, scale: Scale) -> OrbitEvaluation:
    """The evaluation with axes of rotation in one plane."""
    samples, step = SIZES[scale]
    test = Labelled.of(furniture(samples, POINTS, seed=1)) if scale is Scale.SMOKE else modelnet("test").some(samples)
    return OrbitEvaluation(
        title=f"How do point cloud classifiers see a shape that turns about axes in {plane}?",
        models=networks(folder, scale),
        inputs=test.inputs,
        targets=test.labels,
        orbit=DiskOrbit(plane=plane, step=step),
        task=Classification(classes=CLASSES),
        about={"recipe": name, "scale": scale.value},
    )


def networks(folder: Path, scale: Scale) -> dict[str, nn.Module]:
    """The two shipped networks, and the public one if it is available; at smoke scale two that are trained once and stored."""
    if scale is Scale.SMOKE:
        data = furniture(LEARNT, POINTS, seed=0)
        settings: dict[str, Any] = {"epochs": EPOCHS, "batch": 32, "rate": 5e-3}
        return {
            name: trained_classifier(folder, name, one.build, data, augment=None if name == "plain" else pointnet.random_turn, **settings)
            for name, one in pointnet.NETWORKS.items()
        }
    models: dict[str, nn.Module] = {name: one.pretrained() for name, one in pointnet.NETWORKS.items()}
    if files.locate(f"weights/{pointnet.FILE}") is not None:
        models["public"] = pointnet.public()
    return models
