"""Explanations under shifts, as in the symmetry paper: heart beats that shift in time, images of clothing that shift by up to 10 pixels."""

from __future__ import annotations

from pathlib import Path

import torch

from veracity.audit import Audit
from veracity.explain import CAR, CAV, GradientShap, symmetrised_family
from veracity.perturb import CyclicShift, WindowShift
from veracity.recipe import Scale, recipe
from veracity.scores import MaxSensitivity
from veracity.walk import MonteCarlo
from veracity_papers.data.ecg import ecg
from veracity_papers.data.mnist import CONCEPTS, fashion_mnist
from veracity_papers.recipes.symmetry_methods import GRADIENTS, PAPER, feature_methods, symmetry_audit
from veracity_papers.zoo.symmetry import ECG, FASHION, PADDING

BEATS = {Scale.SMOKE: (3, 2, 400), Scale.SMALL: (24, 12, 3000), Scale.PAPER: (1000, None, 6000)}
TIME = CyclicShift(axes=(-1,))


@recipe("symmetry-ecg", reference=f"{PAPER}, Figures 3 and 5, Tables 5 and 6")
def symmetry_ecg(folder: Path, scale: Scale) -> Audit:
    """Feature, example and concept explanations of All-CNN, Augmented-CNN and Standard-CNN under cyclic shifts of MIT-BIH beats.

    Beats have 180 steps here, since only 100 beats per class of the paper's 187-step version are available. Small: 24 beats, 12 of the
    180 shifts. Paper: 1,000 beats, all shifts.
    """
    samples, draws, examples = BEATS[scale]
    test, train = ecg("test").some(samples), ecg("train").some(examples)
    others = train.inputs.take(torch.arange(50)).values
    small = (*GRADIENTS, "feature_ablation", "occlusion", "feature_permutation")
    return symmetry_audit(
        "symmetry-ecg",
        scale,
        "Do explanations of heart beat classifiers follow a beat that begins elsewhere?",
        networks=ECG if scale is not Scale.SMOKE else {"all-cnn": ECG["all-cnn"]},
        inputs=test.inputs,
        targets=test.labels,
        features=feature_methods(scale, ("gradient", "deep_lift"), small, others=others),
        training=train.training(),
        symmetry=TIME,
        draws=draws,
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
    test, train = ecg("test").some(samples), ecg("train").some(BEATS[scale][2])
    cav, car = CAV(layer="conv3"), CAR(layer="conv3")
    return Audit(
        title="How many shifts make a concept explanation invariant?",
        models={"all-cnn": ECG["all-cnn"].pretrained()},
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
    small = ("integrated_gradients", "feature_permutation", "feature_ablation", "occlusion")
    features = feature_methods(scale, ("gradient", "gradient_shap"), small, others=others, steps=20)
    return Audit(
        title="Does a small change of the input tell what a shift tells?",
        models={"augmented-cnn": ECG["augmented-cnn"].pretrained()},
        inputs=test.inputs,
        targets=test.labels,
        explainers=features | {"gradient_shap": GradientShap(baselines=others)},
        symmetry=TIME,
        walk=MonteCarlo(draws=draws),
        scores=["equivariance", "model_invariance", MaxSensitivity(relative=False)],
        about={"recipe": "symmetry-sensitivity", "scale": scale.value},
    )


GARMENTS = {Scale.SMOKE: (1, 2, 30), Scale.SMALL: (24, 8, 500), Scale.PAPER: (500, None, 2000)}


@recipe("symmetry-fashion-mnist", reference=f"{PAPER}, Figures 3 and 5, Tables 9 and 10")
def symmetry_fashion_mnist(folder: Path, scale: Scale) -> Audit:
    """Feature, example and concept explanations of All-CNN, Augmented-CNN and Standard-CNN under shifts of FashionMNIST images.

    Small: 24 images, 8 of the 441 shifts, integrated gradients with 20 steps, no perturbation of single pixels (2,304
    passes per map). Paper: 500 images, all shifts, everything; for a GPU.
    """
    samples, draws, examples = GARMENTS[scale]
    x, y = fashion_mnist("test", PADDING, samples)
    x_train, y_train = fashion_mnist("train", PADDING, examples)
    small = ("input_x_gradient", "deep_lift", "integrated_gradients", "grad_cam", "gradient_shap", "gradient_shap-data")
    perturbing = ("feature_ablation", "occlusion", "feature_permutation")
    return symmetry_audit(
        "symmetry-fashion-mnist",
        scale,
        "Do explanations of clothing classifiers follow a shifted image?",
        networks=FASHION if scale is not Scale.SMOKE else {"all-cnn": FASHION["all-cnn"]},
        inputs=x,
        targets=y,
        features=feature_methods(scale, ("gradient",), small, perturbing, others=x_train[:50]),
        training=(x_train, y_train),
        concepts={name: set(labels) for name, labels in CONCEPTS.items()},
        symmetry=WindowShift(margin=PADDING),
        draws=draws,
    )
