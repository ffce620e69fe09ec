"""What the settings of GEF cost: seconds for more and fewer draws M, levels Z and segments T (the time panels of Figure A.8).

    python -m benchmarks.gef_ablation [--samples 250] [--repeats 3]

Needs the tables, digits and weights of the data folder (VERACITY_DATA). As in the paper, saliency of a network for Avila and random
maps of a LeNet for MNIST; one setting is changed at a time, the others are 10. Every run is alone in a folder of its own; the fastest
of the repeats counts, and the first one of all is not timed. The strength of the noise is fixed, so that no calibration is timed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from veracity import Audit
from veracity.explain import RandomUniform, Saliency
from veracity.scores import GEF
from veracity_papers.recipes.faithfulness_methods import TASKS
from veracity_papers.recipes.gef_checks import LETTERS

FIXED = 10
VALUES = {"M": (1, 5, 10, 20), "Z": (3, 5, 10, 20), "T": (1, 5, 10, 20)}
SUBJECTS = {"avila": ("saliency", Saliency()), "mnist": ("random_uniform", RandomUniform())}


def subject(name: str, samples: int) -> Audit:
    """The audit of one network and one explainer, without a score."""
    task, (label, explainer) = TASKS[name], SUBJECTS[name]
    chosen = task.data().some(samples)
    return Audit(models={task.label: task.network()}, inputs=chosen.inputs, explainers={label: explainer}, controls=False, companions=False)


def seconds(audit: Audit, repeats: int) -> tuple[float, float]:
    """The fastest of the repeats, and the score."""
    spent, value = [], np.nan
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            result = audit.run(folder, progress=False)
            spent.append(time.perf_counter() - start)
            value = float(result.table()["value"].iloc[0])
    return min(spent), value


def rows(samples: int, repeats: int) -> Iterator[dict[str, Any]]:
    """One row per network and setting."""
    for name in SUBJECTS:
        audit = subject(name, samples)
        seconds(replace(audit, scores=[GEF(sigma=1.0, steps=3, draws=1, segments=1)]), 1)
        for letter, values in VALUES.items():
            for value in values:
                settings: dict[str, Any] = {"draws": FIXED, "steps": FIXED, "segments": FIXED, LETTERS[letter]: value}
                spent, score = seconds(replace(audit, scores=[GEF(sigma=1.0, **settings)]), repeats)
                copies = settings["draws"] * settings["steps"] * settings["segments"]
                yield {"data": name, "setting": letter, "value": value, "copies": copies, "seconds": spent, "score": score}


def growth(table: pd.DataFrame) -> pd.DataFrame:
    """Milliseconds per further copy, and the share of the variance that a straight line through the seconds explains."""
    found = []
    for (name, letter), part in table.groupby(["data", "setting"], sort=False):
        slope = np.polyfit(part["copies"], part["seconds"], 1)[0]
        fit = np.corrcoef(part["copies"], part["seconds"])[0, 1] ** 2
        found.append({"data": name, "setting": letter, "ms per copy": 1000 * slope, "linear": fit})
    return pd.DataFrame(found)


def main() -> None:
    """Print the seconds of every setting, and how they grow."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=250)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    table = pd.DataFrame(rows(given.samples, given.repeats))
    print(table.to_string(index=False, float_format=lambda value: f"{value:.3f}"))
    print(growth(table).to_string(index=False, float_format=lambda value: f"{value:.3f}"))


if __name__ == "__main__":
    main()
