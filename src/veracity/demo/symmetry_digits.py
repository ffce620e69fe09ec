"""The demo: three networks for handwritten digits, and how well their explanations follow a shifted input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import nn

from veracity.audit import Audit
from veracity.demo.digits import digits
from veracity.demo.networks import GlobalMax, all_cnn, flatten_cnn
from veracity.explain import FeaturePermutation
from veracity.perturb import WindowShift
from veracity.recipe import Scale, recipe, trained_once
from veracity.trainers.train import Augmentation, accuracy, initialised, random_shift, train
from veracity.walk import Exhaustive, MonteCarlo

PADDING = 3
SIZES = {Scale.SMOKE: (6, 2), Scale.SMALL: (16, 8), Scale.PAPER: (450, None)}
QUICK = ["saliency", "gradient", "gradient_shap"]
ALL = [
    "saliency",
    "gradient",
    "input_x_gradient",
    "integrated_gradients",
    "deep_lift",
    "guided_backprop",
    "grad_cam",
    "feature_ablation",
    "occlusion",
    "gradient_shap",
    "smooth_grad",
    "lime",
    "kernel_shap",
]


@recipe("symmetry-digits", reference="Crabbé & van der Schaar 2023, Figures 3(a) and 5")
def symmetry_digits(folder: Path, scale: Scale) -> Audit:
    """Equivariance of feature explanations under shifts of scikit-learn's digits, three networks, trained on the spot."""
    samples, draws = SIZES[scale]
    x, y = digits("test", PADDING)
    x_train, _ = digits("train", PADDING)
    models = networks(folder)
    return Audit(
        title="Do explanations of digit classifiers follow a shifted digit?",
        models=models,
        inputs=x[:samples],
        targets=y[:samples],
        explainers=QUICK if scale is Scale.SMOKE else [*ALL, FeaturePermutation(reference_set=x_train[:64])],
        symmetry=WindowShift(margin=PADDING),
        walk=Exhaustive() if draws is None else MonteCarlo(draws=draws),
        scores=["equivariance", "model_invariance"],
        about={
            "recipe": "symmetry-digits",
            "scale": scale.value,
            "test_accuracy": {name: round(accuracy(model, x, y), 4) for name, model in models.items()},
        },
    )


def networks(folder: Path) -> dict[str, nn.Module]:
    """An exactly invariant network, a flattening one trained with shifts, and one trained without."""
    x, y = digits("train", PADDING)

    def trained(name: str, build: Callable[[], nn.Sequential], epochs: int, augment: Augmentation | None = None) -> nn.Module:
        def fit(model: nn.Module, report: Callable[[int, float], None]) -> nn.Module:
            return train(model, x, y, epochs=epochs, batch=64, rate=1e-2, augment=augment, report=report)

        return trained_once(folder, name, lambda: initialised(build, seed=0), epochs, fit)

    return {
        "invariant": trained("invariant", lambda: all_cnn((8, 16, 32), 10, GlobalMax()), epochs=8),
        "augmented": trained("augmented", lambda: flatten_cnn((16, 32), 10, x.shape[-2:]), epochs=24, augment=random_shift(PADDING)),
        "standard": trained("standard", lambda: flatten_cnn((16, 32), 10, x.shape[-2:]), epochs=8),
    }
