from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from orbit_small import digits_like, linear
from small import small_net
from stored import signed
from veracity import Audit, OrbitResult
from veracity.engine.store.manifest import StudyManifest, check
from veracity.engine.store.records import DEEPEST, depth, parsed, unsealed
from veracity.engine.versions import versions


def test_models_and_explainers_that_are_the_same_share_their_cells(make_audit: Callable[..., Audit], tmp_path: Path) -> None:
    asked = make_audit(explainers={"one": "gradient", "other": "gradient"}, models={"net": small_net()}, companions=False, controls=False)
    assert set(asked.run(tmp_path / "run", progress=False).table()["explainer"]) >= {"one", "other"}


@pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
def test_orbits_of_models_that_are_the_same_are_read(tmp_path: Path) -> None:
    digits_like(models={"a": linear(0), "b": linear(0)}).run(tmp_path, progress=False)
    assert OrbitResult(tmp_path).models == ("a", "b")


def test_depth_counts_brackets_outside_of_texts_alone() -> None:
    assert depth(b'{"a": [1, {"b": "]]]"}]}') == 3
    assert depth(rb'["\"[[[", "\\", [0]]') == 2
    assert parsed(b"[" * DEEPEST + b"]" * DEEPEST)
    with pytest.raises(ValueError, match="more than 64 deep"):
        parsed(b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1))


@pytest.mark.parametrize("part", ["../x", "/x", "a/../../x", "", "~/x", "a\\..\\x"])
def test_a_part_of_a_study_stays_in_its_folder(part: str) -> None:
    with pytest.raises(ValueError, match="leads out of the folder"):
        check(StudyManifest, {"parts": [part], "finished": False})


def test_halves_of_characters_and_what_steers_a_terminal_are_replaced() -> None:
    found = unsealed(signed({"a\x1b": ["\ud83d", "\U0001f600", "\x9b1m", "line\nline"]}))
    assert found == {"a\ufffd": ["\ufffd", "\U0001f600", "\ufffd1m", "line\nline"]}


def test_versions_are_those_of_the_packages_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "umap", raising=False)
    for name in ("xgboost", "skimage"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    found = versions()
    assert {"python", "veracity", "torch", "xgboost", "scikit-image"} <= set(found)
    assert "umap-learn" not in found
    assert "not installed" not in found.values()
