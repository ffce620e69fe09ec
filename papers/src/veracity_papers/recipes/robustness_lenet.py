"""Misleading explanations near images, for LeNets: digits and clothing, four training schemes (Table 5), LIME and SHAP (Tables 6, 7)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from veracity.audit import Audit
from veracity.core.explainers import Explainer
from veracity.core.scores import Score
from veracity.explain import SuperpixelLime, SuperpixelShap
from veracity.recipe import Scale, recipe
from veracity.scores import LnPHat, LnPMisclassified, SolHat, SolTilde, WorstLoss
from veracity.studies.several import Audits
from veracity.walk import Genetic, GradientSearch, SubsetSimulation
from veracity_papers.data.mnist import fashion_mnist
from veracity_papers.recipes.published import published
from veracity_papers.recipes.robustness_methods import (
    EFFORT,
    PAPER,
    Ball,
    Effort,
    comparison,
    explanation_scores,
    first_correct,
    methods,
    robustness_table,
    search_audit,
)
from veracity_papers.zoo import lenet, lenet5

WIDER = 0.3
NEAR: Ball = {"radius": lenet5.RADIUS, "range": lenet5.RANGE}
WIDE: Ball = {"radius": WIDER, "range": lenet5.RANGE}
RADII = {Scale.SMOKE: (0.1, 0.4), Scale.SMALL: (0.025, 0.05, 0.1, 0.2, 0.4), Scale.PAPER: (0.025, 0.05, 0.1, 0.2, 0.4)}
CLIMB = {Scale.SMOKE: 2, Scale.SMALL: 25, Scale.PAPER: 50}
FASHION_BALL: Ball = {"radius": 0.08, "range": (0.0, 1.0)}


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
    near = comparison(title, model, data, NEAR, lenet5.LAYER, effort)
    wider = search_audit(
        "How likely does a digit mislead that may change three times as much?",
        {"lenet": model},
        data,
        explainers=methods(lenet5.LAYER, effort.steps),
        scores={label: one for label, one in explanation_scores(effort, WIDE).items() if label != "ln_p_f_tilde"},
    )
    radii = search_audit(
        "How far must a digit change before its explanation does?",
        {"lenet": model},
        data,
        explainers=["input_x_gradient"],
        scores=profile(effort, CLIMB[scale], RADII[scale]),
    )
    audits = {"explainers": near, "wider": wider, "radii": radii}
    return Audits(audits={name: replace(one, about=about) for name, one in audits.items()}, title=title, summary=robustness_table)


@recipe("robustness-fashion-mnist", reference=f"{PAPER}, section 8.8.1")
def robustness_fashion_mnist(folder: Path, scale: Scale) -> Audit:
    """Worst case and probability of misleading explanations within .08 of an image of clothing: four explainers of a LeNet with ReLUs.

    The network is the faithfulness paper's; the robustness paper's appendix has no figures for these images. Searches as in
    `robustness-mnist`.
    """
    effort, model = EFFORT[scale], lenet.pretrained("fashion-mnist")
    data = first_correct([model], fashion_mnist("test", padding=0), effort.seeds)
    title = "How close to an image of clothing lies one that misleads?"
    found = comparison(title, model, data, FASHION_BALL, lenet.LAYER, effort)
    return replace(found, about={"recipe": "robustness-fashion-mnist", "scale": scale.value})


def profile(effort: Effort, steps: int, radii: tuple[float, ...]) -> dict[str, Score]:
    """sol_F-hat around digits, by a gradient search alone, at several radii, and ln P_F-hat at those that are not too small for it."""
    climb, span = GradientSearch(population=4, steps=steps), lenet5.RANGE
    worst: dict[str, Score] = {f"sol_f_hat, r = {r:g}": SolHat(walk=climb, radius=r, range=span) for r in radii}
    return worst | {f"ln_p_f_hat, r = {r:g}": LnPHat(walk=effort.rare, radius=r, range=span) for r in radii if r >= lenet5.RADIUS}


@recipe("robustness-training", reference=f"{PAPER}, section 8.5 and Table 5")
def robustness_training(folder: Path, scale: Scale) -> Audit:
    """Does training for robustness make explanations robust? Four LeNets for digits: plain, gradient and Hessian penalty, PGD.

    All are searched around the same digits, which all classify correctly: worst cases within .1, for which PGD trained, and ln P
    within .3, since at .1 most events are too rare to be told apart. On the test images the shipped networks scored .9916,
    .9905, .9922 and .9918 (Table 5: .991, .989, .989, .989), which says nothing about their explanations. Searches as in
    `robustness-mnist`.
    """
    effort = EFFORT[scale]
    models = {scheme: network.pretrained() for scheme, network in lenet5.ROBUST.items()}
    explainers = methods(lenet5.LAYER, effort.steps)
    return search_audit(
        "Does training for robustness make explanations robust?",
        models,
        first_correct(models.values(), lenet5.digits("test"), effort.seeds),
        explainers={name: explainers[name] for name in ("input_x_gradient", "integrated_gradients")},
        scores={
            "sol_f_hat": SolHat(walk=effort.worst, **NEAR),
            "sol_f_tilde": SolTilde(walk=effort.worst, **NEAR),
            "worst_loss": WorstLoss(walk=effort.worst, **NEAR),
            f"ln_p_f_hat, r = {WIDER:g}": LnPHat(walk=effort.rare, **WIDE),
            f"ln_p_misclassified, r = {WIDER:g}": LnPMisclassified(walk=effort.rare, **WIDE),
        },
        about={"recipe": "robustness-training", "scale": scale.value},
    )


GREY = 0.0
"""What stands for an absent superpixel, half way between black (-1) and white (1): the mean colour hides next to nothing of a digit."""

SAMPLES = {Scale.SMOKE: (20,), Scale.SMALL: (50, 200), Scale.PAPER: (50, 200, 500)}
SUPERPIXEL_EFFORT = {
    Scale.SMOKE: Effort(1, Genetic(population=4, generations=1, elites=1), SubsetSimulation(population=10, steps=1, floor=-2.0)),
    Scale.SMALL: Effort(2, Genetic(population=10, generations=4, elites=1), SubsetSimulation(population=20, steps=2, floor=-10.0)),
    Scale.PAPER: Effort(5, Genetic(population=20, generations=10, elites=2), SubsetSimulation(population=50, steps=3, floor=-20.0)),
}


@recipe("robustness-lime-shap", reference=f"{PAPER}, section 8.8.2, Tables 6 and 7")
def robustness_lime_shap(folder: Path, scale: Scale) -> Audit:
    """LIME and SHAP over superpixels of digits, segmented again after every change or as the unchanged digit was, beside Tables 6 and 7.

    An explanation and that of a changed digit share their random masks, so every difference is due to the change. Published
    figures are for the same network and radius, with mean colours instead of absent superpixels; ours become grey, since
    mean colours hide .7 % of a digit's variance. An evaluation takes as many forward passes as there are samples. So
    searches are short, and longer ones would find lower sol_F-hat. Small: 2 digits, 46 genetic evaluations, n = 20, M = 2, ln P
    down to -10, 50 and 200 samples. Paper: 5 digits, 200 evaluations, n = 50, M = 3, ln P down to -20, 500 samples too.
    """
    effort, model = SUPERPIXEL_EFFORT[scale], lenet5.pretrained()
    explainers = superpixels(scale)
    figures = published("robustness 6", explainers=explainers) + published("robustness 7", explainers=explainers)
    return search_audit(
        "Are LIME and SHAP robust, and is it their segmentation that is not?",
        {"lenet": model},
        first_correct([model], lenet5.digits("test"), effort.seeds),
        explainers=explainers,
        scores=explanation_scores(effort, NEAR),
        about={"recipe": "robustness-lime-shap", "scale": scale.value, "published": figures},
    )


def superpixels(scale: Scale) -> dict[str, Explainer]:
    """Both methods with several numbers of samples, segmented again; and, with 200 or the most there are, with fixed segments."""
    counts = SAMPLES[scale]
    kinds = {"lime": SuperpixelLime, "shap": SuperpixelShap}
    most = 200 if 200 in counts else max(counts)
    found: dict[str, Explainer] = {
        f"{name}+{count}": kind(samples=count, baseline=GREY) for name, kind in kinds.items() for count in counts
    }
    return found | {f"{name}+{most}, fixed": kind(samples=most, baseline=GREY, fixed_segments=True) for name, kind in kinds.items()}
