"""PyG's `Explainer` objects on graphs: node masks are maps over nodes or their features, and edge masks are maps over edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from veracity.core import fingerprint
from veracity.core.errors import InputError
from veracity.core.explainers import BARE, Context, Explainer, Learner, Need
from veracity.core.graphs import OF_EDGES, OF_NODES, OnEdges, OnGraphs, PackedGraphs
from veracity.core.models import device_of
from veracity.core.randomness import Draws, gpus_in_use, seeded
from veracity.explain.foreign import Foreign, display_name
from veracity.explain.passes import Structure, select
from veracity.explain.wrapper import computed

TOGETHER = ("CaptumExplainer", "DummyExplainer", "AttentionExplainer", "PGExplainer")
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

    @classmethod
    def of(cls, explainer: Any) -> GraphExplainer:
        """The explainer object of PyG, trained by the audit if its algorithm must be trained."""
        trained = any(kind.__name__ == "PGExplainer" for kind in type(explainer.algorithm).__mro__)
        return TrainedGraphExplainer(explainer=explainer) if trained else cls(explainer=explainer)

    def spec(self) -> dict[str, Any]:
        algorithm = self.explainer.algorithm
        plain = {name: str(held) for name, held in sorted(vars(algorithm).items()) if isinstance(held, (str, int, float, dict))}
        about = {"algorithm": type(algorithm).__name__, "code": fingerprint.of_value(type(algorithm)), "settings": plain}
        masks = {name: str(getattr(self.explainer, name, None)) for name in ("node_mask_type", "edge_mask_type", "model_config")}
        return {"name": self.name, **about, **masks, "random": self.random}

    def call(self, model: nn.Module, inputs: Tensor, targets: Tensor, structure: Structure) -> Any:
        if not isinstance(model, OnGraphs) or not structure:
            raise InputError(f"{self.name} explains the outputs of a PyG network on graphs: pass graphs as inputs, and explain a class.")
        twin = copy(self.explainer)
        twin.model = network = Named(deepcopy(model))  # GNNExplainer leaves its masks in the layers
        twin.explanation_type = type(twin.explanation_type)("phenomenon")  # the audit says which class
        rows = [slice(row, row + 1) for row in range(len(inputs))] if self.rows_apart else [slice(None)]
        return torch.cat([self.maps(twin, network, inputs[part], targets[part], select(structure, part)) for part in rows])

    def maps(self, explainer: Any, network: Named, inputs: Tensor, targets: Tensor, structure: Structure) -> Tensor:
        """The maps of graphs that are explained in one call."""
        graphs, view = network.take(inputs, structure), network.view
        found = getattr(explainer(graphs.x, graphs.edge_index, target=targets, **network.arguments(graphs)), view.explained, None)
        if found is None:
            kind, setting = (
                ("edges", "edge_mask_type='object'") if view.explained == "edge_mask" else ("nodes", "node_mask_type='attributes'")
            )
            other = "" if kind == "edges" else " (for edge masks, pass inputs=EdgeInputs.of(graphs))"
            raise InputError(f"{self.name} gives no mask of {kind}: make the Explainer with {setting}{other}.")
        return view.spread(found.detach(), inputs, *structure)


class Named(nn.Module):
    """A network on graphs as PyG's explainers call it: what the graphs carry comes after the batch, always in the same order."""

    def __init__(self, view: OnGraphs) -> None:
        super().__init__()
        self.view = view
        self.train(view.training)
        self.gates: Tensor | None = None

    def take(self, inputs: Tensor, structure: Structure) -> PackedGraphs:
        """Graphs in PyG's format; the gates of their edges are kept for the calls that follow, unless all are open."""
        graphs = self.view.pack(inputs, *structure)
        self.gates = None if graphs.gates is None or bool((graphs.gates == 1).all()) else graphs.gates
        return graphs

    def arguments(self, graphs: PackedGraphs) -> dict[str, Tensor | None]:
        """What the network takes besides nodes and edges, by name; None for what the graphs do not have."""
        return {"batch": graphs.batch, **{name: graphs.named.get(name) for name in (*OF_NODES, *OF_EDGES)}}

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor,
        pos: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        """Outputs (N, ...) of N graphs."""
        given = {"pos": pos, "edge_attr": edge_attr, "edge_weight": edge_weight}
        named = {name: part for name, part in given.items() if part is not None}
        return self.view.call(PackedGraphs(x, edge_index, batch, named, self.gates))


