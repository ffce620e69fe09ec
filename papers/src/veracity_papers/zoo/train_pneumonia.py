"""Train the MedCNN on PneumoniaMNIST and write its weights: python -m veracity_papers.zoo.train_pneumonia OUT [EPOCHS]

Minutes on one CPU core.
"""

from __future__ import annotations

import sys
from pathlib import Path

from veracity.core.inputs import TensorInputs
from veracity_papers.data.labelled import Labelled
from veracity_papers.data.pneumonia import pneumonia_mnist
from veracity_papers.zoo.med import NAME, med_cnn
from veracity_papers.zoo.script import arguments, fit


def main(out: Path, epochs: int) -> None:
    """Train, score on the test split, save."""
    (x, y), (x_test, y_test) = pneumonia_mnist("train"), pneumonia_mnist("test")
    train, test = Labelled(TensorInputs(x), y), Labelled(TensorInputs(x_test), y_test)
    fit(NAME, out, med_cnn, train, test, epochs=epochs, rate=2e-3)


if __name__ == "__main__":
    main(*arguments(sys.argv, epochs=8))
