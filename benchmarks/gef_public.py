"""`gef_public` beside the published figures and beside an independent re-implementation of the public code, on three networks.

    python -m benchmarks.gef_public [--runs 12] [--workers 2]

Needs the tables and weights of the data folder (VERACITY_DATA). Every run has a seed of its own and 250 rows. The last column is
the rank correlation of D_f with the number of the level: what an explanation scores that knows the level and nothing else.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pandas as pd
import torch

from veracity import Audit
from veracity.results import Result
from veracity.scores import PublicGEF
from veracity.scores.gef import alignment
from veracity_papers.recipes.faithfulness_benchmark import DATA
from veracity_papers.recipes.faithfulness_methods import local_methods
from veracity_papers.recipes.published import published
from veracity_papers.zoo.tabular import pretrained

METHODS = ("gradient", "saliency", "input_x_gradient")
AGAIN = {
    ("adult-mlp3", 7.75): (0.81, 0.80, 0.83),
    ("adult-mlp3", 4.6): (0.82, 0.82, 0.83),
    ("compas-lr", 7.75): (0.72, 0.68, 0.71),
    ("compas-lr", 4.8125): (0.72, 0.68, 0.71),
    ("adult-lr", 7.75): (0.69, 0.60, 0.71),
    ("adult-lr", 2.625): (0.69, 0.60, 0.71),
}
"""By network and strength of the last level: means of twelve runs of the re-implementation, for the methods in their order.

7.75, 4.8125 and 2.625 are the strengths that calibration finds for the three networks on these rows.
"""


def measured(name: str, sigma: float, segments: int, seed: int) -> tuple[list[float], float]:
    """One run of 250 rows: the mean score of each method, and that of the level alone."""
    torch.set_num_threads(1)
    read = next(read for read, models in DATA.values() if name in models)
    audit = Audit(
        models={name: pretrained(name)},
        inputs=read("test").labelled.some(250).inputs,
        explainers={one: local_methods()[one] for one in METHODS},
        scores=[PublicGEF(sigma=sigma, segments=segments)],
        controls=False,
        companions=False,
        seed=seed,
    )
    with tempfile.TemporaryDirectory() as folder:
        result = audit.run(folder, progress=False)
        return list(result.table().set_index("explainer").loc[list(METHODS), "value"]), level_alone(result)


def level_alone(result: Result) -> float:
    """The mean rank correlation of D_f with the number of the level."""
    score = result.score("gef_public")
    assert isinstance(score, PublicGEF)
    model, _ = score.distortions(result.series[0].measured)
    return float(np.nanmean(alignment(model, np.broadcast_to(np.arange(model.shape[2], dtype=float), model.shape))))


def rows(runs: int, workers: int) -> Iterator[dict[str, object]]:
    """One row per network, strength, number of segments and method."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        cases = [(name, sigma, segments) for name, sigma in AGAIN for segments in (10, 5)]
        found = {case: [pool.submit(measured, *case, seed) for seed in range(runs)] for case in cases}
        for (name, sigma, segments), futures in found.items():
            values = np.array([future.result()[0] for future in futures])
            for place, method in enumerate(METHODS):
                yield {
                    "network": name,
                    "sigma": sigma,
                    "T": segments,
                    "method": method,
                    "here": values[:, place].mean(),
                    "sd": values[:, place].std(ddof=1),
                    "again": AGAIN[name, sigma][place],
                    "published": published("faithfulness A.4", {name: name}, [method])[0]["value"],
                    "level alone": np.mean([future.result()[1] for future in futures]),
                }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    table = pd.DataFrame(list(rows(given.runs, given.workers)))
    print(table.to_string(index=False, float_format=lambda value: f"{value:.2f}"))


if __name__ == "__main__":
    main()
