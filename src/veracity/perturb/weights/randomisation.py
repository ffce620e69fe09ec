"""Layers with random weights, one after the other or all at once."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase as NormBase

from veracity.core.errors import InputError, unknown
from veracity.core.models import unwrap
from veracity.core.settings import Count
from veracity.core.spaces import check_known, check_level
from veracity.core.transfer import send, side_stream
from veracity.perturb.weights.copies import ModelCopies, Pairs, generator, key, parameters_of, recall, stack_copies

DIRECTIONS = ("top_down", "bottom_up")


@dataclass(frozen=True, kw_only=True)
class Randomisation(ModelCopies, ABC):
    """Layers get new initial values from their own `reset_parameters`.

    A layer is a module with parameters of its own, or with running statistics that it resets. If a layer has no reset, or its reset
    does not change a parameter, the entries of the parameter are permuted. Running statistics are reset too: the mean of a batch
    normalisation becomes 0 and its variance 1. The new values of a layer depend on (seed, draw, layer), so they are the same at all
    levels. `layers` are names in the order in which layers are randomised.
    """

    reference = "Adebayo et al., Sanity checks for saliency maps, NeurIPS 2018"

    layers: tuple[str, ...] | None = None

    def of(self, model: nn.Module) -> Self:
        """The space with the names of this model's layers."""
        parameters_of(model)
        known = layers_of(model)
        missing = next((name for name in self.layers or () if name not in known), None)
        if missing is not None:
            raise InputError(str(unknown("layer with parameters", missing, known)))
        order = tuple(self.sort_layers(list(known)))
        return replace(self, layers=self.layers or order)

    def sort_layers(self, layers: Sequence[str]) -> Sequence[str]:
        """Names in the order in which layers are randomised, from names in registration order."""
        return layers

    @property
    def known_layers(self) -> tuple[str, ...]:
        """The names of the layers; raises before `of`."""
        return check_known(self, self.layers, "the model's layers", "of(model)")

    @abstractmethod
    def reach(self, level: int) -> int:
        """The number of layers that a level randomises."""

    def copies(self, model: nn.Module, pairs: Pairs, seed: int) -> dict[str, Tensor]:
        """Parameters and running statistics of the randomised layers, (copies, ...); each layer of a draw is randomised once."""
        parameters = recall(("parameters",), lambda: {**parameters_of(model), **statistics_of(model)})

        owned = recall(("owned",), lambda: layers_of(model))

        def module(layer: str) -> nn.Module:
            return recall(("module", layer), lambda: {"module": on_cpu(unwrap(model).get_submodule(layer))})["module"]

        @cache
        def values(draw: int, layer: str) -> dict[str, Tensor]:
            name = ("layers", seed, draw, layer)
            return recall(name, lambda: randomise(module(layer), owned[layer], parameters, name))

        copies = [
            {name: value for layer in self.known_layers[: self.reach(level)] for name, value in values(draw, layer).items()}
            for draw, level in pairs
        ]
        return stack_copies(parameters, copies)


