from __future__ import annotations

import random
from functools import partial

import captum.attr
import numpy as np
import pytest
import torch
from shift_invariant import Digits, context_of, explain
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import Context
from veracity.core.randomness import Draws, seeded
from veracity.explain import CaptumMethod, Function, IntegratedGradients, as_explainer


def noisy(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return torch.rand_like(inputs) + float(np.random.rand()) + random.random()  # noqa: NPY002 - foreign code does such things


def scaled(model: nn.Module, inputs: Tensor, targets: Tensor, factor: float) -> Tensor:
    return factor * inputs


def returning(value: object) -> Function:
    return Function(function=lambda model, inputs, targets: value, label="mine")


@pytest.fixture
def net() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(8, 3))


X, TARGETS = torch.randn(4, 2, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 0])


def test_a_captum_class_gives_captums_numbers(digits: Digits) -> None:
    x, targets = digits.inputs[:3], digits.targets[:3]
    foreign = CaptumMethod(attribution=captum.attr.IntegratedGradients, settings={"n_steps": 50}, random=False)
    torch.testing.assert_close(
        explain(foreign, digits.model, x, targets), explain(IntegratedGradients(), digits.model, x, targets), rtol=1e-4, atol=1e-6
    )


def test_a_factory_may_need_a_layer(digits: Digits) -> None:
    def guided(model: nn.Module) -> captum.attr.GuidedGradCam:
        return captum.attr.GuidedGradCam(model, model[4])

    foreign = as_explainer(guided)
    assert foreign.name == "guided"
    assert not foreign.check(digits.model, digits.inputs[:2], digits.targets[:2])
    assert explain(foreign, digits.model, digits.inputs[:2], digits.targets[:2]).abs().sum() > 0


def test_random_code_is_seeded_by_the_first_row_and_leaves_the_global_state(net: nn.Module) -> None:
    explainer = Function(function=noisy)
    torch.manual_seed(5)
    before = (torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate())  # noqa: NPY002
    one, same, other = (explain(explainer, net, X, TARGETS, draw=draw) for draw in (0, 0, 1))
    after = (torch.get_rng_state(), np.random.get_state()[1], random.getstate())  # noqa: NPY002
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(before[0], after[0])
    assert (before[1] == after[1]).all()
    assert before[2] == after[2]
    shifted = explainer.explain(net, X, TARGETS, Context(Draws.of(0, torch.arange(1, 5)), 100))
    assert not torch.equal(one, shifted)


def test_the_random_state_is_restored_after_an_error() -> None:
    before = (torch.get_rng_state(), random.getstate())
    with pytest.raises(ValueError, match="inside"), seeded(3):
        raise ValueError("inside")
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()


def test_check_says_what_it_found(net: nn.Module) -> None:
    (note,) = Function(function=noisy).check(net, X, TARGETS)
    assert note.startswith("noisy draws from the global random state, so its numbers depend on the batch size")
    assert Function(function=partial(scaled, factor=2.0)).check(net, X, TARGETS) == []
    (note,) = Function(function=lambda model, inputs, targets: inputs / 0, label="mine").check(net, X, TARGETS)
    assert note == "mine returned NaN or infinity for some inputs."
    with pytest.raises(InputError, match="noisy is declared random=False, but two runs with different seeds differ"):
        Function(function=noisy, random=False).check(net, X, TARGETS)


def test_what_is_declared_is_what_the_engine_reads() -> None:
    assert Function(function=noisy).stochastic
    assert Function(function=noisy).batch_dependent
    still = Function(function=noisy, random=False, forward=51, backward=50)
    assert not still.stochastic
    assert not still.batch_dependent
    assert still.cost(X[0].shape).forward == 51


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (None, r"mine returned NoneType, expected a real tensor of shape \(2, 2, 4\)"),
        (torch.zeros(2, 3), r"mine returned shape \(2, 3\), expected a real tensor of shape \(2, 2, 4\)"),
        (torch.zeros(1, 2, 4), r"mine returned shape \(1, 2, 4\)"),
        (torch.zeros(2, 2, 3), r"mine returned shape \(2, 2, 3\)"),
        (torch.zeros(2, 2, 4, dtype=torch.complex64), "mine returned complex numbers"),
    ],
    ids=["nothing", "axes", "rows", "size", "complex"],
)
def test_other_shapes_are_refused(net: nn.Module, value: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        returning(value).check(net, X, TARGETS)


def test_axes_of_one_are_repeated_and_arrays_taken(net: nn.Module) -> None:
    maps = np.array([[[1, 2, 3, 4]], [[5, 6, 7, 8]]])
    found = returning(maps).explain(net, X[:2], TARGETS[:2], context_of(2))
    assert found.dtype == torch.float32
    assert found[1].tolist() == [[5.0, 6.0, 7.0, 8.0], [5.0, 6.0, 7.0, 8.0]]


def test_failures_are_one_sentence(net: nn.Module) -> None:
    def broken(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        raise KeyError("nothing\nhere")

    with pytest.raises(InputError, match=r"^broken failed on 2 inputs with KeyError: .*nothing.*here"):
        Function(function=broken).check(net, X, TARGETS)
    with pytest.raises(InputError, match="must make a Captum Attribution from a model, but returned int"):
        CaptumMethod(attribution=lambda model: 3, label="mine").check(net, X, TARGETS)
    with pytest.raises(InputError, match=r"layered gives attributions of a layer, of shape \(1,\), which have no place in an input"):
        CaptumMethod(attribution=lambda model: captum.attr.LayerGradCam(model, model[1]), label="layered").check(net, X, TARGETS)


def test_functions_may_do_anything_to_their_arguments(net: nn.Module) -> None:
    def rude(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        inputs.mul_(2)
        targets.zero_()
        model.train()
        model(inputs.requires_grad_()).sum().backward()
        return inputs.grad

    x, targets, rude_one = X.clone(), TARGETS.clone(), Function(function=rude)
    net.eval()
    rude_one.explain(net, x, targets, context_of(4))
    assert torch.equal(x, X)
    assert torch.equal(targets, TARGETS)
    assert not net.training
    assert all(weight.grad is None for weight in net.parameters())


def test_what_a_call_leaves_behind_does_not_reach_the_next_batch(net: nn.Module) -> None:
    def doubling(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        model.register_forward_hook(lambda module, given, output: 2 * output)
        return inputs * model(inputs).sum(1).reshape(-1, 1, 1)

    together = Function(function=doubling).explain(net, X, TARGETS, context_of(4))
    apart = Function(function=doubling).explain(net, X, TARGETS, Context(Draws.of(0, torch.arange(4)), 1))
    torch.testing.assert_close(together, apart)
    assert not net._forward_hooks


def test_names_and_specs() -> None:
    assert CaptumMethod(attribution=captum.attr.InputXGradient).name == "input_x_gradient"
    assert Function(function=partial(scaled, factor=2.0)).name == "scaled"
    spec = CaptumMethod(attribution=captum.attr.LRP, settings={"verbose": False}).spec()
    assert spec["name"] == "lrp"
    assert spec["attribution"]["import"] == "captum.attr._core.lrp:LRP"
    assert len(spec["attribution"]["code"]) == 24
    assert spec["settings"] == {"verbose": False}
    two, three = (Function(function=partial(scaled, factor=factor)).spec()["function"]["code"] for factor in (2.0, 3.0))
    assert two != three
