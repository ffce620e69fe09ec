from __future__ import annotations

import captum.attr
import pytest
import torch
from shift_invariant import Digits, context_of, explain
from torch import Tensor, nn
from torch.nn import functional

from veracity.core.errors import InputError
from veracity.core.targets import OutputFunction
from veracity.explain import DeepLift, InputXGradient


class FunctionalNet(nn.Module):
    def __init__(self, modules: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.relus = nn.ModuleList([nn.ReLU() for _ in range(modules)])

    def forward(self, x: Tensor) -> Tensor:
        for number, layer in enumerate(self.layers):
            x = self.relus[number](layer(x)) if number < len(self.relus) else functional.relu(layer(x))
        return x.flatten(1)


def one_by_one(model: nn.Module, x: Tensor, targets: Tensor) -> Tensor:
    method = captum.attr.DeepLift(model)
    return torch.cat([method.attribute(x[[row]], target=targets[[row]]) for row in range(len(x))]).detach()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(5, 4, generator=torch.Generator().manual_seed(0))


TARGETS = torch.tensor([0, 1, 2, 0, 1])


def test_by_hand() -> None:
    """relu(x - 1) from 0 to 3: Δout / Δin = 2 / 3, where the gradient is 1."""
    linear = nn.Linear(1, 1)
    linear.weight.data, linear.bias.data = torch.tensor([[1.0]]), torch.tensor([-1.0])
    net = nn.Sequential(linear, nn.ReLU())
    assert float(explain(DeepLift(), net, torch.tensor([[3.0]]), torch.tensor([0]))) == pytest.approx(2.0)
    assert float(explain(DeepLift(baseline=2.0), net, torch.tensor([[3.0]]), torch.tensor([0]))) == pytest.approx(1.0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("last", [nn.Identity(), nn.Softmax(1)], ids=["logits", "softmax"])
def test_captums_numbers_for_each_row_alone(x: Tensor, last: nn.Module) -> None:
    """Captum centres a softmax over the whole batch; here a batch gives what Captum gives row by row."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3), last)
    alone = one_by_one(net, x, TARGETS)
    torch.testing.assert_close(explain(DeepLift(), net, x, TARGETS), alone, rtol=1e-4, atol=1e-6)
    batch = captum.attr.DeepLift(net).attribute(x, target=TARGETS).detach()
    assert torch.allclose(batch, alone, rtol=1e-4, atol=1e-6) == isinstance(last, nn.Identity)


def test_differences_add_up(digits: Digits) -> None:
    """Without steps that lack a rule, the attributions sum to f(x) - f(0)."""
    net = nn.Sequential(*list(digits.model)[:4], nn.Flatten())
    x, targets = digits.inputs[:4], torch.tensor([700, 100, 5, 300])
    total = explain(DeepLift(), net, x, targets).sum((1, 2, 3))
    gap = (net(x) - net(torch.zeros_like(x))).gather(1, targets[:, None]).squeeze(1)
    torch.testing.assert_close(total, gap.detach(), rtol=1e-3, atol=1e-4)


def test_functional_relus_make_it_input_x_gradient_and_are_reported(x: Tensor) -> None:
    net = FunctionalNet(modules=0)
    same = explain(InputXGradient(), net, x, TARGETS)
    torch.testing.assert_close(explain(DeepLift(), net, x, TARGETS), same)
    (note,) = DeepLift().check(FunctionalNet(modules=1), x, TARGETS)
    assert note == (
        "deep_lift has no rule for 2 of 3 nonlinear steps of this model (relu x2). It uses the plain gradient there, "
        "so it tends to Input x Gradient: use modules such as nn.ReLU, one for each step."
    )
    assert DeepLift().check(FunctionalNet(modules=3), x, TARGETS) == ()


def test_a_module_of_another_type_has_no_rule(x: Tensor) -> None:
    class Mine(nn.ReLU):
        pass

    (note,) = DeepLift().check(nn.Sequential(nn.Linear(4, 3), Mine(), nn.GELU()), x, TARGETS)
    assert "2 of 2 nonlinear steps of this model (relu x1, gelu x1)" in note


def test_a_module_used_twice_is_refused(x: Tensor) -> None:
    relu = nn.ReLU()
    net = nn.Sequential(nn.Linear(4, 4), relu, nn.Linear(4, 3), relu)
    with pytest.raises(InputError, match="deep_lift cannot handle the module '1', which this model calls 2 times in one pass"):
        DeepLift().check(net, x, TARGETS)


def test_nothing_stays_on_modules_that_the_score_does_not_reach(x: Tensor) -> None:
    """Captum leaves what it noted on modules outside the backward pass, and everywhere after an error."""
    side = nn.ReLU()

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.main, self.side = nn.Sequential(nn.Linear(4, 3), nn.ReLU()), side

        def forward(self, x: Tensor) -> Tensor:
            self.side(x)
            return self.main(x)

    net = Two()
    DeepLift().explain(OutputFunction(net, lambda scores: scores[:, 0]), x, torch.zeros(5, dtype=torch.long), context_of(5))
    with pytest.raises(ZeroDivisionError):
        DeepLift().explain(OutputFunction(net, lambda scores: scores / (1 // 0)), x, torch.zeros(5, dtype=torch.long), context_of(5))
    for module in net.modules():
        assert not {"input", "output", "input_ref"} & set(vars(module))
        assert [len(hooks) for key, hooks in vars(module).items() if key.endswith("_hooks") and hooks] == []
