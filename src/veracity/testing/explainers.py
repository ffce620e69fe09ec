"""The rules that every explainer must follow, as tests for pytest.

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
from veracity.core.models import View
from veracity.core.randomness import Draws


class ExplainerConformance(ABC):
    """The rules for an explainer, one test each. A subclass names the explainer, and may bring its own model and inputs."""

    tolerance = 1e-5
    """The largest difference between two results that differ only in their batches, relative to the largest entry."""

    @abstractmethod
    def explainer(self) -> Explainer:
        """The explainer under test. It is bound to the inputs as its reference set."""

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
        """One score per input."""
        inputs = self.inputs()
        classes: int = self.model()(inputs).shape[1]
        return torch.arange(len(inputs)) % classes

    def bind(self) -> Explainer:
        """The explainer with a reference set."""
        return self.explainer().bind(self.inputs().flip(0))

    def explain(self, rows: slice = slice(None), batch: int = 1000, draw: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
        """Explanations of some of the inputs."""
        inputs, targets = self.inputs().to(dtype), self.targets()
        context = Context(Draws.of(3, torch.arange(len(inputs))[rows], draw), batch)
        return self.bind().explain(self.model().to(dtype), inputs[rows], targets[rows], context)

    def assert_same(self, one: Tensor, other: Tensor) -> None:
        """Equal up to the tolerance, relative to the largest entry of each row."""
        size = other.flatten(1).abs().amax(1).clamp(min=1e-30)
        difference = (one - other).flatten(1).abs().amax(1) / size
        assert bool((difference <= self.tolerance).all()), f"rows differ by {difference.tolist()} of their largest entry"

    def test_settings_are_plain_data(self) -> None:
        """`spec` is JSON, and holds the explainer's name."""
        spec, name = json.loads(json.dumps(self.bind().spec())), self.bind().name
        assert spec["name"] == name != "", f"the spec {spec} does not hold the name {name!r}"

    def test_shape_and_type(self) -> None:
        """An explanation has one row per input, the input's type and no graph; in the input's frame also its shape."""
        for dtype in (torch.float32, torch.float64):
            found = self.explain(dtype=dtype)
            assert len(found) == len(self.inputs()), f"{len(self.inputs())} inputs gave {len(found)} explanations"
            assert found.dtype == dtype, f"{dtype} inputs gave {found.dtype} explanations"
            assert not found.requires_grad, "explanations must be detached from the graph"
            if self.explainer().frame is Frame.INPUT:
                shape = self.inputs().shape
                assert found.shape == shape, f"inputs of shape {tuple(shape)} gave explanations of shape {tuple(found.shape)}"

    def test_explanations_are_numbers_and_differ_from_zero(self) -> None:
        """Explanations are finite, not zero everywhere, and not negative if `signed` is off."""
        found = self.explain()
        assert bool(found.isfinite().all()), "an explanation contains NaN or infinity"
        assert bool((found != 0).flatten(1).any(1).all()), "an explanation is zero everywhere"
        assert self.bind().signed or bool((found >= 0).all()), "signed is off, but an explanation is negative somewhere"

    def test_rows_are_independent(self) -> None:
        """A row's explanation does not depend on the other rows of the batch."""
        if not self.bind().batch_dependent:
            one_by_one = torch.cat([self.explain(slice(row, row + 1)) for row in range(len(self.inputs()))])
            self.assert_same(self.explain(), one_by_one)

    def test_batch_size_changes_nothing(self) -> None:
        """The number of model rows per call does not affect explanations."""
        if not self.bind().batch_dependent:
            self.assert_same(self.explain(slice(2), batch=1), self.explain(slice(2), batch=1000))

    def test_same_keys_same_numbers(self) -> None:
        """The same seed, samples and draws give the same numbers."""
        assert torch.equal(self.explain(draw=5), self.explain(draw=5)), "the same seed, samples and draws gave other numbers"

    def test_other_draws_differ_iff_stochastic(self) -> None:
        """Another draw changes every row of a stochastic explainer, and no row of another one."""
        same = (self.explain(draw=0) == self.explain(draw=1)).flatten(1).all(1)
        if self.bind().stochastic:
            assert not same.any(), "stochastic is on, but another draw gave the same explanation"
        else:
            assert bool(same.all()), "stochastic is off, but another draw gave another explanation"

    def test_leaves_no_trace(self) -> None:
        """`explain` and `check` leave model, inputs and global random states unchanged, with gradients on or off."""
        model, inputs, targets = self.model(), self.inputs(), self.targets()
        context = Context(Draws.of(0, torch.arange(len(inputs))), 1000)
        for enabled in (True, False):
            with no_trace(model, inputs), torch.set_grad_enabled(enabled):
                self.bind().explain(model, inputs, targets, context)
        with no_trace(model, inputs):
            self.bind().check(model, inputs, targets)

    def test_leaves_no_trace_after_an_error(self) -> None:
        """So does `explain` if the model fails in its first or second call."""
        model, inputs, targets = self.model(), self.inputs(), self.targets()
        context = Context(Draws.of(0, torch.arange(len(inputs))), 2)
        for call in (0, 1):
            with no_trace(model, inputs), suppress(RuntimeError):
                self.bind().explain(CountingModel(model, fails_at=call), inputs, targets, context)

    def test_cost_is_counted(self) -> None:
        """`cost` is the number of model rows that `explain` uses."""
        model, inputs = CountingModel(self.model()), self.inputs()
        self.bind().explain(model, inputs, self.targets(), Context(Draws.of(0, torch.arange(len(inputs))), 1000))
        cost = self.bind().cost(inputs.shape[1:])
        declared = {"forward": cost.forward * len(inputs), "backward": cost.backward * len(inputs)}
        used = {key: sum(rows) for key, rows in model.log.items()}
        assert used == declared, f"cost declares {declared} model rows, but explain used {used}"

    def test_calls_are_full_and_fit(self) -> None:
        """No call has more rows than `context.batch`, and there are at most twice as many calls as needed."""
        for batch in (7, 64):
            model, inputs = CountingModel(self.model()), self.inputs()
            self.bind().explain(model, inputs, self.targets(), Context(Draws.of(0, torch.arange(len(inputs))), batch))
            calls = model.log["forward"]
            assert max(calls, default=0) <= batch, f"{max(calls)} rows in one call, but the batch is {batch}"
            assert len(calls) <= 2 * ceil(sum(calls) / batch), f"{len(calls)} calls for {sum(calls)} rows, but the batch is {batch}"

    if torch.cuda.is_available():

        def test_runs_on_an_accelerator(self) -> None:
            """A GPU gives the same numbers. Foreign code draws others there."""
            if not self.bind().batch_dependent:
                device, inputs = torch.device("cuda"), self.inputs()
                context = Context(Draws.of(3, torch.arange(len(inputs))), 1000)
                found = self.bind().explain(self.model().to(device), inputs.to(device), self.targets().to(device), context)
                torch.testing.assert_close(found.cpu(), self.explain(), rtol=1e-2, atol=1e-3 * float(self.explain().abs().max()))


