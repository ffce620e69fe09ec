"""`show` and `gate` read the summary in the folder, which counts only while the folder and the code are what it was made of."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import code

from veracity import Audit
from veracity.cli import summary
from veracity.engine.store import RunFolder


@pytest.fixture
def run(make_audit: Callable[..., Audit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VERACITY_STATE", str(tmp_path / "state"))
    make_audit(explainers=["gradient"], controls=False, companions=False).run(tmp_path / "run", progress=False)
    return tmp_path / "run"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders whose summaries were derived, in their order."""
    seen: list[str] = []
    before = summary.derive
    monkeypatch.setattr(summary, "derive", lambda folder, result: seen.append(folder) or before(folder, result))
    return seen


@pytest.mark.parametrize(
    "command", [["show"], ["show", "--format", "json"], ["show", "--format", "csv"], ["gate", "--require", "equivariance>=-1"]]
)
def test_a_second_call_derives_nothing_and_says_the_same(
    run: Path, reads: list[str], command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert code(command[0], run, *command[1:]) == 0
    first = capsys.readouterr()
    assert code(command[0], run, *command[1:]) == 0
    assert capsys.readouterr() == first
    assert len(reads) == 1


def test_whatever_changes_is_derived_again(run: Path, reads: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert code("show", run) == 0
    os.utime(next((run / "cells").iterdir()))
    assert code("show", run) == 0
    assert len(reads) == 1, "the content counts, not the time"
    monkeypatch.setattr(summary, "code", lambda: ["another version"])
    assert code("show", run) == 0
    assert len(reads) == 2
    shutil.copytree(run, tmp_path / "copy")
    assert code("show", tmp_path / "copy") == 0
    assert len(reads) == 3, "a folder that no run of this user wrote may bring any summary"
    next((run / "cells").iterdir()).unlink()
    assert code("show", run) == 0
    assert len(reads) == 4
    with RunFolder(str(run)).writing():
        assert code("show", run) == 0
        assert code("show", run) == 0
    assert len(reads) == 6, "no summary counts while somebody writes"


@pytest.mark.subprocess
def test_commands_that_read_import_only_what_they_need(run: Path) -> None:
    """Commands that may import the same share a process, as starting one takes seconds."""
    heavy = ("captum", "sklearn", "transformers", "torchvision", "jinja2", "PIL", "fastapi", "ray", "veracity.explain", "veracity.audit")
    show, gate = ["show", str(run)], ["gate", str(run), "--require", "equivariance>=-1"]

    def imported(*commands: list[str], forget: bool = False) -> set[str]:
        script = (
            "import sys\nfrom pathlib import Path\nfrom veracity.cli.main import app\n"
            f"for words in {commands}:\n"
            f"    if {forget}: Path({str(run / 'summary.json')!r}).unlink(missing_ok=True)\n"
            "    try: app(words)\n"
            "    except SystemExit as end: assert not end.code, words\n"
            f"    print([name for name in {(*heavy, 'torch', 'pandas')} if name in sys.modules], file=sys.stderr)"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert done.stdout
        return set(ast.literal_eval(done.stderr.splitlines()[-1]))

    assert imported(show, gate, forget=True) == {"torch", "pandas"}, "a table is derived by scores, which need torch"
    assert (run / "summary.json").exists()
    assert imported(["--help"], show, gate) == set(), "the saved summary is read"


def test_what_is_measured_meanwhile_is_not_sealed(run: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def changing(folder: str, result: Any) -> summary.Summary:
        found = derive(folder, result)
        cell = next((run / "cells").iterdir())
        cell.with_suffix(".again").write_bytes(cell.read_bytes())
        cell.with_suffix(".again").rename(cell)
        return found

    derive = summary.derive
    monkeypatch.setattr(summary, "derive", changing)
    assert code("show", run) == 0
    assert not (run / "summary.json").exists()
    assert len(reads) == 1


def test_damage_is_told_though_there_is_a_summary(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("show", run) == 0
    cell = next((run / "cells").iterdir())
    cell.write_bytes(cell.read_bytes()[:-9])
    assert code("gate", run, "--require", "equivariance>=-1") != 0
    (run / "manifest.json").write_text("{")
    assert code("show", run) == 2
    assert "damaged" in capsys.readouterr().err


def test_a_cell_that_became_a_link_is_refused_though_there_is_a_summary(run: Path, tmp_path: Path) -> None:
    assert code("show", run) == 0
    cell = next((run / "cells").iterdir())
    shutil.move(cell, tmp_path / "outside")
    cell.symlink_to(tmp_path / "outside")
    assert code("show", run) == 2


def test_a_damaged_summary_does_not_count(run: Path, reads: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert code("show", run) == 0
    said, kept = capsys.readouterr(), run / "summary.json"
    for damaged in (b"", b"{", kept.read_bytes()[:-1], kept.read_bytes().replace(b"equivariance", b"Equivariance")):
        kept.write_bytes(damaged)
        assert code("show", run) == 0
        assert capsys.readouterr() == said
    assert len(reads) == 5
