"""Content hashes: what a result depends on, in a few letters."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch
from torch import Tensor, nn


def of_json(value: Any) -> str:
    """A short hash of anything that JSON can write, independent of key order.

    >>> of_json({"a": 1, "b": 2}) == of_json({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def of_tensor(tensor: Tensor) -> str:
    """A short hash of a tensor's type, shape and bytes, wherever it lives."""
    plain = tensor.detach().cpu().contiguous()
    digest = hashlib.sha256(f"{plain.dtype}{tuple(plain.shape)}".encode())
    digest.update(plain.flatten().view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    return digest.hexdigest()[:24]


def of_model(model: nn.Module) -> str:
    """A short hash of a model's architecture as it prints and of its weights and buffers."""
    state = {name: of_tensor(value) for name, value in model.state_dict().items() if isinstance(value, Tensor)}
    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    return of_json({"kind": kind, "layers": str(model), "state": state})
