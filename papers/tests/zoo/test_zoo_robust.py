from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from veracity.core.errors import InputError, SpecError
from veracity.demo import digits
from veracity.trainers.training import accuracy, initialised, train
from veracity_papers.zoo.robust import PGD, GradientPenalty, HessianPenalty, Plain, Scheme, train_robust

ALL: tuple[Scheme, ...] = (Plain(), GradientPenalty(), HessianPenalty(), PGD(radius=0.1, range=(0.0, 1.0), steps=2))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def linear() -> nn.Linear:
    """Logits (x1, 2 x2, 0)."""
    model = nn.Linear(2, 3, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]))
    return model


def smooth() -> nn.Sequential:
    return initialised(lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), seed=1).double()


def some(count: int = 5, size: int = 4) -> tuple[Tensor, Tensor]:
    return torch.rand(count, size, generator=seeded(2), dtype=torch.float64), torch.randint(0, 3, (count,), generator=seeded(3))


def value(scheme: Scheme, model: nn.Module, x: Tensor, y: Tensor, seed: int = 0) -> float:
    return float(scheme.loss(model, x, y, seeded(seed)).detach())


def hessian(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Of one sample's loss (d, d), one sample at a time."""
    return torch.autograd.functional.hessian(lambda point: cross_entropy(model(point[None]), y[None]), x)


def test_the_gradient_penalty_by_hand() -> None:
    # At zero the softmax is (1/3, 1/3, 1/3). Label 0: dl/dz = (-2/3, 1/3, 1/3), so dl/dx = (-2/3, 2/3), of squared length 8/9.
    # Label 2: dl/dz = (1/3, 1/3, -2/3), dl/dx = (1/3, 2/3), 5/9. The mean of both is 13/18.
    x, y = torch.zeros(2, 2), torch.tensor([0, 2])
    assert value(GradientPenalty(weight=2.0), linear(), x, y) == pytest.approx(math.log(3.0) + 2.0 * 13.0 / 18.0, abs=1e-6)
    assert value(GradientPenalty(weight=0.0), linear(), x, y) == pytest.approx(math.log(3.0), abs=1e-6)


def test_the_hessian_penalty_by_hand() -> None:
    # At zero diag p - p p^T has 2/9 on and -1/9 off its diagonal; with J = diag(1, 2) on two logits H = [[2/9, -2/9], [-2/9, 8/9]].
    x, y = torch.zeros(1, 2), torch.tensor([1])
    v = torch.randn(1, 1, 2, generator=seeded(5)).flatten()
    product = torch.tensor([[2.0, -2.0], [-2.0, 8.0]]) / 9.0 @ v
    expected = math.log(3.0) + 0.5 * float(product.square().sum())
    assert value(HessianPenalty(weight=0.5), linear(), x, y, seed=5) == pytest.approx(expected, abs=1e-6)


def test_the_hessian_penalty_is_that_of_the_whole_hessian() -> None:
    model, (x, y) = smooth(), some()
    v = torch.randn(1, 5, 4, generator=seeded(7), dtype=torch.float64)[0]
    slow = [(hessian(model, point, label) @ one).square().sum() for point, label, one in zip(x, y, v, strict=True)]
    expected = float(cross_entropy(model(x), y).detach()) + 3.0 * float(torch.stack(slow).mean().detach())
    assert value(HessianPenalty(weight=3.0), model, x, y, seed=7) == pytest.approx(expected, rel=1e-10)


def test_the_hessian_products_are_differences_of_gradients() -> None:
    model, (x, y) = smooth(), some()
    v = torch.randn(1, 5, 4, generator=seeded(7), dtype=torch.float64)[0]

    def gradient(at: Tensor) -> Tensor:
        at = at.detach().requires_grad_()
        return torch.autograd.grad(cross_entropy(model(at), y, reduction="sum"), at)[0]

    product = (gradient(x + 1e-5 * v) - gradient(x - 1e-5 * v)) / 2e-5
    expected = float(cross_entropy(model(x), y).detach()) + float(product.square().sum(dim=1).mean())
    assert value(HessianPenalty(weight=1.0), model, x, y, seed=7) == pytest.approx(expected, rel=1e-7)


def test_many_directions_measure_the_frobenius_norm() -> None:
    model, (x, y) = smooth(), some(2)
    norm = torch.stack([hessian(model, point, label).square().sum() for point, label in zip(x, y, strict=True)]).mean()
    measured = value(HessianPenalty(weight=1.0, draws=4000), model, x, y) - float(cross_entropy(model(x), y).detach())
    assert measured == pytest.approx(float(norm), rel=0.1)


def test_a_relu_network_is_curved_by_its_softmax_alone() -> None:
    model = initialised(lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), seed=1).double()
    x, y = some(1)
    jacobian = torch.autograd.functional.jacobian(lambda point: model(point[None])[0], x[0])
    p = model(x)[0].softmax(dim=0).detach()
    v = torch.randn(1, 1, 4, generator=seeded(9), dtype=torch.float64).flatten()
    product = jacobian.T @ (p.diag() - p[:, None] * p) @ jacobian @ v
    expected = float((cross_entropy(model(x), y) + product.square().sum()).detach())
    assert value(HessianPenalty(weight=1.0), model, x, y, seed=9) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("scheme", [GradientPenalty(weight=1.0), HessianPenalty(weight=1.0), HessianPenalty(weight=1.0, draws=3)])
