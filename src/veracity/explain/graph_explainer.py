"""PyG's `Explainer` objects on graphs: their node masks are maps over the features of nodes."""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError
from veracity.core.graphs import OnGraphs, pack_graphs
from veracity.explain.foreign import Foreign, display_name
from veracity.explain.passes import Structure
from veracity.explain.wrapper import computed

TOGETHER = ("CaptumExplainer", "DummyExplainer", "AttentionExplainer")
"""Algorithms whose graphs do not share an optimisation, so that many are explained in one call."""


@dataclass(frozen=True, kw_only=True)
class GraphExplainer(Foreign):
    """A `torch_geometric.explain.Explainer`. It is used for each model in turn, and explains the class that the audit explains."""

    name: ClassVar[str] = computed(lambda self: self.label or display_name(type(self.explainer.algorithm)))
    structured: ClassVar[bool] = True
    rows_apart: ClassVar[bool] = computed(lambda self: type(self.explainer.algorithm).__name__ not in TOGETHER)
    explainer: Any

    @staticmethod
    def accepts(value: Any) -> bool:
        """Whether a value is an explainer object of PyG."""
        return type(value).__name__ == "Explainer" and type(value).__module__.startswith("torch_geometric.")

    def spec(self) -> dict[str, Any]:
        algorithm = self.explainer.algorithm
        plain = {name: str(held) for name, held in sorted(vars(algorithm).items()) if isinstance(held, (str, int, float, dict))}
        about = {"algorithm": type(algorithm).__name__, "code": fingerprint.of_value(type(algorithm)), "settings": plain}
        masks = {name: str(getattr(self.explainer, name, None)) for name in ("node_mask_type", "edge_mask_type", "model_config")}
        return {"name": self.name, **about, **masks, "random": self.random}

    def call(self, model: nn.Module, inputs: Tensor, targets: Tensor, structure: Structure) -> Any:
        if not isinstance(model, OnGraphs) or len(structure) != 2:
            raise InputError(f"{self.name} explains the outputs of a PyG network on graphs: pass graphs as inputs, and explain a class.")
        if model.takes_data:
            raise InputError(f"{self.name} needs a network that takes (x, edge_index, batch), not one that takes a Data.")
        mask, edges = structure
        twin = copy(self.explainer)
        twin.model = deepcopy(model.model)  # GNNExplainer leaves its masks in the layers
        twin.explanation_type = type(twin.explanation_type)("phenomenon")  # the audit says which class
        rows = [slice(row, row + 1) for row in range(len(inputs))] if self.rows_apart else [slice(None)]
        maps = torch.zeros_like(inputs)
        for part in rows:
            x, edge_index, batch = pack_graphs(inputs[part], mask[part], edges[part])
            found = getattr(twin(x, edge_index, target=targets[part], batch=batch), "node_mask", None)
            if found is None:
                raise InputError(f"{self.name} gives no mask of nodes: make the Explainer with node_mask_type='attributes'.")
            here = maps[part]
            here[mask[part]] = found.detach().to(inputs).expand_as(x)
            maps[part] = here
        return maps
