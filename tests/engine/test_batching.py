from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from small import series_inputs, small_net
from veracity import Audit, Result
from veracity.core.errors import InputError, Note
from veracity.core.inputs import Signals
from veracity.engine.memory import MEMORY, Budget, budget_for, memory_for, row_bytes
from veracity.engine.problem import FirstOutputs
from veracity.explain import Gradient
from veracity.perturb import CyclicShift
from veracity.walk import MonteCarlo


def test_the_work_is_cut_into_slices_that_fit() -> None:
    seen: list[tuple[int, int]] = []
    Budget(rows=10).spend(7, 4, lambda part: seen.append((part.start, part.stop)))
    assert seen == [(0, 2), (2, 4), (4, 6), (6, 7)]


@pytest.mark.parametrize(("calls", "items"), [(1, 5), (8, 40), (1000, 256)])
def test_work_that_cuts_its_own_rows_fills_several_calls_with_a_slice(calls: int, items: int) -> None:
    """40 items of 50 rows are 2,000 of the 2,048 rows of eight calls; a slice never has more items than a call has rows."""
    seen: list[int] = []
    Budget(rows=256).spend(2 * items + 1, 50, lambda part: seen.append(part.stop - part.start), calls)
    assert seen == [items, items, 1]


def test_memory_that_torch_keeps_for_later_tensors_counts_as_free(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("mem_get_info", (10 << 30, 80 << 30)), ("memory_reserved", 50 << 30), ("memory_allocated", 20 << 30)):
        monkeypatch.setattr(torch.cuda, name, lambda _device, value=value: value)
    assert memory_for(torch.device("cuda")) == 20 << 30
    assert memory_for(torch.device("cpu")) == 1 << 30


def test_an_explanation_larger_than_the_budget_still_goes_alone() -> None:
    rows: list[slice] = []
    Budget(rows=10).spend(2, 50, rows.append)
    assert rows == [slice(0, 1), slice(1, 2)]


def test_running_out_of_memory_halves_the_rows_and_goes_on() -> None:
    budget, done = Budget(rows=16), []

    def work(part: slice) -> None:
        if part.stop - part.start > 4:
            raise torch.OutOfMemoryError("too much")
        done.extend(range(part.start, part.stop))

    budget.spend(10, 1, work)
    assert done == list(range(10))
    assert budget.rows == 4


def test_other_errors_and_hopeless_ones_are_raised() -> None:
    def fail(_part: slice) -> None:
        raise RuntimeError("a bug")

    def hungry(_part: slice) -> None:
        raise MemoryError

    with pytest.raises(RuntimeError, match="a bug"):
        Budget(rows=4).spend(4, 1, fail)
    with pytest.raises(MemoryError):
        Budget(rows=4).spend(4, 1, hungry)


def test_the_bytes_of_a_row_are_counted_by_hand() -> None:
    x = Signals(series_inputs(1))
    # Input 12, conv 6x12, relu, conv 8x12, relu, pool 8, linear 3, in float32, times three.
    assert row_bytes(small_net(), x) == 3 * 4 * (12 + 2 * 72 + 2 * 96 + 8 + 3)


def test_the_budget_follows_the_memory_and_the_wish() -> None:
    net, x = small_net(), Signals(series_inputs(1))
    assert budget_for(net, x, memory=10 * row_bytes(net, x), rows=None).rows == 10
    assert budget_for(net, x, memory=1, rows=None).rows == 1
    assert budget_for(net, x, memory=1, rows=33).rows == 33
    assert all(not module._forward_hooks for module in net.modules() if isinstance(module, nn.Module))


def test_work_that_reads_the_rows_is_tried_again_with_half_of_them() -> None:
    budget, seen = Budget(rows=16), []

    def work() -> str:
        seen.append(budget.rows)
        if budget.rows > 4:
            raise RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes.")
        return "done"

    assert budget.attempt(work) == "done"
    assert seen == [16, 8, 4]


