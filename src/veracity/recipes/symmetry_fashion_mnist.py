"""FashionMNIST as in the symmetry paper: images padded by 10, shifts of up to 10 pixels, three networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from veracity.audit import Audit
from veracity.data.fashion import fashion_mnist
from veracity.explain import FeaturePermutation, GradientShap
from veracity.perturb import WindowShift
from veracity.recipes.base import Scale, recipe
from veracity.walk import Exhaustive, MonteCarlo
from veracity.zoo.fashion import NAMES, PADDING, pretrained

SIZES = {Scale.SMOKE: (2, 2), Scale.SMALL: (24, 8), Scale.PAPER: (500, None)}
GRADIENTS = ["saliency", "gradient", "input_x_gradient", "deep_lift", "guided_backprop", "grad_cam"]


@recipe("symmetry-fashion-mnist", reference="Crabbé & van der Schaar 2023, Figures 3(a) and 5, Tables 9 and 10")
def symmetry_fashion_mnist(folder: Path, scale: Scale) -> Audit:
    """Equivariance of feature explanations of All-CNN, Augmented-CNN and Standard-CNN under shifts of FashionMNIST images.

    Small: 24 images, 8 of the 441 shifts, integrated gradients with 20 steps, no perturbation of single pixels (2,304
    passes a map). Paper: 500 images, all shifts, everything; for a GPU.
    """
    samples, draws = SIZES[scale]
    x, y = fashion_mnist("test", PADDING)
    explainers: dict[str, Any] = {name: name for name in GRADIENTS}
    if scale is not Scale.SMOKE:
        explainers |= {
            "integrated_gradients": {"name": "integrated_gradients", "steps": 20 if scale is Scale.SMALL else 50},
            "gradient_shap": GradientShap(),
            "gradient_shap_data": GradientShap(baselines=x[1000:1050]),
        }
    if scale is Scale.PAPER:
        explainers |= {
            "feature_ablation": "feature_ablation",
            "occlusion": "occlusion",
            "feature_permutation": FeaturePermutation(reference_set=x[1000:1050]),
        }
    return Audit(
        title="Do explanations of clothing classifiers follow a shifted image?",
        models={name: pretrained(name) for name in NAMES},
        inputs=x[:samples],
        targets=y[:samples],
        explainers=explainers,
        symmetry=WindowShift(margin=PADDING),
        walk=Exhaustive() if draws is None else MonteCarlo(draws=draws),
        scores=["equivariance", "model_invariance"],
        about={"recipe": "symmetry-fashion-mnist", "scale": scale.value},
    )
