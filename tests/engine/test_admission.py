from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from small import series_inputs, small_net
from veracity.core.errors import InputError
from veracity.core.inputs import TensorInputs
from veracity.core.outputs import SINGLE, UNSUMMED, Outputs
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


def test_outputs_that_could_be_logits_or_probabilities_are_told() -> None:
    inputs, flat = TensorInputs(series_inputs(6)), nn.Sequential(nn.Flatten(), nn.Linear(12, 3), nn.Sigmoid()).eval()
    model, _ = admit("net", flat, inputs, None, Predicted(), None, Budget(8))
    assert (model.outputs, model.doubt) == (Outputs.PROBABILITIES, UNSUMMED)
    assert admit("net", flat, inputs, None, Predicted(), Outputs.PROBABILITIES, Budget(8))[0].doubt is None
    assert admit("net", nn.Sequential(flat[:2], nn.Softmax(1)).eval(), inputs, None, Predicted(), None, Budget(8))[0].doubt is None
    assert admit("net", small_net(), inputs, None, Predicted(), None, Budget(8))[0].doubt is None
    assert admit("net", nn.Sequential(nn.Flatten(), nn.Linear(12, 1)).eval(), inputs, None, Predicted(), None, Budget(8))[0].doubt == SINGLE


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (
            torch.tensor([0, 1, 2, 3, 0, 4]),
            "The target of sample 3 is 3, but model 'net' has 3 classes, numbered 0 to 2 (2 of 6 name no class)",
        ),
        (torch.tensor([0, 1, -1, 1, 0, 2]), "The target of sample 2 is -1, but model 'net' has 3 classes"),
        (torch.tensor([0.0, 1.0, 2.0, 1.0, 0.5, 1.0]), "The target of sample 4 is 0.5, but model 'net' has 3 classes"),
        (torch.zeros(6), "The target of sample 0 is 0.0, but model 'net' has 3 classes, numbered 0 to 2: convert them from float32"),
    ],
)
def test_a_label_that_is_no_class_is_refused_and_not_counted_as_wrong(bad: Tensor, fault: str) -> None:
    with pytest.raises(InputError) as raised:
        admit("net", small_net(), TensorInputs(series_inputs(6)), bad, Predicted(), None, Budget(8))
    assert str(raised.value).startswith(fault)
    model, accuracy = admit("net", small_net(), TensorInputs(series_inputs(6)), bad, Predicted(), Outputs.RAW, Budget(8))
    assert accuracy is None
    assert model.correct is None


def test_a_regression_may_have_any_targets() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 1)).eval()
    for targets in (torch.randn(6), torch.tensor([-3, 7, 0, 1, 2, 90])):
        assert admit("net", net, TensorInputs(series_inputs(6)), targets, Predicted(), None, Budget(8))[1] is None


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
