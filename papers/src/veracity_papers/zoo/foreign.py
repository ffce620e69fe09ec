"""Weights that others trained, read from the data folder; the package does not ship them, since their licences differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity_papers.data import files

COUNTER = "num_batches_tracked"
Network = TypeVar("Network", bound=nn.Module)


def fetched(model: Network, name: str, origin: str, within: str | None = None) -> Network:
    """The model with the weights of a torch file `weights/NAME` of the data folder, in evaluation mode.

    Tensors are matched in order, whatever their names are there; counters of batches, which no output depends on, stay as they
    are. `within` names the entry of the file that holds the weights, where they are not the whole file.
    """
    path = files.find(f"weights/{name}", origin)
    content = torch.load(path, map_location="cpu", weights_only=True)
    if within is not None and within not in content:
        raise InputError(f"{path} holds {', '.join(map(str, content))}, but not the expected '{within}': it is another file.")
    given = weights(content if within is None else content[within])
    wanted = weights(model.state_dict())
    shapes = [[tuple(value.shape) for value in state.values()] for state in (given, wanted)]
    if shapes[0] != shapes[1]:
        raise InputError(f"{path} holds tensors of shapes {shapes[0]}, but the network has {shapes[1]}: it is another network's file.")
    model.load_state_dict({**model.state_dict(), **dict(zip(wanted, given.values(), strict=True))})
    return model.eval()


def weights(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state without the counters of the batches that its normalisations have seen.

    >>> list(weights(nn.BatchNorm1d(2).state_dict()))
    ['weight', 'bias', 'running_mean', 'running_var']
    """
    return {key: value for key, value in state.items() if not key.endswith(COUNTER)}