def test_penalties_reach_the_weights(scheme: Scheme) -> None:
    model, (x, y) = smooth(), some()
    weight = model[0].get_parameter("weight")
    (found,) = torch.autograd.grad(scheme.loss(model, x, y, seeded()), weight)
    change = torch.randn(weight.shape, generator=seeded(4), dtype=torch.float64)
    around = []
    for sign in (1.0, -1.0):
        moved = smooth()
        with torch.no_grad():
            moved[0].get_parameter("weight").add_(change, alpha=sign * 1e-5)
        around.append(value(scheme, moved, x, y))
    assert float((found * change).sum()) == pytest.approx((around[0] - around[1]) / 2e-5, rel=1e-5)


def test_the_attack_stays_inside_and_raises_the_loss() -> None:
    x, y = (part[:64] for part in digits())
    model = train(initialised(lambda: nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), 10)), 0), x, y, epochs=20, rate=0.01)
    worst = PGD(radius=0.1, range=(0.0, 1.0)).worst(model, x, y, seeded())
    assert float((worst - x).abs().max()) <= 0.1 + 1e-6
    assert float(worst.min()) >= 0.0
    assert float(worst.max()) <= 1.0
    with torch.no_grad():
        gained = cross_entropy(model(worst), y, reduction="none") - cross_entropy(model(x), y, reduction="none")
    assert bool((gained > 0).all())
    assert not worst.requires_grad


def test_the_attack_finds_the_corner_of_a_linear_model() -> None:
    # Two classes: the loss falls with the margin w . x, so that the worst case is the corner x - r sign(w), cut at the range.
    model = nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, -2.0, 3.0], [0.0, 0.0, 0.0]]))
    x = torch.tensor([[0.5, 0.5, 0.05], [0.2, 0.95, 0.9]])
    worst = PGD(radius=0.1, range=(0.0, 1.0), steps=4).worst(model, x, torch.tensor([0, 0]), seeded())
    assert torch.allclose(worst, torch.tensor([[0.4, 0.6, 0.0], [0.1, 1.0, 0.8]]), atol=1e-6)


def test_the_loss_of_pgd_is_that_of_its_worst_case_one_step_by_hand() -> None:
    model, (x, y) = smooth(), some()
    start = torch.rand(5, 4, generator=seeded(), dtype=torch.float64)
    low, high = (x - 0.2).clamp(min=0.0), (x + 0.2).clamp(max=1.0)
    point = (low + (high - low) * start).requires_grad_()
    (gradient,) = torch.autograd.grad(cross_entropy(model(point), y), point)
    expected = cross_entropy(model(torch.minimum(torch.maximum(point + 0.15 * gradient.sign(), low), high)), y)
    assert value(PGD(radius=0.2, range=(0.0, 1.0), steps=1, step=0.15), model, x, y) == pytest.approx(float(expected.detach()), rel=1e-10)
    usual, stated = (PGD(radius=0.2, range=(0.0, 1.0), steps=5, step=step) for step in (None, 0.1))
    assert value(usual, model, x, y) == value(stated, model, x, y)


