"""Do scores see through explanations that do not look at the model? The controls of the paper's Table A.3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from veracity.audit import Audit
from veracity.core.scores import Score
from veracity.explain import Gradient
from veracity.recipe import Scale, recipe
from veracity.scores import GEF, FastGEF, PublicFastGEF, PublicGEF
from veracity.scores.faithfulness import FaithfulnessCorrelation
from veracity.scores.randomisation import MPRT
from veracity.scores.sensitivity import RelativeInputStability
from veracity_papers.data.pneumonia import pneumonia_mnist
from veracity_papers.recipes.faithfulness_methods import PAPER
from veracity_papers.zoo.med import pretrained

SIZES = {Scale.SMOKE: (3, 2), Scale.SMALL: (48, 5), Scale.PAPER: (250, 5)}
UNFLOORED = "relative_input_stability, no floor"
A3: dict[str, dict[str, tuple[float, float]]] = {
    "constant_map": {UNFLOORED: (0.11, 0.29)},
    "random_uniform": {
        "gef_public": (-0.01, 0.30),
        "fast_gef_public": (-0.01, 0.22),
        "faithfulness_correlation": (0.00, 0.51),
        "mprt": (0.00, 0.04),
        UNFLOORED: (3.21, 2.89),
    },
    "edge_filter": {"faithfulness_correlation": (-0.01, 0.50), "mprt": (1.00, 0.00), UNFLOORED: (82197.21, 132718.26)},
    "gradient": {
        "gef_public": (0.47, 0.23),
        "fast_gef_public": (0.48, 0.15),
        "faithfulness_correlation": (-0.05, 0.49),
        "mprt": (0.01, 0.04),
        UNFLOORED: (1764.60, 10007.26),
    },
}
"""Table A.3, on DermaMNIST: mean and standard deviation of every score that the paper found defined."""


def control_scores(scale: Scale) -> dict[str, Score]:
    """The scores of Table A.3 as in appendix A.8.1; the variants of GEF's authors, and stability without our floor, stand beside ours.

    For a smoke test the noise has a fixed strength, and the exact variants are left out.
    """
    draws, sigma = SIZES[scale][1], 1.0 if scale is Scale.SMOKE else None
    exact = {"gef": GEF(draws=draws), "gef_public": PublicGEF(draws=draws)} if scale is not Scale.SMOKE else {}
    return {
        **exact,
        "fast_gef": FastGEF(draws=draws, sigma=sigma),
        "fast_gef_public": PublicFastGEF(draws=draws, sigma=sigma),
        "faithfulness_correlation": FaithfulnessCorrelation(nr_runs=5, subset_size=28),
        "mprt": MPRT(),
        "relative_input_stability": RelativeInputStability(),
        UNFLOORED: RelativeInputStability(floor=0.0),
    }


def published() -> list[dict[str, Any]]:
    """Table A.3 as records."""
    return [
        {"model": "med-cnn", "explainer": explainer, "score": score, "value": value, "error": error, "where": "Table A.3, DermaMNIST"}
        for explainer, figures in A3.items()
        for score, (value, error) in figures.items()
    ]


@recipe("faithfulness-controls", reference=f"{PAPER}, appendix A.8.3 and Table A.3")
def faithfulness_controls(folder: Path, scale: Scale) -> Audit:
    """Random, constant and edge-filter explanations beside the gradient, on PneumoniaMNIST with a MedCNN, under five scores.

    It stands for the paper's DermaMNIST: the published figures beside ours are for those images, in colour and with seven
    classes. Constant and edge-filter maps do not respond to the weights, so that GEF is undefined for them, as published.
    Small: 48 images. Paper: 250 images.
    """
    x, y = (part[: SIZES[scale][0]] for part in pneumonia_mnist("test"))
    return Audit(
        title="Do scores tell explanations from maps that never saw the model?",
        models={"med-cnn": pretrained()},
        inputs=x,
        targets=y,
        explainers={"gradient": Gradient()},
        scores=control_scores(scale),
        about={"recipe": "faithfulness-controls", "scale": scale.value, "published": published()},
    )
