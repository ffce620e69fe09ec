"""Model passes along orbits: inputs are moved once, and every model is shown them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from veracity.core.inputs import Signals
from veracity.core.models import device_of
from veracity.core.spaces import InputSpace
from veracity.engine.batching import Budget
from veracity.orbits.models import Examined, passed, read_by


def along(
    models: Mapping[str, Examined],
    space: InputSpace,
    elements: Tensor,
    signals: Signals,
    budget: Budget,
    told: Callable[[int], None] = lambda rows: None,
) -> dict[str, Tensor]:
    """What every model gives along the orbits of n samples under K elements (K, p), as its task reads it: {name: (n, K, ...)}.

    A batch is whole orbits, or a part of one where one is too long; `told` hears of the rows that every model has seen.
    """
    device = device_of(next(iter(models.values())).module)
    x, moves, length = signals.to(device), elements.to(device), len(elements)
    found: dict[str, Tensor] = {}

    def look(samples: slice, part: slice) -> None:
        here = x[samples]
        chosen = moves[part]
        moved = space.move(chosen.repeat(len(here), 1), repeated(here, len(chosen)))
        for name, model in models.items():
            raw = passed(name, model.module, moved.to(device_of(model.module)))
            output = read_by(name, model.task, raw, len(moved)).to(device)
            if name not in found:
                found[name] = output.new_empty(len(x), length, *output.shape[1:])
            found[name][samples, part] = output.reshape(len(here), len(chosen), *output.shape[1:])
        told(len(moved))

    def some(samples: slice) -> None:
        if samples.stop - samples.start > 1:
            look(samples, slice(0, length))
        else:
            budget.spend(length, 1, lambda part: look(samples, part))

    with torch.no_grad():
        budget.spend(len(x), length, some)
    return found


def repeated(signals: Signals, times: int) -> Signals:
    """Each of n samples this many times in a row; a single one is not copied."""
    if len(signals) == 1:
        parts = [part.expand(times, *part.shape[1:]) for part in (signals.values, *signals.structure)]
    else:
        parts = [part.repeat_interleave(times, dim=0) for part in (signals.values, *signals.structure)]
    return Signals(parts[0], tuple(parts[1:]))
