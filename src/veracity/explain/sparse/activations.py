"""The output of one layer while a model runs: at one token, or at all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.models import layer_of, real_positions
from veracity.explain.attention import token_row
from veracity.explain.passes import Structure, hooks

Position = int | Literal["mean"]


@dataclass(frozen=True)
class Activations:
    """Activations of N inputs at all positions (N, T, d), and which positions hold a token (N, T); None if all do.

    `rows` says that the layer gives one row (N, d) per input, so that T is 1.
    """

    values: Tensor
    real: Tensor | None
    rows: bool = False

    def at(self, position: int, layer: str) -> Tensor:
        """The activations (N, d) at one position; negative ones count from the last token."""
        count = self.values.shape[1]
        if self.rows:
            return self.values[:, 0]
        if not -count <= position < count:
            raise InputError(f"The layer '{layer}' has {count} positions, and position={position} is outside of them: pass position=-1.")
        return token_row(self.values, position, self.real)

    def tokens(self) -> Tensor:
        """The activations of all tokens of all inputs, (tokens, d)."""
        return self.values.flatten(0, 1) if self.real is None else self.values[self.real]

    def mean(self, features: Tensor) -> Tensor:
        """The mean (N, m) over the tokens of each input of features (N, T, m)."""
        if self.real is None:
            return features.mean(1)
        kept = self.real.to(features)[..., None]
        return (features * kept).sum(1) / kept.sum(1).clamp(min=1)


def read_layers(model: nn.Module, layers: Sequence[str], inputs: Tensor, structure: Structure = ()) -> dict[str, Activations]:
    """The activations of several layers, by one pass of the model with hooks, which are removed afterwards.

    Of a tuple the first part is read. Maps (N, C, H, W) have H x W positions.
    """
    seen: dict[str, Any] = {}

    def keep(name: str) -> Any:
        return lambda _module, _args, output: seen.__setitem__(name, output)

    with hooks(layer_of(model, name).register_forward_hook(keep(name)) for name in dict.fromkeys(layers)):
        model(inputs, *structure)
    unused = next((name for name in layers if name not in seen), None)
    if unused is not None:
        raise InputError(f"The layer '{unused}' is not used in the model's forward pass: choose another layer.")
    real = real_positions(model, inputs, *structure)
    return {name: as_activations(name, seen[name], len(inputs), real) for name in layers}


def as_activations(layer: str, output: Any, count: int, real: Tensor | None) -> Activations:
    """What a layer returned for some inputs as activations; raises if it returned something else."""
    found = output[0] if isinstance(output, (tuple, list)) and len(output) else output
    if not isinstance(found, Tensor) or not found.is_floating_point():
        what = type(output).__name__ if found is output else f"{type(output).__name__} that begins with {type(found).__name__}"
        raise InputError(f"The layer '{layer}' returns a {what}, not a tensor of activations: choose another layer.")
    if found.ndim not in (2, 3, 4) or len(found) != count:
        raise InputError(
            f"The layer '{layer}' returns the shape {tuple(found.shape)} for {count} inputs, not (inputs, width), (inputs, tokens, width) "
            "or (inputs, channels, height, width): choose another layer."
        )
    values = found.detach()
    if values.ndim == 4:
        return Activations(values.flatten(2).transpose(1, 2), None)
    if values.ndim == 2:
        return Activations(values[:, None], None, rows=True)
    return Activations(values, real if real is not None and real.shape == values.shape[:2] else None)


def finite_rows(h: Tensor, layer: str) -> Tensor:
    """The rows (N, d); raises if a number is not finite."""
    if not bool(torch.isfinite(h).all()):
        raise InputError(f"The layer '{layer}' gives NaN or infinity: choose another layer, or other inputs.")
    return h
