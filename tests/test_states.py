"""Pending, failed, undefined and done are told apart by every way to read a run."""

from __future__ import annotations

import csv
import io
import json
import math
import random
import re
import shutil
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gated import audit, broken, silent
from orbit_small import digits_like
from stored import record
from veracity import Audit, Result
from veracity.cli import main
from veracity.core.errors import Note, StoreError
from veracity.engine.store import RunFolder, writers
from veracity.engine.store.files import Files
from veracity.engine.store.manifest import Kind
from veracity.engine.store.state import Stage, commanded
from veracity.engine.store.study import study
from veracity.orbits import OrbitResult
from veracity.results.series import Series
from veracity.studies import load
from veracity.studies.several import Audits

SAMPLES = 130
"""Three blocks, so that a row has three cells."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two models: one explainer is quick, one undefined, and one fails."""
    from orbit_small import images, labels

    folder = tmp_path_factory.mktemp("states") / "whole"
    made = audit(
        inputs=images(SAMPLES), targets=labels(SAMPLES), controls=True, companions=True,
        explainers={"quick": "saliency", "silent": silent, "broken": broken},
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        made.run(folder, progress=False)
    return folder


@pytest.fixture
def half(whole: Path, tmp_path: Path) -> Path:
    """The same run as if it had been killed: of the first model one block is left out, of the second all."""
    folder = tmp_path / "half"
    shutil.copytree(whole, folder)
    for cell in RunFolder(str(folder)).manifest()["cells"]:
        if cell["model"] == "second" or cell["start"] >= 128:
            for kind in ("cells", "failed"):
                record(folder, kind, cell["key"]).unlink(missing_ok=True)
    return folder


@pytest.fixture
def partly(whole: Path, tmp_path: Path) -> Path:
    """The same run with one cell of the quick explainer failed."""
    folder = tmp_path / "partly"
    shutil.copytree(whole, folder)
    key = next(cell["key"] for cell in RunFolder(str(folder)).manifest()["cells"] if (cell["explainer"], cell["start"]) == ("quick", 64))
    record(folder, "cells", key).unlink()
    RunFolder(str(folder)).write_failure(key, "OutOfMemoryError: too large")
    return folder


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """What the command line ends with and prints."""
    with pytest.raises(SystemExit) as caught:
        main([str(one) for one in arguments])
    found = capsys.readouterr()
    return int(caught.value.code or 0), found.out, found.err


def states(folder: Path) -> dict[tuple[str, str, str], str]:
    table = Result(folder).table()
    return {(row["model"], row["explainer"], row["score"]): row["state"] for row in table.to_dict("records")}


def text_of(folder: Path, target: Path) -> str:
    """The report's visible text, on one line."""
    page = Result(folder).save_report(target / "report.html").read_text(encoding="utf-8")
    plain = re.sub(r"<(style|title)\b.*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    return " ".join(plain.split()).replace(" .", ".").replace(" ,", ",")


def test_a_finished_run_has_done_undefined_and_failed_rows(whole: Path) -> None:
    found = states(whole)
    for model in ("first", "second"):
        assert found[model, "quick", "equivariance"] == "done"
        assert found[model, "silent", "equivariance"] == "undefined"
        assert found[model, "broken", "equivariance"] == "failed"
        assert found[model, "", "model_invariance"] == "done"
    assert "pending" not in found.values()
    progress = Result(whole).progress
    assert progress.stage is Stage.FAILURES
    assert progress.sentence().startswith(f"Finished; {progress.failed} of {progress.cells} cells failed: RuntimeError: no memory left.")


def test_what_is_not_measured_is_pending_and_has_not_failed(half: Path) -> None:
    result = Result(half)
    found = states(half)
    assert {state for (model, *_), state in found.items() if model == "second"} == {"pending"}
    assert found["first", "quick", "equivariance"] == "pending"
    failures = result.failures()
    assert set(failures["explainer"]) == {"broken"}
    assert set(failures["model"]) == {"first"}
    assert not failures["error"].str.contains("measured").any()
    row = result.table().set_index(["model", "explainer", "score"]).loc[("first", "quick", "equivariance")]
    assert (row["cells"], row["cells_measured"], row["cells_failed"], row["failed"]) == (3, 2, 0, "")
    assert row["n"] == 128
    lost = result.table().set_index(["model", "explainer", "score"]).loc[("first", "broken", "equivariance")]
    assert (lost["state"], lost["cells_measured"], lost["cells_failed"]) == ("pending", 0, 2)
    assert result.progress.stage is Stage.UNFINISHED


def test_nothing_rests_on_a_control_that_is_pending(half: Path) -> None:
    table = Result(half).table()
    assert table["random_control"].isna().all()
    assert table["self_agreement"].isna().all()


def test_a_row_with_some_failed_cells_is_done_and_says_so(partly: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = Result(partly).table().set_index(["model", "explainer", "score"]).loc[("first", "quick", "equivariance")]
    assert (row["state"], row["cells_measured"], row["cells_failed"]) == ("done", 2, 1)
    assert row["failed"] == "OutOfMemoryError: too large"
    assert math.isfinite(row["value"])
    _, shown, _ = said(capsys, "show", partly)
    assert "first failed for quick (1 of 3 cells): OutOfMemoryError: too large" in " ".join(shown.split())
    text = text_of(partly, tmp_path)
    assert "done; 1 of 3 cells failed" in text
    assert "first quick equivariance 1 of 3 cells OutOfMemoryError: too large" in text
    status, _, error = said(capsys, "gate", partly, "--require", "equivariance>=-1", "--explainer", "quick")
    assert (status, "OutOfMemoryError: too large" in error) == (1, True)


def test_show_tells_the_states_in_every_format(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = said(capsys, "show", half)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    progress = Result(half).progress
    assert f"Unfinished: {progress.measured} of {progress.cells} cells are measured" in " ".join(lines)
    assert any(re.match(r"quick so far 0\.\d{3}.* 128 .*pending$", line) for line in lines)
    assert "2 of 3" in " ".join(lines)
    assert not any(line.endswith("done") for line in lines)
    _, listed, _ = said(capsys, "show", half, "--format", "json")
    rows = [json.loads(line) for line in listed.splitlines()]
    assert {row["state"] for row in rows} == {"pending"}
    assert {(row["cells_measured"], row["cells"]) for row in rows if row["model"] == "second"} == {(0, 3)}
    _, table, _ = said(capsys, "show", half, "--format", "csv")
    assert {row["state"] for row in csv.DictReader(io.StringIO(table))} == {"pending"}
    assert str(Result(half)).startswith("Unfinished: ")
    assert re.search(r"first +quick +equivariance ↑ +0\.\d{3} so far, 2 of 3 cells .* pending", str(Result(half)))
    assert re.search(r"second +quick +equivariance ↑ +0 of 3 cells .* pending", str(Result(half)))


def test_show_tells_failed_undefined_and_done_apart(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = said(capsys, "show", whole)
    words = {line.split()[0]: line.split() for line in text.splitlines() if line.split()}
    assert [words[name][-1] for name in ("quick", "silent", "broken")] == ["done", "undefined", "failed"]
    assert "Finished; " in text


def test_what_is_unseen_is_told_of_what_is_measured(half: Path, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Result(half).table()["unseen"].notna().any()
    for folder, settled in ((half, False), (whole, True)):
        _, text, _ = said(capsys, "show", folder)
        assert ("unseen ≤ " in text) == settled
        assert (" unseen " in str(Result(folder))) == settled
        assert ("all equal, unseen ≤ " in text_of(folder, tmp_path)) == settled


def test_the_report_of_an_unfinished_run_claims_nothing(half: Path, whole: Path, tmp_path: Path) -> None:
    text = text_of(half, tmp_path)
    assert text.startswith("Unfinished: ")
    assert "This page shows what was measured until then." in text
    assert "No score of explanations is measured yet" in text
    for claim in ("respect the symmetry", "worst mean", "best mean", "none of", "None of", "no result", "Failed Model"):
        assert (claim in text) == (claim == "Failed Model"), claim
    assert "Pending, undefined, failed, noted" in text
    assert "second quick Equivariance 0 0 3" in text
    assert "respect the symmetry" in text_of(whole, tmp_path)


def test_verdicts_count_only_what_is_done(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "second"
    shutil.copytree(whole, folder)
    for cell in RunFolder(str(folder)).manifest()["cells"]:
        if cell["model"] == "second":
            record(folder, "cells", cell["key"]).unlink(missing_ok=True)
            record(folder, "failed", cell["key"]).unlink(missing_ok=True)
    text = text_of(folder, tmp_path)
    assert "Of the explainers, none of 1 on first respect the symmetry" in text
    assert "on second respect" not in text
    assert "Not measured on all samples yet: 3 of 3 explainers on second." in text
    assert not any(word in text for word in ("is ahead of", "is behind every"))
    assert "Model invariance is not measured yet." in text
    assert "3 are pending" in text


@pytest.mark.parametrize("share", [0.3, 0.6, 1.0])
def test_whatever_is_missing_a_run_can_be_read(share: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, chance = tmp_path / "run", random.Random(0)
    scores = ["equivariance", "model_invariance", "pixel_flipping", "relative_input_stability", "max_sensitivity"]
    audit(explainers=["saliency", "gradient"], scores=scores, controls=True, companions=True).run(folder, progress=False)
    for cell in RunFolder(str(folder)).manifest()["cells"]:
        drawn = chance.random()
        if drawn < share:
            record(folder, "cells", cell["key"]).unlink()
        if drawn < share / 3 and share < 1:
            RunFolder(str(folder)).write_failure(cell["key"], "ValueError: no")
    assert "pending" in str(Result(folder))
    assert said(capsys, "show", folder)[0] == 0
    text = text_of(folder, tmp_path)
    assert ("is measured yet" in text) == (share == 1)
    assert " nan" not in text


def test_the_gate_holds_nothing_that_is_pending(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, error = said(capsys, "gate", half, "--require", "equivariance>=-1", "--explainer", "quick", "--model", "first")
    assert status == 1
    assert "for first / quick: pending, 2 of 3 cells are measured" in error


def test_a_run_is_read_while_a_writer_holds_it(half: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RunFolder(str(half)).writing():
        result = Result(half)
        assert result.progress.stage is Stage.RUNNING
        assert result.progress.sentence().startswith("Running: ")
        assert "This page is a snapshot of" in text_of(half, tmp_path)
        assert said(capsys, "report", half, "--out", tmp_path / "now.html")[0] == 0
    assert Result(half).progress.stage is Stage.UNFINISHED


def test_readers_never_keep_a_writer_out(half: Path) -> None:
    folder, stop = RunFolder(str(half)), threading.Event()

    def look() -> None:
        while not stop.is_set():
            folder.writer()

    readers = [threading.Thread(target=look) for _ in range(4)]
    for one in readers:
        one.start()
    try:
        for _ in range(50):
            with folder.writing():
                assert folder.writer().startswith("process ")
    finally:
        stop.set()
        for one in readers:
            one.join()
    assert folder.writer() == ""


def test_a_second_writer_is_still_refused(half: Path) -> None:
    with RunFolder(str(half)).writing(), pytest.raises(StoreError, match="is being written by process"), RunFolder(str(half)).writing():
        pass


def test_a_failure_that_is_removed_meanwhile_is_none(partly: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(str(partly))
    known = set(folder.failures())
    gone = next(iter(known))
    names = folder.files.names

    def listed(kind: str) -> list[str]:
        found = names(kind)
        if kind == "failed":
            record(partly, "failed", gone).unlink(missing_ok=True)
        return found

    monkeypatch.setattr(folder.files, "names", listed)
    assert set(folder.failures()) == known - {gone}


def test_a_run_that_is_only_being_prepared_says_so(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path / "new"))
    with folder.writing(), pytest.raises(StoreError, match=r"has no manifest.json yet: process \d+ on .* is still preparing the run"):
        folder.manifest()
    with pytest.raises(StoreError, match="holds a run that ended before anything was measured: run the same command again"):
        folder.manifest()


def test_a_run_knows_the_command_that_goes_on_with_it(half: Path, tmp_path: Path) -> None:
    manifest = RunFolder(str(half)).manifest()
    with commanded("veracity audit mine.toml --out 'my runs/a'"):
        RunFolder(str(half)).write_manifest(manifest)
    assert Result(half).progress.sentence().endswith("Run the same command to continue: veracity audit mine.toml --out 'my runs/a'")
    assert "my runs/a&#39;. This page shows" in Result(half).save_report(tmp_path / "r.html").read_text(encoding="utf-8")


def test_the_command_line_is_what_was_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []

    def spied(*given: Any, **named: Any) -> None:
        from veracity.engine.store.state import COMMAND

        seen.append(COMMAND.get())
        raise StoreError("enough")

    monkeypatch.setattr("veracity.recipe.run_recipe", spied)
    assert said(capsys, "recipe", "symmetry-digits", "--out", tmp_path / "a b")[0] == 2
    assert seen == [f"veracity recipe symmetry-digits --out '{tmp_path}/a b'"]


def test_an_unfinished_orbit_evaluation_says_how_far_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    digits_like(explainers=["saliency"]).run(folder, progress=False)
    cells = RunFolder(str(folder)).manifest(None)["cells"]
    followed = next(cell for cell in cells if cell["explainer"] and cell["model"] == "a")
    stored = record(folder, "orbits", followed["key"])
    kept = stored.read_bytes()
    stored.unlink()
    result = OrbitResult(folder)
    assert result.complete
    rows = result.table()
    assert set(rows.loc[rows["metric"].str.contains("saliency") & (rows["model"] == "a"), "state"]) == {"pending"}
    assert set(rows.loc[rows["model"] == "b", "state"]) == {"done"}
    assert result.failures().empty
    assert said(capsys, "gate", folder, "--require", "equivariance>=-1", "--model", "a")[0] == 1
    _, shown, _ = said(capsys, "show", folder)
    assert "Unfinished: 3 of 4 cells are measured" in shown
    assert [line.split()[0] for line in shown.splitlines() if line.split()[-1:] == ["pending"]] == ["a"]
    page = result.save_report(tmp_path / "few.html").read_text(encoding="utf-8")
    assert "This file is a snapshot of" in page
    RunFolder(str(folder)).write_failure(followed["key"], "ValueError: no")
    assert set(OrbitResult(folder).table()["state"]) == {"failed", "done"}
    stored.write_bytes(kept)
    own = next(cell for cell in cells if not cell["explainer"] and cell["model"] == "a")
    record(folder, "orbits", own["key"]).unlink()
    assert not OrbitResult(folder).complete
    text = OrbitResult(folder).save_report(tmp_path / "waiting.html").read_text(encoding="utf-8")
    assert 'role="status"' in text
    assert "Some are not measured yet." in text
    assert "<td>pending</td>" in text
    with RunFolder(str(folder)).writing():
        status, _, error = said(capsys, "show", folder)
        assert status == 2
        assert "is measuring the others, wait for it." in error


def test_a_study_says_how_many_of_its_runs_are_measured(tmp_path: Path, make_audit: Callable[..., Audit]) -> None:
    one = make_audit(explainers=["gradient"], companions=False, controls=False)
    folder = tmp_path / "joint"
    store = RunFolder(str(folder))
    with suppress(KeyboardInterrupt), study(store, Kind.AUDITS, ["a", "b"]):
        one.run(folder / "a", progress=False)
        assert load(folder).progress.sentence() == "Running: 1 of 2 runs is measured."
        raise KeyboardInterrupt
    assert store.progress(store.manifest(None)).sentence().startswith("Unfinished: 1 of 2 runs is measured, and nothing is running.")
    assert list(load(folder).results) == ["a"]
    Audits(audits={"a": one, "b": one}).run(folder, progress=False)
    found = load(folder).progress
    assert (found.stage, found.cells) == (Stage.DONE, 2)


def test_a_series_counts_its_cells(half: Path) -> None:
    one: Series = next(one for one in Result(half).series if (one.model, one.explainer) == ("first", "broken"))
    assert (one.cells, one.missing, one.broken, one.pending) == (3, 3, 2, 1)
    assert writers.writer(Files(str(half))) == ""
