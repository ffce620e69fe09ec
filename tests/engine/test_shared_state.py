"""What jobs of a run share must not let one job change the numbers of another."""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Size, Tensor, nn

from veracity import Audit
from veracity.core.explainers import Context, Cost, Explainer
from veracity.core.models import unwrap
from veracity.engine import loop, reader
from veracity.engine.executors import Executor
from veracity.engine.store import RunFolder
from veracity.explain import Gradient
from veracity.perturb.weights.copies import LATEST, ScratchModel, forget_copies
from veracity.scores import MPRT, FastGEF, MaxSensitivity, Sparseness
from veracity.walk import MonteCarlo

pytestmark = pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
ODD = 20
"""The sample that is unlike all others."""


def small_model() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.Softplus(), nn.Linear(16, 3)).eval()


def data() -> Tensor:
    x = torch.randn(40, 5, generator=torch.Generator().manual_seed(1))
    x[ODD, 0] = 100.0
    return x


def values(folder: Path, model: nn.Module, explainers: dict[str, Explainer], score: Any, **settings: Any) -> np.ndarray[Any, Any]:
    """What a run measures of the last explainer."""
    audit = Audit(models=model, inputs=data(), explainers=explainers, scores=[score], controls=False, companions=False)
    found = audit.run(folder, progress=False, **settings).samples(score.name)
    return found[found["explainer"] == list(explainers)[-1]]["value"].to_numpy()


@dataclass(frozen=True, kw_only=True)
class Slopes(Explainer):
    """The gradient, as somebody else would write it."""

    name = "slopes"

    def cost(self, shape: Size) -> Cost:
        return Cost(forward=1, backward=1)

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        leaf = inputs.detach().requires_grad_()
        return torch.autograd.grad(model(leaf).gather(1, targets[:, None]).sum(), leaf)[0]


def is_copy(model: nn.Module) -> bool:
    return not torch.equal(next(unwrap(model).parameters()), next(small_model().parameters()))


@dataclass(frozen=True, kw_only=True)
class Fussy(Slopes):
    """Fails on the odd sample, if its weights or its values are perturbed."""

    name = "fussy"

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        odd = inputs[:, 0] > 50
        if bool(odd.any()) and (is_copy(model) or bool((inputs[odd, 0] != 100.0).any())):
            raise ValueError("too large")
        return super().explain(model, inputs, targets, context)


@dataclass(frozen=True, kw_only=True)
class Leaky(Slopes):
    """Leaves a hook on copies of the model."""

    name = "leaky"

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        if is_copy(model):
            next(unwrap(model).children()).register_forward_hook(lambda _module, _inputs, output: output.abs())
        return super().explain(model, inputs, targets, context)


@pytest.mark.parametrize("score", [FastGEF(sigma=0.1), MPRT(walk=MonteCarlo(draws=1))])
def test_parts_of_a_block_do_not_share_their_outputs(score: Any, tmp_path: Path) -> None:
    whole, parts = (values(tmp_path / one.name, small_model(), {"e": one}, score) for one in (Slopes(), Fussy()))
    assert np.isnan(parts).nonzero()[0].tolist() == [ODD]
    np.testing.assert_array_equal(np.delete(parts, ODD), np.delete(whole, ODD))


def test_a_hook_on_a_copy_reaches_no_other_explainer(tmp_path: Path) -> None:
    score = MPRT(walk=MonteCarlo(draws=1))
    alone = values(tmp_path / "alone", small_model(), {"g": Gradient()}, score)
    np.testing.assert_array_equal(values(tmp_path / "beside", small_model(), {"leaky": Leaky(), "g": Gradient()}, score), alone)


@dataclass(frozen=True, kw_only=True)
class OneByOne(Executor):
    """An executor as a plugin would write it."""

    name = "one_by_one"

    def run(self, jobs: Sequence[Any], runner: Any, progress: Any) -> None:
        for job in jobs:
            runner.run(job, partial(progress.advance, job))
            progress.finish(job)


def test_a_model_that_changed_between_runs_is_read_again(tmp_path: Path) -> None:
    model, score = small_model(), FastGEF(sigma=0.1)
    values(tmp_path / "first", model, {"g": Gradient()}, score, on=OneByOne())
    with torch.no_grad():
        model[1].running_mean.fill_(2.0)
    again = values(tmp_path / "again", model, {"g": Gradient()}, score, on=OneByOne())
    np.testing.assert_array_equal(values(tmp_path / "fresh", deepcopy(model), {"g": Gradient()}, score), again)


def test_jobs_share_a_scratch_copy_until_the_run_ends(tmp_path: Path) -> None:
    model, other = small_model(), small_model()
    first = ScratchModel.of(model, 0)
    assert ScratchModel.of(model, 0) is first
    assert ScratchModel.of(model, 1) is not first
    assert ScratchModel.of(other, 1).model is other
    forget_copies()
    assert LATEST == []
    values(tmp_path / "run", model, {"g": Gradient()}, MPRT())
    assert LATEST == []


@pytest.mark.parametrize("number", [1, 3])
def test_a_cell_that_cannot_be_written_fails_alone(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, count = loop.Outcome.write, [0]

    def broken(self: Any, job: Any, cells: Any, folder: RunFolder) -> None:
        count[0] += 1
        if count[0] == number:
            raise RuntimeError("no memory for the copy")
        write(self, job, cells, folder)

    monkeypatch.setattr(loop.Outcome, "write", broken)
    audit = Audit(models=small_model(), inputs=torch.randn(150, 5), explainers=["gradient"], scores=["max_sensitivity"], controls=False)
    result = audit.run(tmp_path / "run", progress=False)
    (failure,) = result.failures().to_dict("records")
    assert (failure["cells_failed"], failure["error"]) == (1, "RuntimeError: no memory for the copy")


def test_explanations_that_cannot_be_stored_end_the_run_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: Any, **_settings: Any) -> None:
        raise RuntimeError("pinned memory is gone")

    monkeypatch.setattr(RunFolder, "write_tensors", full)
    audit = Audit(models=small_model(), inputs=data(), explainers=["gradient"], scores=["sparseness"], controls=False)
    with pytest.raises(loop.StoreError, match="The explanations of gradient could not be stored: RuntimeError: pinned memory is gone"):
        audit.run(tmp_path / "run", progress=False)


def test_a_part_of_a_block_does_not_overwrite_explanations_that_are_about_to_be_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = reader.Block.store_explanation

    def slow(self: Any, key: str, maps: Any) -> None:
        time.sleep(0.5)
        store(self, key, maps)

    monkeypatch.setattr(reader.Block, "store_explanation", slow)
    scores = [Sparseness(), MaxSensitivity(walk=MonteCarlo(draws=2))]
    audit = Audit(models=small_model(), inputs=data(), explainers={"e": Fussy()}, scores=scores, controls=False, companions=False)
    result = audit.run(tmp_path / "run", progress=False)
    assert result.failures()["samples_failed"].tolist() == [1]
    assert not result.explanations("model", "e").isnan().any()
