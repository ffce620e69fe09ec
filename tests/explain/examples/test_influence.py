"""Influence functions: against retraining, against loops with autograd, and each way to solve against the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from captum.influence import NaiveInfluenceFunction
from example_nets import context_of, explained, images, labels, slow_curvature, slow_gradients, small_cnn, training_set
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot
from torch.utils.data import TensorDataset

from veracity.core.errors import InputError, SpecError
from veracity.core.inputs import TensorInputs
from veracity.core.targets import Outputs
from veracity.core.training import Training
from veracity.explain.examples import influence
from veracity.explain.examples.influence import InfluenceFunctions
from veracity.explain.examples.layer_gradients import LossLayer

L2 = 1e-2
COUNT = 1200


@dataclass(frozen=True)
class Convex:
    """Multinomial logistic regression at its minimum, fitted with an L2 term on all parameters."""

    x: Tensor
    y: Tensor
    test_x: Tensor
    test_y: Tensor
    weights: Tensor
    factor: Tensor

    @property
    def test(self) -> tuple[Tensor, Tensor]:
        return self.test_x, self.test_y


def objective_gradient(weights: Tensor, x: Tensor, y: Tensor, kept: Tensor) -> Tensor:
    """The gradient (m, 10, 65) of (1/n) Σ kept_n l_n + L2/2 |θ|² for m problems with weights (m, 10, 65) and kept (m, n)."""
    residuals = ((x @ weights.mT).softmax(-1) - one_hot(y, 10)) * kept[:, :, None]
    return residuals.mT @ x / len(x) + L2 * weights


def minimised(start: Tensor, x: Tensor, y: Tensor, kept: Tensor, factor: Tensor) -> Tensor:
    """Newton's steps with the Hessian of the start, until every gradient's norm is below 1e-10."""
    weights = start
    for _ in range(100):
        gradient = objective_gradient(weights, x, y, kept).flatten(1)
        if float(gradient.norm(dim=1).max()) < 1e-10:
            return weights
        weights = weights - torch.cholesky_solve(gradient.T, factor).T.reshape(weights.shape)
    raise AssertionError("the retraining did not converge")


def hessian_factor(weights: Tensor, x: Tensor) -> Tensor:
    p = (x @ weights.T).softmax(-1)
    within = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    hessian = torch.einsum("nkl,ni,nj->kilj", within, x, x).reshape(650, 650) / len(x)
    return torch.linalg.cholesky(hessian + L2 * torch.eye(650, dtype=torch.float64))


@pytest.fixture(scope="module")
def convex() -> Convex:
    data = load_digits()
    x = torch.tensor(data.data / 16)
    x, y = torch.cat((x, torch.ones(len(x), 1)), dim=1), torch.tensor(data.target)
    train, kept = x[:COUNT], torch.ones(1, COUNT)
    weights = torch.zeros(10, 65, dtype=torch.float64)
    for _ in range(8):
        factor = hessian_factor(weights, train)
        gradient = objective_gradient(weights[None], train, y[:COUNT], kept).flatten(1)
        weights = weights - torch.cholesky_solve(gradient.T, factor).T.reshape(10, 65)
    factor = hessian_factor(weights, train)
    assert objective_gradient(weights[None], train, y[:COUNT], kept).norm() < 1e-10
    return Convex(train, y[:COUNT], x[COUNT : COUNT + 80], y[COUNT : COUNT + 80], weights, factor)


def as_model(weights: Tensor) -> nn.Module:
    layer = nn.Linear(64, 10).double()
    with torch.no_grad():
        layer.weight.copy_(weights[:, :64])
        layer.bias.copy_(weights[:, 64])
    return nn.Sequential(layer).eval()


def test_leave_one_out_retraining(convex: Convex) -> None:
    """60 of 1,200 examples are left out in turn, and the model trained again without each: Δ loss = e_n / n to first order."""
    model = as_model(convex.weights)
    training = Training(TensorInputs(convex.x[:, :64]), convex.y)
    found = explained(InfluenceFunctions(l2=L2), model, convex.test_x[:, :64], convex.test_y, training) / COUNT
    left_out = found.abs().sum(0).argsort(descending=True)[:: COUNT // 60][:60]
    kept = torch.ones(60, COUNT, dtype=torch.float64)
    kept[torch.arange(60), left_out] = 0
    again = minimised(convex.weights.expand(60, 10, 65), convex.x, convex.y, kept, convex.factor)
    assert objective_gradient(again, convex.x, convex.y, kept).flatten(1).norm(dim=1).max() < 1e-10

    def losses(weights: Tensor) -> Tensor:
        return cross_entropy((convex.test_x @ weights.mT).mT, convex.test_y.expand(len(weights), -1), reduction="none")

    actual = (losses(again) - losses(convex.weights[None])).T.numpy()
    predicted = found[:, left_out].numpy()
    assert np.corrcoef(predicted.ravel(), actual.ravel())[0, 1] >= 0.99
    assert np.polyfit(actual.ravel(), predicted.ravel(), 1)[0] == pytest.approx(1, abs=0.1)
    assert min(np.corrcoef(one, other)[0, 1] for one, other in zip(predicted, actual, strict=True)) >= 0.99
    past, now = (slow_gradients(model, model, x[:, :64], y) for x, y in ((convex.x[left_out], convex.y[left_out]), convex.test))
    assert np.corrcoef((now @ past.T).numpy().ravel(), actual.ravel())[0, 1] < 0.9, "the Hessian must matter here"


def test_by_hand() -> None:
    """One feature, two classes, zero weights: p = 1/2, gradients ±x/2, H = x²/4 (1, -1; -1, 1) in the mean, plus l2."""
    model = nn.Sequential(nn.Linear(1, 2, bias=False)).double()
    nn.init.zeros_(model[0].weight)
    training = Training(TensorInputs(torch.tensor([[1.0], [2.0]], dtype=torch.float64)), torch.tensor([0, 1]))
    found = explained(InfluenceFunctions(l2=0.5), model, torch.tensor([[3.0]], dtype=torch.float64), torch.tensor([0]), training)
    steep = (1 + 4) / 2 / 4 * 2 + 0.5
    torch.testing.assert_close(found, torch.tensor([[1 * 3 / 2 / steep, -2 * 3 / 2 / steep]], dtype=torch.float64))


@pytest.mark.parametrize("layer", [None, "linear", "dense", "conv2", "conv1"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_the_literal_formula(layer: str | None, dtype: torch.dtype) -> None:
    model, training, x, y = small_cnn().to(dtype), training_set(), images(5, 2).to(dtype), labels(5)
    training = Training(TensorInputs(training.inputs.tensor.to(dtype)), training.labels)
    found = explained(InfluenceFunctions(layer=layer, l2=0.02), model, x, y, training)
    slow, part = small_cnn().double(), model.get_submodule(layer or "linear")
    part = slow.get_submodule(layer or "linear")
    past = slow_gradients(slow, part, training.inputs.tensor.double(), training.labels)
    curvature = slow_curvature(slow, part, training.inputs.tensor.double(), 0.02)
    expected = slow_gradients(slow, part, x.double(), y) @ torch.linalg.solve(curvature, past.T)
    close = 1e-4 if dtype is torch.float32 else 1e-9
    torch.testing.assert_close(found, expected, rtol=close, atol=close * float(expected.abs().max()))
    assert found.dtype is torch.float64


def test_the_last_layers_curvature_is_the_hessian() -> None:
    """By double backward through the model, all weights of the last layer at once."""
    model, training = small_cnn().double(), training_set(9)
    x, y = training.inputs.tensor.double(), training.labels

    def loss(weight: Tensor, bias: Tensor) -> Tensor:
        return cross_entropy(torch.func.functional_call(model, {"linear.weight": weight, "linear.bias": bias}, (x,)), y)

    parts = torch.autograd.functional.hessian(loss, (model.linear.weight.detach(), model.linear.bias.detach()))
    hessian = torch.cat([torch.cat([part.reshape(size, -1) for part in row], 1) for row, size in zip(parts, (20, 4), strict=True)])
    curvature = slow_curvature(model, model.linear, x, 0.0)
    torch.testing.assert_close(curvature, hessian, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("layer", ["linear", "dense", "conv2"])
def test_every_way_to_solve(layer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the parameters, by the examples, by conjugate gradients; with rows of curvature kept and made again."""
    model, x, y = small_cnn(), images(4, 2), labels(4)
    explainer = InfluenceFunctions(layer=layer, l2=0.05, tolerance=1e-11)
    many, few = training_set(30), training_set(3)
    by_parameters, by_examples = (explained(explainer, model, x, y, given) for given in (many, few))
    monkeypatch.setattr(influence, "STORED_NUMBERS", 0)
    torch.testing.assert_close(explained(explainer, model, x, y, few, batch=5), by_examples, rtol=1e-5, atol=1e-9)
    monkeypatch.setattr(influence, "LARGEST_SYSTEM", 3)
    for given, expected, batch in ((few, by_examples, 5), (many, by_parameters, 100)):
        close = {"rtol": 1e-5, "atol": 1e-6 * float(expected.abs().max())}
        torch.testing.assert_close(explained(explainer, model, x, y, given, batch=batch), expected, **close)


