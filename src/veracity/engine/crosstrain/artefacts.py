"""Trained models as files: their weights, and their outputs to a few inputs, by which they are recognised."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.inputs import Inputs
from veracity.core.models import device_of, evaluating
from veracity.engine.store import RunFolder

KIND = "models"


WEIGHTS, FACTS, PROBE = "weights.", "facts.", "probe"


PROBED = 8
"""How many inputs a model is known by."""


def save(store: RunFolder, key: str, model: nn.Module, inputs: Inputs, facts: Mapping[str, float]) -> None:
    """Store a trained model's weights and buffers, its answers to the first inputs, and what is known about its training."""
    state = model.state_dict()
    odd = next((name for name, value in state.items() if not isinstance(value, Tensor)), None)
    if odd is not None:
        raise InputError(f"The model keeps '{odd}', which is no tensor, in its state_dict, so that it cannot be stored: make it a buffer.")
    tensors = {f"{WEIGHTS}{name}": value for name, value in state.items()}
    known = {f"{FACTS}{name}": torch.tensor(value, dtype=torch.float64) for name, value in facts.items()}
    store.write_tensors(KIND, key, {**tensors, **known, PROBE: probe_outputs(model, inputs)})


def exists(store: RunFolder, key: str) -> bool:
    """Whether a model lies in the folder."""
    return store.records.has(KIND, key)


def load(store: RunFolder, key: str) -> dict[str, Tensor] | None:
    """What is stored under a key; None if it is damaged, so that the model is trained again."""
    return store.recovered(KIND, key)


def facts_of(stored: Mapping[str, Tensor]) -> dict[str, float]:
    """What is known about a stored model's training."""
    return {name.removeprefix(FACTS): float(value) for name, value in stored.items() if name.startswith(FACTS)}


def rebuild(stored: dict[str, Tensor], network: nn.Module, inputs: Inputs) -> nn.Module | None:
    """A copy of the network with stored weights, of their own precision; None unless it answers with them as the trained one did.

    A network that keeps more than its state_dict, such as a mean in a plain attribute, does not.
    """
    model = deepcopy(network)
    state = {name.removeprefix(WEIGHTS): value for name, value in stored.items() if name.startswith(WEIGHTS)}
    try:
        model.load_state_dict(state, assign=True)
        now = probe_outputs(model, inputs)
    except (RuntimeError, InputError):
        return None
    before = stored[PROBE]
    same = before.shape == now.shape and torch.allclose(before, now, rtol=1e-3, atol=1e-4 * float(before.abs().max()))
    return model.eval() if same else None


def difference(first: nn.Module, second: nn.Module) -> str | None:
    """The name of the first weight or buffer that two networks do not share the shape of, and both shapes; None if they are alike."""
    one, other = ({name: tuple(value.shape) for name, value in model.state_dict().items()} for model in (first, second))
    for name in (*one, *other):
        if one.get(name) != other.get(name):
            return f"'{name}' is {one.get(name, 'missing')} in one and {other.get(name, 'missing')} in the other"
    return None


@torch.no_grad()
def probe_outputs(model: nn.Module, inputs: Inputs) -> Tensor:
    """The outputs for the first few inputs, on the CPU."""
    few = inputs.take(torch.arange(min(PROBED, inputs.size()))).to(device_of(model))
    with evaluating(model):
        outputs = few.through(inputs.adapt(model))
    if not isinstance(outputs, Tensor):
        raise InputError(f"The model must return one tensor with a row for each input, not {type(outputs).__name__}.")
    return outputs.cpu()
