"""`ls` lists components without importing them, from a file that a test keeps up to date."""

from __future__ import annotations

import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from commands import code

from catalogue import registered
from veracity.cli.catalogue import FILE, sentence


def test_the_catalogue_lists_every_component() -> None:
    written = json.loads(FILE.read_text(encoding="utf-8"))
    assert written == registered(), "components have changed: run python -m tests.catalogue"


def test_a_plugin_is_listed_without_being_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plugin").mkdir()
    (tmp_path / "plugin" / "__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "plugin" / "parts.py").write_text('class Mine:\n    """What it does,\n    in short.\n\n    More."""\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    found = sentence(EntryPoint("mine", "plugin.parts:Mine", "veracity.scores"))
    assert found == "What it does, in short."
    assert "plugin" not in sys.modules
    assert sentence(EntryPoint("other", "plugin.parts:Other", "veracity.scores")) == "from the distribution plugin.parts"
    assert sentence(EntryPoint("none", "no_such_module:Other", "veracity.scores")) == "from the distribution no_such_module"


def test_a_kind_that_is_misspelt(capsys: pytest.CaptureFixture[str]) -> None:
    assert code("ls", "score") == 2
    assert "Unknown kind 'score'. Did you mean 'scores'?" in capsys.readouterr().err


def test_one_component_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert code("ls", "scores", "mprt") == 0
    said = capsys.readouterr().out
    for part in (
        "mprt (MPRT)",
        "better: lower",
        "range: -1 to 1",
        "a model with weights",
        "Adebayo",
        "layer_order = 'top_down'",
        "walk = monte_carlo(draws=5",
    ):
        assert part in said, part
    assert code("ls", "presets", "faithfulness") == 0
    assert "insertion: Area under the curve" in capsys.readouterr().out
    assert code("ls", "scores", "Max-Sensitivity") == 2
    assert "Did you mean 'max_sensitivity'?" in capsys.readouterr().err


def test_every_component_is_described() -> None:
    from veracity.cli.component import describe

    for kind, names in json.loads(FILE.read_text(encoding="utf-8")).items():
        for name in names:
            assert list(describe(kind, name)), f"{kind} {name}"
