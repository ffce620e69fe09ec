from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

import numpy as np
import pytest
import torch

from veracity.core.errors import StoreError
from veracity.engine.store import SCHEMA, RunFolder


@pytest.fixture(params=["disk", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> RunFolder:
    return RunFolder(str(tmp_path / "run") if request.param == "disk" else f"memory://{uuid.uuid4().hex}/run")


def write(folder: RunFolder, key: str = "key") -> None:
    folder.write_cell(key, np.array([3, 3, 5]), np.array([0, 1, 0]), np.zeros(3), {"value": np.array([0.5, np.nan, 1.0])})


def test_a_cell_comes_back_with_what_is_undefined_marked(folder: RunFolder) -> None:
    assert not folder.has("key")
    write(folder)
    assert folder.finished() == {"key"}
    table = folder.read_cell("key").to_pydict()
    assert table["sample"] == [3, 3, 5]
    assert table["draw"] == [0, 1, 0]
    assert table["quantity"] == ["value"] * 3
    assert table["status"] == ["ok", "undefined", "ok"]
    assert table["value"][0] == 0.5


def test_tensors_come_back(folder: RunFolder) -> None:
    assert folder.read_tensors("worst", "key") is None
    folder.write_tensors("worst", "key", {"input": torch.eye(3).T})
    kept = folder.read_tensors("worst", "key")
    assert kept is not None
    assert torch.equal(kept["input"], torch.eye(3))


def test_a_finished_cell_clears_its_failure(folder: RunFolder) -> None:
    folder.write_failure("key", "why")
    assert folder.failures() == {"key": "why"}
    write(folder)
    assert folder.failures() == {}


def test_a_cell_that_lacks_samples_keeps_their_reasons_until_it_is_whole(folder: RunFolder) -> None:
    place = np.zeros(2, dtype=np.int64)
    numbers = {"value": np.array([0.5, np.nan])}
    folder.write_cell("key", np.array([3, 4]), place, place, numbers, {4: "ValueError: no"})
    assert folder.read_cell("key").to_pydict()["status"] == ["ok", "failed"]
    assert (folder.finished(), folder.incomplete(), folder.failures()) == ({"key"}, {"key"}, {})
    assert folder.failed_samples("key") == {4: "ValueError: no"}
    assert folder.failed_samples("other") == {}
    folder.write_cell("key", np.array([3, 4]), place, place, {"value": np.array([0.5, np.nan])})
    assert folder.read_cell("key").to_pydict()["status"] == ["ok", "undefined"]
    assert folder.incomplete() == set()


def test_a_second_writer_is_refused_and_the_first_is_named(folder: RunFolder) -> None:
    with folder.writing(), pytest.raises(StoreError, match=f"being written by process {os.getpid()}"), RunFolder(folder.root).writing():
        pass
    with folder.writing():
        pass


def test_half_written_files_are_never_seen_and_are_swept(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path / "run"))
    write(folder)
    (tmp_path / "run" / "cells" / ".other.parquet.0123abcd.part").write_bytes(b"half")
    (tmp_path / "run" / ".gitignore").write_text("mine")
    (tmp_path / "run" / ".ipynb_checkpoints").mkdir()
    assert folder.finished() == {"key"}
    folder.sweep()
    assert sorted(entry.name for entry in (tmp_path / "run" / "cells").iterdir()) == ["key.parquet"]
    assert sorted(entry.name for entry in (tmp_path / "run").iterdir()) == [".gitignore", ".ipynb_checkpoints", "cells"]


def test_damage_is_one_sentence_with_the_way_out(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    write(folder)
    (tmp_path / "cells" / "key.parquet").write_bytes(b"not parquet")
    with pytest.raises(StoreError, match=r"key.parquet is damaged: delete it and run the same command again"):
        folder.read_cell("key")
    (tmp_path / "worst").mkdir()
    (tmp_path / "worst" / "key.safetensors").write_bytes(b"not safetensors")
    with pytest.raises(StoreError, match="is damaged"):
        folder.read_tensors("worst", "key")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is damaged: manifest.json cannot be read"),
        ("[]", "is damaged"),
        (json.dumps({"schema": SCHEMA + 1}), f"has schema {SCHEMA + 1} and this veracity reads up to {SCHEMA}: upgrade veracity"),
    ],
)
def test_a_bad_manifest_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(StoreError, match=sentence):
        RunFolder(str(tmp_path)).manifest()


def test_folders_that_are_something_else_are_left_alone(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a run folder"):
        RunFolder(str(tmp_path)).manifest()
    (tmp_path / ".env").write_text("precious")
    with pytest.raises(StoreError, match="holds other files"):
        RunFolder(str(tmp_path)).check_writable()


def test_a_failure_of_a_finished_cell_is_forgotten(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    write(folder)
    folder.write_failure("key", "killed between two writes")
    (tmp_path / "failed" / "other.json").write_text("{")
    assert folder.failures() == {"other": "the record of its failure is damaged"}


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="Cannot write"), RunFolder(str(tmp_path / "file")).writing():
        pass
    with pytest.raises(StoreError, match="Cannot write"):
        RunFolder(str(tmp_path / "file")).write_failure("key", "why")
