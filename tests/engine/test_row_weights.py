"""Rows under weights of their own: what a copy gives whose parameters were set by hand, however the rows are divided."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from veracity.core.errors import InputError
from veracity.core.explainers import Context, Cost, Learner
from veracity.core.inputs import Signals, TensorInputs
from veracity.core.randomness import Draws
from veracity.core.registry import EXPLAINERS
from veracity.core.scores import Defaults, Reads
from veracity.core.targets import Custom, Neuron, Outputs, Predicted, Target
from veracity.engine.memory import Budget
from veracity.engine.perturbation import row_weights
from veracity.engine.perturbation.row_weights import explanations_each, outputs_each
from veracity.engine.problem import AuditedModel, Problem
from veracity.engine.reader import Reader
from veracity.explain import Fourier, GradientShap, IntegratedGradients, SmoothGrad
from veracity.perturb import WeightNeighbourhood
from veracity.walk import MonteCarlo

BOTH = frozenset({Reads.SCORES, Reads.OUTPUT})
FORMS: list[Any] = [
    "gradient",
    "saliency",
    "input_x_gradient",
    IntegratedGradients(steps=5),
    SmoothGrad(draws=4),
    GradientShap(draws=3, baselines=torch.randn(4, 1, 6, 6, generator=torch.Generator().manual_seed(5)), noise=0.1),
]
ROWS = 7


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        return make().eval()


def conv_net() -> nn.Module:
    parts = (nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 4))
    return seeded(lambda: nn.Sequential(*parts))


def tanh_net() -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 5), nn.Tanh(), nn.Linear(5, 3)))


def reader_of(model: nn.Module, explainer: Any = None, rows: int = 512, target: Target | None = None) -> Reader:
    inputs = torch.randn(3, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    audited = {"net": AuditedModel(model, "net", Outputs.LOGITS, torch.zeros(3, dtype=torch.long))}
    problem = Problem(audited, TensorInputs(inputs), {}, {}, target or Predicted(), Defaults(None, MonteCarlo(draws=2)), seed=11)
    return Reader(problem, "net", None if explainer is None else EXPLAINERS.build(explainer), Budget(rows), {})


def rows_of(model: nn.Module, count: int = ROWS) -> tuple[WeightNeighbourhood, Tensor, Signals, Tensor, Draws]:
    """Elements, inputs, targets and draws of some rows, all different."""
    space = WeightNeighbourhood(sigma=0.3).of(model)
    x = torch.randn(count, 1, 6, 6, generator=torch.Generator().manual_seed(3))
    draws = Draws(11, torch.arange(count) % 3, torch.arange(count) + 1)
    return space, space.sample(draws), Signals(x), torch.arange(count) % 3, draws


def by_hand(model: nn.Module, noise: Tensor) -> nn.Module:
    """A deep copy whose parameters were set one after the other, w (1 + noise), in the order of their names."""
    copy, place = deepcopy(model), 0
    for name, value in sorted(copy.named_parameters()):
        value.data = model.get_parameter(name).detach() * (1 + noise[place : place + value.numel()].reshape(value.shape).float())
        place += value.numel()
    return copy


def slowly_explained(reader: Reader, elements: Tensor, x: Signals, targets: Tensor, draws: Draws) -> Tensor:
    found = []
    for row in range(len(x)):
        here = slice(row, row + 1)
        found.append(reader.on(by_hand(reader.module, elements[row])).with_lesson().explanation(x[here], targets[here], draws[here]))
    return torch.cat(found)


def slowly_read(reader: Reader, elements: Tensor, x: Signals) -> dict[Reads, Tensor]:
    found = [reader.on(by_hand(reader.module, elements[row])).outputs(BOTH, x[row : row + 1], None) for row in range(len(x))]
    return {what: torch.cat([one[what] for one in found]).detach() for what in BOTH}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which way rows went: a word for each mapped call."""
    seen: list[str] = []
    under = row_weights.under

    def noted(copy: Reader, function: Callable[..., Any]) -> Callable[..., Any]:
        seen.append("mapped")
        return under(copy, function)

    monkeypatch.setattr(row_weights, "under", noted)
    return seen


