from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from veracity import Audit, FastGEF, InputAlignment
from veracity.engine.calibration import DRAWS, undecided


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
    assert record["agreement"] == dict(map(tuple, record["curve"]))[record["sigma"]]
