"""How far a calibrated strength moves between subsamples of the same digits, how well its range says so, and what the score makes of it.

    python -m benchmarks.gef_strength [--samples 32] [--subsamples 15]

A small network is trained on digits. Each subsample of the test digits is calibrated and scored by `fast_gef`, then scored again at
both ends of its range.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import pandas as pd
import torch
from torch import Size, Tensor, nn

from veracity import Audit
from veracity.demo import digits, flatten_cnn
from veracity.results import Result
from veracity.scores import FastGEF
from veracity.trainers.training import initialised, train


def trained() -> nn.Module:
    """The network."""
    x, labels = digits("train")
    return train(initialised(lambda: flatten_cnn((8, 16), 10, Size((14, 14))), seed=0), x, labels, epochs=6, batch=64, rate=2e-2).eval()


def scored(model: nn.Module, x: Tensor, folder: Path, sigma: float | None) -> Result:
    """The gradient of one subsample, at a strength or at the one that is found."""
    given = {"models": {"net": model}, "inputs": x, "explainers": ["gradient"], "controls": False, "companions": False}
    return Audit(**given, scores=[FastGEF(sigma=sigma)]).run(folder, progress=False)  # type: ignore[arg-type]


def main() -> None:
    """Print one line per subsample, and how many of the other subsamples' strengths a range covers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--subsamples", type=int, default=15)
    settings = parser.parse_args()
    model, (x, _) = trained(), digits("test")
    rows = []
    with tempfile.TemporaryDirectory() as root:
        for number in range(settings.subsamples):
            some = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(number))[: settings.samples]]
            found = scored(model, some, Path(root) / str(number), None)
            (end,) = found.strengths().to_dict("records")
            row = {"sigma": end["sigma"], "low": end["low"], "high": end["high"], "score": value(found), "interval": interval(found)}
            for side in ("low", "high"):
                row[f"score at {side}"] = value(scored(model, some, Path(root) / f"{number}-{side}", end[side]))
            rows.append(row)
    table = pd.DataFrame(rows)
    print(table.to_string(index=False, float_format=lambda number: f"{number:.3f}"))
    ends = table["high"]
    covered = [
        table["low"][one] <= table["sigma"][other] <= ends[one] for one in range(len(table)) for other in range(len(table)) if other != one
    ]
    middle = table["sigma"].median()
    print(f"strengths {table['sigma'].min():.2f} to {table['sigma'].max():.2f}, median {middle:.2f}")
    print(f"a range covers the strength of another subsample in {sum(covered) / len(covered):.0%} of pairs")
    print(f"{int(((table['low'] <= middle) & (middle <= ends)).sum())} of {len(table)} ranges cover the median strength")
    moved = (table["score at high"] - table["score at low"]).abs()
    print(f"the score moves by {moved.median():.3f} in the median from one end of the range to the other, by up to {moved.max():.3f}")


def value(result: Result) -> float:
    """The mean score."""
    return float(result.table()["value"].iloc[0])


def interval(result: Result) -> float:
    """The width of the score's interval."""
    row = result.table().iloc[0]
    return float(row["high"] - row["low"])


if __name__ == "__main__":
    main()
