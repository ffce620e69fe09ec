"""Weights that others trained, read from the data folder; the package does not ship them, since their licences differ."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.data import files

Network = TypeVar("Network", bound=nn.Module)


def fetched(model: Network, name: str, origin: str) -> Network:
    """The model with the weights of a torch file `weights/NAME` of the data folder, in evaluation mode.

    Tensors are matched in order, whatever their names are there.
    """
    path = files.find(f"weights/{name}", origin)
    given: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    wanted = model.state_dict()
    shapes = [[tuple(value.shape) for value in state.values()] for state in (given, wanted)]
    if shapes[0] != shapes[1]:
        raise InputError(f"{path} holds tensors of shapes {shapes[0]}, but the network has {shapes[1]}: it is another network's file.")
    model.load_state_dict(dict(zip(wanted, given.values(), strict=True)))
    return model.eval()
