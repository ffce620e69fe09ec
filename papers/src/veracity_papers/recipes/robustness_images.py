"""How close to an image lies one that misleads? The paper's LeNet for digits, and one for clothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from veracity.audit import Audit
from veracity.core.scores import Score
from veracity.recipe import Scale, recipe
from veracity.scores import LnPHat, SolHat
from veracity.studies.several import Audits
from veracity.walk import GradientSearch
from veracity_papers.data.fashion import fashion_mnist
from veracity_papers.recipes.robustness_methods import (
    EFFORT,
    PAPER,
    Effort,
    compared,
    explained,
    first_correct,
    methods,
    searched,
    standing,
)
from veracity_papers.zoo import lenet, lenet5

WIDER = 0.3
RADII = {Scale.SMOKE: (0.1, 0.4), Scale.SMALL: (0.025, 0.05, 0.1, 0.2, 0.4), Scale.PAPER: (0.025, 0.05, 0.1, 0.2, 0.4)}
CLIMB = {Scale.SMOKE: 2, Scale.SMALL: 25, Scale.PAPER: 50}
FASHION_BALL = (0.08, (0.0, 1.0))


@recipe("robustness-mnist", reference=f"{PAPER}, section 8.8.1")
def robustness_mnist(folder: Path, scale: Scale) -> Audits:
    """Worst case and probability of misleading explanations within .1 of a digit: four explainers of the authors' LeNet.

    For Gradient x Input, integrated gradients, Grad-CAM and DeepLift; beside them the network's own worst loss and ln P of
    misclassification. At this radius most events are rarer than e^-60, so a second audit takes the radius of the authors' public
    code, .3, and a third shows how sol_F-hat and ln P_F-hat of Gradient x Input change with the radius. The appendix has no
    figures for these explainers on MNIST; elsewhere it finds integrated gradients the most robust to F-hat. Smoke: 2 digits.
    Small: 10 digits, 570 genetic and 100 gradient evaluations, n = 50, M = 3, ln P down to -40, integrals of 10 steps.
    Paper: 100 digits, 3,700 and 500 evaluations, n = 150, M = 5, ln P down to -100, integrals of 20 steps.
    """
    effort, model = EFFORT[scale], lenet5.pretrained()
    data = first_correct([model], lenet5.digits("test"), effort.seeds)
    about = {"recipe": "robustness-mnist", "scale": scale.value}
    title = "How close to a digit lies one that misleads?"
    near = compared(title, ("lenet", model), data, (lenet5.RADIUS, lenet5.RANGE), lenet5.LAYER, effort)
    wider = searched(
        "How likely does a digit mislead that may change three times as much?",
        {"lenet": model},
        data,
        explainers=methods(lenet5.LAYER, effort.steps),
        scores={label: one for label, one in explained(effort, WIDER, lenet5.RANGE).items() if label != "ln_p_f_tilde"},
    )
    radii = searched(
        "How far must a digit change before its explanation does?",
        {"lenet": model},
        data,
        explainers=["input_x_gradient"],
        scores=profile(effort, CLIMB[scale], RADII[scale]),
    )
    audits = {"explainers": near, "wider": wider, "radii": radii}
    return Audits(audits={name: replace(one, about=about) for name, one in audits.items()}, title=title, summary=standing)


@recipe("robustness-fashion-mnist", reference=f"{PAPER}, section 8.8.1")
def robustness_fashion_mnist(folder: Path, scale: Scale) -> Audit:
    """Worst case and probability of misleading explanations within .08 of an image of clothing: four explainers of a LeNet with ReLUs.

    The network is the faithfulness paper's; the robustness paper's appendix has no figures for these images. Searches as in
    `robustness-mnist`.
    """
    effort, model = EFFORT[scale], lenet.pretrained("fashion-mnist")
    data = first_correct([model], fashion_mnist("test", padding=0), effort.seeds)
    title = "How close to an image of clothing lies one that misleads?"
    found = compared(title, ("lenet", model), data, FASHION_BALL, lenet.LAYER, effort)
    return replace(found, about={"recipe": "robustness-fashion-mnist", "scale": scale.value})


def profile(effort: Effort, steps: int, radii: tuple[float, ...]) -> dict[str, Score]:
    """sol_F-hat around digits, by a gradient search alone, at several radii, and ln P_F-hat at those that are not too small for it."""
    climb, span = GradientSearch(population=4, steps=steps), lenet5.RANGE
    worst: dict[str, Score] = {f"sol_f_hat, r = {r:g}": SolHat(walk=climb, radius=r, range=span) for r in radii}
    return worst | {f"ln_p_f_hat, r = {r:g}": LnPHat(walk=effort.rare, radius=r, range=span) for r in radii if r >= lenet5.RADIUS}
