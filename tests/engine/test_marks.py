from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from small import series_inputs, small_net
from veracity import Audit
from veracity.engine.store import RunFolder, writers
from veracity.engine.store.files import Files
from veracity.perturb import CyclicShift


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VERACITY_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def written(state: Path, tmp_path: Path) -> Path:
    """A folder with a manifest that was written just now."""
    RunFolder(str(tmp_path / "run")).write_manifest({"cells": []})
    return tmp_path / "run"


def test_a_manifest_that_is_written_is_marked_for_this_user_alone(written: Path, state: Path) -> None:
    (mark,) = (state / "runs").iterdir()
    assert stat.S_IMODE(mark.stat().st_mode) == 0o600
    assert stat.S_IMODE((state / "runs").stat().st_mode) == 0o700
    found = writers.mark_of(Files(str(written)))
    assert found is not None
    assert found.folder == str(written.resolve())


def test_a_mark_holds_for_this_folder_and_this_manifest_alone(written: Path, tmp_path: Path) -> None:
    manifest = (written / "manifest.json").read_text()
    (written / "manifest.json").write_text(manifest + " ")
    assert writers.mark_of(Files(str(written))) is None, "the manifest has changed"
    (written / "manifest.json").write_text(manifest)
    assert writers.mark_of(Files(str(written))) is not None
    written.rename(tmp_path / "moved")
    assert writers.mark_of(Files(str(tmp_path / "moved"))) is None, "it lies elsewhere"


def test_a_mark_that_others_can_write_does_not_count(written: Path, state: Path) -> None:
    (mark,) = (state / "runs").iterdir()
    mark.chmod(0o666)
    assert writers.mark_of(Files(str(written))) is None
    mark.chmod(0o600)
    content = mark.read_text()
    mark.rename(state / "true")
    mark.symlink_to(state / "true")
    assert writers.mark_of(Files(str(written))) is None, "a link is no mark"
    mark.unlink()
    for wrong in ("{", "[]", '{"folder": 1}', json.dumps({**json.loads(content), "more": 1})):
        mark.write_text(wrong)
        mark.chmod(0o600)
        assert writers.mark_of(Files(str(written))) is None


def test_the_state_lies_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("VERACITY_STATE", "/a")
    monkeypatch.setenv("XDG_STATE_HOME", "/b")
    assert writers.state_folder() == Path("/a")
    monkeypatch.delenv("VERACITY_STATE")
    assert writers.state_folder() == Path("/b/veracity")
    monkeypatch.setenv("XDG_STATE_HOME", "not/absolute")
    assert writers.state_folder() == tmp_path / ".local/state/veracity"


def test_a_state_that_cannot_be_written_does_not_fail_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VERACITY_STATE", str(tmp_path / "file" / "below"))
    asked = Audit(models={"net": small_net()}, inputs=series_inputs(2), explainers=["gradient"], symmetry=CyclicShift(axes=(-1,)))
    assert len(asked.run(tmp_path / "run", progress=False).table())
    assert writers.mark_of(Files(str(tmp_path / "run"))) is None


def test_a_bucket_is_not_marked(state: Path) -> None:
    RunFolder("memory://marks/run").write_manifest({"cells": []})
    assert not state.exists()
    assert writers.mark_of(Files("memory://marks/run")) is None


def test_the_audit_file_is_remembered_while_its_run_is_written(state: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("")
    with writers.run_from(os.path.relpath(tmp_path / "mine.toml")):
        RunFolder(str(tmp_path / "run")).write_manifest({"cells": []})
    found = writers.mark_of(Files(str(tmp_path / "run")))
    assert found is not None
    assert found.file == str((tmp_path / "mine.toml").resolve())
    RunFolder(str(tmp_path / "run")).write_manifest({"cells": []})
    again = writers.mark_of(Files(str(tmp_path / "run")))
    assert again is not None
    assert again.file == ""
