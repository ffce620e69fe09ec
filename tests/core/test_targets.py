from __future__ import annotations

import pytest
import torch
from torch import nn

from small import series_inputs, small_net
from veracity.core.errors import InputError
from veracity.core.targets import Class, Custom, Label, Neuron, Predicted, as_target, class_numbers

SCORES = torch.tensor([[0.1, 0.9, 0.0], [0.8, 0.1, 0.1]])


def test_predicted_is_the_largest_score() -> None:
    assert Predicted().choose(SCORES, None).tolist() == [1, 0]


def test_label_is_what_the_data_say() -> None:
    assert Label().choose(SCORES, torch.tensor([2, 1])).tolist() == [2, 1]
    with pytest.raises(InputError, match="needs targets"):
        Label().choose(SCORES, None)


@pytest.mark.parametrize(("labels", "bad"), [([0, 3], 3), ([-1, 0], -1)])
def test_labels_out_of_range_are_named(labels: list[int], bad: int) -> None:
    with pytest.raises(
        InputError, match=f"The target of sample {labels.index(bad)} is {bad}, but the model has 3 classes, numbered 0 to 2"
    ):
        Label().choose(SCORES, torch.tensor(labels))


def test_labels_must_be_whole_numbers() -> None:
    with pytest.raises(InputError, match=r"The target of sample 0 is 0\.0, .*: convert them from float32 with \.long\(\)\.$"):
        Label().choose(SCORES, torch.tensor([0.0, 1.0]))
    with pytest.raises(InputError, match=r"The target of sample 1 is nan, but the model has 3 classes"):
        Label().choose(SCORES, torch.tensor([0.0, float("nan")]))
    with pytest.raises(InputError, match=r"one per sample, not torch\.complex64"):
        Label().choose(SCORES, torch.tensor([0j, 1j]))
    assert Label().choose(SCORES, torch.tensor([True, False])).tolist() == [1, 0]


def test_classes_that_begin_with_one_are_recognised() -> None:
    with pytest.raises(
        InputError, match=r"^The target of sample 1 is 3, but the model has 3 classes.*: if yours begin with 1, subtract 1\.$"
    ):
        class_numbers(torch.tensor([1, 3, 2]), 3)
    assert class_numbers(torch.tensor([1, 7]), None).tolist() == [1, 7]
    assert class_numbers(torch.tensor([-1, 2]), 3, least=-1).tolist() == [-1, 2]


def test_class_is_the_same_for_all() -> None:
    assert Class(index=2).choose(SCORES, None).tolist() == [2, 2]


def test_a_neuron_is_read_where_it_is() -> None:
    net, x = small_net(), series_inputs(4)
    view = Neuron(layer="0", unit=5).view(net)
    assert torch.equal(view(x), net[0](x).flatten(1))
    assert Neuron(layer="0", unit=5).choose(view(x), None).tolist() == [5] * 4
    assert not net[0]._forward_hooks


def test_a_wrong_layer_gets_a_suggestion() -> None:
    with pytest.raises(InputError, match=r"has no layer 'bady'\. Did you mean 'body'"):
        Neuron(layer="bady", unit=0).view(nn.ModuleDict({"body": nn.Linear(1, 1)}))


def test_a_function_of_the_output_is_one_score() -> None:
    net, x = small_net(), series_inputs(4)
    target = Custom(function=lambda output: output[:, 0] - output[:, 1])
    assert torch.allclose(target.view(net)(x)[:, 0], net(x)[:, 0] - net(x)[:, 1])
    assert target.choose(target.view(net)(x), None).tolist() == [0] * 4
    with pytest.raises(InputError, match="one number per sample"):
        Custom(function=lambda output: output).view(net)(x)


def test_targets_from_what_users_write() -> None:
    assert as_target("label") == Label()
    assert as_target(2) == Class(index=2)
    assert as_target({"name": "class", "index": 1}) == Class(index=1)
    assert isinstance(as_target(torch.sum), Custom)
    with pytest.raises(InputError, match="A target is"):
        as_target(1.5)
