"""What a planted task is: a model that follows a known rule, samples, and the right answer for each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from veracity.core.explainers import Context, Explainer, Finisher
from veracity.explain.wrapper import Wrapper

CONTRIBUTIONS = "contributions"
"""The criterion of tasks whose exact contributions are known: the cosine of a map with them."""
FLAT = "the output is flat at the sample, so every gradient there is 0"
DROPPED = "it drops negative signals, and the flat part of the rule passes no other"
BLOCKED = "no relevance passes a ReLU that is off, and the flat part of the rule is one"
BY_GRADIENTS = (
    "gradient", "saliency", "input_x_gradient", "input_x_saliency", "smooth_grad", "full_grad", "grad_cam", "grad_cam_plus_plus",
    "grad_cam(layer=first)",
)  # fmt: skip
BY_POSITIVE = ("guided_backprop", "deconvolution")
BY_RELEVANCE = ("lrp_epsilon", "lrp_z_plus", "attn_lrp")
SATURATION = {**dict.fromkeys(BY_GRADIENTS, FLAT), **dict.fromkeys(BY_POSITIVE, DROPPED), **dict.fromkeys(BY_RELEVANCE, BLOCKED)}
"""The known failures on rules that are flat at the sample."""
SLOPE = ("gradient", "saliency", "smooth_grad", "guided_backprop", "deconvolution")
"""Explainers that do not multiply by the value."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Planted:
    """A model with samples whose right explanation is known.

    truth          masks of the values that the output depends on, on the data of the task, as for `Audit(truth=...)`
    targets        the class that each map explains; the only output if there is one
    contributions  exact signed contributions in the shape of the inputs, where they are known
    reference      rows for explainers that replace values by those of other rows; the samples themselves if there are none
    accuracy       of a learnt model, on samples that it was not trained on
    """

    model: nn.Module
    inputs: Any
    truth: Tensor
    targets: Tensor | None = None
    contributions: Tensor | None = None
    reference: Tensor | None = None
    accuracy: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class PlantedTask:
    """A rule, how to plant it, and what counts as passing.

    build      (samples, seed) -> Planted; the same arguments give the same numbers
    rule       what the model computes, in a sentence
    score      the score of localisation that compares maps with the mask, or "self_agreement", or "contributions"
    bar        the mean that passes
    magnitude  whether the magnitude of a map is compared; else the map itself, with its signs
    why        a known failure by the explainer's label: what goes wrong, in a sentence
    """

    name: str
    rule: str
    build: Callable[[int, int], Planted]
    score: str = "auc"
    bar: float = 0.9
    magnitude: bool = True
    learnt: bool = False
    why: Mapping[str, str] = field(default_factory=dict)

    def plant(self, samples: int, seed: int) -> Planted:
        """The model and its samples.

        Layers draw initial weights, which are overwritten: the global random state stays as it was. Networks are trained with one thread,
        since the order of sums, and so what is learnt, depends on their number.
        """
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with torch.random.fork_rng(devices=[]):
                return self.build(samples, seed)
        finally:
            torch.set_num_threads(threads)


@dataclass(frozen=True, kw_only=True)
class Magnitude(Finisher, Wrapper):
    """The magnitude of another explanation, value by value: a planted mask says which values matter, not in which direction."""

    name = "magnitude"
    signed = False
    explainer: Any = None

    @property
    def inner(self) -> Explainer:
        """The other explainer."""
        inner: Explainer = self.explainer
        return inner

    @property
    def source(self) -> Explainer:
        """The other explainer."""
        return self.inner

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Magnitudes (N, ...)."""
        return self.finish(self.inner.explain(model, inputs, targets, context), context.present)

    def finish(self, maps: Tensor, present: Tensor | None) -> Tensor:
        """Magnitudes of maps (N, ...)."""
        return maps.abs()


class Clip(nn.Module):
    """min(x, 1), written as 1 - relu(1 - x): beyond 1 the output is flat."""

    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """(N, K) -> (N, K)."""
        flat: Tensor = 1.0 - self.relu(1.0 - x)
        return flat


def set_weights(layer: nn.Linear | nn.Conv1d | nn.Conv2d, weight: Tensor, bias: Tensor | float = 0.0) -> None:
    """Write a rule into a layer; a number is the bias of all its outputs."""
    with torch.no_grad():
        layer.weight.copy_(weight.reshape(layer.weight.shape))
        if layer.bias is not None:
            layer.bias.copy_(torch.as_tensor(bias, dtype=layer.bias.dtype).expand(layer.bias.shape))


def grown(mask: Tensor, margin: int) -> Tensor:
    """Masks (N, H, W) or (N, T) with all positions that are at most `margin` away, along each axis.

    >>> grown(torch.tensor([[False, False, True, False, False]]), 1).int().tolist()
    [[0, 1, 1, 1, 0]]
    """
    pool = functional.max_pool1d if mask.ndim == 2 else functional.max_pool2d
    return pool(mask.float().unsqueeze(1), 2 * margin + 1, stride=1, padding=margin).squeeze(1) > 0


@torch.no_grad()
def share_right(model: nn.Module, inputs: Tensor, labels: Tensor) -> float:
    """The accuracy of a model on samples (N, ...)."""
    return float((model(inputs).argmax(dim=1) == labels).float().mean())
