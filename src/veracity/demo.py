"""The demo: three networks for handwritten digits, and how well their explanations follow a shifted digit.

It also holds the digits and the networks, for other recipes. The networks see series or images, and are or are not invariant
to shifts. A circular convolution of stride 1 commutes with cyclic shifts, and global pooling forgets positions, so the two
together are exactly invariant. Local pooling and flattening break the invariance.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Size, Tensor, nn
from torch.nn.functional import pad

from veracity.audit import Audit
from veracity.explain import FeaturePermutation
from veracity.perturb import WindowShift
from veracity.recipe import Scale, recipe, trained_once
from veracity.trainers.certified import bound
from veracity.trainers.training import Augmentation, accuracy, initialised, random_shift, train
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
    """Equivariance of feature explanations under shifts of scikit-learn's digits, for three networks trained on the spot."""
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
    """An exactly invariant network, and two flattening ones: trained with and without shifted digits."""
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


def digits(split: str = "test", padding: int = 3) -> tuple[Tensor, Tensor]:
    """Scikit-learn's digits: images (N, 1, 8 + 2 padding, 8 + 2 padding) in [0, 1] and labels (N,).

    There are 1,797 images of 8x8, and every fourth is in the test split. Zero padding makes room for shifts.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    part = (torch.arange(len(bunch.target)) % 4 == 0) == (split != "train")
    images = torch.as_tensor(bunch.images, dtype=torch.float32)[part, None] / 16.0
    return pad(images, (padding,) * 4), torch.as_tensor(bunch.target, dtype=torch.long)[part]


class GlobalMax(nn.Module):
    """The maximum over all positions. Tied positions share its gradient, so none is preferred."""

    def forward(self, x: Tensor) -> Tensor:
        """From (N, C, ...) to (N, C)."""
        return x.flatten(2).amax(dim=2)


class GlobalMean(nn.Module):
    """The mean over all positions."""

    def forward(self, x: Tensor) -> Tensor:
        """From (N, C, ...) to (N, C)."""
        return x.flatten(2).mean(dim=2)


@bound.register(GlobalMax)
@bound.register(GlobalMean)  # 1 / sqrt(positions), of which there is at least one
def _(layer: nn.Module) -> float:
    return 1.0


def circular(channels_in: int, channels_out: int, axes: int = 2) -> nn.Module:
    """A convolution of width 3 and stride 1 along one or two axes, which wraps around."""
    kind = nn.Conv1d if axes == 1 else nn.Conv2d
    return kind(channels_in, channels_out, kernel_size=3, padding=1, padding_mode="circular")


def all_cnn(widths: tuple[int, ...], classes: int, pool: nn.Module, hidden: int | None = None, axes: int = 2) -> nn.Sequential:
    """Circular convolutions, then global pooling: exactly shift-invariant (Tables 5 and 9 with widths 16, 64, 128)."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for number, (before, after) in enumerate(zip((1, *widths), widths, strict=False), start=1):
        layers[f"conv{number}"], layers[f"relu{number}"] = circular(before, after, axes), nn.ReLU()
    layers["pool"] = pool
    layers.update(head(widths[-1], classes, hidden))
    return nn.Sequential(layers)


def flatten_cnn(widths: tuple[int, ...], classes: int, sizes: Size, hidden: int | None = None) -> nn.Sequential:
    """Circular convolutions with local pooling, then flattening: not invariant (Tables 6 and 10 with widths 16, 64, 128)."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for number, (before, after) in enumerate(zip((1, *widths), widths, strict=False), start=1):
        layers[f"conv{number}"], layers[f"relu{number}"] = circular(before, after, len(sizes)), nn.ReLU()
        layers[f"pool{number}"] = nn.MaxPool1d(2) if len(sizes) == 1 else nn.MaxPool2d(2)
    layers["flatten"] = nn.Flatten()
    layers.update(head(widths[-1] * math.prod(size // 2 ** len(widths) for size in sizes), classes, hidden))
    return nn.Sequential(layers)


def head(features: int, classes: int, hidden: int | None) -> OrderedDict[str, nn.Module]:
    """One linear layer, with two hidden layers and LeakyReLU before it if `hidden` is given."""
    if hidden is None:
        return OrderedDict(linear=nn.Linear(features, classes))
    return OrderedDict(
        linear1=nn.Linear(features, hidden),
        leaky1=nn.LeakyReLU(),
        linear2=nn.Linear(hidden, hidden),
        leaky2=nn.LeakyReLU(),
        linear3=nn.Linear(hidden, classes),
    )
