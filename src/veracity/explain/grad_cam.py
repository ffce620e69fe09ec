"""Grad-CAM of a layer that is given by name, or of the last convolution that the score depends on.

Grad-CAM++: Grad-CAM with a weight for every position of a map, so that several small regions count as one large one does.
"""

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
from veracity.core.models import evaluating, layer_of
from veracity.core.registry import EXPLAINERS
from veracity.explain.passes import by_rows, pick

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
INTERPOLATION = {1: "linear", 2: "bilinear", 3: "trilinear"}


@dataclass(frozen=True, kw_only=True)
class LayerMap(Explainer, ABC):
    """A map over positions, made of a layer's activations and their gradients, cut at zero.

    Without a `layer` it is the last convolution, in the order of execution, that the score depends on. The map is
    interpolated (bilinearly) to the input's size if the layer's is another, and repeated over the channels, so that it
    has the input's shape.
    """

    local = True
    layer: str | None = None

    @abstractmethod
    def combined(self, gradient: Tensor, activation: Tensor) -> Tensor:
        """The map before it is cut, (N, 1, ...), from gradients and activations (N, K, ...)."""

    @property
    def signed(self) -> bool:
        """Cut at zero."""
        return False

    def cost(self, shape: Size) -> Cost:
        """One pass each way, back to the layer."""
        return Cost(forward=1, backward=1)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise unless there is such a layer, with a map of the input's axes, that the score depends on."""
        with evaluating(model):
            self.maps(model, inputs[:1], targets[:1])
        return ()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Maps of the inputs' shape, at least zero."""
        return by_rows(lambda x, t, _: self.maps(model, x, t), inputs, targets, context.batch)

    def candidates(self, model: nn.Module) -> list[nn.Module]:
        """The layers that may be meant."""
        if self.layer is not None:
            return [layer_of(model, self.layer)]
        found: list[nn.Module] = [module for module in model.modules() if isinstance(module, CONVOLUTIONS)]
        if not found:
            raise InputError(f"{self.name} found no convolution in this model: name a layer with {type(self).__name__}(layer=...).")
        return found

    def maps(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """One forward and one backward pass for these rows."""
        gradient, activation = self.last_used(*self.activations(model, inputs.detach(), targets))
        space = inputs.shape[2:]
        if activation.ndim != inputs.ndim or not space:
            raise InputError(
                f"{self.name} needs a layer with maps over the input's axes: the inputs have shape {tuple(inputs.shape)}, "
                f"the layer's output has shape {tuple(activation.shape)}."
            )
        return interpolated(functional.relu(self.combined(gradient, activation)), space).expand_as(inputs).contiguous()

    def activations(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The summed score of a forward pass, and what the layers that may be meant gave on the way, in their order."""
        seen: list[Tensor] = []

        def keep(_module: nn.Module, _args: Any, output: Any) -> Any:
            if not isinstance(output, Tensor) or not output.is_floating_point():
                return None
            seen.append(output if output.requires_grad else output.requires_grad_())
            return output.clone()

        handles = [layer.register_forward_hook(keep) for layer in self.candidates(model)]
        try:
            with torch.enable_grad():
                return pick(model(inputs.clone()), targets).sum(), seen
        finally:
            for handle in handles:
                handle.remove()

    def last_used(self, score: Tensor, activations: Sequence[Tensor], *, graph: bool = False) -> tuple[Tensor, Tensor]:
        """The last activation that the score depends on, after its gradient; with a `graph` both can be differentiated again."""
        for activation in reversed(activations) if score.requires_grad else ():
            (gradient,) = torch.autograd.grad(score, activation, retain_graph=True, create_graph=graph, allow_unused=True)
            if gradient is not None:
                return gradient, activation if graph else activation.detach()
        what = f"the layer '{self.layer}'" if self.layer is not None else "any convolution"
        raise InputError(f"{self.name} needs a layer on the way to the score, but the score does not depend on {what}.")


def interpolated(maps: Tensor, space: Size) -> Tensor:
    """Maps (N, 1, ...) at the positions of the input, linearly, corners not aligned."""
    if maps.shape[2:] == space:
        return maps
    return functional.interpolate(maps, size=space, mode=INTERPOLATION[len(space)], align_corners=False)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class GradCam(LayerMap):
    """Activations A of a layer, weighted by their mean gradients: e(x) = relu(Σ_k mean(∂f/∂A_k) A_k).

    Without a `layer` it is the last convolution, in the order of execution, that the score depends on. The map is
    interpolated (bilinearly) to the input's size if the layer's is another, and repeated over the channels, so that it
    has the input's shape.
    """

    name = "grad_cam"
    reference = "Selvaraju et al. 2017, arXiv:1610.02391"

    def combined(self, gradient: Tensor, activation: Tensor) -> Tensor:
        """Channels weighted by their mean gradients."""
        axes = tuple(range(2, activation.ndim))
        return (gradient.mean(axes, keepdim=True) * activation).sum(1, keepdim=True)


def plus_plus_weights(gradient: Tensor, activation: Tensor) -> Tensor:
    """w_k = Σ_ij α_kij (g_kij)⁺ with α_kij = g² / (2 g² + g³ Σ_ab A_kab): (N, K, ...) twice -> (N, K, 1, ...).

    g are the gradients of the score S. For the score exp(S) and a network that is piecewise linear, its derivatives of
    first, second and third order are exp(S) times g, g² and g³, so that exp(S) cancels in α.

    >>> g, a = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[1.0, 1.0]]])
    >>> plus_plus_weights(g, a)
    tensor([[[0.5833]]])
    """
    axes = tuple(range(2, activation.ndim))
    square, total = gradient.square(), activation.sum(axes, keepdim=True)
    below = 2 * square + gradient * square * total
    alpha = torch.where(below != 0, square / below, 0.0)
    return (alpha * functional.relu(gradient)).sum(axes, keepdim=True)


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class GradCamPlusPlus(LayerMap):
    """Activations A of a layer, weighted by positive gradients at each position: e(x) = relu(Σ_k w_k A_k), w_k = Σ_ij α_kij (g_kij)⁺.

    α_kij is the closed form for the score exp(S). The common factor exp(S) of all weights is left out: it
    scales a map as a whole, and is infinite from a score of 89 on. Activations below zero count as zero, as after a ReLU,
    so that no α divides by zero. Layer and size are chosen as for grad_cam.

    The stability paper (Fel et al. 2022, appendix B) prints w_k = Σ_ij α_kij, without (g_kij)⁺, and α in derivatives of the
    logit itself, whose second and third are zero in a piecewise linear network. Here it is the original method.
    """

    name = "grad_cam_plus_plus"
    reference = "Chattopadhay et al. 2018, arXiv:1710.11063"

    def combined(self, gradient: Tensor, activation: Tensor) -> Tensor:
        """Positions weighted by α."""
        positive = functional.relu(activation)
        return (plus_plus_weights(gradient, positive) * positive).sum(1, keepdim=True)
