from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from small import series_inputs, small_net
from veracity import Audit
from veracity.core.errors import InputError, SpecError
from veracity.core.models import evaluating, in_precision
from veracity.engine.plan import plan
from veracity.engine.precision import CHECKED, ROUNDING, check_resolution, smallest_share, strict_plan
from veracity.perturb import GaussianNoise, ParameterScaling
from veracity.report import render
from veracity.results.words import strict_lines
from veracity.scores import FastGEF, RelativeInputStability
from veracity.walk import MonteCarlo

pytestmark = pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")


def audit(**settings: Any) -> Audit:
    about = {"explainers": ["gradient"], "scores": ["max_sensitivity"], "controls": False, "companions": False}
    return Audit(models={"net": small_net()}, inputs=series_inputs(40), **{**about, **settings})


def pretend_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let audits take the CPU for a GPU, whose TF32 then changes no number."""
    monkeypatch.setattr("veracity.audit.device_of", lambda _module: torch.device("cuda"))


def test_tf32_needs_a_gpu(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"needs a GPU, but model 'net' is on the CPU"):
        audit(precision="tf32").run(tmp_path / "run", progress=False)


def test_a_damaged_strict_folder_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_gpu(monkeypatch)
    asked = audit(precision="tf32")
    before = asked.run(tmp_path / "run", progress=False).manifest["strict"]
    for cell in (tmp_path / "run" / "strict" / "cells").iterdir():
        cell.write_bytes(b"broken")
    assert asked.run(tmp_path / "run", progress=False).manifest["strict"] == before


def test_the_report_says_what_tf32_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_gpu(monkeypatch)
    fast, plain = (audit(precision=one).run(tmp_path / one, progress=False) for one in ("tf32", "float32"))
    page = render(fast)
    assert page.count("What TF32 changes") == 2
    assert "What TF32 changes" not in render(plain)
    (record, *_) = fast.manifest["strict"]
    assert f'<td class="n">{record["float32"]:.4g}</td><td class="n">{record["largest"]:.2g}</td>' in page


def test_the_strict_check_computes_its_own_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the first pass are in TF32."""
    pretend_gpu(monkeypatch)
    given: dict[str, Any] = {"explainers": ["gradient"], "scores": ["average_drop"], "precision": "tf32"}
    prepared = Audit(models={"net": small_net()}, inputs=series_inputs(CHECKED), **given).prepare()
    assert all(one.first is not None for one in prepared.problem.models.values())
    assert all(one.first is None for one in strict_plan(prepared).problem.models.values())


def test_a_calibrated_strength_below_the_resolution_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_gpu(monkeypatch)
    monkeypatch.setattr("veracity.engine.precision.ROUNDING", 10.0)
    with pytest.raises(SpecError, match="'fast_gef' perturbs by"):
        audit(precision="tf32", scores=["fast_gef"]).run(tmp_path / "run", progress=False)


def test_recurrent_networks_are_strict_too() -> None:
    with evaluating(small_net()):
        assert torch.backends.cudnn.rnn.fp32_precision == "ieee"


def test_an_unknown_precision_gets_a_suggestion() -> None:
    with pytest.raises(SpecError, match=r"'tf23'.*tf32"):
        audit(precision="tf23")


def test_models_are_evaluated_in_the_precision_of_the_audit_and_settings_come_back() -> None:
    matmul, net = torch.backends.cuda.matmul, small_net()
    before = matmul.fp32_precision
    with evaluating(net):
        assert matmul.fp32_precision == "ieee"
    with in_precision("tf32"), evaluating(net):
        assert matmul.fp32_precision == "tf32"
    assert matmul.fp32_precision == before


@pytest.mark.parametrize("score", [RelativeInputStability(sigma=0.001), FastGEF(sigma=1e-4)])
def test_perturbations_that_tf32_rounds_away_are_refused(score: Any) -> None:
    asked = audit(scores=[score])
    with pytest.raises(SpecError, match=rf"'{score.name}' perturbs by .* but tf32 rounds that by up to 0.00049: use precision='float32'"):
        check_resolution(asked.prepare().jobs, asked.data)


