"""Models by name, each as a torch module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from veracity.core.errors import InputError
from veracity.core.training import CrossTrained
from veracity.engine.resolve.settings import check_labels
from veracity.models import as_model

WEIGHTS = (".pt", ".pth", ".safetensors", ".ckpt", ".bin")
"""Endings of files that hold weights and no network."""


def as_models(models: Any) -> dict[str, nn.Module | CrossTrained]:
    """Models by name, each as a module or a CrossTrained."""
    if isinstance(models, (list, tuple)):
        raise InputError(f"The models are a {type(models).__name__} of {len(models)} without names: pass models={{'name': model, ...}}.")
    if isinstance(models, str) and models.endswith(WEIGHTS):
        raise InputError(f"'{models}' is a file of weights: build the network, load them with load_state_dict, and pass the network.")
    named = dict(models) if isinstance(models, Mapping) else {"model": models}
    if not named:
        raise InputError("There is no model to audit: pass models={'name': module}.")
    check_labels("model", named)
    return {name: with_modules(name, one) if isinstance(one, CrossTrained) else as_model(name, one) for name, one in named.items()}


def with_modules(name: str, crossed: CrossTrained) -> CrossTrained:
    """A cross-trained model whose given models, if any, are modules."""
    if not isinstance(crossed.models, (list, tuple)) or all(isinstance(one, nn.Module) for one in crossed.models):
        return crossed
    return replace(crossed, models=[as_model(name, one) for one in crossed.models])
