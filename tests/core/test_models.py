from __future__ import annotations

import pytest
import torch
from torch import nn

from veracity.core.models import evaluating


def test_modes_and_gradients_come_back_even_after_an_error() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(), nn.Linear(2, 2))
    model[1].eval()
    model[0].weight.grad = torch.ones(2, 2)

    def fail() -> None:
        with evaluating(model):
            assert not any(module.training for module in model.modules())
            model(torch.ones(1, 2)).sum().backward()
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail()
    assert [module.training for module in model] == [True, False, True]
    assert model.training
    assert torch.equal(model[0].weight.grad, torch.ones(2, 2))
    assert model[2].weight.grad is None


def test_full_precision_inside_and_the_callers_choice_outside() -> None:
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    try:
        matmul.fp32_precision = "tf32"
        with evaluating(nn.Linear(1, 1)):
            assert matmul.fp32_precision == "ieee"
        assert matmul.fp32_precision == "tf32"
    finally:
        matmul.fp32_precision = before
