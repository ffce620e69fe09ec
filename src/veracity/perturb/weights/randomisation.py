"""Layers that forget what they learnt, one after the other or all at once."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase as NormBase

from veracity.core.errors import InputError, SpecError, unknown
from veracity.core.models import unwrap
from veracity.perturb.weights.copies import ModelCopies, Pairs, generator, key, parameters_of, stacked

DIRECTIONS = ("top_down", "bottom_up")


@dataclass(frozen=True, kw_only=True)
class Randomisation(ModelCopies, ABC):
    """Layers get the values that they might have begun with, by their own `reset_parameters`.

    A layer is a module that owns parameters itself, or that keeps running statistics and resets them. Parameters that its reset
    leaves as they are, or those of a layer without one, have their entries permuted. Buffers that a reset changes begin anew,
    too: a batch normalisation's running mean is 0 then and its variance 1. A layer's new values belong to (seed, draw, layer):
    they are the same at all levels. `layers` are the names, in the order in which they are randomised; level l randomises the
    first l + 1.
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
        order = tuple(self.ordered(list(known)))
        return replace(self, layers=self.layers or order)

    def ordered(self, layers: Sequence[str]) -> Sequence[str]:
        """Names in registration order, in the order in which layers are randomised."""
        return layers

    @property
    def known_layers(self) -> tuple[str, ...]:
        """The layers, once they are known."""
        if self.layers is None:
            raise SpecError(f"The space '{self.name}' does not know the model's layers yet: call of(model).")
        return self.layers

    @abstractmethod
    def reach(self, level: int) -> int:
        """How many layers a level randomises."""

    def copies(self, model: nn.Module, pairs: Pairs, seed: int) -> dict[str, Tensor]:
        """Parameters and running statistics of the randomised layers, (copies, ...); each layer of a draw is randomised once."""
        parameters, owned = {**parameters_of(model), **statistics_of(model)}, layers_of(model)
        modules = dict(unwrap(model).named_modules())
        reach = [self.reach(level) for _, level in pairs]
        fresh = {
            (draw, layer): forgotten(modules[layer], owned[layer], parameters, ("layers", seed, draw, layer))
            for draw, layer in {(draw, layer) for (draw, _), most in zip(pairs, reach, strict=True) for layer in self.known_layers[:most]}
        }
        made = [
            {name: value for layer in self.known_layers[:most] for name, value in fresh[draw, layer].items()}
            for (draw, _), most in zip(pairs, reach, strict=True)
        ]
        return stacked(parameters, made)


@dataclass(frozen=True, kw_only=True)
class LayerRandomisation(Randomisation):
    """Layer after layer is randomised and stays so: from the output ("top_down", eq. 30) or from the input ("bottom_up", eq. 31).

    >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> space = LayerRandomisation().of(model)
    >>> space.layers, space.levels, sorted(space.perturbed(model, 0, 0, seed=0))
    (('2', '0'), 2, ['2.bias', '2.weight'])
    """

    name = "layer_randomisation"

    direction: str = "top_down"

    @property
    def levels(self) -> int:
        """One for each layer."""
        return len(self.known_layers)

    def ordered(self, layers: Sequence[str]) -> Sequence[str]:
        """From the last registered layer to the first, or the other way round."""
        if self.direction not in DIRECTIONS:
            raise unknown("direction of layer randomisation", str(self.direction), DIRECTIONS)
        return layers[::-1] if self.direction == "top_down" else layers

    def reach(self, level: int) -> int:
        """Level l randomises l + 1 layers."""
        if not 0 <= level < self.levels:
            raise SpecError(f"The space '{self.name}' has levels 0 to {self.levels - 1}, not {level}.")
        return level + 1


@dataclass(frozen=True, kw_only=True)
class FullRandomisation(Randomisation):
    """All layers are randomised at once (eq. 32): what layer randomisation ends in, with the same random numbers.

    >>> model = nn.Linear(3, 4)
    >>> sorted(FullRandomisation().of(model).perturbed(model, 0, 0, seed=0))
    ['bias', 'weight']
    """

    name = "full_randomisation"
    reference = "Hedström et al., Sanity checks revisited: an exploration to repair the model parameter randomisation test, 2024"

    def reach(self, level: int) -> int:
        """Every layer."""
        if level != 0:
            raise SpecError(f"The space '{self.name}' has the level 0 alone, not {level}.")
        return len(self.known_layers)


def layers_of(model: nn.Module) -> dict[str, dict[str, str]]:
    """The modules that can forget, by name in registration order: from the own names of what they hold to the names in the model.

    That is their parameters, and the running statistics of those that reset them. Layers are named as in the model behind all
    views of it. A parameter that several modules share belongs to the first.

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
    """The running statistics of normalisation layers, by name: buffers that their `reset_parameters` sets to 0 or 1.

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


def forgotten(
    module: nn.Module, own: Mapping[str, str], parameters: Mapping[str, Tensor], parts: tuple[int | str, ...]
) -> dict[str, Tensor]:
    """New values of what a module holds itself, by their names in the model; random numbers belong to `parts`."""
    fresh = reset(module, key(*parts)) if callable(getattr(module, "reset_parameters", None)) else {}
    statistics = {name for name, _ in module.named_buffers(recurse=False)}
    made = {}
    for name, full in own.items():
        old, new = parameters[full], fresh.get(name)
        if name in statistics:
            made[full] = old if new is None else new.to(old)
            continue
        if new is None or new.shape != old.shape or torch.equal(new.to(old), old):
            order = torch.randperm(old.numel(), generator=generator(*parts, name))
            new = old.flatten()[order.to(old.device)].reshape(old.shape)
        made[full] = new.to(old)
    return made


def reset(module: nn.Module, seed: int) -> dict[str, Tensor]:
    """What a module holds after `reset_parameters` on a copy of it, on the CPU; nothing where it cannot be copied or reset."""
    try:
        fresh: Any = copy.deepcopy(module).cpu()
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.default_generator.manual_seed(seed)
            fresh.reset_parameters()
    except (RuntimeError, TypeError, ValueError, AttributeError):  # it cannot be copied, or needs arguments: its entries are permuted
        return {}
    held = (*fresh.named_parameters(recurse=False), *fresh.named_buffers(recurse=False))
    return {name: value.detach() for name, value in held}