def test_conjugate_gradients_say_when_they_are_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(influence, "LARGEST_SYSTEM", 3)
    with pytest.raises(
        InputError, match=r"relative residual of .* after 2 iterations, above the tolerance 1.0e-08: raise l2 \(now 1e-05\)"
    ):
        explained(InfluenceFunctions(l2=1e-5, iterations=2), small_cnn(), images(2), labels(2), training_set())


def test_probabilities_and_log_probabilities_are_logits_in_other_clothes() -> None:
    model, x, y, training = small_cnn(), images(4, 2), labels(4), training_set()
    plain = explained(InfluenceFunctions(), model, x, y, training)
    for tail, outputs in ((nn.Softmax(1), Outputs.PROBABILITIES), (nn.LogSoftmax(1), Outputs.LOGITS)):
        for layer in (None, "0.linear"):
            found = explained(InfluenceFunctions(layer=layer), nn.Sequential(model, tail), x, y, training, outputs=outputs)
            torch.testing.assert_close(found, plain, rtol=1e-4, atol=1e-5 * float(plain.abs().max()))


def test_sure_predictions_still_have_an_influence() -> None:
    """A margin of 120: the residual is 1e-52, which float32 takes for zero."""
    model = nn.Sequential(nn.Linear(2, 2, bias=False))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    training = Training(TensorInputs(torch.tensor([[0.5, 0.0], [0.0, 0.5]])), torch.tensor([0, 1]))
    found = explained(InfluenceFunctions(), model, torch.tensor([[120.0, 0.0]]), torch.tensor([0]), training)
    assert 0 < found[0, 0] < 1e-40


