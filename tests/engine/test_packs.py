"""Many cells are packed into few files when a run ends, and nothing else changes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from small import series_inputs, small_net
from veracity import Audit, Result, perturb
from veracity.core.errors import Note, StoreError
from veracity.engine.store import RunFolder, packs
from veracity.engine.store.writers import hold
from veracity.walk import MonteCarlo

FEW = 300
FAST: dict[str, Any] = {"controls": False, "walk": MonteCarlo(draws=2)}


def audit(scores: tuple[str, ...] = ("equivariance", "sparseness"), size: int = FEW) -> Audit:
    shift = perturb.groups.CyclicShift(axes=(-1,))
    return Audit(models=small_net(), inputs=series_inputs(size), explainers=["saliency"], scores=list(scores), symmetry=shift, **FAST)


def names(folder: Path, kind: str) -> list[str]:
    return sorted(file.name for file in (folder / kind).iterdir()) if (folder / kind).exists() else []


def same(first: Path, second: Path, pairs: int = 3) -> None:
    a, b = Result(first), Result(second)
    pd.testing.assert_frame_equal(a.table(), b.table(), check_exact=True)
    for score in ("equivariance", "sparseness"):
        pd.testing.assert_frame_equal(a.samples(score), b.samples(score), check_exact=True)
    assert [str(pair) for pair in a.worst("equivariance", pairs)] == [str(pair) for pair in b.worst("equivariance", pairs)]


@pytest.fixture(scope="module")
def loose(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packs") / "loose"
    audit().run(folder, progress=False)
    return folder


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "LOOSE", 3)
    monkeypatch.setattr(packs, "SHOWN", 1)


@pytest.mark.usefixtures("tight")
def test_packed_cells_say_the_same_and_are_not_measured_again(loose: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    audit().run(run, progress=False)
    series = len(Result(run).series)
    assert names(run, "cells") == []
    assert len(names(run, "packed")) == len(names(run, "packs")) == series < len(names(loose, "cells")) == 5 * series
    assert len(names(run, "worst")) < len(names(loose, "worst"))
    assert len(RunFolder(str(run)).finished()) == len(names(loose, "cells"))
    assert Result(run).progress.stage.value == Result(loose).progress.stage.value
    before = names(run, "packed")
    audit().run(run, progress=False)
    assert names(run, "packed") == before
    assert names(run, "cells") == []
    monkey = Result(run).worst("equivariance", 1)
    assert [str(pair) for pair in monkey] == [str(pair) for pair in Result(loose).worst("equivariance", 1)]
    pd.testing.assert_frame_equal(Result(run).table(), Result(loose).table(), check_exact=True)


def test_several_packs_of_one_score(loose: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "LOOSE", 3)
    monkeypatch.setattr(packs, "TOGETHER", 2)
    run = tmp_path / "run"
    audit().run(run, progress=False)
    assert len(names(run, "packed")) == 3 * len(Result(run).series)
    same(run, loose)


@pytest.mark.usefixtures("tight")
def test_a_score_is_added_to_a_packed_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    audit(("sparseness",)).run(run, progress=False)
    before = set(names(run, "packed"))
    found = audit().run(run, progress=False)
    assert before < set(names(run, "packed"))
    assert set(found.table()["score"]) == {"equivariance", "sparseness"}


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("kind", ["packed", "packs", "explanations"])
def test_what_is_damaged_is_measured_again(kind: str, loose: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    audit().run(run, progress=False)
    file = run / kind / names(run, kind)[0]
    file.write_bytes(file.read_bytes()[:-3] + b"abc")
    with pytest.warns(Note, match="damaged or lost"):
        audit().run(run, progress=False)
    assert names(run, "cells") == [] or len(names(run, "cells")) <= 5
    pd.testing.assert_frame_equal(Result(run).table(), Result(loose).table(), check_exact=True)


@pytest.mark.usefixtures("tight")
def test_a_writer_that_is_killed_between_the_pack_and_the_cells_loses_nothing(
    loose: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, left = tmp_path / "run", [7]

    def remove(self: Any, kind: str, key: str) -> None:
        left[0] -= kind == "cells"
        if not left[0]:
            raise KeyboardInterrupt
        kept(self, kind, key)

    kept = packs.Records.remove
    monkeypatch.setattr(packs.Records, "remove", remove)
    with pytest.raises(KeyboardInterrupt):
        audit().run(run, progress=False)
    monkeypatch.setattr(packs.Records, "remove", kept)
    assert names(run, "cells")
    same(run, loose, pairs=1)
    audit().run(run, progress=False)
    assert names(run, "cells") == []
    pd.testing.assert_frame_equal(Result(run).table(), Result(loose).table(), check_exact=True)


def test_packing_needs_many_cells(loose: Path) -> None:
    store = RunFolder(str(loose))
    with hold(store.files):
        store.pack(store.manifest()["cells"])
    assert names(loose, "packed") == []


def cell(folder: RunFolder, key: str, *values: float, failed: dict[int, str] | None = None) -> None:
    """Store a cell with one value per sample."""
    count = np.arange(len(values))
    folder.write_cell(key, count, np.zeros_like(count), np.zeros_like(count), {"value": np.array(values)}, failed=failed)


def values(folder: RunFolder, key: str) -> list[float]:
    return list(folder.read_cell(key)["value"].to_pylist())


def entries(*keys: str) -> list[dict[str, str]]:
    return [{"key": key, "model": "m", "explainer": "e", "score": "s"} for key in keys]


def test_a_cell_that_was_measured_again_replaces_the_packed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "LOOSE", 0)
    for trial in range(4):  # whichever key of a pack sorts last
        folder = RunFolder(str(tmp_path / str(trial)))
        for key in ("a", "b"):
            cell(folder, f"{key}{trial}", 1.0, 2.0)
        folder.pack(entries(f"a{trial}", f"b{trial}"))
        assert folder.finished() == {f"a{trial}", f"b{trial}"}  # which is remembered
        cell(RunFolder(folder.root), f"a{trial}", 3.0, 4.0)
        folder.pack(entries(f"a{trial}", f"b{trial}"))
        assert names(tmp_path / str(trial), "cells") == []
        for reader in (folder, RunFolder(folder.root)):
            assert values(reader, f"a{trial}") == [3.0, 4.0]
            assert values(reader, f"b{trial}") == [1.0, 2.0]


def test_a_pack_ends_before_it_has_more_rows_than_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "LOOSE", 0)
    monkeypatch.setattr(packs, "MOST", 5)
    folder, keys = RunFolder(str(tmp_path / "run")), ["a", "b", "c"]
    for key in keys:
        cell(folder, key, 1.0, 2.0)
    folder.pack(entries(*keys))
    assert len(names(tmp_path / "run", "packed")) == 2
    assert [values(RunFolder(folder.root), key) for key in keys] == [[1.0, 2.0]] * 3


def test_a_kill_between_two_lists_loses_only_what_they_disagree_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "LOOSE", 0)
    folder = RunFolder(str(tmp_path / "run"))
    for key in ("a", "b"):
        cell(folder, key, 1.0)
    folder.pack(entries("a", "b"))
    (old,) = (tmp_path / "run" / "packs").iterdir()
    before = old.read_bytes()
    folder.packs.forget(["a"])
    old.write_bytes(before)  # as if the process had ended before it was removed
    again = RunFolder(folder.root)
    again.mend()
    assert again.finished() == {"b"}
    assert values(again, "b") == [1.0]


@pytest.mark.parametrize("content", [{"cells": [["a", [["cells", "x", "y"]]]]}, {"cells": 3}, [], {"cells": [["a"]]}])
def test_a_list_of_another_form_names_no_cells(tmp_path: Path, content: Any) -> None:
    folder = RunFolder(str(tmp_path / "run"))
    folder.put(packs.PACKED, "k", b"", "parquet")
    folder.put(packs.PACKS, "k", json.dumps(content).encode(), "json")
    assert folder.finished() == set()


def test_a_pack_without_the_columns_of_a_cell_is_refused(tmp_path: Path) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"sample": [1]}), sink)
    folder = RunFolder(str(tmp_path / "run"))
    folder.put(packs.PACKED, "k", sink.getvalue(), "parquet")
    folder.packs.write_list("k", [("a", [])])
    with pytest.raises(StoreError, match="holds no measurements"):
        folder.read_cell("a")
