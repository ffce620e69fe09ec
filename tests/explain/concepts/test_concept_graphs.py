"""Concepts of graphs: several sizes in one batch, layers after the pooling, node permutations."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from concept_cases import context_of, learnt, normal
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.graphs import GraphInputs, OnGraphs
from veracity.core.randomness import Draws
from veracity.core.training import Training
from veracity.explain.concepts.activations import CAR, CAV, ConceptSensitivity
from veracity.explain.concepts.base import ConceptExplainer
from veracity.perturb import NodePermutations

KINDS = pytest.mark.parametrize("kind", [CAV, CAR, ConceptSensitivity])


class Net(nn.Module):
    """Each node hears its neighbours; the graph is the largest of what they make of it."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.node, self.graph, self.head = nn.Linear(3, 8), nn.Linear(8, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        heard = x.index_add(0, edge_index[1], x[edge_index[0]])
        made = self.node(heard).tanh()
        pooled = made.new_full((int(batch.max()) + 1, 8), -torch.inf).scatter_reduce(0, batch[:, None].expand_as(made), made, "amax")
        return self.head(self.graph(pooled).tanh())


def graphs(count: int = 160, slots: int = 7) -> GraphInputs:
    """A ring of three to seven nodes each; in every other graph the first feature is large."""
    nodes = 3 + torch.arange(count) % (slots - 2)
    mask = torch.arange(slots) < nodes[:, None]
    values = normal(count, slots, 3)
    values[::2, :, 0] += 3
    step = torch.arange(slots).expand(count, -1)
    ring = torch.stack((step, (step + 1) % nodes[:, None]), dim=2)
    return GraphInputs(values * mask[..., None], mask, torch.where(mask[..., None], ring, -1))


TRAINING = Training(graphs(), torch.arange(160) % 2, {"large": torch.arange(160) % 2 == 0})
MODEL = OnGraphs(Net()).double().eval()
SOME = graphs(20).take(torch.arange(20))
X, TARGETS = SOME.values, torch.arange(20) % 2


@KINDS
def test_sizes_mixed_and_one_at_a_time_agree(kind: type[ConceptExplainer]) -> None:
    explainer = kind(layer="graph", per_side=30)
    context = replace(learnt(explainer, MODEL, context_of(TRAINING, 20)), structure=SOME.structure)
    assert explainer.facts(context.learnt, context)[0]["accuracy"] > 0.8
    together = explainer.explain(MODEL, X, TARGETS, context)
    for row in range(20):
        one = replace(context, structure=SOME[row : row + 1].structure)
        torch.testing.assert_close(explainer.explain(MODEL, X[[row]], TARGETS[[row]], one), together[[row]])
    torch.testing.assert_close(explainer.explain(MODEL, X, TARGETS, replace(context, batch=3)), together)


@KINDS
def test_invariant_under_orders_of_the_nodes(kind: type[ConceptExplainer]) -> None:
    explainer = kind(layer="graph", per_side=30)
    context = replace(learnt(explainer, MODEL, context_of(TRAINING, 20)), structure=SOME.structure)
    space = NodePermutations().fit(X.shape[1:])
    element = space.decode(Draws.of(0, torch.arange(20)).normal(7, stream="orders"))
    moved = replace(context, structure=space.carry(element, SOME.structure))
    found = explainer.explain(MODEL, space.act(element, X), TARGETS, moved)
    torch.testing.assert_close(found, explainer.explain(MODEL, X, TARGETS, context))


@KINDS
def test_a_layer_of_nodes_is_refused(kind: type[ConceptExplainer]) -> None:
    context = replace(context_of(TRAINING), structure=SOME.structure)
    with pytest.raises(InputError, match="The layer 'node' returns 100 rows for 20 inputs"):
        kind(layer="node").check(MODEL, X, TARGETS, context)
