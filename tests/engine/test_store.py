from __future__ import annotations

import io
import json
import math
import os
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from stored import record
from veracity.core.errors import Note, StoreError
from veracity.engine.store import SCHEMA, Place, RunFolder, records, writers
from veracity.engine.store.files import Files, write_whole
from veracity.engine.store.folder import COLUMNS, NUMBERS
from veracity.engine.store.records import sealed, unsealed


@pytest.fixture(params=["disk", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> RunFolder:
    return RunFolder(str(tmp_path / "run") if request.param == "disk" else f"memory://{uuid.uuid4().hex}/run")


def write(folder: RunFolder, key: str = "key", value: float = 0.5, needed: tuple[Place, ...] = ()) -> None:
    folder.write_cell(key, np.array([3, 3, 5]), np.array([0, 1, 0]), np.zeros(3), {"value": np.array([value, np.nan, 1.0])}, needed)


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


@pytest.mark.parametrize("equal", [(), ("level",), ("quantity",), ("level", "quantity", "status"), ("sample", "draw", "level")])
@pytest.mark.parametrize("group", [None, 1])
def test_columns_with_one_value_are_made_as_they_would_be_read(equal: tuple[str, ...], group: int | None) -> None:
    values: dict[str, list[Any]] = {"sample": [3, 4, 3, 5], "draw": [0, 1, 2, 0], "level": [0, 1, 0, 2], "quantity": ["a", "b", "b", "a"]}
    values |= {"value": [1.0, math.nan, 1.0, 1.0], "status": ["ok", "undefined", "ok", "ok"]}
    values |= {name: [values[name][1]] * 4 for name in equal}
    plain = pa.table({name: pa.array(column) for name, column in values.items()})
    sink = io.BytesIO()
    pq.write_table(plain.cast(COLUMNS), sink, row_group_size=2)
    file = records.open_parquet(sink.getvalue())
    found, expected = records.rows_of(file, COLUMNS, group), records.columns(file, COLUMNS.names, group)
    assert found.schema.equals(COLUMNS)
    np.testing.assert_equal(found.to_pydict(), expected.to_pydict())
    made = {field.name for field in COLUMNS if records.only_value(file.metadata, file.schema_arrow, field, [0, 1]) is not None}
    assert made == set(equal), "real numbers are always read, since statistics leave out NaN"


def test_a_missing_or_repeated_column_is_refused_though_the_others_are_equal() -> None:
    for names in (["sample", "draw", "level", "value"], ["sample", "draw", "level", "quantity", "value", "value"]):
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_arrays([pa.array([0, 0])] * len(names), names=names), sink)
        with pytest.raises(pa.ArrowInvalid, match="there is not one column"):
            records.measurements(sink.getvalue(), NUMBERS)


def test_tensors_and_tables_come_back(folder: RunFolder) -> None:
    assert folder.read_tensors("worst", "key") is None
    folder.write_tensors("worst", "key", {"input": torch.eye(3).T})
    kept = RunFolder(folder.root).read_tensors("worst", "key")
    assert kept is not None
    assert torch.equal(kept["input"], torch.eye(3))
    assert folder.read_table("calibrations", "key") is None
    assert folder.write_table("calibrations", "key", {"curve": [(1.0, 2)]}) == {"curve": [[1.0, 2]]}
    assert RunFolder(folder.root).read_table("calibrations", "key") == {"curve": [[1.0, 2]]}


def test_a_record_that_is_written_again_replaces_the_one_before(folder: RunFolder) -> None:
    write(folder)
    write(folder, value=0.25)
    assert len(folder.files.names("cells")) == 1
    assert RunFolder(folder.root).read_cell("key")["value"][0].as_py() == 0.25


def test_a_record_takes_the_place_of_the_one_that_another_writer_left(folder: RunFolder) -> None:
    write(folder)
    write(RunFolder(folder.root), value=0.25)
    assert len(folder.files.names("cells")) == 1
    assert RunFolder(folder.root).read_cell("key").to_pydict()["value"][0] == 0.25
    assert RunFolder(folder.root).mend() == []


def test_of_two_records_that_were_written_at_once_neither_counts(folder: RunFolder) -> None:
    first, second = RunFolder(folder.root), RunFolder(folder.root)
    for writer in (first, second):
        writer.records.listed("cells")
    write(first)
    write(second, value=0.25)
    assert len(folder.files.names("cells")) == 2
    assert RunFolder(folder.root).mend() == [Place("cells", "key")]
    assert RunFolder(folder.root).finished() == set()


def test_a_finished_cell_clears_its_failure(folder: RunFolder) -> None:
    folder.write_failure("key", "why")
    assert folder.failures() == {"key": "why"}
    write(folder)
    assert folder.failures() == {}


def test_a_cell_that_lacks_samples_keeps_their_reasons_until_it_is_whole(folder: RunFolder) -> None:
    place = np.zeros(2, dtype=np.int64)
    numbers = {"value": np.array([0.5, np.nan])}
    folder.write_cell("key", np.array([3, 4]), place, place, numbers, failed={4: "ValueError: no"})
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
    with pytest.warns(Note, match="manifest.json"):
        folder.repair()
    assert [entry.name.split(".")[0] for entry in (tmp_path / "run" / "cells").iterdir()] == ["key"]
    assert sorted(entry.name for entry in (tmp_path / "run").iterdir()) == [".gitignore", ".ipynb_checkpoints", "cells", "run.json"]


def damages(file: Path) -> dict[str, bytes]:
    """A file's content after every kind of accident."""
    whole = file.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    return {"one bit": bytes(flipped), "half": whole[: len(whole) // 2], "empty": b"", "longer": whole + b"x"}


@pytest.mark.parametrize("accident", ["one bit", "half", "empty", "longer"])
@pytest.mark.parametrize("kind", ["cells", "worst", "calibrations", "failed"])
def test_damage_is_seen_on_reading_and_mended(tmp_path: Path, kind: str, accident: str) -> None:
    folder = RunFolder(str(tmp_path))
    write(folder, "whole")
    if kind == "cells":
        write(folder)
    elif kind == "failed":
        folder.write_failure("key", "why")
    elif kind == "worst":
        folder.write_tensors("worst", "key", {"input": torch.eye(3)})
    else:
        folder.write_table("calibrations", "key", {"sigma": 1.5})
    file = record(tmp_path, kind, "key")
    file.write_bytes(damages(file)[accident])
    fresh = RunFolder(str(tmp_path))
    with pytest.raises(StoreError, match=rf"{kind}/key\..* is damaged: run the same command again, which makes it anew"):
        fresh.records.get(kind, "key")
    if kind == "failed":
        assert fresh.failures() == {"key": "the record of its failure is damaged"}
    assert fresh.mend() == [Place(kind, "key")]
    assert not fresh.records.has(kind, "key")
    assert fresh.records.has("cells", "whole")
    assert fresh.mend() == []


def test_files_of_another_key_kind_or_run_are_not_believed(tmp_path: Path) -> None:
    folder, other = RunFolder(str(tmp_path / "run")), RunFolder(str(tmp_path / "other"))
    write(folder, "one", 0.1)
    write(folder, "two", 0.2)
    write(other, "one", 0.9)
    one, two, foreign = (record(tmp_path / run, "cells", key) for run, key in (("run", "one"), ("run", "two"), ("other", "one")))
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    assert {place.key for place in RunFolder(folder.root).mend()} == {"one", "two"}
    (tmp_path / "run" / "cells" / foreign.name).write_bytes(foreign.read_bytes())
    with pytest.raises(StoreError, match="is damaged"):
        RunFolder(folder.root).read_cell("one")
    (tmp_path / "run" / "worst").mkdir()
    (tmp_path / "run" / "worst" / one.name).write_bytes(first)
    with pytest.raises(StoreError, match="is damaged"):
        RunFolder(folder.root).read_tensors("worst", "one")


def test_a_cell_whose_pictures_are_lost_is_measured_again(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    needed = folder.write_tensors("worst", "key", {"input": torch.eye(3)})
    write(folder, "key", needed=(needed,))
    write(folder, "other")
    assert folder.mend() == []
    record(tmp_path, "worst", "key").unlink()
    fresh = RunFolder(str(tmp_path))
    assert fresh.mend() == [Place("worst", "key")]
    assert fresh.finished() == {"other"}


def test_a_lost_or_damaged_run_file_is_written_again(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    write(folder)
    folder.write_manifest({"spec": {}})
    known = (tmp_path / "run.json").read_bytes()
    for damaged in (None, b"", known[:-9], known.replace(b"3", b"4", 1)):
        (tmp_path / "run.json").unlink() if damaged is None else (tmp_path / "run.json").write_bytes(damaged)
        fresh = RunFolder(str(tmp_path))
        with fresh.writing():
            assert fresh.mend() == []
        assert (tmp_path / "run.json").read_bytes() == known


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is damaged: manifest.json cannot be read"),
        ("[]", "is damaged"),
        (json.dumps({"schema": SCHEMA}), "its checksum does not fit its content"),
        (json.dumps({"schema": SCHEMA + 1}), f"has schema {SCHEMA + 1} and this veracity reads up to {SCHEMA}: upgrade veracity"),
        (json.dumps({"schema": 1}), "was written by an older veracity .*: measure it again in a new folder"),
        ("[" * 100_000, "is damaged"),
    ],
)
def test_a_bad_manifest_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(StoreError, match=sentence):
        RunFolder(str(tmp_path)).manifest()
    with pytest.raises(StoreError):
        RunFolder(str(tmp_path)).check_writable()


def test_a_manifest_of_another_run_is_not_believed(tmp_path: Path) -> None:
    first, second = RunFolder(str(tmp_path / "first")), RunFolder(str(tmp_path / "second"))
    needed = {"spec": {}, "data": {}, "models": {}, "cells": [], "notes": [], "seed": 0, "scores": [], "score_specs": {}}
    for one in (first, second):
        one.write_manifest(dict(needed))
    (tmp_path / "first" / "manifest.json").write_bytes((tmp_path / "second" / "manifest.json").read_bytes())
    with pytest.raises(StoreError, match="it belongs to another run"):
        RunFolder(first.root).manifest()


def test_folders_that_are_something_else_are_left_alone(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a run folder"):
        RunFolder(str(tmp_path)).manifest()
    (tmp_path / ".env").write_text("precious")
    with pytest.raises(StoreError, match="holds other files"):
        RunFolder(str(tmp_path)).check_writable()


def test_a_folder_that_lost_its_manifest_is_still_known(tmp_path: Path) -> None:
    write(RunFolder(str(tmp_path)))
    (tmp_path / "report.html").write_text("made from it")
    RunFolder(str(tmp_path)).check_writable()


def test_a_lost_manifest_is_told_and_a_folder_without_its_run_file_is_measured_again(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    write(folder)
    (tmp_path / "report.html").write_text("made from it")
    with pytest.warns(Note, match="One file was damaged or lost in .*; it is made again: manifest.json"):
        RunFolder(str(tmp_path)).repair()
    (tmp_path / "run.json").unlink()
    fresh = RunFolder(str(tmp_path))
    fresh.check_writable()
    with fresh.writing(), pytest.warns(Note, match="2 files were damaged or lost in .*; they are made again: manifest.json, cells/key"):
        fresh.repair()
    assert fresh.finished() == set()


def test_a_failure_of_a_finished_cell_is_forgotten(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    write(folder)
    folder.write_failure("key", "killed between two writes")
    assert folder.failures() == {}


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="Cannot write"), RunFolder(str(tmp_path / "file")).writing():
        pass
    with pytest.raises(StoreError, match="Cannot write"):
        RunFolder(str(tmp_path / "file")).write_failure("key", "why")


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_whole(tmp_path / "report.html", b"whole")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "report.html", b"a longer one")
    assert (tmp_path / "report.html").read_bytes() == b"whole"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_the_folder_is_synced_after_a_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    real = os.fsync

    def spied(descriptor: int) -> None:
        synced.append(os.path.isdir(f"/proc/self/fd/{descriptor}") or (tmp_path / "a").exists())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", spied)
    write_whole(tmp_path / "a", b"x")
    assert synced == [False, True]


def test_sealed_files_notice_every_flipped_bit() -> None:
    content = {"a": [1, 2.5, "b"], "c": {"d": None}}
    whole = sealed(content)
    for place in range(len(whole) * 8):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << (place % 8)
        try:
            assert unsealed(bytes(flipped)) == content  # white space may change
        except ValueError:
            continue


def test_nothing_is_read_or_written_through_a_folder_that_is_a_link(tmp_path: Path) -> None:
    outside, files = tmp_path / "outside", Files(str(tmp_path / "run"))
    outside.mkdir()
    (outside / "kept.json").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "cells").symlink_to(outside)
    for action in (
        lambda: files.names("cells"),
        lambda: files.sweep("cells"),
        lambda: files.read("cells/kept.json"),
        lambda: files.write("cells/new.json", b"theirs"),
        lambda: files.write("cells/new.json", b"theirs", anew=True),
        lambda: files.remove("cells/kept.json"),
    ):
        with pytest.raises(StoreError, match="a link that leads out of the folder"):
            action()
    assert [path.name for path in outside.iterdir()] == ["kept.json"]


def test_a_run_file_that_another_writer_has_just_made_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = RunFolder(str(tmp_path)), RunFolder(str(tmp_path))
    look = second._said_by

    def beaten(name: str) -> dict[str, object]:
        said = look(name)
        first.establish()
        return said

    monkeypatch.setattr(second, "_said_by", beaten)
    second.establish()
    assert first.run == second.run
    assert first.run


def test_a_signed_cell_that_is_no_table_is_measured_again(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    write(folder, "whole")
    folder.put("cells", "key", b"no Parquet", "parquet")
    assert RunFolder(str(tmp_path)).mend() == [Place("cells", "key")]
    assert RunFolder(str(tmp_path)).finished() == {"whole"}


def test_a_disk_without_hard_links_will_do_and_one_without_locks_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", unsupported)
    write(RunFolder(str(tmp_path / "run")))
    assert RunFolder(str(tmp_path / "run")).finished() == {"key"}
    monkeypatch.setattr(writers.fcntl, "flock", unsupported)
    with pytest.raises(StoreError, match=r"has no locks \(Operation not supported\)"), RunFolder(str(tmp_path / "run")).writing():
        pass


def test_a_huge_manifest_is_refused_unread(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    folder.establish()
    with (tmp_path / "manifest.json").open("wb") as file:
        file.truncate(12 << 30)
    with pytest.raises(StoreError, match="has 12,288 MiB, more than any run writes"):
        folder.manifest()
    (tmp_path / "run.json").unlink()
    with pytest.raises(StoreError, match="more than any run writes"):
        RunFolder(str(tmp_path)).manifest()
