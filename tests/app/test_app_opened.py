from __future__ import annotations

import os
from pathlib import Path

import pytest
from app_client import LIVE, client
from starlette.testclient import TestClient

from orbit_run import evaluation, linear, measured
from stored import edit_manifest
from veracity import OrbitEvaluation
from veracity.core.errors import StoreError
from veracity.core.registry import RECIPES
from veracity.recipe import Recipe, trained_once, without_training
from veracity.report.interactive.packed import unpack
from veracity.trainers.training import initialised


def asked(served: TestClient) -> dict[str, object]:
    with served.websocket_connect(LIVE) as socket:
        socket.send_text('{"seq": 1, "sample": 0, "at": [0]}')
        return unpack(socket.receive_bytes())[0]


def touched(folder: Path, later: int) -> None:
    """The manifest written again, some seconds later."""
    stamp = (folder / "manifest.json").stat().st_mtime_ns + later * 10**9
    os.utime(folder / "manifest.json", ns=(stamp, stamp))


def test_other_models_than_the_runs_are_not_asked(tmp_path: Path) -> None:
    measured(tmp_path, samples=3, explainers=())
    other = evaluation(samples=3, explainers=(), models={f"seed {seed}": initialised(linear, seed=seed + 5) for seed in (0, 1)})
    with client(tmp_path, other) as served:
        assert "are not those of this run" in str(asked(served)["error"])
        known = served.get("/api/runs/0").json()
        assert known["live"] is False
        assert "are not those of this run" in known["why"]
        assert "are not those of this run" in str(asked(served)["error"])
        other.run(tmp_path, progress=False)
        touched(tmp_path, 5)
        known = served.get("/api/runs/0").json()
        assert known["live"] is True, "it was run again"
        assert known["why"] is None
        assert "error" not in asked(served)


def test_a_run_that_is_made_anew_is_not_answered_by_its_old_models(tmp_path: Path) -> None:
    made = measured(tmp_path, samples=3, explainers=())
    with client(tmp_path, made) as served:
        assert "error" not in asked(served)
        measured(tmp_path, samples=4, explainers=())
        touched(tmp_path, 5)
        assert "are not those of this run" in str(asked(served)["error"])


def named(folder: Path, recipe: str, monkeypatch: pytest.MonkeyPatch, made: list[str]) -> None:
    """A run whose manifest names a recipe, which notes that it was put together and trains what is not there."""

    def assemble(where: Path, scale: object) -> OrbitEvaluation:
        made.append(recipe)
        trained_once(where, "net", linear, 1, lambda model, report: model)
        return evaluation(samples=3, explainers=(), about={"recipe": recipe, "scale": "smoke"})

    monkeypatch.setitem(RECIPES._items, recipe, Recipe(recipe, assemble))
    evaluation(samples=3, explainers=(), about={"recipe": recipe, "scale": "smoke"}).run(folder, progress=False)


def test_no_other_recipe_is_put_together_because_a_manifest_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    named(tmp_path, "symmetry-test", monkeypatch, made)
    with client(tmp_path) as served:
        assert served.get("/api/runs/0").json()["live"] is False
        assert "no live models" in str(asked(served)["error"])
    assert not made


def test_putting_a_recipe_together_trains_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    named(tmp_path, "orbits-trained", monkeypatch, made)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with client(tmp_path) as served:
        assert "The model 'net' is not in" in str(asked(served)["error"])
        assert sorted(path.name for path in tmp_path.rglob("*")) == before
        assert "could not be made again" in str(asked(served)["error"])
        assert made == ["orbits-trained"]
        trained_once(tmp_path, "net", linear, 1, lambda model, report: model)
        assert "error" not in asked(served), "now it is there"


def test_training_is_allowed_again_afterwards(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="run the recipe again, which trains it"), without_training():
        trained_once(tmp_path, "net", linear, 1, lambda model, report: model)
    trained_once(tmp_path, "net", linear, 1, lambda model, report: model)
    with without_training():
        trained_once(tmp_path, "net", linear, 1, lambda model, report: pytest.fail("it is trained already"))


def test_a_manifest_of_another_kind_has_no_live_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    named(tmp_path, "orbits-kind", monkeypatch, made)
    edit_manifest(tmp_path, lambda about: about.update(kind="audit"))
    with client(tmp_path) as served:
        assert "is damaged: manifest.json cannot be read (scores: field required)" in str(asked(served)["error"])
    assert not made
