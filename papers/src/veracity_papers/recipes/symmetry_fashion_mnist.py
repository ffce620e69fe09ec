"""FashionMNIST as in the symmetry paper: images padded by 10, shifts of up to 10 pixels, three networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from veracity.audit import Audit
from veracity.explain import FeaturePermutation, GradientShap, IntegratedGradients
from veracity.perturb import WindowShift
from veracity.recipe import Scale, recipe
from veracity.walk import Exhaustive, MonteCarlo
from veracity_papers.data.fashion import CONCEPTS, fashion_mnist
from veracity_papers.recipes.kinds import EXAMPLES, by_concept, by_example
from veracity_papers.zoo.fashion import EQUIVARIANT, INVARIANT, NAMES, PADDING, checkpoints, pretrained

SIZES = {Scale.SMOKE: (1, 2, 60), Scale.SMALL: (24, 8, 500), Scale.PAPER: (500, None, 2000)}
GRADIENTS = ["gradient", "input_x_gradient", "deep_lift"]


@recipe("symmetry-fashion-mnist", reference="Crabbé & van der Schaar 2023, Figures 3 and 5, Tables 9 and 10")
def symmetry_fashion_mnist(folder: Path, scale: Scale) -> Audit:
    """Feature, example and concept explanations of All-CNN, Augmented-CNN and Standard-CNN under shifts of FashionMNIST images.

    Small: 24 images, 8 of the 441 shifts, integrated gradients with 20 steps, no perturbation of single pixels (2,304
    passes a map). Paper: 500 images, all shifts, everything; for a GPU.
    """
    samples, draws, examples = SIZES[scale]
    names = NAMES[:1] if scale is Scale.SMOKE else NAMES
    x, y = fashion_mnist("test", PADDING)
    x_train, y_train = (part[:examples] for part in fashion_mnist("train", PADDING))
    explainers: dict[str, Any] = {name: name for name in (GRADIENTS[:1] if scale is Scale.SMOKE else GRADIENTS)}
    if scale is not Scale.SMOKE:
        explainers |= {
            "integrated_gradients": IntegratedGradients(steps=20 if scale is Scale.SMALL else 50),
            "grad_cam": "grad_cam",
            "gradient_shap": GradientShap(),
            "gradient_shap-data": GradientShap(baselines=x_train[:50]),
        }
    if scale is Scale.PAPER:
        explainers |= {
            "feature_ablation": "feature_ablation",
            "occlusion": "occlusion",
            "feature_permutation": FeaturePermutation(reference_set=x_train[:50]),
        }
    return Audit(
        title="Do explanations of clothing classifiers follow a shifted image?",
        models={name: pretrained(name) for name in names},
        inputs=x[:samples],
        targets=y[:samples],
        explainers={**explainers, **by_example(INVARIANT, EQUIVARIANT), **by_concept(INVARIANT, EQUIVARIANT)},
        training=(x_train, y_train),
        concepts={name: set(labels) for name, labels in CONCEPTS.items()},
        examples=EXAMPLES[scale],
        checkpoints={name: checkpoints(name) for name in names},
        symmetry=WindowShift(margin=PADDING),
        walk=Exhaustive() if draws is None else MonteCarlo(draws=draws),
        scores=["symmetry", "model_invariance"],
        about={"recipe": "symmetry-fashion-mnist", "scale": scale.value},
    )