@dataclass(frozen=True, kw_only=True)
class TrainedGraphExplainer(GraphExplainer, Learner):
    """A `torch_geometric.explain.Explainer` with a PGExplainer, which is trained for each model on the audit's training graphs.

    Each of its epochs goes through all of them in a random order. As in the paper, it learns to explain the classes that the model
    predicts, whatever the labels are. It starts anew from the audit's seed; what it learnt before the audit is not used.
    """

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.TRAINING})

    def spec(self) -> dict[str, Any]:
        algorithm = self.explainer.algorithm
        return {**super().spec(), "settings": {name: str(getattr(algorithm, name)) for name in ("epochs", "lr", "coeffs")}}

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        training, network = context.require_training(self.name), Named(deepcopy(self.gated(model)))
        network.requires_grad_(False)
        everything, where = torch.arange(training.inputs.size()), device_of(model)
        samples = [training.inputs.take(one).to(where) for one in everything.split(1)]
        with torch.no_grad():
            targets = [one.through(model).argmax(1) for one in samples]
        draws = Draws.of(context.draws.seed, everything)
        high, low = draws[:1].words(2, stream="graph explainer")[0].tolist()
        with seeded(high ^ low, gpus_in_use()), torch.enable_grad():
            algorithm = fresh(self.explainer.algorithm).to(where, samples[0].values.dtype)
            for epoch in range(algorithm.epochs):
                order = Draws.of(context.draws.seed, everything, epoch).uniform(1, stream="graph explainer order")[:, 0].argsort()
                for row in order.tolist():
                    graphs = network.take(samples[row].values, samples[row].structure)
                    algorithm.train(epoch, network, graphs.x, graphs.edge_index, target=targets[row], **network.arguments(graphs))
        return {name: value.detach().clone() for name, value in algorithm.mlp.state_dict().items()}

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Edge masks by what was learnt about this model."""
        trained, weights = copy(self.explainer), context.require_learnt(self.name)
        with seeded(0, gpus_in_use()):  # weights are drawn before they are replaced
            trained.algorithm = with_weights(self.explainer.algorithm, weights).to(inputs.device, inputs.dtype)
        return GraphExplainer(explainer=trained, random=self.random, label=self.name).explain(model, inputs, targets, context)

    def specialise(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Explainer:
        """Once it is trained, nothing is random."""
        return replace(self, random=False)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Raise if it has nothing to learn from, or the model has no gates of edges."""
        self.gated(model)
        context.require_training(self.name)
        return ()

    def gated(self, model: nn.Module) -> OnEdges:
        """The model, if it has gates of edges; else raises."""
        if not isinstance(model, OnEdges):
            raise InputError(f"{self.name} explains edges: pass inputs=EdgeInputs.of(graphs), and explain a class.")
        return model


def fresh(algorithm: Any) -> Any:
    """An untrained copy of a PGExplainer, with the weights that the random state gives and an optimiser of their own."""
    made = type(algorithm)(epochs=algorithm.epochs, lr=algorithm.lr)
    made.coeffs = dict(algorithm.coeffs)
    made.connect(algorithm.explainer_config, algorithm.model_config)
    return made


def with_weights(algorithm: Any, weights: Mapping[str, Tensor]) -> Any:
    """A trained copy of a PGExplainer."""
    made = fresh(algorithm)
    made.mlp.load_state_dict(dict(weights))
    made._curr_epoch = made.epochs
    return made
