"""The stability paper's checks: do scores follow a damage (Figures 3, 4, 8, 9), and do distances grow (appendix F)?"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from veracity.core.training import CrossTrained
from veracity.demo import digits
from veracity.perturb import ConvolutionNoise
from veracity.perturb.folds import members
from veracity.recipe import Scale, recipe
from veracity.scores.faithfulness.correlation import MuF
from veracity.studies.degradation import DegradationCheck
from veracity.studies.distance_check import DistanceCheck
from veracity.trainers.small_cnn import SmallCNN
from veracity_papers.data.labelled import both_splits
from veracity_papers.recipes.stability_methods import PAPER, Effort, spread_over_folds

EFFORTS = {
    Scale.SMOKE: Effort(24, folds=2, masks=10, points=4, subsets=10),
    Scale.SMALL: Effort(300, masks=200),
    Scale.PAPER: Effort(1797),
}
MILD = 0.1
"""Noise that leaves a small network something to lose at every share; the paper's .5 ruins it at the first."""
SEEDS = {Scale.SMOKE: 3, Scale.SMALL: 3, Scale.PAPER: 5}


@recipe("stability-degradation", reference=f"{PAPER}, sections 4.2 and 4.3, Figures 3, 4, 8 and 9")
def stability_degradation(folder: Path, scale: Scale) -> DegradationCheck:
    """MeGe, ReCo and muF of seven explainers as 5, 10 and 30 % of a digit classifier's weights are noised, or its labels are wrong.

    Every seed trains a small network without each fold of scikit-learn's digits, undamaged and on wrong labels. Weights are noised
    as in the paper, N(0, .5), and mildly, N(0, .1). Small: five folds,
    three seeds, 300 digits explained. Paper: five seeds, every digit. Smoke: two folds, 24 digits.
    """
    effort = EFFORTS[scale]
    inputs, labels = both_splits(partial(digits, padding=0))
    folds = members(effort.folds, labels)
    place = spread_over_folds(folds, effort.samples)
    fit = SmallCNN(epochs=2, batch=32, patience=None) if scale is Scale.SMOKE else SmallCNN()
    chosen = effort.explainers()
    return DegradationCheck(
        title="Do the scores follow a model down as it is damaged?",
        model=CrossTrained(fit=fit, folds=folds, data=(inputs, labels), place=place),
        inputs=inputs[place],
        targets=labels[place],
        explainers={name: chosen[name] for name in list(chosen)[:: 4 if scale is Scale.SMOKE else 1]},
        scores=["mege", "reco", MuF(nr_runs=effort.subsets)],
        damages={"weights": "weights", "mild": ConvolutionNoise(sigma=MILD), "labels": "labels"},
        shares=(0.1, 0.3) if scale is Scale.SMOKE else (0.05, 0.10, 0.30),
        seeds=SEEDS[scale],
    )


@recipe("distance-check", reference="Fel et al. 2022, appendix F, Figures 6 and 7")
def distance_check(folder: Path, scale: Scale) -> DistanceCheck:
    """Whether every registered distance grows as a spot moves away and as noise grows: seconds at every scale.

    Paper and small: 100 maps of 32 x 32 pixels along each way, 50 noisy copies at each of 21 levels. Smoke: 25 and 10. The
    paper moves one spot from the left corner to the right; here it also moves along the diagonal and as a disc with nothing
    around it, since a correlation's magnitude calls an inverted map equal, and most distances stop growing once nothing
    overlaps. The paper reports that all pass and prints no numbers to compare with.
    """
    steps, repeats = (25, 10) if scale is Scale.SMOKE else (100, 50)
    return DistanceCheck(steps=steps, repeats=repeats)
