"""TracIn: against a loop that loads every checkpoint, and against Captum, which forgets the bias and leaves the model changed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from captum.influence import TracInCP, TracInCPFast
from example_nets import context_of, explained, images, labels, slow_gradients, small_cnn, states, training_set
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from veracity.core.errors import InputError
from veracity.core.explainers import Cost, Need
from veracity.core.inputs import TensorInputs
from veracity.core.training import Checkpoint, Training
from veracity.explain.examples.tracin import TracIn

RATES = (0.5, 0.1, 0.02)
SEEDS = (3, 4, 5)


def checkpoints(bias: bool = True) -> tuple[Checkpoint, ...]:
    return tuple(Checkpoint(state, rate) for state, rate in zip(states(SEEDS, bias), RATES, strict=True))


def slow_tracin(layer: str, x: Tensor, y: Tensor, training: Training) -> Tensor:
    """Σ_c rate_c ∇l_c(x_n)ᵀ ∇l_c(x), loading each checkpoint and looping over inputs."""
    total = torch.zeros(len(x), len(training.labels), dtype=torch.float64)
    for checkpoint in training.checkpoints:
        model = small_cnn()
        model.load_state_dict(checkpoint.state)
        model.double()
        part = model.get_submodule(layer)
        past = slow_gradients(model, part, training.inputs.tensor.double(), training.labels)
        total += checkpoint.rate * slow_gradients(model, part, x.double(), y) @ past.T
    return total


@pytest.mark.parametrize("layer", [None, "linear", "dense", "conv2", "conv1"])
def test_the_literal_sum_of_products(layer: str | None) -> None:
    model, x, y, training = small_cnn(), images(5, 2), labels(5), training_set(checkpoints=checkpoints())
    found = explained(TracIn(layer=layer), model, x, y, training)
    expected = slow_tracin(layer or "linear", x, y, training)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))


def test_by_hand() -> None:
    """One feature, two classes, weights 0 in both checkpoints: gradients (∓x/2, ±x/2), so products ±x x'/2, and rates add up."""
    model = nn.Sequential(nn.Linear(1, 2, bias=False))
    zero = {"0.weight": torch.zeros(2, 1)}
    past = Training(
        TensorInputs(torch.tensor([[1.0], [2.0]])), torch.tensor([0, 1]), checkpoints=(Checkpoint(zero, 0.5), Checkpoint(zero, 1.5))
    )
    found = explained(TracIn(), model, torch.tensor([[3.0]]), torch.tensor([0]), past)
    torch.testing.assert_close(found, 2 * torch.tensor([[1.5, -3.0]], dtype=torch.float64))


def test_not_the_product_of_sums() -> None:
    """Two checkpoints whose features differ in sign: gradients cancel in their sum, and their products do not."""
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 2, bias=False))
    both = tuple(Checkpoint({"0.weight": torch.tensor([[sign]]), "1.weight": torch.zeros(2, 1)}) for sign in (1.0, -1.0))
    past = Training(TensorInputs(torch.tensor([[1.0], [2.0]])), torch.tensor([0, 1]), checkpoints=both)
    x, y = torch.tensor([[3.0]]), torch.tensor([0])
    total = torch.zeros(1, 2)
    for checkpoint in both:
        model.load_state_dict(checkpoint.state)
        total = total + slow_gradients(model, model[1], x, y)
    torch.testing.assert_close(total, torch.zeros(1, 2))
    torch.testing.assert_close(explained(TracIn(), model, x, y, past), torch.tensor([[3.0, -6.0]], dtype=torch.float64))


