"""What every explainer must hold: a battery for pytest.

class TestMyExplainer(ExplainerConformance):
    def explainer(self):
        return MyExplainer()
"""

from __future__ import annotations

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import ceil
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from veracity.core.explainers import Context, Explainer, Frame
from veracity.core.randomness import Draws


class Counted(nn.Module):
    """A model that counts the rows of its forward and backward passes, and fails in a given call."""

    def __init__(self, model: nn.Module, fails_at: int | None = None) -> None:
        super().__init__()
        self.model, self.fails_at = model, fails_at
        self.log: dict[str, list[int]] = {"forward": [], "backward": []}

    def forward(self, inputs: Tensor) -> Tensor:
        """The model's scores."""
        if len(self.log["forward"]) == self.fails_at:
            self.model(inputs)
            raise RuntimeError("the model fails here")
        self.log["forward"].append(len(inputs))
        scores: Tensor = self.model(inputs)
        if scores.requires_grad:
            scores.register_hook(lambda gradient: self.log["backward"].append(len(gradient)))
        return scores


@contextmanager
def no_trace(model: nn.Module, inputs: Tensor) -> Iterator[None]:
    """Fail unless model, inputs and global random states are afterwards what they were before."""

    def state() -> list[Any]:
        modules = [
            (module.training, sorted(vars(module)), [len(value) for key, value in vars(module).items() if key.endswith("hooks")])
            for module in model.modules()
        ]
        weights = [(weight.requires_grad, weight.detach().clone()) for weight in model.state_dict(keep_vars=True).values()]
        legacy: Any = np.random.get_state(legacy=False)  # noqa: NPY002 - that nobody touches it is the point
        others = (legacy["state"]["key"].tobytes(), legacy["state"]["pos"], random.getstate())
        return [modules, weights, inputs.clone(), inputs.requires_grad, torch.get_rng_state(), others]

    marks = {weight: torch.full_like(weight, 7.0) for weight in model.parameters()}
    for weight, mark in marks.items():
        weight.grad = mark
    before = state()
    try:
        yield
    finally:
        torch.testing.assert_close(state()[1:5], before[1:5], rtol=0, atol=0)
        assert state()[0] == before[0], "a module's hooks, attributes or mode changed"
        assert state()[5:] == before[5:], "the global random state of numpy or random was touched"
        for weight, mark in marks.items():
            assert weight.grad is mark, "a parameter's gradient was replaced"
            assert bool((mark == 7.0).all()), "a parameter's gradient was added to"
            weight.grad = None


