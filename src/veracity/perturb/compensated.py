"""A constant shift of the input together with a model that undoes it, so that no prediction changes."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.models import unwrap
from veracity.core.spaces import InputSpace, Representation

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
CLOSE = 1e-3
"""How far the outputs of the two models may be apart because of rounding, relative and absolute."""


@dataclass(frozen=True, kw_only=True)
class CompensatedShift(InputSpace):
    """The constant `shift` is added to every value, x' = x + m, and a copy of the model takes it away again: f'(x + m) = f(x).

    The bias of the first layer becomes b - W m, if that gives the same outputs: if this layer is linear, sees the input itself and pads
    nothing. Else m is subtracted where the copy gets its input.

    >>> CompensatedShift(shift=-1.0).act(torch.zeros(1, 0), torch.tensor([[2.0, 3.0]]))
    tensor([[1., 2.]])
    """

    name = "compensated_shift"
    reference = "Kindermans et al., The (un)reliability of saliency methods (2019)"
    moves_frame = False
    representation = Representation.APPROXIMATE
    latents = 0

    shift: float = -1.0

    def decode(self, latent: Tensor) -> Tensor:
        """Empty elements, (N, 0): there is only one shift."""
        return torch.zeros(len(latent), 0, dtype=torch.int64, device=latent.device)

    def act(self, elements: Tensor, x: Tensor) -> Tensor:
        """The shifted inputs."""
        return x + self.shift

    def check(self, x: Tensor) -> None:
        """Raise if the inputs are numbers of something, to which no constant can be added."""
        if not x.is_floating_point():
            raise InputError(
                f"The space '{self.name}' adds a constant to every value, but the inputs are whole numbers ({x.dtype}): leave the score "
                "input_invariance out for tokens and categories."
            )

    @torch.no_grad()
    def compensate(self, model: nn.Module, outputs: Callable[[nn.Module, float], Tensor]) -> nn.Module:
        """A copy of the model for shifted inputs. `outputs(model, m)` are a model's outputs for some inputs plus m."""
        before, copy = outputs(model, 0.0), copied(model)
        layer = next((part for part in unwrap(copy).modules() if isinstance(part, LAYERS)), None)
        if layer is not None and not pads(layer):
            kept = layer.bias
            drift = self.shift * layer.weight.flatten(1).sum(dim=1)
            layer.bias = nn.Parameter((0.0 if kept is None else kept.detach()) - drift, requires_grad=False)
            if alike(outputs(copy, self.shift), before):
                return copy
            layer.bias = kept
        copy.register_forward_pre_hook(lambda module, given: (given[0] - self.shift, *given[1:]))
        if not alike(outputs(copy, self.shift), before):
            raise InputError(
                "A copy of the model does not give the same outputs for shifted inputs, which input invariance needs: leave the score "
                "input_invariance out for this model."
            )
        return copy


def copied(model: nn.Module) -> nn.Module:
    """A copy of the modules that shares all parameters and buffers with the model."""
    shared: dict[int, Any] = {id(part): part for part in (*model.parameters(), *model.buffers())}
    return deepcopy(model, shared)


def pads(layer: nn.Module) -> bool:
    """Whether a layer sees values beyond the edge of its input."""
    padding: Any = getattr(layer, "padding", 0)
    return padding != "valid" if isinstance(padding, str) else any(padding) if isinstance(padding, tuple) else bool(padding)


def alike(a: Tensor, b: Tensor) -> bool:
    """Whether two models give the same outputs."""
    return a.shape == b.shape and bool(torch.isclose(a, b, rtol=CLOSE, atol=CLOSE, equal_nan=True).all())