class CountingModel(View):
    """A model that counts the rows of its forward and backward passes, and fails in call number `fails_at`."""

    def __init__(self, model: nn.Module, fails_at: int | None = None) -> None:
        super().__init__(model)
        self.fails_at = fails_at
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
    """Fail unless the model, the inputs and the global random states are unchanged at the end."""

    def state() -> dict[str, Any]:
        modules = [
            (module.training, sorted(vars(module)), [len(value) for key, value in vars(module).items() if key.endswith("hooks")])
            for module in model.modules()
        ]
        weights = model.state_dict(keep_vars=True).values()
        legacy: Any = np.random.get_state(legacy=False)  # noqa: NPY002 - it must stay untouched
        return {
            "a module's hooks, attributes or mode": modules,
            "a parameter's requires_grad": [weight.requires_grad for weight in weights],
            "a parameter or buffer": [weight.detach().clone() for weight in weights],
            "the inputs": [inputs.detach().clone()],
            "the inputs' requires_grad": inputs.requires_grad,
            "the global random state of torch": [torch.get_rng_state()],
            "the global random state of numpy": (legacy["state"]["key"].tobytes(), legacy["state"]["pos"]),
            "the global random state of random": random.getstate(),
        }

    marks = {weight: torch.full_like(weight, 7.0) for weight in model.parameters()}
    for weight, mark in marks.items():
        weight.grad = mark
    before = state()
    try:
        yield
    finally:
        after = state()
        for what, value in before.items():
            if isinstance(value, list) and value and isinstance(value[0], Tensor):
                same = all(torch.equal(one.nan_to_num(), other.nan_to_num()) for one, other in zip(value, after[what], strict=True))
            else:
                same = value == after[what]
            assert same, f"{what} changed"
        for weight, mark in marks.items():
            assert weight.grad is mark, "a parameter's gradient was replaced"
            assert bool((mark == 7.0).all()), "a parameter's gradient was added to"
            weight.grad = None
