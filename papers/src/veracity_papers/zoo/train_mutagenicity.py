"""Train the Mutagenicity network and write its weights: python -m veracity_papers.zoo.train_mutagenicity OUT [EPOCHS]

Needs the extra "graphs". Minutes on one CPU core.
"""

from __future__ import annotations

import sys
from pathlib import Path

from veracity_papers.data.mutagenicity import mutagenicity
from veracity_papers.zoo.graph import NAME, GraphNet
from veracity_papers.zoo.script import arguments, fit


def main(out: Path, epochs: int) -> None:
    """Train, score on the test split, save, with checkpoints."""
    fit(NAME, out, GraphNet, mutagenicity("train"), mutagenicity("test"), epochs=epochs, keep=5, batch=64, decay=1e-5)


if __name__ == "__main__":
    main(*arguments(sys.argv, epochs=50))
