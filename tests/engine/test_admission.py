from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from small import series_inputs, small_net
from veracity.core.errors import InputError
from veracity.core.inputs import TensorInputs
from veracity.core.outputs import Outputs
from veracity.core.targets import Custom, Predicted
from veracity.engine.admission import admit, first_budget
from veracity.engine.batching import Budget


class Noisy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.randn(len(x), 3)


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


class Field(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


def test_outputs_are_recognised_and_read_as_probabilities() -> None:
    logits = torch.tensor([[1.0, -1.0], [0.0, 3.0]])
    assert Outputs.detect(logits) is Outputs.LOGITS
    assert Outputs.detect(logits.softmax(1)) is Outputs.PROBABILITIES
    assert Outputs.detect(logits[:, :1]) is Outputs.LOGITS
    assert Outputs.detect(logits[:, None]) is Outputs.RAW
    assert torch.allclose(Outputs.LOGITS.read(logits), logits.softmax(1))
    assert torch.equal(Outputs.PROBABILITIES.read(logits.softmax(1)), logits.softmax(1))
    one = Outputs.LOGITS.read(torch.tensor([[0.0], [2.0]]))
    assert torch.allclose(one, torch.tensor([[0.5, 0.5], [1 - 0.880797, 0.880797]]))
    assert Outputs.RAW.read(torch.zeros(2, 3, 4)).shape == (2, 12)


def test_the_accuracy_and_the_targets_come_from_the_unperturbed_inputs() -> None:
    net, x = small_net(), series_inputs(6)
    predicted = net(x).argmax(1)
    labels = predicted.clone()
    labels[0] = (labels[0] + 1) % 3
    model, accuracy = admit("net", net, TensorInputs(x), labels, Predicted(), None, Budget(2))
    assert accuracy == pytest.approx(5 / 6)
    assert torch.equal(model.targets, predicted)
    assert admit("net", net, TensorInputs(x), None, Predicted(), Outputs.RAW, Budget(2))[0].outputs is Outputs.RAW


def test_a_model_that_draws_is_refused() -> None:
    with pytest.raises(InputError, match="gives different outputs for the same input"):
        admit("net", Noisy(), TensorInputs(series_inputs(6)), None, Predicted(), None, Budget(8))


def test_outputs_that_are_not_scores_need_a_target() -> None:
    inputs = TensorInputs(series_inputs(6))
    with pytest.raises(InputError, match=r"outputs of shape \(1, 12\) a sample.*pass target="):
        admit("net", Field(), inputs, None, Predicted(), None, Budget(8))
    model, _ = admit("net", Field(), inputs, None, Custom(function=lambda output: output.sum((1, 2))), None, Budget(8))
    assert model.outputs is Outputs.RAW
    with pytest.raises(InputError, match="must return one tensor with a row for each input, not a tuple"):
        first_budget("net", Pair(), inputs, None, None)
