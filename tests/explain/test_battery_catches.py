"""The conformance battery fails on explainers that break a rule, each by the test that is meant for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Size, Tensor, nn

from veracity.core.explainers import Context, Cost, Explainer
from veracity.testing.explainers import ExplainerConformance

Rule = Callable[[nn.Module, Tensor, Context], Tensor]


@dataclass(frozen=True, kw_only=True)
class Bad(Explainer):
    name = "bad"
    rule: Rule

    def cost(self, shape: Size) -> Cost:
        return Cost()

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return self.rule(model, inputs, context)


class Unsigned(Bad):
    @property
    def signed(self) -> bool:
        return False


class Stochastic(Bad):
    stochastic = True


def hooked(model: nn.Module, x: Tensor, context: Context) -> Tensor:
    model.register_forward_hook(lambda *_: None)
    return x


def marked(model: nn.Module, x: Tensor, context: Context) -> Tensor:
    model.note = x
    return x


def accumulating(model: nn.Module, x: Tensor, context: Context) -> Tensor:
    with torch.enable_grad():
        model(x).sum().backward()
    return x


def one_at_a_time(model: nn.Module, x: Tensor, context: Context) -> Tensor:
    for row in range(len(x)):
        model(x[[row]])
    return x


BAD = [
    (Bad(rule=lambda m, x, c: x - x.mean(0)), "test_rows_are_independent"),
    (Bad(rule=lambda m, x, c: x * c.batch), "test_batch_size_changes_nothing"),
    (Bad(rule=lambda m, x, c: torch.rand_like(x)), "test_same_keys_same_numbers"),
    (Bad(rule=lambda m, x, c: c.draws.uniform(*x.shape[1:], stream="s").to(x)), "test_other_draws_differ_iff_stochastic"),
    (Stochastic(rule=lambda m, x, c: x), "test_other_draws_differ_iff_stochastic"),
    (Bad(rule=lambda m, x, c: torch.rand_like(x)), "test_leaves_no_trace"),
    (Bad(rule=hooked), "test_leaves_no_trace"),
    (Bad(rule=marked), "test_leaves_no_trace"),
    (Bad(rule=accumulating), "test_leaves_no_trace"),
    (Bad(rule=lambda m, x, c: x.add_(1)), "test_leaves_no_trace"),
    (Bad(rule=lambda m, x, c: m.train() and x), "test_leaves_no_trace"),
    (Bad(rule=lambda m, x, c: x[:, :1]), "test_shape_and_type"),
    (Bad(rule=lambda m, x, c: x.float()), "test_shape_and_type"),
    (Bad(rule=lambda m, x, c: x * 0), "test_explanations_are_numbers_and_differ_from_zero"),
    (Bad(rule=lambda m, x, c: x / 0), "test_explanations_are_numbers_and_differ_from_zero"),
    (Unsigned(rule=lambda m, x, c: x), "test_explanations_are_numbers_and_differ_from_zero"),
    (Bad(rule=lambda m, x, c: m(x)[:, :1, None, None] * x), "test_cost_is_counted"),
    (Bad(rule=one_at_a_time), "test_calls_are_full_and_fit"),
    (Bad(rule=lambda m, x, c: m(x.repeat(20, 1, 1, 1))[:5, :1, None, None] * x), "test_calls_are_full_and_fit"),
]


@pytest.mark.parametrize(("explainer", "test"), BAD, ids=[f"{number}-{test}" for number, (_, test) in enumerate(BAD)])
def test_the_battery_catches(explainer: Bad, test: str) -> None:
    class Battery(ExplainerConformance):
        def explainer(self) -> Explainer:
            return explainer

    with torch.random.fork_rng(devices=[]), pytest.raises(AssertionError):
        getattr(Battery(), test)()


def test_the_battery_passes_what_keeps_the_rules() -> None:
    class Battery(ExplainerConformance):
        def explainer(self) -> Explainer:
            return Bad(rule=lambda m, x, c: 2 * x)

    battery = Battery()
    for name in dir(battery):
        if name.startswith("test_") and name != "test_settings_are_plain_data":
            getattr(battery, name)()
