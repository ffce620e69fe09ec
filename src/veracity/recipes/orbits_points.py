"""How do point cloud classifiers see a shape that turns in space? The paper's third application, section 3.3."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from veracity.data import files
from veracity.data.modelnet import CLASSES, modelnet
from veracity.interpret.orbit import Classification
from veracity.orbits import OrbitEvaluation
from veracity.perturb.orbit import DiskOrbit
from veracity.recipes.base import Scale, recipe
from veracity.recipes.orbits_digits import PAPER
from veracity.zoo import pointnet

REFERENCE = f"{PAPER}, section 3.3 and Figure 11"
SIZES = {Scale.SMOKE: (6, 45.0), Scale.SMALL: (60, 15.0), Scale.PAPER: (295, 5.0)}


@recipe("orbits-points", reference=REFERENCE)
def orbits_points(folder: Path, scale: Scale) -> OrbitEvaluation:
    """Accuracy and confidence of PointNets as a shape turns about every axis in the xy plane: trained upright, and trained turned.

    Benches, chairs and monitors of ModelNet as 256 points; `orbits-points-xz` and `orbits-points-yz` are the other two planes. Small: 60
    shapes, every 15 degrees. Paper: all 295 test shapes, every 5 degrees. Where the data folder holds the public weights of a
    PointNet for all forty classes (trained upright), it stands beside the two, except at smoke scale.
    """
    return on_disk("orbits-points", "xy", scale)


@recipe("orbits-points-xz", reference=REFERENCE)
def orbits_points_xz(folder: Path, scale: Scale) -> OrbitEvaluation:
    """The same as `orbits-points` with axes in the xz plane."""
    return on_disk("orbits-points-xz", "xz", scale)


@recipe("orbits-points-yz", reference=REFERENCE)
def orbits_points_yz(folder: Path, scale: Scale) -> OrbitEvaluation:
    """The same as `orbits-points` with axes in the yz plane."""
    return on_disk("orbits-points-yz", "yz", scale)


def on_disk(name: str, plane: str, scale: Scale) -> OrbitEvaluation:
    """The evaluation with axes of rotation in one plane."""
    samples, step = SIZES[scale]
    test = modelnet("test").some(samples)
    models = networks(scale)
    return OrbitEvaluation(
        title=f"How do point cloud classifiers see a shape that turns about axes in {plane}?",
        models=models,
        inputs=test.inputs,
        targets=test.labels,
        orbit=DiskOrbit(plane=plane, step=step),
        task=Classification(classes=CLASSES),
        about={"recipe": name, "scale": scale.value},
    )


def networks(scale: Scale) -> dict[str, nn.Module]:
    """The two shipped networks, and the public one where it is at hand."""
    models: dict[str, nn.Module] = {name: pointnet.pretrained(name) for name in pointnet.NAMES}
    if scale is not Scale.SMOKE and files.locate(f"weights/{pointnet.FILE}") is not None:
        models["public"] = pointnet.public()
    return models
