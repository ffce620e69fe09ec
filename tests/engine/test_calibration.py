from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from veracity import Audit
from veracity.cli.tables import page
from veracity.engine.preliminaries import DRAWS, EVALUATIONS, Agreement, undecided
from veracity.scores import FastGEF, InputAlignment


def binary() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)).eval()


def test_more_draws_until_it_is_known_or_clear() -> None:
    even = [0.0, 1.0] * 20  # a standard error of .08
    assert undecided(even, target=0.55, enough=0.025)
    assert not undecided(even, target=0.55, enough=0.1)
    assert not undecided(even, target=0.95, enough=0.025)


def test_a_strength_is_the_same_whatever_the_batch_and_says_how_it_was_found(tmp_path: Path) -> None:
    x = torch.randn(24, 6, generator=torch.Generator().manual_seed(1))
    given = {"models": binary(), "inputs": x, "explainers": ["gradient"], "controls": False, "companions": False, "outputs": "logits"}
    audit = Audit(**given, scores=[FastGEF(draws=2), InputAlignment(draws=2, sigma=3.0)])
    whole = audit.run(tmp_path / "whole", progress=False).manifest["calibrations"]
    few = audit.run(tmp_path / "few", batch=7, progress=False).manifest["calibrations"]
    assert whole == few
    (record,) = whole
    assert (record["model"], record["space"]) == ("model", "parameter_scaling")
    assert record["chance"] == 0.5
    assert record["tolerance"] == pytest.approx(0.05)
    assert record["draws"] > DRAWS
    curve = dict(map(tuple, record["curve"]))
    assert record["agreement"] == curve[record["sigma"]]
    assert max(curve) >= 2 * record["sigma"] * 0.98  # one strength more, for the range's upper end
    assert record["low"] <= record["sigma"]
    assert record["sigma"] <= 1.05 * record["high"]
    assert not record["levels_off"]
    assert 0.4 < record["independent"] < 0.6


def test_a_forecast_applies_stored_strengths_and_counts_those_to_be_found(tmp_path: Path) -> None:
    x = torch.randn(24, 6, generator=torch.Generator().manual_seed(1))
    given = {"models": binary(), "inputs": x, "explainers": ["gradient"], "controls": False, "companions": False, "outputs": "logits"}
    audit, folder = Audit(**given, scores=[FastGEF(draws=2)]), tmp_path / "run"
    calibrated = Audit(**given, scores=[FastGEF(draws=2, sigma=2.0)])
    before = audit.forecast(folder)
    assert not folder.exists()
    assert (before.calibrations, before.finished) == (1, 0)
    assert before.forward == calibrated.forecast().forward + 24 * (1 + EVALUATIONS * DRAWS)
    (record,) = audit.run(folder, progress=False).manifest["calibrations"]
    assert len(record["curve"]) >= EVALUATIONS
    files = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    after = audit.forecast(folder)
    assert (after.calibrations, after.cells, after.finished, after.forward) == (0, before.cells, before.cells, 0)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == files


def test_a_result_says_where_its_paths_end_and_how_sure_that_is(tmp_path: Path) -> None:
    x = torch.randn(24, 6, generator=torch.Generator().manual_seed(1))
    given = {"models": binary(), "inputs": x, "explainers": ["gradient"], "controls": False, "companions": False, "outputs": "logits"}
    result = Audit(**given, scores=[FastGEF(draws=2)]).run(tmp_path, progress=False)
    (row,) = result.strengths().to_dict("records")
    line = f"model: paths of parameter scaling end at strength {row['sigma']:.3g} (95 % range {row['low']:.3g} "
    assert line in str(result)
    assert "95 % range" in str(page(result))
    result.save_report(tmp_path / "report.html")
    assert f"95 % range {row['low']:.3g} " in (tmp_path / "report.html").read_text()
    assert Audit(**given, scores=[FastGEF(draws=2, sigma=1.0)]).run(tmp_path / "given", progress=False).strengths().empty


class Leaning(nn.Module):
    """Three classes, of which a part depends on the input alone: agreement levels off above 1/3."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.tanh(20 * self.inner(x)) + 0.5 * torch.tanh(3 * x[:, :3])
        return found


def test_agreement_that_levels_off_above_chance_stands_for_it(tmp_path: Path) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Leaning().eval()
    x = torch.randn(64, 6, generator=torch.Generator().manual_seed(1))
    given = {"models": model, "inputs": x, "explainers": ["gradient"], "controls": False, "companions": False, "outputs": "logits"}
    result = Audit(**given, scores=[FastGEF(draws=2)]).run(tmp_path, progress=False)
    (record,) = result.manifest["calibrations"]
    assert record["levels_off"]
    assert 1 / 3 + 1 / 30 < record["chance"] < 2 / 3
    assert record["independent"] < record["chance"]
    assert "levels off at" in str(result)


def test_copies_that_are_read_together_give_the_strength_of_copies_that_are_read_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The choice depends on a clock, so the numbers must not."""
    x = torch.randn(6, 6, generator=torch.Generator().manual_seed(1))
    given = {"models": binary(), "inputs": x, "explainers": ["gradient"], "controls": False, "companions": False, "outputs": "logits"}
    found = []
    for together in (True, False):
        monkeypatch.setattr(Agreement, "maps_faster", lambda *_, together=together: together)
        run = Audit(**given, scores=[FastGEF(draws=2)]).run(tmp_path / str(together), progress=False)
        found.append(run.manifest["calibrations"])
    assert found[0] == found[1]


class Hidden(nn.Linear):
    """A pass of many copies does not see their weights."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, torch.tensor(dict(self.named_parameters())["weight"].detach().tolist()))


def test_a_model_that_cannot_be_mapped_is_read_one_copy_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, decide = [], Agreement.maps_faster
    monkeypatch.setattr(Agreement, "maps_faster", lambda *given: chosen.append(decide(*given)) or chosen[-1])
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    given = {"explainers": ["occlusion"], "controls": False, "companions": False, "outputs": "logits"}
    run = Audit(models=Hidden(4, 2).eval(), inputs=x, **given, scores=[FastGEF(draws=2)]).run(tmp_path, progress=False)
    assert chosen == [False]
    assert run.strengths()["sigma"].item() > 0
