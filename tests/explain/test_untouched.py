from __future__ import annotations

import pytest
import torch
from torch import nn

from veracity.explain.untouched import untouched


def test_everything_comes_back_even_after_an_error() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).eval()
    kept, mark = model[0], torch.ones(2, 2)
    model[0].weight.grad = mark
    own = model[1].register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match="inside"), untouched(model):  # noqa: PT012 - all of it is done to one model
        assert model[0].weight.grad is None
        model(torch.ones(1, 2)).sum().backward()
        model.train()
        model[1].register_full_backward_hook(lambda *_: None)
        own.remove()
        model[1].input = torch.ones(1)
        model[0].weight.requires_grad_(False)
        model[0] = nn.Identity()
        raise ValueError("inside")
    assert model[0] is kept
    assert not model.training
    assert model[0].weight.grad is mark
    assert mark.eq(1).all()
    assert model[0].weight.requires_grad
    assert model[0].bias.grad is None
    assert not hasattr(model[1], "input")
    assert not model[1]._backward_hooks
    assert len(model[1]._forward_hooks) == 1


def test_a_models_own_counter_goes_on() -> None:
    class Counts(nn.Identity):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x

    model = Counts()
    with untouched(model):
        model(torch.ones(1))
    assert model.calls == 1
