from __future__ import annotations

from functools import partial

import pytest
import torch
from shift_invariant import context_of
from torch import Tensor, nn
from torch.func import functional_call, vmap

from veracity.core.explainers import Context, Explainer
from veracity.explain import (
    Gradient,
    GradientShap,
    GuidedBackprop,
    InputXGradient,
    InputXSaliency,
    IntegratedGradients,
    Lime,
    LRPEpsilon,
    Precomputed,
    Saliency,
    SmoothGrad,
    stacked,
)
from veracity.explain.gradients import QUADRATURES

COPIES, ROWS = 4, 5
FORMS: list[Explainer] = [
    Gradient(),
    Saliency(),
    InputXGradient(),
    InputXSaliency(),
    *[IntegratedGradients(steps=6, method=method, baseline=0.1) for method in QUADRATURES],
    SmoothGrad(draws=3, noise=0.1),
    SmoothGrad(draws=3, sigma=0.2),
    GradientShap(draws=3),
    GradientShap(draws=3, noise=0.2, baselines=torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(2))),
]


def small_net() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 2), nn.Softplus()]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(16, 3)).eval()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(ROWS, 1, 8, 8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    "explainer", FORMS, ids=lambda one: getattr(one, "method", one.name) if isinstance(one, IntegratedGradients) else one.name
)
def test_copies_at_once_are_the_copies_one_by_one(explainer: Explainer, x: Tensor) -> None:
    net, targets, context = small_net(), torch.arange(ROWS) % 3, context_of(ROWS, batch=4, draw=3)
    generator = torch.Generator().manual_seed(5)
    weights = {
        name: value.detach() * (1 + 0.2 * torch.randn(COPIES, *value.shape, generator=generator)) for name, value in net.named_parameters()
    }
    form = stacked(explainer)
    assert form is not None

    def one(copy: dict[str, Tensor]) -> Tensor:
        return form(lambda points: functional_call(net, copy, (points,)), x, targets, context)

    with torch.no_grad():
        found = vmap(one)(weights)
    assert found.shape == (COPIES, *x.shape)
    for copy in range(COPIES):
        own = small_net()
        own.load_state_dict({name: value[copy] for name, value in weights.items()}, strict=False)
        expected = explainer.explain(own, x, targets, context)
        apart = (found[copy] - expected).flatten(1).norm(dim=1) / expected.flatten(1).norm(dim=1)
        assert float(apart.max()) < 1e-5
    spread = (found[0] - found[1]).norm() / found[0].norm()
    assert float(spread) > 0.01


class Masked(nn.Module):
    """A score that depends on what belongs to the inputs and is not explained."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return (x.pow(2) * mask).sum(1, keepdim=True)


def test_structure_goes_along(x: Tensor) -> None:
    points, mask, targets = (
        x.flatten(1),
        torch.rand(ROWS, 64, generator=torch.Generator().manual_seed(3)),
        torch.zeros(ROWS, dtype=torch.long),
    )
    context = Context(context_of(ROWS).draws, 3, structure=(mask,))
    form = stacked(SmoothGrad(draws=2))
    assert form is not None
    torch.testing.assert_close(form(Masked(), points, targets, context), SmoothGrad(draws=2).explain(Masked(), points, targets, context))


def test_nothing_of_the_caller_changes(x: Tensor) -> None:
    net, before = small_net(), x.clone()
    form = stacked(IntegratedGradients(steps=2))
    assert form is not None
    form(partial(functional_call, net, dict(net.named_parameters())), x, torch.zeros(ROWS, dtype=torch.long), context_of(ROWS))
    assert torch.equal(x, before)
    assert not x.requires_grad
    assert all(value.grad is None for value in net.parameters())


def test_what_has_no_such_form() -> None:
    class Own(Gradient):
        """Somebody's subclass may do anything."""

    maps = torch.zeros(2, 3)
    assert [stacked(one) for one in (GuidedBackprop(), Lime(), LRPEpsilon(), Own(), Precomputed(maps=maps))] == [None] * 5
    assert stacked(Precomputed(maps=maps, explainer=Gradient())) is not None
