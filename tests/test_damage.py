from __future__ import annotations

import warnings
from pathlib import Path

from damage import audit, damage
from stored import record
from veracity import Result
from veracity.core.errors import Note


def ran(folder: Path) -> tuple[str, list[str]]:
    """The table of the audit, and the notes on the way."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", Note)
        return str(audit().run(folder, progress=False)), [str(one.message) for one in said]


def test_damaged_files_are_noticed_and_made_again(tmp_path: Path) -> None:
    found = damage(14, 1, tmp_path)
    assert len(found) == 14
    assert not [one for one in found if one.silent or not one.healed]
    assert any(one.noticed for one in found)


def test_the_same_command_says_what_it_makes_again(tmp_path: Path) -> None:
    before, notes = ran(tmp_path)
    assert not [one for one in notes if "damaged" in one]
    cell = next(cell["key"] for cell in Result(tmp_path).manifest["cells"] if cell["score"] == "equivariance")
    file = record(tmp_path, "cells", cell)
    file.write_bytes(file.read_bytes()[:-1])
    (tmp_path / "manifest.json").write_bytes(b"{")
    after, notes = ran(tmp_path)
    assert after == before
    assert f"2 files were damaged or lost in {tmp_path}; they are made again: manifest.json, cells/{cell}." in notes
    (tmp_path / "manifest.json").unlink()
    (tmp_path / "report.html").write_text("a report of it")
    assert ran(tmp_path)[0] == before