def test_captums_naive_influence_is_the_same_by_other_scales() -> None:
    """Captum sums where we average, so its Hessian is n times ours and its `hessian_reg` n l2; it must be told to keep every direction."""
    model, x, y = small_cnn().double(), images(6, 2).double(), labels(6)
    past = training_set(40)
    inputs, count, l2 = past.inputs.tensor.double(), 40, 0.05
    ours = explained(InfluenceFunctions(l2=l2), model, x, y, Training(TensorInputs(inputs), past.labels)) / count
    settings = {
        "layers": ["linear"],
        "loss_fn": nn.CrossEntropyLoss(reduction="none"),
        "batch_size": 40,
        "hessian_reg": count * l2,
        "hessian_inverse_tol": 0.0,
    }

    def theirs(rank: int) -> Tensor:
        with torch.random.fork_rng(devices=[]):
            made = NaiveInfluenceFunction(
                small_cnn().double(), TensorDataset(inputs, past.labels), "", lambda *_: 1.0, projection_dim=rank, **settings
            )
            return made.influence((x, y)).detach()

    torch.testing.assert_close(theirs(24), ours, rtol=1e-5, atol=1e-9)
    assert (theirs(5) - ours).abs().max() > 1e-3 * ours.abs().max(), "a truncated inverse leaves out what l2 leaves in"


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(SpecError, match="'l2' of explainer 'influence_functions' must be a positive number, not 0"):
        InfluenceFunctions(l2=0)
    with pytest.raises(SpecError, match="'tolerance' of explainer 'influence_functions'"):
        InfluenceFunctions(tolerance=0)


def test_facts_say_what_was_solved() -> None:
    context = context_of(2, training_set())
    explainer = InfluenceFunctions(l2=0.3)
    learnt = explainer.learn(small_cnn(), context)
    assert explainer.facts(learnt, context) == [{"examples": 12, "parameters": 24, "l2": 0.3}]
    assert LossLayer.restore(small_cnn(), None, Outputs.LOGITS, learnt["place"]).affine
