"""How close to a photograph of ImageNet lies one that misleads? The five methods of the robustness paper's Table 9."""

from __future__ import annotations

from pathlib import Path

from veracity.audit import Audit
from veracity.core.explainers import Explainer
from veracity.explain import ExtremalPerturbation, FullGrad, GradCam, InputXGradient, IntegratedGradients
from veracity.recipe import Scale, recipe
from veracity.walk import SubsetSimulation
from veracity_papers.recipes.imagenet import photographs
from veracity_papers.recipes.robustness_methods import PAPER, Effort, both, explanation_scores, first_correct, search_audit
from veracity_papers.zoo import efficientnet

RADIUS = 0.03
"""The ball that the paper has for CIFAR-10; its appendix names none for ImageNet."""

EFFORT = {
    Scale.SMOKE: Effort(1, both(4, 1, 1, 1), SubsetSimulation(population=10, steps=1, floor=-2.0), steps=2),
    Scale.SMALL: Effort(2, both(6, 2, 1, 4), SubsetSimulation(population=10, steps=1, floor=-3.0), steps=3),
    Scale.PAPER: Effort(20, both(20, 10, 3, 20), SubsetSimulation(population=30, steps=2, floor=-20.0), steps=5),
}
OPTIMISED = {Scale.SMOKE: 2, Scale.SMALL: 3, Scale.PAPER: 20}
"""Steps of gradient descent for a mask of extremal perturbations."""


@recipe("robustness-imagenet", reference=f"{PAPER}, Table 9")
def robustness_imagenet(folder: Path, scale: Scale) -> Audit:
    """Worst case and probability of misleading explanations within .03 of a photograph: the five methods of Table 9, EfficientNet-Lite0.

    Photographs that the network classifies correctly. The published figures are of a Wide ResNet-50-2, and means in which an ln P that
    fell to -100 counts as -100; ours are medians, and searched less far, since an evaluation of integrated gradients takes 5 passes and
    one of extremal perturbations 20. FullGrad has no term for activations cut at 6. Needs the extra "imagenet". Smoke: a tiny untrained
    network. Small: 2 photographs of 96 pixels, ln P down to -3. Paper: 20 of 224 pixels as published, 190 genetic and 60 gradient
    evaluations, n = 30, M = 2, ln P down to -20.
    """
    effort = EFFORT[scale]
    seen = photographs(4 * effort.seeds + 4, scale)
    data = first_correct([seen.model], (seen.images, seen.labels), effort.seeds)
    return search_audit(
        "How close to a photograph lies one that misleads?",
        {seen.name: seen.model},
        data,
        explainers=five_methods(effort.steps, OPTIMISED[scale]),
        scores=explanation_scores(effort, {"radius": RADIUS, "range": efficientnet.RANGE}),
        about={"recipe": "robustness-imagenet", **seen.facts, "published": seen.beside("robustness 9", "wide-resnet")},
    )


def five_methods(steps: int, iterations: int) -> dict[str, Explainer]:
    """Gradient x Input, integrated gradients, Grad-CAM, FullGrad and extremal perturbations.

    >>> list(five_methods(5, 20))
    ['input_x_gradient', 'integrated_gradients', 'grad_cam', 'full_grad', 'extremal_perturbation']
    """
    return {
        "input_x_gradient": InputXGradient(),
        "integrated_gradients": IntegratedGradients(steps=steps),
        "grad_cam": GradCam(layer=efficientnet.LAYER),
        "full_grad": FullGrad(),
        "extremal_perturbation": ExtremalPerturbation(iterations=iterations),
    }