@pytest.mark.parametrize("net", [tanh_net, conv_net])
@pytest.mark.parametrize("rows", [1, 3, 512])
def test_outputs_are_those_of_copies_made_by_hand(net: Callable[[], nn.Module], rows: int, calls: list[str]) -> None:
    model = net()
    space, elements, x, _, _ = rows_of(model)
    reader = reader_of(model, rows=rows)
    found, expected = outputs_each(reader, space, elements, x, BOTH), slowly_read(reader, elements, x)
    assert set(found) == BOTH
    for what, value in expected.items():
        torch.testing.assert_close(found[what], value, rtol=1e-4, atol=1e-5)
        assert not found[what].requires_grad
    plain = x.through(model)
    assert (found[Reads.SCORES] - plain).abs().max() > 0.1
    torch.testing.assert_close(found[Reads.OUTPUT].sum(1), torch.ones(ROWS))
    assert len(calls) == 1 + -(-ROWS // rows)  # a trial, and one call for as many rows as fit


@pytest.mark.parametrize("explainer", FORMS, ids=str)
@pytest.mark.parametrize("rows", [1, 6, 512])
def test_mapped_explanations_are_those_of_copies_made_by_hand(explainer: Any, rows: int, calls: list[str]) -> None:
    model = conv_net()
    space, elements, x, targets, draws = rows_of(model)
    reader = reader_of(model, explainer, rows)
    found = explanations_each(reader, space, elements, x, targets, draws)
    torch.testing.assert_close(found, slowly_explained(reader, elements, x, targets, draws), rtol=1e-3, atol=1e-5)
    assert len(calls) > 1
    assert found.shape == x.values.shape
    assert not found.requires_grad


@pytest.mark.parametrize("explainer", ["deep_lift", "occlusion", {"name": "grad_cam", "layer": "0"}])
def test_explainers_without_a_stacked_form_go_row_by_row(explainer: Any, calls: list[str]) -> None:
    model = conv_net()
    space, elements, x, targets, draws = rows_of(model, 4)
    reader = reader_of(model, explainer)
    found = explanations_each(reader, space, elements, x, targets, draws)
    assert torch.equal(found, slowly_explained(reader, elements, x, targets, draws))
    assert calls == []


def test_few_bytes_divide_the_rows_and_change_nothing(monkeypatch: pytest.MonkeyPatch, calls: list[str]) -> None:
    model = tanh_net()
    space, elements, x, targets, draws = rows_of(model)
    reader = reader_of(model, "gradient")
    whole = explanations_each(reader, space, elements, x, targets, draws)
    assert len(calls) == 2
    monkeypatch.setattr(row_weights, "MOST_BYTES", 2 * 4 * space.latents)
    torch.testing.assert_close(explanations_each(reader, space, elements, x, targets, draws), whole, rtol=1e-5, atol=1e-6)
    assert len(calls) == 2 + 1 + 4  # seven rows, two by two
    monkeypatch.setattr(row_weights, "MOST_BYTES", 1)
    torch.testing.assert_close(outputs_each(reader, space, elements, x, BOTH)[Reads.SCORES], slowly_read(reader, elements, x)[Reads.SCORES])


def test_no_noise_is_the_model_itself_and_a_linear_score_moves_in_proportion() -> None:
    """f(x) = w x explained by its gradient is w (1 + sigma u) under relative noise, whatever x."""
    model = seeded(lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 3, bias=False)))
    space, elements, x, targets, draws = rows_of(model)
    reader = reader_of(model, "gradient")
    own = model[1].weight.detach()  # type: ignore[index]
    still = explanations_each(reader, space, torch.zeros_like(elements), x, targets, draws)
    torch.testing.assert_close(still.flatten(1), own[targets])
    found = explanations_each(reader, space, elements, x, targets, draws)
    noise = elements.reshape(ROWS, 3, 36)[torch.arange(ROWS), targets].float()
    torch.testing.assert_close(found.flatten(1), own[targets] * (1 + noise))


@pytest.mark.parametrize(
    "target", [Neuron(layer="2", unit=4), Custom(function=lambda out: out[:, 0] - out[:, 1])], ids=["neuron", "custom"]
)
def test_weights_are_exchanged_behind_views(target: Target, calls: list[str]) -> None:
    model = conv_net()
    space, elements, x, _, draws = rows_of(model)
    reader, targets = reader_of(model, "gradient", target=target), torch.zeros(ROWS, dtype=torch.long)
    for what, value in slowly_read(reader, elements, x).items():
        torch.testing.assert_close(outputs_each(reader, space, elements, x, BOTH)[what], value, rtol=1e-4, atol=1e-5)
    found = explanations_each(reader, space, elements, x, targets, draws)
    torch.testing.assert_close(found, slowly_explained(reader, elements, x, targets, draws), rtol=1e-3, atol=1e-5)
    assert len(calls) == 6
    layer = outputs_each(reader, space, elements, x, frozenset({Reads.REPRESENTATION}), "3")[Reads.REPRESENTATION]
    assert layer.shape == (ROWS, 12)


