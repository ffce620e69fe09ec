"""Train the point-cloud network and write its weights: python -m veracity_papers.zoo.train_modelnet OUT [EPOCHS]

Minutes on one CPU core.
"""

from __future__ import annotations

import sys
from pathlib import Path

from veracity_papers.data.modelnet import CLASSES, modelnet
from veracity_papers.zoo.script import arguments, fit
from veracity_papers.zoo.sets import NAME, WIDTH, deep_sets


def main(out: Path, epochs: int) -> None:
    """Train, score on the test split, save, with checkpoints."""
    train, test = modelnet("train"), modelnet("test")
    fit(NAME, out, lambda: deep_sets(len(CLASSES), WIDTH), train, test, epochs=epochs, keep=5, batch=32, decay=1e-7)


if __name__ == "__main__":
    main(*arguments(sys.argv, epochs=30))