def test_the_attack_leaves_batch_statistics_and_gradients_alone() -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3)).double().train()
    x, y = some()
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    PGD(radius=0.1, range=(0.0, 1.0)).worst(model, x, y, seeded())
    assert all(torch.equal(before[key], tensor) for key, tensor in model.state_dict().items())
    assert all(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(state, torch.get_rng_state())  # no dropout mask was drawn, nor anything else


@pytest.mark.parametrize("scheme", ALL, ids=lambda scheme: type(scheme).__name__)
def test_training_in_a_scheme_follows_from_the_seed(scheme: Scheme) -> None:
    x, y = (part[:300] for part in digits())
    state = torch.get_rng_state()

    def fitted(seed: int) -> nn.Module:
        model = initialised(lambda: nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), 16), nn.Tanh(), nn.Linear(16, 10)), 0)
        return train_robust(model, x, y, scheme, epochs=5, batch=50, rate=0.03, seed=seed)

    one, again, other = fitted(0), fitted(0), fitted(1)
    assert torch.equal(one(x), again(x))
    assert not torch.equal(one(x), other(x))
    assert torch.equal(state, torch.get_rng_state())
    assert accuracy(one, x, y) > 0.8
    assert not one.training


def test_the_plain_scheme_is_the_ordinary_training() -> None:
    x, y = (part[:100] for part in digits())
    build = lambda: nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), 10), nn.Dropout(0.1))  # noqa: E731
    ordinary = train(initialised(build, 0), x, y, epochs=2)
    assert torch.equal(train_robust(initialised(build, 0), x, y, Plain(), epochs=2)(x), ordinary(x))


def test_each_scheme_flattens_what_it_penalises() -> None:
    x, y = (part[:300] for part in digits())

    def fitted(scheme: Scheme) -> nn.Module:
        model = initialised(lambda: nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), 16), nn.Tanh(), nn.Linear(16, 10)), 0)
        return train_robust(model, x, y, scheme, epochs=10, batch=50, rate=0.03)

    plain = fitted(Plain())
    attack = PGD(radius=0.15, range=(0.0, 1.0))
    for scheme, measure in (
        (GradientPenalty(weight=0.3), GradientPenalty(weight=1.0)),
        (HessianPenalty(weight=0.3), HessianPenalty(weight=1.0, draws=20)),
    ):
        robust = fitted(scheme)
        rough, flat = (value(measure, model, x, y) - value(Plain(), model, x, y) for model in (plain, robust))
        assert flat < 0.5 * rough
    assert value(attack, fitted(attack), x, y) < 0.7 * value(attack, plain, x, y)


@pytest.mark.parametrize(
    ("scheme", "settings", "sentence"),
    [
        (GradientPenalty, {"weight": -1.0}, "The setting 'weight' of GradientPenalty must be a number of at least 0, not -1.0."),
        (HessianPenalty, {"weight": math.nan}, "The setting 'weight' of HessianPenalty must be a finite number of at least 0, not nan."),
        (HessianPenalty, {"draws": 0}, "The setting 'draws' of HessianPenalty must be a whole number of at least 1, not 0."),
        (PGD, {"radius": 0.1, "range": (0.0, 1.0), "steps": 0}, "The setting 'steps' of PGD must be a whole number of at least 1, not 0."),
        (PGD, {"radius": 0.0, "range": (0.0, 1.0)}, "The setting 'radius' of PGD must be a positive number, not 0.0."),
    ],
)
def test_wrong_settings_are_one_sentence(scheme: type[Scheme], settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError) as error:
        scheme(**settings)
    assert str(error.value) == sentence


def test_inputs_outside_the_range_are_said() -> None:
    with pytest.raises(InputError, match=r"1 of 2 samples leave the ball's range, 0 to 1"):
        train_robust(linear(), torch.tensor([[0.0, 2.0], [0.0, 1.0]]), torch.tensor([0, 1]), PGD(radius=0.1, range=(0.0, 1.0)), epochs=1)


def test_labels_are_as_one_hot_targets() -> None:
    model, (x, y) = smooth(), some()
    slow = -(one_hot(y, 3) * model(x).log_softmax(dim=1)).sum(dim=1).mean()
    assert value(Plain(), model, x, y) == pytest.approx(float(slow.detach()))
