from __future__ import annotations

import torch

from veracity.core.graphs import GraphInputs
from veracity.core.inputs import TensorInputs, TokenInputs
from veracity_papers.data.labelled import Labelled


def test_rows_stay_together_whatever_the_inputs_are() -> None:
    order = torch.tensor([2, 0])
    labels, concept = torch.tensor([0, 1, 2]), torch.tensor([True, False, False])
    values, mask = torch.arange(12.0).reshape(3, 2, 2), torch.tensor([[True, False]] * 3)
    edges = torch.tensor([[[0, 0]], [[0, 0]], [[-1, -1]]])
    ids = torch.tensor([[4, 0], [3, 1], [2, -1]])
    kinds = {"tensor": TensorInputs(values), "graphs": GraphInputs(values, mask, edges), "tokens": TokenInputs(ids, 5)}
    for inputs in kinds.values():
        some = Labelled(inputs, labels, {"first": concept})[order]
        assert some.labels.tolist() == [2, 0]
        assert some.concepts["first"].tolist() == [False, True]
        before, after = inputs.take(order), some.inputs.take(torch.arange(2))
        assert torch.equal(before.values, after.values)
        assert all(torch.equal(a, b) for a, b in zip(before.structure, after.structure, strict=True))
    assert kinds["tokens"].vocabulary == 5


def test_some_are_drawn_from_a_seed_without_replacement() -> None:
    data = Labelled(TensorInputs(torch.arange(50.0)[:, None]), torch.arange(50))
    state = torch.get_rng_state()
    drawn = data.some(20, seed=3)
    assert torch.equal(torch.get_rng_state(), state)
    assert len(drawn.labels.unique()) == 20
    assert torch.equal(drawn.inputs.take(torch.arange(20)).values[:, 0], drawn.labels.float())
    assert torch.equal(drawn.labels, data.some(20, seed=3).labels)
    assert not torch.equal(drawn.labels, data.some(20, seed=4).labels)
    assert len(data.some(1000)) == 50


def test_the_training_holds_everything() -> None:
    data = Labelled(TensorInputs(torch.rand(4, 2)), torch.tensor([0, 1, 0, 1]), {"odd": torch.tensor([False, True, False, True])})
    training = data.training()
    assert training.inputs is data.inputs
    assert training.labels is data.labels
    assert list(training.concepts) == ["odd"]
    assert training.checkpoints == ()
