"""`ls` lists components without importing them, from a file that a test keeps up to date.

Write it anew: PYTHONPATH=src:papers/src:tests:tests/cli python -m test_catalogue
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from commands import code

from veracity.cli.catalogue import FILE, KINDS, sentence
from veracity.core import registry


def registered() -> dict[str, dict[str, str]]:
    """The names and sentences of the package's own components, by kind."""
    known = {one.plural: one for one in vars(registry).values() if isinstance(one, registry.Registry)}
    found = {kind: {name: item for name, item in sorted(known[kind].own().items()) if ours(item)} for kind in KINDS}
    return {kind: {name: item.summary() for name, item in items.items()} for kind, items in found.items()}


def ours(item: Any) -> bool:
    maker = getattr(item, "assemble", getattr(item, "function", item))
    return str(maker.__module__).startswith("veracity.")


def test_the_catalogue_lists_every_component() -> None:
    written = json.loads(FILE.read_text(encoding="utf-8"))
    assert written == registered(), "components have changed: see the docstring of this module"


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


if __name__ == "__main__":
    FILE.write_text(json.dumps(registered(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
