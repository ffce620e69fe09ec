"""The leaderboard of docs/leaderboard.md: six explainers of five networks of the model zoo, by five scores, on 64 samples each.

    python -m benchmarks.leaderboard [FOLDER]

The networks come with veracity-papers and read their own test images: MNIST, Fashion-MNIST and PneumoniaMNIST. Running it again measures
what is missing and writes the page and the Markdown tables again.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import veracity
from veracity import Audit, Audits, explain, scores
from veracity.core.explainers import Explainer
from veracity.core.scores import Score
from veracity.walk import MonteCarlo
from veracity_papers.data.mnist import fashion_mnist
from veracity_papers.data.pneumonia import pneumonia_mnist
from veracity_papers.zoo.lenet5 import ROBUST, digits
from veracity_papers.zoo.med import PNEUMONIA
from veracity_papers.zoo.symmetry import FASHION

SAMPLES = 64
EXPLAINERS: dict[str, Explainer] = {
    "saliency": explain.Saliency(),
    "input_x_gradient": explain.InputXGradient(),
    "integrated_gradients": explain.IntegratedGradients(steps=20),
    "smooth_grad": explain.SmoothGrad(draws=10, noise=0.1),
    "guided_backprop": explain.GuidedBackprop(),
    "gradient_shap": explain.GradientShap(draws=10),
}
SCORES: dict[str, Score] = {
    "insertion": scores.Insertion(steps=28),
    "deletion": scores.Deletion(steps=28),
    "faithfulness_correlation": scores.FaithfulnessCorrelation(nr_runs=50, subset_size=56),
    "max_sensitivity": scores.MaxSensitivity(walk=MonteCarlo(draws=10), radius=0.05, relative=True),
    "sparseness": scores.Sparseness(),
}


def audits() -> Audits:
    """One audit per data set."""
    same: dict[str, Any] = {"explainers": EXPLAINERS, "scores": SCORES, "companions": False}
    lenets = {f"lenet5-{name}": ROBUST[name].pretrained() for name in ("plain", "gradient", "pgd")}
    data: dict[str, tuple[dict[str, Any], Any]] = {
        "mnist": (lenets, digits("test")),
        "fashion": ({"fashion-standard-cnn": FASHION["standard-cnn"].pretrained()}, fashion_mnist("test")),
        "pneumonia": ({"med-cnn": PNEUMONIA.pretrained()}, pneumonia_mnist("test")),
    }
    found = {name: Audit(models=models, inputs=x[:SAMPLES], targets=y[:SAMPLES], **same) for name, (models, (x, y)) in data.items()}
    return Audits(audits=found, title="Model zoo")


def main(folder: str = "runs/leaderboard") -> None:
    """Measure, then write the page and the Markdown tables beside the runs."""
    began = time.perf_counter()
    audits().run(folder, progress=False)
    print(f"measured in {time.perf_counter() - began:.0f} s")
    began = time.perf_counter()
    board = veracity.leaderboard(folder)
    page = board.save_page(Path(folder) / "leaderboard.html")
    text = Path(folder) / "leaderboard.md"
    text.write_text(board.to_markdown(), encoding="utf-8")
    print(f"{page} and {text} written in {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main(*sys.argv[1:2])
