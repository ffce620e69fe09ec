"""Grad-CAM and Grad-CAM++: maps made of a layer's activations and their gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Size, Tensor, nn
from torch.nn import functional

from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context, Cost, Explainer
from veracity.core.models import evaluating, layer_of, unwrap
from veracity.core.registry import EXPLAINERS
from veracity.explain.passes import hooks, in_batches, pick

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
OTHERS = "choose an explainer that only needs outputs, such as kernel_shap, lime or occlusion"
INTERPOLATION = {1: "linear", 2: "bilinear", 3: "trilinear"}


@dataclass(frozen=True, kw_only=True)
class LayerMap(Explainer, ABC):
    """A map over positions, made of a layer's activations and their gradients, cut at zero.

    Without a `layer` it is the last convolution, in the order of execution, that the score depends on. The map is
    interpolated linearly to the input's size if the layer has another one, and repeated over the channels, so it has the
    input's shape.
    """

    local = True
    signed = False
    layer: str | None = None

    @abstractmethod
    def combine(self, gradient: Tensor, activation: Tensor) -> Tensor:
        """The map before it is cut, (N, 1, ...), from gradients and activations (N, K, ...)."""

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=1, backward=1)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise unless there is such a layer, its output has the input's axes, and the score depends on it."""
        with evaluating(model):
            self.maps(model, inputs[:1], targets[:1])
        return ()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return in_batches(lambda x, t, _: self.maps(model, x, t), inputs, targets, context.batch)

    def maps(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """The maps of one batch, by one forward and one backward pass."""
        gradient, activation = self.last_activation(*self.activations(model, inputs.detach(), targets))
        size = inputs.shape[2:]
        if activation.ndim != inputs.ndim or not size:
            raise InputError(
                f"{self.name} needs a layer with maps over the input's axes: the inputs have shape {tuple(inputs.shape)}, "
                f"the layer's output has shape {tuple(activation.shape)}."
            )
        return resize(functional.relu(self.combine(gradient, activation)), size).expand_as(inputs).contiguous()

    def activations(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The summed score of a forward pass, and the outputs of the named layer or of all convolutions, in the order of execution."""
        outputs: list[Tensor] = []

        def record(_module: nn.Module, _args: Any, output: Any) -> Any:
            if not isinstance(output, Tensor) or not output.is_floating_point():
                return None
            outputs.append(output if output.requires_grad else output.requires_grad_())
            return output.clone()

        if getattr(unwrap(model), "layers", True) is False:
            title = getattr(unwrap(model), "title", "the model")
            raise InputError(f"{self.name} needs a network with layers, and {title} has none: {OTHERS}.")
        convolutions = (module for module in model.modules() if isinstance(module, CONVOLUTIONS))
        layers = [*convolutions] if self.layer is None else [layer_of(model, self.layer)]
        if not layers:
            raise InputError(f"{self.name} found no convolution in this model: name a layer with {type(self).__name__}(layer=...).")
        with hooks(layer.register_forward_hook(record) for layer in layers), torch.enable_grad():
            return pick(model(inputs.clone()), targets).sum(), outputs

    def last_activation(self, score: Tensor, activations: Sequence[Tensor], *, graph: bool = False) -> tuple[Tensor, Tensor]:
        """The gradient and the value of the last activation that the score depends on; with `graph`, both keep their graphs."""
        for activation in reversed(activations) if score.requires_grad else ():
            (gradient,) = torch.autograd.grad(score, activation, retain_graph=True, create_graph=graph, allow_unused=True)
            if gradient is not None:
                return gradient, activation if graph else activation.detach()
        what = f"the layer '{self.layer}'" if self.layer is not None else "any convolution"
        raise InputError(f"{self.name} needs a layer that leads to the score, but the score does not depend on {what}.")


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class GradCam(LayerMap):
    """Activations A of a layer, weighted by their mean gradients: e(x) = relu(Σ_k mean(∂f/∂A_k) A_k).

    Without a `layer` it is the last convolution, in the order of execution, that the score depends on. The map is
    interpolated linearly to the input's size if the layer has another one, and repeated over the channels, so it has the
    input's shape.
    """

    name = "grad_cam"
    reference = "Selvaraju et al. 2017, arXiv:1610.02391"

    def combine(self, gradient: Tensor, activation: Tensor) -> Tensor:
        axes = tuple(range(2, activation.ndim))
        return (gradient.mean(axes, keepdim=True) * activation).sum(1, keepdim=True)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class GradCamPlusPlus(LayerMap):
    """Activations A of a layer, weighted by positive gradients at each position: e(x) = relu(Σ_k w_k A_k), w_k = Σ_ij α_kij (g_kij)⁺.

    α_kij is the closed form for the score exp(S). The common factor exp(S) of all weights is left out: it
    scales a map as a whole, and is infinite from a score of 89 on. Activations below zero count as zero, as after a ReLU,
    so no α divides by zero. Layer and size are chosen as for grad_cam.

    The stability paper (Fel et al. 2022, appendix B) prints w_k = Σ_ij α_kij, without (g_kij)⁺, and α in derivatives of the
    logit itself, whose second and third are zero in a piecewise linear network. This is the original method.
    """

    name = "grad_cam_plus_plus"
    reference = "Chattopadhay et al. 2018, arXiv:1710.11063"

    def combine(self, gradient: Tensor, activation: Tensor) -> Tensor:
        positive = functional.relu(activation)
        return (plus_plus_weights(gradient, positive) * positive).sum(1, keepdim=True)


def plus_plus_weights(gradient: Tensor, activation: Tensor) -> Tensor:
    """w_k = Σ_ij α_kij (g_kij)⁺ with α_kij = g² / (2 g² + g³ Σ_ab A_kab): (N, K, ...) twice -> (N, K, 1, ...).

    g are the gradients of the score S. For the score exp(S) and a piecewise linear network, the derivatives of
    first, second and third order are exp(S) times g, g² and g³, so exp(S) cancels in α.

    >>> g, a = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[1.0, 1.0]]])
    >>> plus_plus_weights(g, a)
    tensor([[[0.5833]]])
    """
    axes = tuple(range(2, activation.ndim))
    square, total = gradient.square(), activation.sum(axes, keepdim=True)
    below = 2 * square + gradient * square * total
    alpha = torch.where(below != 0, square / below, 0.0)
    return (alpha * functional.relu(gradient)).sum(axes, keepdim=True)


def resize(maps: Tensor, size: Size) -> Tensor:
    """Maps (N, 1, ...) at the input's size, by linear interpolation with corners not aligned."""
    if maps.shape[2:] == size:
        return maps
    return functional.interpolate(maps, size=size, mode=INTERPOLATION[len(size)], align_corners=False)
