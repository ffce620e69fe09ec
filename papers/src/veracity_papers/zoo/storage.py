"""Weights on disk: shipped safetensors files, files that a training writes, and weights of others in the data folder.

The checkpoints of a training are `name.0.safetensors`, `name.1.safetensors`, ... in order, with the epochs done and the learning
rate in each file's header. Weights that others trained are not shipped, because their licences differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from itertools import zip_longest
from pathlib import Path
from typing import Generic, TypeVar

import torch
from safetensors.torch import load, save_file
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.training import Checkpoint
from veracity_papers.data import files

SHIPPED = "weights"
Network = TypeVar("Network", bound=nn.Module)


def save(state: Mapping[str, Tensor], path: Path, *, half: bool = False, **facts: object) -> None:
    """Write a state, in half precision if asked, with facts about it in the file's header."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {key: value.detach().cpu().contiguous() for key, value in state.items()}
    if half:
        kept = {key: value.half() if value.is_floating_point() else value for key, value in kept.items()}
    save_file(kept, path, {key: str(value) for key, value in facts.items()})


def read_shipped(name: str) -> bytes:
    """A shipped file's bytes."""
    file = resources.files("veracity_papers.zoo") / SHIPPED / f"{name}.safetensors"
    if not file.is_file():
        raise InputError(f"The package ships no weights named '{name}': train them, or choose a network whose weights it ships.")
    return file.read_bytes()


def state(name: str) -> dict[str, Tensor]:
    """A shipped state by name, in float32."""
    return {key: value.float() if value.is_floating_point() else value for key, value in load(read_shipped(name)).items()}


def facts(name: str) -> dict[str, str]:
    """The header of a shipped file: how the network was trained, and how it scored."""
    data = read_shipped(name)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return dict(header.get("__metadata__", {}))


def load_shipped(model: Network, name: str) -> Network:
    """The model with shipped weights, in evaluation mode."""
    model.load_state_dict(state(name))
    return model.eval()


def checkpoint_names(name: str) -> list[str]:
    """The shipped checkpoints of a training, in order."""
    folder = resources.files("veracity_papers.zoo") / SHIPPED
    found = [item.name.split(".") for item in folder.iterdir() if item.name.startswith(f"{name}.")]
    return [f"{name}.{number}" for number in sorted(int(parts[1]) for parts in found if len(parts) == 3)]


@dataclass(frozen=True)
class Shipped(Generic[Network]):
    """A network whose weights come with the package, with its layers for explanations: invariant and, if there is one, equivariant."""

    weights: str
    build: Callable[[], Network]
    invariant: str = "linear1"
    equivariant: str | None = None

    def pretrained(self) -> Network:
        """The network with its weights, in evaluation mode."""
        return load_shipped(self.build(), self.weights)

    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The checkpoints of its training, each with its learning rate, in order; none if none are shipped."""
        return tuple(Checkpoint(state(one), float(facts(one)["rate"])) for one in checkpoint_names(self.weights))


COUNTER = "num_batches_tracked"


def load_public(model: Network, name: str, origin: str, within: str | None = None) -> Network:
    """The model with the weights of a torch file `weights/NAME` of the data folder, in evaluation mode.

    Tensors are matched in order, whatever their names are there; counters of batches, which affect no output, are not
    changed. `within` names the entry of the file that holds the weights, if they are not the whole file.
    """
    path = files.find(f"weights/{name}", origin)
    content = torch.load(path, map_location="cpu", weights_only=True)
    if within is not None and within not in content:
        raise InputError(f"{path} holds {', '.join(map(str, content))}, but not the expected '{within}': it is another file.")
    return load_in_order(model, content if within is None else content[within], path)


def load_in_order(model: Network, content: Mapping[str, Tensor], path: Path) -> Network:
    """The model with weights that were read from a file, matched in order, in evaluation mode."""
    given, wanted = weights(content), weights(model.state_dict())
    shapes = [[list(value.shape) for value in state.values()] for state in (given, wanted)]
    if shapes[0] != shapes[1]:
        number, here, there = next(
            (place, *pair) for place, pair in enumerate(zip_longest(*shapes, fillvalue="missing"), start=1) if pair[0] != pair[1]
        )
        raise InputError(
            f"{path} holds {len(shapes[0])} tensors, of which number {number} is {here}, but the network has {len(shapes[1])}, where it is "
            f"{there}: it is another network's file."
        )
    model.load_state_dict({**model.state_dict(), **dict(zip(wanted, given.values(), strict=True))})
    return model.eval()


def weights(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state without the counters of the batches that its normalisations have seen.

    >>> list(weights(nn.BatchNorm1d(2).state_dict()))
    ['weight', 'bias', 'running_mean', 'running_var']
    """
    return {key: value for key, value in state.items() if not key.endswith(COUNTER)}
