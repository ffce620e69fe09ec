"""Train the bag-of-words network and write its weights: python -m veracity_papers.zoo.train_imdb OUT [EPOCHS]

A minute on one CPU core.
"""

from __future__ import annotations

import sys
from pathlib import Path

from veracity_papers.data.imdb import imdb
from veracity_papers.zoo.bag import NAME, bag_of_words
from veracity_papers.zoo.script import arguments, fit


def main(out: Path, epochs: int) -> None:
    """Train, score on the test split, save, with checkpoints."""
    fit(NAME, out, bag_of_words, imdb("train"), imdb("test"), epochs=epochs, keep=5, batch=64, rate=1e-3, decay=0.1)


if __name__ == "__main__":
    main(*arguments(sys.argv, epochs=10))
