"""Four squares per explainer: their areas are the shares of the outcomes."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch
from torch import nn

from veracity import Audit
from veracity.report.figures.outcomes import Fourfold, OutcomesFigure, draw_fourfold
from veracity.report.reading import read
from veracity.scores import AlignedOutcomes


def test_areas_are_shares() -> None:
    item = Fourfold(title="<gradient>", frame="input", shares=(0.25, 0.25, 0.5, 0.0), ends=((0.0, 1.0),) * 4)
    drawing = ElementTree.fromstring(str(draw_fourfold(item)))
    sides = [float(rect.get("width", 0)) for rect in drawing.iter("rect")]
    assert [(side / 92) ** 2 for side in sides] == pytest.approx([0.25, 0.25, 0.5, 0.0], abs=1e-3)
    centres = [tuple(float(rect.get(at, 0)) + side / 2 for at in "xy") for rect, side in zip(drawing.iter("rect"), sides, strict=True)]
    assert centres == [pytest.approx(place, abs=0.1) for place in ((50, 50), (150, 150), (50, 150), (150, 50))]
    label = drawing.get("aria-label")
    assert label == "<gradient>: both kept 0.25, both changed 0.25, explanation changed alone 0.50, model changed alone 0.00"


def test_a_report_draws_explainers_and_random_controls(tmp_path: Path) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, x = nn.Linear(6, 3), torch.randn(5, 6)
    audit = Audit(models=model, inputs=x, explainers=["gradient"], scores=[AlignedOutcomes(sigma=0.5, draws=2, steps=3)])
    result = audit.run(tmp_path / "run", progress=False)
    found = OutcomesFigure().data(read(result), "aligned_outcomes")
    assert found is not None
    assert [one.title for one in found] == ["gradient", "random_uniform", "random_gaussian"]
    assert all(sum(one.shares) == pytest.approx(1.0) for one in found)
    page = result.save_report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Kept or changed" in page
    assert page.count("both kept, or both changed") == 1
