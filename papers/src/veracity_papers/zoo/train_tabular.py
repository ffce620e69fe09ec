"""Train the shipped networks over tables and write their weights: python -m veracity_papers.zoo.train_tabular OUT [EPOCHS]

A minute on one CPU core.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from veracity_papers.data.avila import avila
from veracity_papers.data.tabular import compas
from veracity_papers.zoo.script import arguments, fit
from veracity_papers.zoo.tabular import SHIPPED, build

RATES = {"avila-relu": 1e-2, "avila-sigmoid": 1.2e-2, "compas-mlp3": 2e-3}


def main(out: Path, epochs: int) -> None:
    """Train, score on the test split, save."""
    for name in SHIPPED:
        table = avila if name.startswith("avila") else compas
        train, test = (table(split).labelled for split in ("train", "test"))
        fit(name, out, partial(build, name), train, test, epochs=epochs, batch=64, rate=RATES[name])


if __name__ == "__main__":
    main(*arguments(sys.argv, epochs=30))
