"""Heart beats as in the symmetry paper: cyclic shifts in time, three networks, three kinds of explanation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from veracity.audit import Audit
from veracity.explain import CAR, CAV, FeaturePermutation, GradientShap, IntegratedGradients, symmetrised_family
from veracity.perturb import CyclicShift
from veracity.recipe import Scale, recipe
from veracity.scores import MaxSensitivity
from veracity.walk import Exhaustive, MonteCarlo
from veracity_papers.data.ecg import ecg
from veracity_papers.recipes.kinds import EXAMPLES, by_concept, by_example
from veracity_papers.zoo.series import EQUIVARIANT, INVARIANT, NAMES, checkpoints, pretrained

SIZES = {Scale.SMOKE: (3, 2, 400), Scale.SMALL: (24, 12, 3000), Scale.PAPER: (1000, None, 6000)}
TIME = CyclicShift(axes=(-1,))
PAPER = "Crabbé & van der Schaar 2023"


@recipe("symmetry-ecg", reference=f"{PAPER}, Figures 3 and 5, Tables 5 and 6")
def symmetry_ecg(folder: Path, scale: Scale) -> Audit:
    """Feature, example and concept explanations of All-CNN, Augmented-CNN and Standard-CNN under cyclic shifts of MIT-BIH beats.

    Beats have 180 steps here (of the paper's 187-step version only 100 a class are at hand). Small: 24 beats, 12 of the
    180 shifts. Paper: 1,000 beats, all shifts.
    """
    samples, draws, examples = SIZES[scale]
    test, train = ecg("test").some(samples), ecg("train").some(examples)
    others = train.inputs.take(torch.arange(50)).values
    names = NAMES[:1] if scale is Scale.SMOKE else NAMES
    explainers: dict[str, Any] = {"gradient": "gradient", "deep_lift": "deep_lift"}
    if scale is not Scale.SMOKE:
        explainers |= {
            "integrated_gradients": IntegratedGradients(steps=50 if scale is Scale.PAPER else 20),
            "gradient_shap": GradientShap(),
            "gradient_shap-data": GradientShap(baselines=others),
            "feature_ablation": "feature_ablation",
            "occlusion": "occlusion",
            "feature_permutation": FeaturePermutation(reference_set=others),
        }
    return Audit(
        title="Do explanations of heart beat classifiers follow a beat that begins elsewhere?",
        models={name: pretrained(name) for name in names},
        inputs=test.inputs,
        targets=test.labels,
        explainers={**explainers, **by_example(INVARIANT, EQUIVARIANT), **by_concept(INVARIANT, EQUIVARIANT)},
        training=train.training(),
        examples=EXAMPLES[scale],
        checkpoints={name: checkpoints(name) for name in names},
        symmetry=TIME,
        walk=Exhaustive() if draws is None else MonteCarlo(draws=draws),
        scores=["symmetry", "model_invariance"],
        about={"recipe": "symmetry-ecg", "scale": scale.value},
    )


@recipe("symmetry-enforced", reference=f"{PAPER}, section 3.2 and Figure 4")
def symmetry_enforced(folder: Path, scale: Scale) -> Audit:
    """How the invariance of concept explanations grows when they are averaged over more shifts of an ECG beat (Proposition 2.3)."""
    sizes: dict[Scale, tuple[int, int, list[int | None]]] = {
        Scale.SMOKE: (3, 2, [1, None]),
        Scale.SMALL: (40, 8, [1, 2, 4, 8, 16, 32, 64, None]),
        Scale.PAPER: (1000, 50, [1, 2, 4, 8, 16, 32, 64, 128, None]),
    }
    samples, draws, family = sizes[scale]
    test, train = ecg("test").some(samples), ecg("train").some(SIZES[scale][2])
    cav, car = CAV(layer=EQUIVARIANT), CAR(layer=EQUIVARIANT)
    return Audit(
        title="How many shifts make a concept explanation invariant?",
        models={"all-cnn": pretrained("all-cnn")},
        inputs=test.inputs,
        targets=test.labels,
        explainers={"cav": cav, "car": car, **symmetrised_family(cav, family), **symmetrised_family(car, family)},
        training=train.training(),
        symmetry=TIME,
        walk=MonteCarlo(draws=draws),
        scores=["symmetry", "model_invariance"],
        about={"recipe": "symmetry-enforced", "scale": scale.value},
    )


@recipe("symmetry-sensitivity", reference=f"{PAPER}, appendix G and Figure 8")
def symmetry_sensitivity(folder: Path, scale: Scale) -> Audit:
    """Equivariance beside max-sensitivity for feature explanations of the ECG Augmented-CNN: do they say the same?"""
    samples, draws = {Scale.SMOKE: (4, 3), Scale.SMALL: (60, 12), Scale.PAPER: (1000, 180)}[scale]
    test = ecg("test").some(samples)
    others = ecg("train").some(50).inputs.take(torch.arange(50)).values
    explainers: dict[str, Any] = {"gradient": "gradient", "gradient_shap": GradientShap(baselines=others)}
    if scale is not Scale.SMOKE:
        explainers |= {
            "integrated_gradients": IntegratedGradients(steps=20),
            "feature_permutation": FeaturePermutation(reference_set=others),
            "feature_ablation": "feature_ablation",
            "occlusion": "occlusion",
        }
    return Audit(
        title="Does a small change of the input tell what a shift tells?",
        models={"augmented-cnn": pretrained("augmented-cnn")},
        inputs=test.inputs,
        targets=test.labels,
        explainers=explainers,
        symmetry=TIME,
        walk=MonteCarlo(draws=draws),
        scores=["equivariance", "model_invariance", MaxSensitivity(relative=False)],
        about={"recipe": "symmetry-sensitivity", "scale": scale.value},
    )
