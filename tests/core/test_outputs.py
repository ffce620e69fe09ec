from __future__ import annotations

import math

import pytest
import torch

from veracity.core.outputs import Outputs


def test_the_loss_is_the_negative_log_likelihood_of_what_is_read() -> None:
    logits, labels = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]]), torch.tensor([2, 1])
    probability = logits.softmax(1)
    expected = [-math.log(probability[0, 2]), -math.log(probability[1, 1])]
    assert Outputs.LOGITS.loss(logits, labels).tolist() == pytest.approx(expected, rel=1e-5)
    assert Outputs.LOGITS.loss(logits.log_softmax(1), labels).tolist() == pytest.approx(expected, rel=1e-5)
    assert Outputs.PROBABILITIES.loss(probability, labels).tolist() == pytest.approx(expected, rel=1e-5)


def test_a_single_logit_is_a_sigmoid() -> None:
    loss = Outputs.LOGITS.loss(torch.tensor([[2.0], [2.0]]), torch.tensor([1, 0]))
    assert loss.tolist() == pytest.approx([math.log(1 + math.exp(-2)), math.log(1 + math.exp(2))], rel=1e-5)
