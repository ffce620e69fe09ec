"""Searches in other spaces than balls: which turn of a digit, which noise on the weights misleads?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from veracity.audit import Audit
from veracity.core.scores import Score
from veracity.core.spaces import Space
from veracity.core.walks import Search
from veracity.demo import digits, flatten_cnn
from veracity.perturb import Rotation, WeightNeighbourhood
from veracity.recipe import Scale, recipe
from veracity.scores import LnPHat, LnPMisclassified, SolHat, WorstLoss
from veracity.walk import Genetic, SimpleMonteCarlo, SubsetSimulation
from veracity_papers.recipes.robustness_methods import PAPER, first_correct, search_audit
from veracity_papers.recipes.smoke import trained_classifier

EPOCHS = {Scale.SMOKE: 3, Scale.SMALL: 8, Scale.PAPER: 8}
SIGMA = 0.3


@dataclass(frozen=True)
class Extent:
    """How many seeds, and how hard each is searched."""

    seeds: int
    worst: Search
    rare: Search
    counted: Search


EXTENT = {
    Scale.SMOKE: Extent(
        2,
        Genetic(population=8, generations=2, elites=1),
        SubsetSimulation(population=20, steps=2, floor=-5.0),
        SimpleMonteCarlo(draws=100, population=100),
    ),
    Scale.SMALL: Extent(
        10,
        Genetic(population=50, generations=20, elites=5),
        SubsetSimulation(population=100, steps=5, floor=-30.0),
        SimpleMonteCarlo(draws=2000),
    ),
    Scale.PAPER: Extent(
        100,
        Genetic(population=100, generations=60),
        SubsetSimulation(population=300, steps=10, floor=-100.0),
        SimpleMonteCarlo(draws=20_000),
    ),
}


@recipe("robustness-spaces", reference=f"{PAPER}, sections 8.2 and 8.3")
def robustness_spaces(folder: Path, scale: Scale) -> Audit:
    """Searches in any space: which turn of a digit, and which noise on a network's weights, misleads, and how likely is it?

    A genetic search and subset simulation over all rotations of scikit-learn's digits and over noise of 30 % on the weights
    of a small network, trained on the spot; the probability that a turned digit is misclassified is counted by plain
    Monte Carlo too. The map of a turned digit is expected to turn along.
    Small: 10 digits, 950 genetic evaluations, n = 100, M = 5. Paper: 100 digits, 5,500 evaluations, n = 300, M = 10.
    """
    extent, (x, y) = EXTENT[scale], digits("train")
    build = partial(flatten_cnn, (8, 16), 10, x.shape[-2:])
    model = trained_classifier(folder, "small", build, (x, y), epochs=EPOCHS[scale], batch=64, rate=1e-2)
    spaces = {"rotations": Rotation(), "weights": WeightNeighbourhood(sigma=SIGMA)}
    scores = {label: one for name, space in spaces.items() for label, one in in_space(name, space, extent).items()}
    counted: Score = LnPMisclassified(space=spaces["rotations"], walk=extent.counted)
    return search_audit(
        "Which turn of a digit, and which noise on the weights, misleads?",
        {"small": model},
        first_correct([model], digits("test"), extent.seeds),
        explainers=["input_x_gradient", "saliency"],
        scores={**scores, "ln_p_misclassified, rotations, counted": counted},
        about={"recipe": "robustness-spaces", "scale": scale.value},
    )


def in_space(name: str, space: Space, extent: Extent) -> dict[str, Score]:
    """Worst case and probability, of explanation and prediction, in one space."""
    found: tuple[Score, ...] = (
        SolHat(space=space, walk=extent.worst),
        WorstLoss(space=space, walk=extent.worst),
        LnPHat(space=space, walk=extent.rare),
        LnPMisclassified(space=space, walk=extent.rare),
    )
    return {f"{one.name}, {name}": one for one in found}
