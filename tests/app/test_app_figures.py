"""The main figure of a run in few numbers: those of its result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from app_client import client

from card_records import explainer, record
from orbit_small import digits_like, images, labels, linear
from veracity import Audit
from veracity.app import figures
from veracity.app.figures import audit_intervals, card_words, orbit_curves
from veracity.orbits import OrbitResult
from veracity.perturb import Dihedral
from veracity.walk import Exhaustive


def audit() -> Audit:
    return Audit(
        models={"net": linear(0)}, inputs=images(), targets=labels(), symmetry=Dihedral(), walk=Exhaustive(),
        explainers=["saliency", "gradient"], scores=["equivariance"],
    )  # fmt: skip


def test_an_audit_has_its_intervals_best_first_and_controls_last(tmp_path: Path) -> None:
    result = audit().run(tmp_path / "run", progress=False)
    table = result.table().set_index("explainer")
    found = audit_intervals(result)
    assert found is not None
    assert [found["kind"], found["title"]] == ["intervals", "Equivariance on net"]
    for row in found["rows"]:
        assert [row[name] for name in ("value", "low", "high")] == [table.loc[row["name"], name] for name in ("value", "low", "high")]
    assert [row["control"] for row in found["rows"]] == sorted(row["control"] for row in found["rows"])
    own = [row["value"] for row in found["rows"] if not row["control"]]
    assert own == sorted(own, reverse=True)
    with client(tmp_path) as asking:
        assert asking.get("/api/runs/run/verdict").json()["figure"]["rows"][0]["name"] == found["rows"][0]["name"]


def test_an_orbit_has_the_mean_of_its_first_metric(tmp_path: Path) -> None:
    result = digits_like(title="Squares").run(tmp_path, progress=False)
    found = orbit_curves(OrbitResult(tmp_path))
    assert found is not None
    for curve in found["curves"]:
        values = result.values(curve["name"], result.metrics[0]["name"], result.references[0]).astype(float)
        assert curve["values"] == pytest.approx(np.nanmean(values, axis=0))


def test_a_card_has_the_words_of_its_questions() -> None:
    words = ("holds", "falls short", "cannot tell yet", "does not apply", "holds", "holds")
    card = record(explainer("lime", *words), explainer("random", *words, control=True))
    found = card_words(card)
    by_name = {one.name: [answer.word for answer in one.answers] for one in card.explainers if not one.control}
    assert {row["name"]: row["words"] for row in found["rows"]} == by_name == {"lime": list(words)}
    assert len(found["questions"]) == len(card.questions)


def test_an_audit_with_very_many_cells_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = audit().run(tmp_path, progress=False)
    assert figures.small_figure(tmp_path, result.manifest) is not None
    monkeypatch.setattr(figures, "CELLS", 1)
    assert figures.small_figure(tmp_path, result.manifest) is None
