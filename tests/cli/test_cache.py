"""What `show` and `gate` say is kept between calls, and made anew as soon as the folder, the code or the question changes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import code

from veracity import Audit
from veracity.cli import cache, read
from veracity.engine.store import RunFolder, writers


@pytest.fixture
def run(make_audit: Callable[..., Audit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VERACITY_STATE", str(tmp_path / "state"))
    make_audit(explainers=["gradient"], controls=False, companions=False).run(tmp_path / "run", progress=False)
    return tmp_path / "run"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders that were read, in their order."""
    seen: list[str] = []
    before = read.loaded
    monkeypatch.setattr(read, "loaded", lambda folder: seen.append(folder) or before(folder))
    return seen


@pytest.mark.parametrize(
    "command", [["show"], ["show", "--format", "json"], ["show", "--format", "csv"], ["gate", "--require", "equivariance>=-1"]]
)
def test_a_second_call_reads_nothing_and_says_the_same(
    run: Path, reads: list[str], command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert code(command[0], run, *command[1:]) == 0
    first = capsys.readouterr()
    assert code(command[0], run, *command[1:]) == 0
    assert capsys.readouterr() == first
    assert len(reads) == 1


def test_whatever_changes_is_read_again(run: Path, reads: list[str], tmp_path: Path) -> None:
    assert code("show", run) == 0
    os.utime(next((run / "cells").iterdir()))
    assert code("show", run) == 0
    assert len(reads) == 2
    shutil.copytree(run, tmp_path / "copy")
    assert code("show", tmp_path / "copy") == 0
    assert len(reads) == 3
    next((run / "cells").iterdir()).unlink()
    assert code("show", run) == 0
    assert len(reads) == 4
    with RunFolder(str(run)).writing():
        assert code("show", run) == 0
        assert code("show", run) == 0
    assert len(reads) == 6, "nothing is kept while somebody writes"


def test_a_cell_that_became_a_link_is_refused_though_an_answer_is_kept(run: Path, tmp_path: Path) -> None:
    assert code("show", run) == 0
    cell = next((run / "cells").iterdir())
    shutil.move(cell, tmp_path / "outside")
    cell.symlink_to(tmp_path / "outside")
    assert code("show", run) == 2


def test_answers_that_others_can_write_or_that_are_damaged_do_not_count(run: Path, reads: list[str]) -> None:
    assert code("show", run) == 0
    (kept,) = (writers.state_folder() / "answers").iterdir()
    kept.chmod(0o666)
    assert code("show", run) == 0
    assert len(reads) == 2
    kept.chmod(0o600)
    kept.write_text("{")
    assert code("show", run) == 0
    assert len(reads) == 3


def test_only_some_answers_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERACITY_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(cache, "MOST", 3)
    (tmp_path / "run").mkdir()
    assert [cache.answer(str(tmp_path / "run"), str(number), lambda: "x") for number in range(5)] == ["x"] * 5
    assert len(list((tmp_path / "state" / "answers").iterdir())) == 3
