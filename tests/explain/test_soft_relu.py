from __future__ import annotations

import copy
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from veracity.core.errors import SpecError
from veracity.explain.differentiable import SoftReLU

POINTS = torch.linspace(-8.0, 8.0, 321, dtype=torch.float64)
FORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "module": nn.ReLU(),
    "module in place": nn.ReLU(inplace=True),
    "function": functional.relu,
    "function in place": lambda x: functional.relu(x, inplace=True),
    "torch": torch.relu,
    "torch in place": torch.relu_,
    "method": Tensor.relu,
    "method in place": Tensor.relu_,
    "functional in place": functional.relu_,
}
CUTS: dict[str, tuple[Callable[[Tensor], Tensor], float, float]] = {
    "relu6 module": (nn.ReLU6(), 0.0, 6.0),
    "relu6 module in place": (nn.ReLU6(inplace=True), 0.0, 6.0),
    "relu6": (functional.relu6, 0.0, 6.0),
    "hardtanh": (nn.Hardtanh(), -1.0, 1.0),
    "hardtanh in place": (functional.hardtanh_, -1.0, 1.0),
    "hardtanh between": (lambda x: functional.hardtanh(x, -2.0, 3.0), -2.0, 3.0),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_relu_is_softplus_inside_and_relu_outside(form: str) -> None:
    relu, given = FORMS[form], POINTS.clone()
    with SoftReLU(4.0):
        soft = relu(given)
    torch.testing.assert_close(soft, torch.log1p(torch.exp(4.0 * POINTS)) / 4.0, rtol=1e-9, atol=1e-9)
    assert (soft is given) == ("in place" in form)
    assert torch.equal(relu(POINTS.clone()), POINTS.clamp(min=0))


@pytest.mark.parametrize("form", CUTS)
def test_what_is_bent_twice_is_softened_at_both_ends(form: str) -> None:
    cut, low, high = CUTS[form]
    given = POINTS.clone()
    with SoftReLU(4.0):
        soft = cut(given)
    assert (soft is given) == ("in place" in form)
    error = soft - POINTS.clamp(low, high)
    assert 0.1 < float(error.abs().max()) <= math.log(2) / 4.0
    assert ((soft > low - 1e-8) & (soft < high + 1e-8)).all()
    assert torch.equal(cut(POINTS.clone()), POINTS.clamp(low, high))


@pytest.mark.parametrize("beta", [1.0, 10.0, 100.0])
def test_a_unit_is_off_by_at_most_ln_two_over_beta(beta: float) -> None:
    with SoftReLU(beta):
        error = torch.relu(POINTS) - POINTS.clamp(min=0)
    assert float(error.min()) >= 0
    assert float(error.max()) == pytest.approx(math.log(2) / beta, rel=1e-9)  # at 0


class Net(nn.Module):
    """A ReLU of every kind, one of them on a tensor that is used again."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(3, 8), nn.Linear(8, 8), nn.Linear(8, 2)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.relu(self.first(x))
        return self.third(functional.relu(self.second(hidden)) + hidden).relu_()


def net() -> Net:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return Net().double().train()


def curvature(model: nn.Module, x: Tensor) -> Tensor:
    """v^T H v of the summed score at x, by two nested derivatives."""
    leaf, direction = x.clone().requires_grad_(), torch.ones_like(x)
    (gradient,) = torch.autograd.grad(model(leaf).sum(), leaf, create_graph=True)
    (second,) = torch.autograd.grad((gradient * direction).sum(), leaf, allow_unused=True, materialize_grads=True)
    return (second * direction).sum(1)


def test_gradients_of_a_relu_network_have_gradients() -> None:
    model, x = net(), torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(curvature(model, x), torch.zeros(6, dtype=torch.float64))
    with SoftReLU(5.0):
        found = curvature(model, x)
        width = 1e-4
        up, middle, down = (model(x + width * step).sum(1) for step in (1.0, 0.0, -1.0))
    assert float(found.abs().min()) > 1e-3
    torch.testing.assert_close(found, ((up - 2 * middle + down) / width**2).detach(), rtol=1e-4, atol=1e-5)


def test_the_sharper_the_closer() -> None:
    model, x = net(), torch.randn(50, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    hard, errors = model(x).detach(), []
    for beta in (5.0, 50.0, 500.0):
        with SoftReLU(beta):
            errors.append(float((model(x).detach() - hard).abs().max()))
    assert errors[0] > 0.05
    assert errors[1] < 0.2 * errors[0]
    assert errors[2] < 0.2 * errors[1]


def test_nothing_leaks_and_the_model_is_untouched() -> None:
    model = net()
    before, x = copy.deepcopy(model.state_dict()), torch.ones(2, 3, dtype=torch.float64)
    hard = model(x.clone()).detach()
    with pytest.raises(RuntimeError, match="mat1 and mat2"), SoftReLU(2.0):
        model(torch.ones(2, 4, dtype=torch.float64))
    with SoftReLU(2.0), SoftReLU(3.0):
        inner = torch.relu(torch.zeros(1))
    assert float(inner) == pytest.approx(math.log(2) / 3)
    assert torch.equal(model(x.clone()), hard)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_what_is_not_bent_stays() -> None:
    x = torch.tensor([[-1.0, 2.0, 0.5, -3.0]])
    with SoftReLU(1.0):
        assert torch.equal(functional.max_pool1d(x, 2), torch.tensor([[2.0, 0.5]]))
        assert torch.equal(x.clamp(min=0), torch.tensor([[0.0, 2.0, 0.5, 0.0]]))
        assert torch.equal(functional.leaky_relu(x, 0.5), torch.tensor([[-0.5, 2.0, 0.5, -1.5]]))


@pytest.mark.parametrize("beta", [0.0, -1.0, math.inf, math.nan, True, "10"])
def test_the_sharpness_must_be_positive(beta: object) -> None:
    with pytest.raises(SpecError, match="sharpness beta of SoftReLU must be a positive number, such as"):
        SoftReLU(beta)  # type: ignore[arg-type]
