"""How invariant each layer of a model is, in one pass over a few moved inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from veracity.core.inputs import Signals
from veracity.core.models import evaluating, viewed
from veracity.core.spaces import InputSpace
from veracity.measure import cosine


def layer_invariance(model: nn.Module, signals: Signals, space: InputSpace, elements: Tensor, rows: Tensor) -> dict[str, float]:
    """Inv_G (eq. 1) of every layer's output by cosine, by name in the order of execution.

    `elements` (R, p) move the samples `rows` (R,). Layers that do not give one row an input are left out.
    """
    before = activations(model, signals)
    after = activations(model, space.move(elements.to(signals.values.device), signals[rows.to(signals.values.device)]))
    return {
        name: float(cosine(after[name].flatten(1), value[rows.to(value.device)].flatten(1)).nanmean())
        for name, value in before.items()
        if name in after and len(value) == len(signals) and len(after[name]) == len(rows)
    }


@torch.no_grad()
def activations(model: nn.Module, signals: Signals) -> Mapping[str, Tensor]:
    """What every layer gives for these samples, in the order of execution; a layer that is used again counts by its last use."""
    seen: dict[str, Tensor] = {}

    def keep(name: str) -> Any:
        def hook(_module: nn.Module, _args: Any, output: Any) -> None:
            if isinstance(output, Tensor) and output.is_floating_point():
                seen.pop(name, None)
                seen[name] = output.detach().clone()

        return hook

    parts = [(name, part) for name, part in viewed(model).named_modules() if name]
    handles = [part.register_forward_hook(keep(name)) for name, part in parts]
    try:
        with evaluating(model):
            signals.through(model)
    finally:
        for handle in handles:
            handle.remove()
    return seen