class Series(nn.Module):
    """A recurrent network, which has no mapped form."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(6, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.gru(x[:, 0])[0][:, -1])
        return scores


class Branching(nn.Module):
    """A network that looks at its own numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(36, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.net(x.flatten(1))
        return 2 * scores if bool(scores.sum() > 0) else scores


class Listed(nn.Module):
    """A network that reaches its parameters through a list, where nothing can be exchanged."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(36, 3)), nn.Parameter(torch.zeros(3) + 0.1)
        self.both = [self.weight, self.bias]

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x.flatten(1) @ self.both[0]) + self.both[1]


@pytest.mark.parametrize("kind", [Series, Branching, Listed])
def test_models_that_cannot_be_mapped_go_through_a_copy(kind: type[nn.Module], calls: list[str]) -> None:
    model = seeded(kind)
    space, elements, x, targets, draws = rows_of(model)
    reader = reader_of(model, "gradient")
    found, expected = outputs_each(reader, space, elements, x, BOTH), slowly_read(reader, elements, x)
    assert all(torch.equal(found[what], expected[what]) for what in BOTH)
    maps = explanations_each(reader, space, elements, x, targets, draws)
    assert torch.equal(maps, slowly_explained(reader, elements, x, targets, draws))
    assert calls == ["mapped", "mapped"]  # the trials alone


def test_what_fails_later_goes_through_a_copy_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_given: Any) -> Any:
        raise RuntimeError("no gradient of this can be mapped")

    monkeypatch.setattr(row_weights, "in_rounds", refuse)
    model = tanh_net()
    space, elements, x, targets, draws = rows_of(model)
    reader = reader_of(model, "gradient")
    found = explanations_each(reader, space, elements, x, targets, draws)
    assert torch.equal(found, slowly_explained(reader, elements, x, targets, draws))


def test_memory_that_runs_out_halves_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    in_rounds = row_weights.in_rounds

    def hungry(copy: Reader, weights: dict[str, Tensor], rows: int) -> Any:
        sizes.append(rows)
        if rows > 2:
            raise torch.OutOfMemoryError
        return in_rounds(copy, weights, rows)

    monkeypatch.setattr(row_weights, "in_rounds", hungry)
    model = tanh_net()
    space, elements, x, targets, draws = rows_of(model)
    reader = reader_of(model, "gradient", rows=8)
    found = explanations_each(reader, space, elements, x, targets, draws)
    assert sizes == [7, 4, 2, 2, 2, 1]
    torch.testing.assert_close(found, slowly_explained(reader, elements, x, targets, draws), rtol=1e-3, atol=1e-5)


def test_points_that_do_not_fit_at_once_come_in_whole_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven rows of five points each with ten at a time: five calls of seven, none of which is left to a copy."""
    model = tanh_net()
    space, elements, x, targets, draws = rows_of(model)
    reader = reader_of(model, IntegratedGradients(steps=5), rows=10)
    expected = slowly_explained(reader, elements, x, targets, draws)
    reader.cost = Cost(1, 1)
    monkeypatch.setattr(Reader, "explanation", None)
    torch.testing.assert_close(explanations_each(reader, space, elements, x, targets, draws), expected, rtol=1e-3, atol=1e-5)


@dataclass(frozen=True, kw_only=True)
class Learning(Learner):
    """Explains by what it has learnt about the weights."""

    name = "learning"

    def cost(self, shape: torch.Size) -> Cost:
        return Cost(forward=1)

    def learn(self, model: nn.Module, context: Context) -> Mapping[str, Tensor]:
        return {"sum": sum(value.detach().sum() for value in model.parameters())}  # type: ignore[dict-item]

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return inputs * context.learnt["sum"]


def test_what_an_explainer_learns_it_learns_of_each_rows_weights() -> None:
    model = tanh_net()
    space, elements, x, targets, draws = rows_of(model)
    found = explanations_each(reader_of(model, Learning()), space, elements, x, targets, draws)
    sums = torch.stack([sum(value.detach().sum() for value in by_hand(model, noise).parameters()) for noise in elements])  # type: ignore[arg-type,misc]
    torch.testing.assert_close(found, x.values * sums.reshape(-1, 1, 1, 1))


@pytest.mark.parametrize("common", [True, False])
def test_a_global_explainer_learns_of_each_rows_weights_once(common: bool) -> None:
    """Also one that starts anew for every copy: its lesson has the random numbers of the row."""
    model, one = tanh_net(), Fourier(steps=3, common=common)
    seen: list[int] = []
    model.register_forward_hook(lambda *given: seen.append(len(given[1][0])) if given[1][0].requires_grad else None)
    space, elements, x, targets, draws = rows_of(model)
    reader = reader_of(model, one)
    found = explanations_each(reader, space, elements, x, targets, draws)
    assert sum(seen) == 3 * len(x)
    for row in range(len(x)):
        slow = one.explain(by_hand(model, elements[row]), x.values[row : row + 1], targets[row : row + 1], Context(draws[row : row + 1], 8))
        torch.testing.assert_close(found[row : row + 1], slow, rtol=1e-3, atol=1e-4)


def test_a_control_sees_no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tanh_net()
    space, elements, x, targets, draws = rows_of(model)
    reader = reader_of(model, "random_gaussian", rows=2)
    monkeypatch.setattr(row_weights, "ScratchModel", None)
    found = explanations_each(reader, space, elements, x, targets, draws)
    assert torch.equal(found, reader.explanation(x, targets, draws))


class Masked(nn.Module):
    """A network with structure beside its values."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(36, 3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return torch.tanh(self.net((x * mask).flatten(1)))


def test_structure_goes_with_its_rows(calls: list[str]) -> None:
    model = seeded(Masked)
    space, elements, plain, targets, draws = rows_of(model)
    x = Signals(plain.values, ((plain.values > 0).float(),))
    reader = reader_of(model, SmoothGrad(draws=3))
    for what, value in slowly_read(reader, elements, x).items():
        torch.testing.assert_close(outputs_each(reader, space, elements, x, BOTH)[what], value, rtol=1e-4, atol=1e-5)
    found = explanations_each(reader, space, elements, x, targets, draws)
    torch.testing.assert_close(found, slowly_explained(reader, elements, x, targets, draws), rtol=1e-3, atol=1e-5)
    assert len(calls) == 6


class Remembering(nn.Module):
    """A network that keeps its last features, has a shared layer and a frozen bias."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(36, 36)
        self.two, self.head = nn.Linear(36, 36), nn.Linear(36, 3)
        self.two.weight = self.one.weight
        self.one.bias.requires_grad_(False)
        self.last: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.last = torch.tanh(self.two(torch.tanh(self.one(x.flatten(1)))))
        scores: Tensor = self.head(self.last)
        return scores


def test_the_callers_model_and_tensors_come_back_untouched() -> None:
    model = seeded(Remembering)
    model.train()
    space, elements, x, targets, draws = rows_of(model)
    reader = reader_of(model, "gradient")
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    places = {name: value.data_ptr() for name, value in model.state_dict().items()}
    given, random = (elements.clone(), x.values.clone()), torch.get_rng_state()
    found = explanations_each(reader, space, elements, x, targets, draws)
    read = outputs_each(reader, space, elements, x, BOTH)
    torch.testing.assert_close(found, slowly_explained(reader, elements, x, targets, draws), rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(read[Reads.SCORES], slowly_read(reader, elements, x)[Reads.SCORES], rtol=1e-4, atol=1e-5)
    assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())
    assert places == {name: value.data_ptr() for name, value in model.state_dict().items()}
    assert all(value.grad is None for value in model.parameters())
    assert [value.requires_grad for value in model.parameters()] == [name != "one.bias" for name, _ in model.named_parameters()]
    assert all(module.training and not module._forward_hooks for module in model.modules())
    assert torch.equal(elements, given[0])
    assert torch.equal(x.values, given[1])
    assert torch.equal(torch.get_rng_state(), random)
    assert model.last is not None
    assert model.last.shape == (1, 36)
    assert not torch._C._functorch.is_batchedtensor(model.last)  # type: ignore[attr-defined,arg-type]


def test_misuse_is_said_in_a_sentence() -> None:
    model = tanh_net()
    space, elements, x, targets, draws = rows_of(model)
    with pytest.raises(InputError, match=r"^Each row needs weights of its own: 7 rows came with 2 elements of 'weight_neighbourhood'\.$"):
        outputs_each(reader_of(model), space, elements[:2], x, BOTH)
    with pytest.raises(InputError, match=r"^A score of explanations needs an explainer\.$"):
        explanations_each(reader_of(model), space, elements, x, targets, draws)
    squeezing = seeded(lambda: nn.Sequential(tanh_net(), Squeeze()))
    space = WeightNeighbourhood().of(squeezing)
    with pytest.raises(
        InputError, match=r"^The model gives an output of shape \(3,\) for a batch of one input, but must give \(1, outputs\)"
    ):
        outputs_each(reader_of(squeezing), space, elements, x, BOTH)


class Squeeze(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.squeeze()