def test_larger_perturbations_are_measured() -> None:
    asked = audit(scores=[RelativeInputStability(sigma=0.02), FastGEF(sigma=0.1), "max_sensitivity"])
    check_resolution(asked.prepare().jobs, asked.data)


def test_the_share_of_a_perturbation_by_hand() -> None:
    assert smallest_share(GaussianNoise(sigma=0.5), 2.0) == 0.25
    assert smallest_share(GaussianNoise(sigma=0.5), 0.0) is None
    assert smallest_share(ParameterScaling(sigma=0.3, steps=1), 2.0) == pytest.approx(0.3)
    assert pytest.approx(2**-11) == ROUNDING


def test_the_strict_plan_has_the_first_samples_and_the_same_targets() -> None:
    prepared = audit().prepare()
    strict = strict_plan(prepared)
    assert [job.samples for job in strict.jobs] == [range(CHECKED)]
    ours, theirs = prepared.problem.models["net"], strict.problem.models["net"]
    assert torch.equal(ours.targets, theirs.targets)
    assert ours.fingerprint != theirs.fingerprint
    assert {cell.key for job in prepared.jobs for cell in job.cells}.isdisjoint(cell.key for job in strict.jobs for cell in job.cells)


def test_a_plan_of_few_samples_leaves_out_folds_without_any() -> None:
    prepared = audit().prepare()
    assert sum(len(job.samples) for job in plan(prepared.problem, prepared.budgets, most=3)) == 3
    assert plan(prepared.problem, prepared.budgets, most=0) == []


@pytest.mark.parametrize("score", ["max_sensitivity", "deletion", FastGEF(sigma=0.1)])
def test_a_run_in_tf32_prints_what_the_same_draws_give_in_float32(score: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_gpu(monkeypatch)
    asked = audit(precision="tf32", scores=[score])
    result = asked.run(tmp_path / "run", progress=False)
    (record,) = result.manifest["strict"]
    few = result.samples(record["score"])["value"][:CHECKED]
    assert (record["samples"], record["largest"]) == (CHECKED, 0.0)
    assert record["tf32"] == record["float32"] == pytest.approx(few.mean())
    assert "in tf32" in strict_lines([record])[0]
    assert strict_lines([record])[0] in str(result)


def test_the_strict_check_sees_what_rounding_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_gpu(monkeypatch)

    class Rounded(nn.Module):
        """Rounds its outputs in TF32."""

        def __init__(self) -> None:
            super().__init__()
            self.net = small_net()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.net(x)
            return found * 1.01 if torch.backends.cuda.matmul.fp32_precision == "tf32" else found

    about = replace(audit(precision="tf32", scores=["deletion", "max_sensitivity"]), models={"net": Rounded()})
    result = about.run(tmp_path / "run", progress=False)
    by_score = {record["score"]: record for record in result.manifest["strict"]}
    assert 0.0 < by_score["deletion"]["largest"] < 0.05
    assert by_score["max_sensitivity"]["largest"] < 1e-5  # a share of the map's size
    again = about.run(tmp_path / "run", progress=False)
    assert again.manifest["strict"] == result.manifest["strict"]


def test_precision_is_part_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_gpu(monkeypatch)
    keys = [{cell.key for job in audit(precision=one).prepare().jobs for cell in job.cells} for one in ("float32", "tf32")]
    assert keys[0].isdisjoint(keys[1])


def test_draws_of_other_samples_are_those_of_the_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_gpu(monkeypatch)
    result = audit(precision="tf32", scores=["random_logit"], walk=MonteCarlo(draws=2)).run(tmp_path / "run", progress=False)
    assert [record["largest"] for record in result.manifest["strict"]] == [0.0]
