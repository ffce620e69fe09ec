"""A constant shift of the input together with a model that undoes it, so that no prediction changes."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.inputs import Signals
from veracity.core.models import View, unwrap
from veracity.core.spaces import InputSpace, Representation

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
CLOSE = 1e-3
"""How far the outputs of the two models may be apart, as a share of how far the shift alone moves them."""
ROUNDING = 16
"""How far they may be apart because of rounding, in units of the last place of the outputs."""


@dataclass(frozen=True, kw_only=True)
class CompensatedShift(InputSpace):
    """The constant `shift` is added to every value, x' = x + m, and a copy of the model takes it away again: f'(x + m) = f(x).

    The bias of the first layer becomes b - W m, as in the paper, if this layer is linear, gets the values of the input themselves, pads
    nothing, and the outputs are then the same. Else, or if the model cannot be copied, m is subtracted where the model gets its input,
    which is right for every model. Explainers get x + m either way.

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
    def compensate(self, model: nn.Module, some: Signals) -> nn.Module:
        """A model for shifted inputs. It is chosen on some samples, which should be the same ones whenever a model is asked about."""
        shifted = self.move(some.values.new_zeros(len(some), 0), some)
        if some.present is None:
            return self.by_bias(model, some, shifted) or Entrance(model, self.shift)
        found = Entrance(model, self.shift)
        if not alike(shifted.through(found), some.through(model), shifted.through(model), some.values.dtype):
            raise InputError(
                "The model looks at values beyond the end of a sample, to which no constant can be added: leave the score "
                "input_invariance out for this model."
            )
        return found

    def by_bias(self, model: nn.Module, some: Signals, shifted: Signals) -> nn.Module | None:
        """A copy with another bias in its first layer; None if it would not do the same for shifted samples as the model for these."""
        try:
            copy = copied(model)
        except Exception:  # a model may hold locks, handles or connections, which raise errors of any kind
            return None
        layer = next((part for part in unwrap(copy).modules() if isinstance(part, LAYERS)), None)
        if layer is None or pads(layer) or not layer.weight.is_floating_point():
            return None
        drift = self.shift * layer.weight.flatten(1).sum(dim=1)
        layer.bias = nn.Parameter((0.0 if layer.bias is None else layer.bias.detach()) - drift, requires_grad=False)
        seen: list[Any] = []
        handle = layer.register_forward_pre_hook(lambda _module, given: seen.append(given[0] if given else None))
        try:
            after = shifted.through(copy)
        finally:
            handle.remove()
        if len(seen) != 1 or not same_values(seen[0], shifted.values):
            return None
        return copy if alike(after, some.through(model), shifted.through(model), layer.weight.dtype) else None


class Entrance(View):
    """A model whose inputs are a constant too large."""

    def __init__(self, model: nn.Module, shift: float) -> None:
        super().__init__(model)
        self.shift = shift

    def forward(self, values: Tensor, *structure: Tensor) -> Tensor:
        """The outputs for the values without the constant."""
        output: Tensor = self.model(values - self.shift, *structure)
        return output


def copied(model: nn.Module) -> nn.Module:
    """A copy of the modules that shares all parameters and buffers with the model."""
    shared: dict[int, Any] = {id(part): part for part in (*model.parameters(), *model.buffers())}
    return deepcopy(model, shared)


def pads(layer: nn.Module) -> bool:
    """Whether a layer sees values beyond the edge of its input."""
    padding: Any = getattr(layer, "padding", 0)
    return padding != "valid" if isinstance(padding, str) else any(padding) if isinstance(padding, tuple) else bool(padding)


def same_values(a: Any, b: Tensor) -> bool:
    """Whether two tensors hold the same values, in any order.

    >>> same_values(torch.tensor([[2.0, 1.0]]), torch.tensor([1.0, 2.0])), same_values(torch.tensor([1.0]), torch.tensor([2.0]))
    (True, False)
    """
    if not isinstance(a, Tensor) or a.numel() != b.numel() or a.dtype != b.dtype:
        return False
    return torch.equal(a.flatten().sort().values, b.flatten().sort().values)


def alike(after: Tensor, before: Tensor, moved: Tensor, dtype: torch.dtype) -> bool:
    """Whether f'(x + m) is f(x), for every sample, compared with f(x + m) and with the rounding of a type.

        |f'(x + m) - f(x)| <= 0.001 |f(x + m) - f(x)| + 16 eps |f(x)|

    >>> small = torch.tensor([[1e-5]])
    >>> alike(small, 2 * small, 3 * small, small.dtype), alike(small, small, 3 * small, small.dtype)
    (False, True)
    """
    if after.shape != before.shape:
        return False
    a, b, c = (one.double().flatten(1) for one in (after, before, moved))
    room = CLOSE * (c - b).norm(dim=1) + ROUNDING * torch.finfo(dtype).eps * b.norm(dim=1)
    return bool(((a - b).norm(dim=1) <= room).all())