class ExplainerConformance(ABC):
    """The battery for an explainer; a subclass says which, and may bring its own model and inputs."""

    tolerance = 1e-5
    """How far two results may lie apart, relative to the largest entry, where only the batching differs."""

    @abstractmethod
    def explainer(self) -> Explainer:
        """The explainer under test; the inputs are offered to it as its reference set."""

    def model(self) -> nn.Module:
        """A model that maps inputs to scores (N, K), in evaluation mode."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            layers = [nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(), nn.AvgPool2d(4)]
            model: nn.Module = nn.Sequential(*layers, nn.Flatten(), nn.Linear(16, 3)).eval()
        return model

    def inputs(self) -> Tensor:
        """Five different inputs."""
        return Draws.of(0, torch.arange(5)).normal(2, 9, 9, stream="inputs").float()

    def targets(self) -> Tensor:
        """One score an input."""
        inputs = self.inputs()
        classes: int = self.model()(inputs).shape[1]
        return torch.arange(len(inputs)) % classes

    def bound(self) -> Explainer:
        """The explainer with a reference set."""
        return self.explainer().bind(self.inputs().flip(0))

    def explained(self, rows: slice = slice(None), batch: int = 1000, draw: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
        """Explanations of some of the inputs."""
        inputs, targets = self.inputs().to(dtype), self.targets()
        context = Context(Draws.of(3, torch.arange(len(inputs))[rows], draw), batch)
        return self.bound().explain(self.model().to(dtype), inputs[rows], targets[rows], context)

    def assert_same(self, one: Tensor, other: Tensor) -> None:
        """Equal up to the tolerance, relative to the largest entry of each row."""
        size = other.flatten(1).abs().amax(1).clamp(min=1e-30)
        apart = (one - other).flatten(1).abs().amax(1) / size
        assert bool((apart <= self.tolerance).all()), f"rows differ by {apart.tolist()} of their largest entry"

    def test_settings_are_plain_data(self) -> None:
        """The explainer can be written down."""
        assert json.loads(json.dumps(self.bound().spec()))["name"] == self.bound().name != ""

    def test_shape_and_type(self) -> None:
        """An explanation in the input's frame has the input's shape, type and place, and no graph."""
        for dtype in (torch.float32, torch.float64):
            found = self.explained(dtype=dtype)
            assert (len(found), found.dtype, found.requires_grad) == (len(self.inputs()), dtype, False)
            if self.explainer().frame is Frame.INPUT:
                assert found.shape == self.inputs().shape

    def test_explanations_are_numbers_and_differ_from_zero(self) -> None:
        """Finite everywhere, and of the sign that is declared."""
        found = self.explained()
        assert bool(found.isfinite().all()), "NaN or infinity"
        assert bool((found != 0).flatten(1).any(1).all()), "an explanation is zero everywhere"
        assert self.bound().signed or bool((found >= 0).all()), "declared unsigned, but negative somewhere"

    def test_rows_are_independent(self) -> None:
        """A row does not depend on its neighbours."""
        if not self.bound().batch_dependent:
            alone = torch.cat([self.explained(slice(row, row + 1)) for row in range(len(self.inputs()))])
            self.assert_same(self.explained(), alone)

    def test_batch_size_changes_nothing(self) -> None:
        """How many model rows fit at once does not matter."""
        if not self.bound().batch_dependent:
            self.assert_same(self.explained(batch=1), self.explained(batch=1000))

    def test_same_keys_same_numbers(self) -> None:
        """The same seed, samples and draws give the same numbers."""
        torch.testing.assert_close(self.explained(draw=5), self.explained(draw=5), rtol=0, atol=0)

    def test_other_draws_differ_iff_stochastic(self) -> None:
        """Another draw changes every row of a stochastic explainer and nothing else."""
        same = (self.explained(draw=0) == self.explained(draw=1)).flatten(1).all(1)
        assert not same.any() if self.bound().stochastic else bool(same.all())

    def test_leaves_no_trace(self) -> None:
        """Model, inputs and global random states come back as they were, also when gradients are off outside."""
        model, inputs, targets = self.model(), self.inputs(), self.targets()
        context = Context(Draws.of(0, torch.arange(len(inputs))), 1000)
        for enabled in (True, False):
            with no_trace(model, inputs), torch.set_grad_enabled(enabled):
                self.bound().explain(model, inputs, targets, context)
        with no_trace(model, inputs):
            self.bound().check(model, inputs, targets)

    def test_leaves_no_trace_after_an_error(self) -> None:
        """The same if the model fails in the first call or in a later one."""
        model, inputs, targets = self.model(), self.inputs(), self.targets()
        context = Context(Draws.of(0, torch.arange(len(inputs))), 2)
        for call in (0, 1):
            with no_trace(model, inputs), suppress(RuntimeError):
                self.bound().explain(Counted(model, fails_at=call), inputs, targets, context)

    def test_cost_is_counted(self) -> None:
        """The declared passes are the passes."""
        model, inputs = Counted(self.model()), self.inputs()
        self.bound().explain(model, inputs, self.targets(), Context(Draws.of(0, torch.arange(len(inputs))), 1000))
        cost = self.bound().cost(inputs.shape[1:])
        declared = {"forward": cost.forward * len(inputs), "backward": cost.backward * len(inputs)}
        assert {key: sum(rows) for key, rows in model.log.items()} == declared

    def test_calls_are_full_and_fit(self) -> None:
        """No call holds more rows than fit, and there are not twice as many calls as needed."""
        for batch in (7, 64):
            model, inputs = Counted(self.model()), self.inputs()
            self.bound().explain(model, inputs, self.targets(), Context(Draws.of(0, torch.arange(len(inputs))), batch))
            calls = model.log["forward"]
            assert max(calls, default=0) <= batch, f"{max(calls)} rows in one call, where {batch} fit"
            assert len(calls) <= 2 * ceil(sum(calls) / batch), f"{len(calls)} calls for {sum(calls)} rows, where {batch} fit"

    def test_runs_on_an_accelerator(self) -> None:
        """The same numbers where there is one; foreign code draws others there."""
        if torch.cuda.is_available() and not self.bound().batch_dependent:
            device, inputs = torch.device("cuda"), self.inputs()
            context = Context(Draws.of(3, torch.arange(len(inputs))), 1000)
            found = self.bound().explain(self.model().to(device), inputs.to(device), self.targets().to(device), context)
            torch.testing.assert_close(found.cpu(), self.explained(), rtol=1e-2, atol=1e-3 * float(self.explained().abs().max()))