def test_the_model_keeps_its_weights() -> None:
    model = small_cnn().train()
    model.linear.weight.grad = marked = torch.ones_like(model.linear.weight)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    addresses = [parameter.data_ptr() for parameter in model.parameters()]
    context = context_of(3, training_set(checkpoints=checkpoints()))
    TracIn().check(model, images(3), labels(3), context)
    explained(TracIn(layer="conv2"), model, images(3), labels(3), training_set(checkpoints=checkpoints()))
    torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0)
    assert [parameter.data_ptr() for parameter in model.parameters()] == addresses
    assert all(module.training for module in model.modules())
    assert model.linear.weight.grad is marked
    assert bool((marked == 1).all())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def load(model: nn.Module, checkpoint: tuple[Mapping[str, Tensor], float]) -> float:
    model.load_state_dict(checkpoint[0])
    return checkpoint[1]


def test_captums_slow_tracin_is_ours() -> None:
    model, x, y, training = small_cnn(), images(5, 2), labels(5), training_set(checkpoints=checkpoints())
    theirs = TracInCP(
        small_cnn(9),
        TensorDataset(training.inputs.tensor, training.labels),
        [(one.state, one.rate) for one in training.checkpoints],
        checkpoints_load_func=load,
        layers=["linear"],
        loss_fn=nn.CrossEntropyLoss(reduction="none"),
        batch_size=12,
    ).influence((x, y))
    ours = explained(TracIn(), model, x, y, training)
    torch.testing.assert_close(ours, theirs.double(), rtol=1e-4, atol=1e-5 * float(ours.abs().max()))


@pytest.mark.parametrize("bias", [False, True])
def test_captums_fast_tracin_leaves_out_the_bias(bias: bool) -> None:
    """It agrees where the last layer has no bias, and differs where it has one; and its model ends at the last checkpoint."""
    x, y, training = images(5, 2), labels(5), training_set(checkpoints=checkpoints(bias))
    theirs_model = small_cnn(9, bias)
    fast = TracInCPFast(
        theirs_model,
        theirs_model.linear,
        TensorDataset(training.inputs.tensor, training.labels),
        [(one.state, one.rate) for one in training.checkpoints],
        checkpoints_load_func=load,
        loss_fn=nn.CrossEntropyLoss(reduction="sum"),
        batch_size=12,
    )
    theirs = fast.influence((x, y)).double()
    ours = explained(TracIn(), small_cnn(0, bias), x, y, training)
    near = torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5 * float(ours.abs().max()))
    assert near is not bias
    torch.testing.assert_close(theirs_model.linear.weight, states(SEEDS, bias)[-1]["linear.weight"])


def test_a_checkpoint_of_another_architecture() -> None:
    other = nn.Sequential(nn.Linear(2, 2)).state_dict()
    wide = dict(states((1,))[0]) | {"linear.weight": torch.zeros(4, 9)}
    for state, first in ((other, "conv1.weight"), (wide, "linear.weight")):
        training = training_set(checkpoints=(*checkpoints(), Checkpoint(state)))
        with pytest.raises(InputError, match=f"Checkpoint 3 of model 'Sequential' has another architecture: '{first}' is"):
            TracIn().check(small_cnn(), images(2), labels(2), context_of(2, training))
        with pytest.raises(InputError, match="another architecture"):
            TracIn().learn(small_cnn(), context_of(2, training))


def test_no_checkpoints() -> None:
    assert TracIn().needs == {Need.TRAINING, Need.CHECKPOINTS}
    with pytest.raises(InputError, match="tracin needs checkpoints of the training: pass checkpoints="):
        TracIn().check(small_cnn(), images(2), labels(2), context_of(2, training_set()))


def test_costs_a_pass_for_each_checkpoint() -> None:
    context = context_of(2, training_set(checkpoints=checkpoints()))
    settled = TracIn().specialise(small_cnn(), images(2), labels(2), context)
    assert settled.cost(torch.Size((1, 6, 6))) == Cost(forward=3)
    assert settled.spec() == TracIn().spec() == {"name": "tracin", "layer": None}
    learnt = settled.learn(small_cnn(), context)
    assert settled.facts(learnt, context) == [{"examples": 12, "parameters": 24, "checkpoints": 3}]
