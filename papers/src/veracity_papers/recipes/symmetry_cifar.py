"""Colour images under turns and mirror images: CIFAR-10 stands for the symmetry paper's CIFAR-100 and STL-10."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from veracity.audit import Audit
from veracity.perturb import Dihedral
from veracity.recipe import Scale, recipe
from veracity.walk import Exhaustive
from veracity_papers.data.cifar import CONCEPTS, KINDS, cifar10, corrupt
from veracity_papers.recipes.symmetry_methods import GRADIENTS, PAPER, feature_methods, symmetry_audit
from veracity_papers.zoo.d4 import NETWORKS, evolution
from veracity_papers.zoo.storage import load_shipped

SIZES = {Scale.SMOKE: (1, 60), Scale.SMALL: (32, 500), Scale.PAPER: (500, 2000)}


@recipe("symmetry-cifar", reference=f"{PAPER}, Figure 3 and section 3.3")
def symmetry_cifar(folder: Path, scale: Scale) -> Audit:
    """Feature, example and concept explanations of residual networks under turns and mirror images of CIFAR-10 images.

    One network is exactly D4-invariant, one was made so and may unlearn it, one saw turned images. Small: 32 images, all
    eight elements. Paper: 500 images.
    """
    samples, _ = SIZES[scale]
    x, y = cifar10("test")
    return images_audit("symmetry-cifar", scale, "Do explanations of image classifiers follow a turned image?", x[:samples], y[:samples])


@recipe("symmetry-cifar-shifted", reference=f"{PAPER}, appendix J")
def symmetry_cifar_shifted(folder: Path, scale: Scale) -> Audit:
    """The same as symmetry-cifar on images from another distribution: each one corrupted, by noise, blur, contrast, light or pixels.

    Compare the two with `veracity diff`.
    """
    samples, _ = SIZES[scale]
    x, y = cifar10("test")
    title = "Do explanations still follow a turned image if the images are not like those of the training?"
    return images_audit("symmetry-cifar-shifted", scale, title, corrupt_in_turns(x[:samples]), y[:samples])


@recipe("symmetry-training", reference=f"{PAPER}, Figure 3(d)")
def symmetry_training(folder: Path, scale: Scale) -> Audit:
    """How a network that starts exactly D4-invariant loses it in training, and its gradient's equivariance faster."""
    samples, _ = SIZES[scale]
    x, y = cifar10("test")
    moments = {f"epoch {epochs}": (name, epochs) for name, epochs in evolution("relaxed").items()}
    if scale is Scale.SMOKE:
        moments = dict(list(moments.items())[::4])
    models: dict[str, nn.Module] = {label: load_shipped(NETWORKS["relaxed"].build(), name) for label, (name, _) in moments.items()}
    return Audit(
        title="What training does to a symmetry",
        models=models,
        inputs=x[: 2 * samples],
        targets=y[: 2 * samples],
        explainers=["gradient", "input_x_gradient"],
        symmetry=Dihedral(),
        walk=Exhaustive(),
        scores=["equivariance", "model_invariance"],
        about={"recipe": "symmetry-training", "scale": scale.value, "steps": {label: epochs for label, (_, epochs) in moments.items()}},
    )


def images_audit(recipe_name: str, scale: Scale, title: str, inputs: Tensor, labels: Tensor) -> Audit:
    """All three kinds of explanation of the networks on these images."""
    x_train, y_train = (part[: SIZES[scale][1]] for part in cifar10("train"))
    names = ("d4",) if scale is Scale.SMOKE else ("d4", "relaxed", "augmented")
    return symmetry_audit(
        recipe_name,
        scale,
        title,
        networks={name: NETWORKS[name] for name in names},
        inputs=inputs,
        targets=labels,
        features=feature_methods(scale, ("gradient",), ("deep_lift", "input_x_gradient", *GRADIENTS), others=x_train[:50]),
        training=(x_train, y_train),
        concepts={concept: set(kinds) for concept, kinds in CONCEPTS.items()},
        symmetry=Dihedral(),
        draws=None,
    )


def corrupt_in_turns(images: Tensor) -> Tensor:
    """Each image corrupted in its own way, the ways taking turns."""
    which = torch.arange(len(images)) % len(KINDS)
    ways = torch.stack([corrupt(images, kind, severity=3) for kind in KINDS])
    return ways[which, torch.arange(len(images))]