@dataclass(frozen=True, kw_only=True)
class LayerRandomisation(Randomisation):
    """One more layer is randomised at each level: from the output ("top_down", eq. 30) or from the input ("bottom_up", eq. 31).

    `step` is how many more there are at each level, for networks with many layers; the last level randomises all of them.

    >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> space = LayerRandomisation().of(model)
    >>> space.layers, space.levels, sorted(space.parameters(model, 0, 0, seed=0))
    (('2', '0'), 2, ['2.bias', '2.weight'])
    """

    name = "layer_randomisation"

    direction: str = "top_down"
    step: Count = 1

    @property
    def levels(self) -> int:
        """One per `step` layers, and one for those left over."""
        return -(-len(self.known_layers) // self.step)

    def sort_layers(self, layers: Sequence[str]) -> Sequence[str]:
        """From the last registered layer to the first, or from the first to the last."""
        if self.direction not in DIRECTIONS:
            raise unknown("direction of layer randomisation", str(self.direction), DIRECTIONS)
        return layers[::-1] if self.direction == "top_down" else layers

    def reach(self, level: int) -> int:
        """Level l randomises (l + 1) steps of layers, at most all."""
        return min((check_level(self, level) + 1) * self.step, len(self.known_layers))


@dataclass(frozen=True, kw_only=True)
class FullRandomisation(Randomisation):
    """All layers are randomised at once (eq. 32), with the same values as at the last level of layer randomisation.

    >>> model = nn.Linear(3, 4)
    >>> sorted(FullRandomisation().of(model).parameters(model, 0, 0, seed=0))
    ['bias', 'weight']
    """

    name = "full_randomisation"
    reference = "Hedström et al., Sanity checks revisited: an exploration to repair the model parameter randomisation test, 2024"

    def reach(self, level: int) -> int:
        """All layers."""
        check_level(self, level)
        return len(self.known_layers)


def layers_of(model: nn.Module) -> dict[str, dict[str, str]]:
    """Layers by name, in registration order, each with its parameters and running statistics: own names to names in the model.

    Layers are named as in the model inside all views. A parameter that several modules share belongs to the first.

    >>> layers_of(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2, bias=False)))
    {'0': {'weight': '0.weight', 'bias': '0.bias'}, '2': {'weight': '2.weight'}}
    """
    names = {id(value): name for name, value in model.named_parameters() if value.is_floating_point() and value.numel() > 0}
    running = statistics_of(model)
    names |= {id(value): name for name, value in model.named_buffers() if name in running}
    found = {}
    for layer, module in unwrap(model).named_modules():
        held = (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
        own = {name: names.pop(id(value)) for name, value in held if id(value) in names}
        if own:
            found[layer] = own
    return found


def statistics_of(model: nn.Module) -> dict[str, Tensor]:
    """The running statistics of normalisation layers by name, which `reset_parameters` sets to 0 or 1.

    >>> list(statistics_of(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))))
    ['1.running_mean', '1.running_var']
    """
    return {
        f"{prefix}{'.' if prefix else ''}{name}": value.detach()
        for prefix, module in model.named_modules()
        if isinstance(module, NormBase)
        for name, value in module.named_buffers(recurse=False)
        if value.is_floating_point()
    }


def on_cpu(module: nn.Module) -> nn.Module:
    """The layer, or a copy of it on the CPU if it is elsewhere and can be reset, which waits for nothing that a GPU still has to do."""
    own = next(chain(module.parameters(recurse=False), module.buffers(recurse=False)), None)
    if own is None or own.device.type == "cpu" or not callable(getattr(module, "reset_parameters", None)):
        return module
    try:
        with torch.cuda.stream(side_stream(own.device)) if own.is_cuda else nullcontext():
            return copy.deepcopy(module).cpu()
    except (RuntimeError, TypeError, ValueError, AttributeError):
        return module


def randomise(
    module: nn.Module, own: Mapping[str, str], parameters: Mapping[str, Tensor], parts: tuple[int | str, ...]
) -> dict[str, Tensor]:
    """New values of a layer's parameters and statistics, by their names in the model; random numbers depend on `parts`."""
    fresh = reset(module, key(*parts)) if callable(getattr(module, "reset_parameters", None)) else {}
    before = {**dict(module.named_parameters(recurse=False)), **dict(module.named_buffers(recurse=False))}
    statistics = {name for name, _ in module.named_buffers(recurse=False)}
    made = {}
    for name, full in own.items():
        old, new = parameters[full], fresh.get(name)
        if name in statistics:
            made[full] = old if new is None else send(new.to(old.dtype), old.device)
            continue
        if new is None or new.shape != old.shape or torch.equal(new, before[name].to(new)):
            order = torch.randperm(old.numel(), generator=generator(*parts, name))
            made[full] = old.flatten()[send(order, old.device)].reshape(old.shape)
        else:
            made[full] = send(new.to(old.dtype), old.device)
    return made


def reset(module: nn.Module, seed: int) -> dict[str, Tensor]:
    """Parameters and buffers of a copy of a module after `reset_parameters`, on the CPU; empty if it cannot be copied or reset."""
    try:
        fresh: Any = copy.deepcopy(module).cpu()
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.default_generator.manual_seed(seed)
            fresh.reset_parameters()
    except (RuntimeError, TypeError, ValueError, AttributeError):
        return {}
    held = (*fresh.named_parameters(recurse=False), *fresh.named_buffers(recurse=False))
    return {name: value.detach() for name, value in held}
