"""Does training for robustness make explanations robust? Table 5's four schemes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from veracity.audit import Audit
from veracity.recipe import Scale, recipe
from veracity.scores import LnPHat, LnPMisclassified, SolHat, SolTilde, WorstLoss
from veracity_papers.recipes.robustness_methods import EFFORT, PAPER, first_correct, methods, searched
from veracity_papers.zoo import lenet5

SCHEMES = ("plain", "gradient", "hessian", "pgd")
WIDER = 0.3


@recipe("robustness-training", reference=f"{PAPER}, section 8.5 and Table 5")
def robustness_training(folder: Path, scale: Scale) -> Audit:
    """Does training for robustness make explanations robust? Four LeNets for digits: plain, gradient and Hessian penalty, PGD.

    All are searched around the same digits, which all classify correctly: worst cases within .1, for which PGD trained, and ln P
    within .3, since at .1 most events are too rare to be told apart. On the test images the shipped networks scored .9916,
    .9905, .9922 and .9918 (Table 5: .991, .989, .989, .989), which says nothing about their explanations. Searches as in
    `robustness-mnist`.
    """
    effort = EFFORT[scale]
    models = {scheme: lenet5.trained(scheme) for scheme in SCHEMES}
    near: dict[str, Any] = {"walk": effort.worst, "radius": lenet5.RADIUS, "range": lenet5.RANGE}
    wide: dict[str, Any] = {"walk": effort.rare, "radius": WIDER, "range": lenet5.RANGE}
    explainers = methods(lenet5.LAYER, effort.steps)
    return searched(
        "Does training for robustness make explanations robust?",
        models,
        first_correct(models.values(), lenet5.digits("test"), effort.seeds),
        explainers={name: explainers[name] for name in ("input_x_gradient", "integrated_gradients")},
        scores={
            "sol_f_hat": SolHat(**near),
            "sol_f_tilde": SolTilde(**near),
            "worst_loss": WorstLoss(**near),
            f"ln_p_f_hat, r = {WIDER:g}": LnPHat(**wide),
            f"ln_p_misclassified, r = {WIDER:g}": LnPMisclassified(**wide),
        },
        about={"recipe": "robustness-training", "scale": scale.value},
    )
