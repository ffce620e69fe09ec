"""Families of encoders by layer: none of them is lost, and objects tell their width."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from veracity.explain.sparse import SparseFeatures
from veracity.report.figures.layers import families, width_of


def spec(layer: int, width: int = 8) -> dict[str, Any]:
    return {"name": "sparse_features", "layer": f"h.{layer}", "encoder": {"W_enc": {"shape": [4, width]}}}


def test_encoders_of_one_layer_and_width_do_not_overwrite_each_other() -> None:
    explainers = {f"{kind} {layer}": spec(layer) for layer in (0, 1) for kind in ("relu", "topk")}
    controls = [f"{label}: {suffix}" for label in explainers for suffix in ("random encoder", "raw activations")]
    layers, found = families({**explainers, "wide": spec(1, 16)}, [*explainers, "wide", *controls])
    assert layers == ("h.0", "h.1")
    labels = {one.name: dict(one.labels) for one in found}
    assert labels == {
        "8 features, relu 0": {0: "relu 0", 1: "relu 1"},
        "8 features, topk 0": {0: "topk 0", 1: "topk 1"},
        "16 features": {1: "wide"},
        "random encoder, 8 features, relu 0": {0: "relu 0: random encoder", 1: "relu 1: random encoder"},
        "random encoder, 8 features, topk 0": {0: "topk 0: random encoder", 1: "topk 1: random encoder"},
        "raw activations": {0: "relu 0: raw activations", 1: "relu 1: raw activations"},
    }


class Foreign(nn.Module):
    """As in dictionary_learning: an object with its number of features."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dict_size, self.weight = width, nn.Parameter(torch.ones(4, width))

    def encode(self, h: Tensor) -> Tensor:
        return (h @ self.weight).relu()


def test_objects_tell_their_width() -> None:
    assert [width_of(SparseFeatures(encoder=Foreign(width), layer="h").spec()) for width in (8, 16)] == ["8 features", "16 features"]
    silent = Foreign(8)
    del silent.dict_size
    assert width_of(SparseFeatures(encoder=silent, layer="h").spec()) == "features"
