"""Train the two small PointNets: python -m veracity_papers.zoo.train_orbit_points --out OUT [--only NAME ...] [--device cuda]

Needs torch, numpy and safetensors only, and ModelNet's shapes where VERACITY_DATA says. A minute on a GPU. A training shape is
seen as eight clouds, each of other random points of its surface.
"""

from __future__ import annotations

import torch
from torch import Tensor

from veracity.core.inputs import TensorInputs
from veracity_papers.data.modelnet import CLASSES, modelnet
from veracity_papers.zoo.orbit_training import Turned, main
from veracity_papers.zoo.pointnet import NAMES, PointNet, augmentation, random_turn

DRAWS = {"train": 8, "test": 1}


def clouds(split: str) -> tuple[Tensor, Tensor]:
    """Clouds (N, 256, 3) and labels (N,), one for each draw of points of each shape, the test split's as `modelnet` gives them."""
    drawn = [modelnet(split, seed=seed) for seed in range(DRAWS[split])]
    values = [one.inputs.tensor for one in drawn if isinstance(one.inputs, TensorInputs)]
    return torch.cat(values), torch.cat([one.labels for one in drawn])


TASK = Turned(
    data="modelnet",
    names=NAMES,
    read=clouds,
    build=lambda name: PointNet(len(CLASSES)),
    augmentation=augmentation,
    turn=random_turn,
    epochs=40,
    batch=64,
    rate=5e-3,
    decay=1e-2,
)

if __name__ == "__main__":
    main(TASK)
