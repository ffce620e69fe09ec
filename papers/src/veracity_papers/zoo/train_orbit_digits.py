"""Train the three networks for turned digits: python -m veracity_papers.zoo.train_orbit_digits --out OUT [--only NAME ...] [--device cuda]

Needs torch, numpy and safetensors only, and MNIST where VERACITY_DATA says. A minute on a GPU.
"""

from __future__ import annotations

from veracity_papers.data.mnist import mnist
from veracity_papers.zoo.orbit_digits import NAMES, augmentation, build, random_rotation
from veracity_papers.zoo.orbit_training import Turned, main

TASK = Turned(
    data="mnist",
    names=NAMES,
    read=mnist,
    build=build,
    augmentation=augmentation,
    turn=random_rotation,
    epochs=20,
    batch=256,
    rate=1e-2,
)

if __name__ == "__main__":
    main(TASK)