class Hungry(nn.Module):
    """A model whose allocator really refuses more than a number of rows: a pass of more asks for a pebibyte."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.net, self.most = small_net(), most

    def forward(self, x: Tensor) -> Tensor:
        torch.empty(1 if len(x) <= self.most else 2**50, dtype=torch.uint8)
        out: Tensor = self.net(x)
        return out


def mine(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    leaf = inputs.requires_grad_()
    return torch.autograd.grad(model(leaf).gather(1, targets[:, None]).sum(), leaf)[0]


def hungry_audit(most: int, **settings: Any) -> Audit:
    given: dict[str, Any] = {
        "inputs": series_inputs(5),
        "targets": torch.arange(5) % 3,
        "explainers": [{"name": "integrated_gradients", "steps": 4}, {"name": "smooth_grad", "draws": 2}, mine],
        "symmetry": CyclicShift(axes=(-1,)),
        "scores": ["equivariance", "model_invariance", "mprt", {"name": "faithfulness_correlation", "nr_runs": 5}],
        "walk": MonteCarlo(draws=2),
        "controls": False,
    }
    return Audit(models={"net": Hungry(most)}, **{**given, **settings})


@pytest.mark.parametrize("most", [1, 3])
def test_a_model_that_runs_out_of_memory_is_audited_with_smaller_batches(most: int, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="DefaultCPUAllocator"):
        Hungry(most)(series_inputs(most + 1))
    plain = {"scores": ["equivariance", "model_invariance"]} if most == 1 else {}
    audits = [hungry_audit(rows, **plain) for rows in (most, 10**9)]
    found = audits[0].run(tmp_path / "hungry", batch=16)
    assert found.failures().empty
    expected = audits[1].run(tmp_path / "fed", batch=most)
    pd.testing.assert_frame_equal(found.table(), expected.table(), atol=1e-6, rtol=0)
    assert found.manifest["models"]["net"]["accuracy"] == expected.manifest["models"]["net"]["accuracy"]


def test_searches_and_forecasts_halve_the_batch_too(tmp_path: Path) -> None:
    walk = {"name": "genetic", "population": 8, "elites": 2, "generations": 2}
    settings: dict[str, Any] = {"explainers": ["gradient"], "scores": [{"name": "sol_f_hat", "walk": walk}], "symmetry": None}
    settings |= {"inputs": series_inputs(6), "targets": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        found = hungry_audit(4, **settings).run(tmp_path / "hungry")
        expected = hungry_audit(10**9, **settings).run(tmp_path / "fed", batch=4)
        pd.testing.assert_frame_equal(found.table(), expected.table(), atol=1e-6, rtol=0)
        assert hungry_audit(4, **settings).forecast().seconds > 0


def test_a_model_that_cannot_take_one_row_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^Model 'net' cannot take inputs of shape .*DefaultCPUAllocator"):
        hungry_audit(0).run(tmp_path)


class SeparatePasses(Gradient):
    """The gradient, if nobody knew that its pass gives the scores."""

    local = False


@pytest.mark.parametrize("score", ["relative_input_stability", "relative_output_stability"])
def test_a_score_that_reads_outputs_needs_no_pass_of_its_own(score: str, tmp_path: Path) -> None:
    found, passes = {}, {}
    for name, explainer in (("one", Gradient()), ("two", SeparatePasses())):
        model, rows = small_net(), list[int]()
        model.register_forward_pre_hook(lambda _model, given, rows=rows: rows.append(len(given[0])))
        audit = Audit(models=model, inputs=series_inputs(4), explainers=[explainer], scores=[score], controls=False, companions=False)
        plan = audit.prepare()
        rows.clear()
        found[name] = audit.run(tmp_path / name, progress=False).samples(score)["value"].to_numpy()
        passes[name] = (sum(job.cost.forward for job in plan.jobs), sum(rows))
    np.testing.assert_allclose(found["one"], found["two"], rtol=1e-5)
    assert passes["two"][0] - passes["one"][0] == 20
    assert 20 <= passes["two"][1] - passes["one"][1] <= 26  # a class from outside is also tried on a few rows


@pytest.mark.parametrize("count", [4, 130])
def test_outputs_of_the_first_pass_are_those_that_a_block_would_compute(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(name: str, scores: list[str]) -> tuple[Result, int]:
        model, rows = small_net(), list[int]()
        model.register_forward_pre_hook(lambda _model, given: rows.append(len(given[0])))
        audit = Audit(models=model, inputs=series_inputs(count), explainers=["gradient"], scores=scores, controls=False, companions=False)
        MEMORY.forget()
        return audit.run(tmp_path / name, progress=False), sum(rows)

    score = "average_drop"
    reused, few = run("reused", [score])
    run("resumed", ["sparseness"])
    resumed, _ = run("resumed", ["sparseness", score])  # its explanations are stored already
    monkeypatch.setattr(FirstOutputs, "of", lambda *_given: None)
    computed, more = run("computed", [score])
    assert more - few == count
    for other in (resumed, computed):
        np.testing.assert_array_equal(reused.samples(score)["value"], other.samples(score)["value"])
