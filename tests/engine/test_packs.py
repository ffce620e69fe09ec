"""Many cells are packed into few files when a run ends, and nothing else changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from small import series_inputs, small_net
from veracity import Audit, Result, perturb
from veracity.core.errors import Note
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
