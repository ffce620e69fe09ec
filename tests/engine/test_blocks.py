"""Blocks grow with the data and with what is measured, and stay what they are for the life of a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor
from torch.utils.data import Dataset

from small import series_inputs, small_net
from veracity import Audit, Result
from veracity.core.errors import InputError, StoreError
from veracity.engine import plan, reader
from veracity.inputs import DatasetInputs
from veracity.scores import MaxSensitivity
from veracity.walk import MonteCarlo


def audit(inputs: Any, scores: tuple[Any, ...] = ("sparseness",), **settings: Any) -> Audit:
    return Audit(
        models=small_net(), inputs=inputs, explainers=["saliency"], scores=list(scores), controls=False, companions=False, **settings
    )


def block_of(asked: Audit) -> int | None:
    return asked.prepare().problem.block


def test_blocks_are_doubled_until_there_are_few_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = series_inputs(2100)
    monkeypatch.setattr(plan, "WORK", 0)
    assert block_of(audit(inputs)) == 64  # 33 cells
    monkeypatch.setattr(plan, "CELLS", 20)
    assert block_of(audit(inputs)) == 128  # 17 cells
    assert block_of(audit(inputs, ("sparseness", "complexity"))) == 256  # 18
    monkeypatch.setattr(plan, "GROWN", 64 * 12 * 4)
    assert block_of(audit(inputs)) == 64
    monkeypatch.setattr(plan, "GROWN", 1 << 27)
    monkeypatch.setattr(plan, "LINES", 127)
    assert block_of(audit(inputs)) == 64


@pytest.mark.parametrize(("samples", "block"), [(10_000, 512), (100_000, 512), (1_000_000, 2048), (100_000_000, 65_536)])
def test_a_million_samples_are_some_thousand_files(samples: int, block: int) -> None:
    """Two cells per block: 20 blocks of 512, 196 of 512, 489 of 2,048; beyond that, blocks have their largest size."""
    prepared = audit(series_inputs(64), ("sparseness", "complexity")).prepare()
    assert plan.fitting_block(prepared.problem, prepared.budgets, samples) == block


def test_blocks_of_little_work_have_more_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(scores: tuple[Any, ...], samples: int) -> int:
        prepared = audit(series_inputs(64), scores).prepare()
        return plan.fitting_block(prepared.problem, prepared.budgets, samples)

    assert [of(("sparseness",), samples) for samples in (1000, 1025, 2048, 4096, 8192)] == [64, 128, 256, 512, 512]  # 8 blocks at least
    assert of((MaxSensitivity(walk=MonteCarlo(draws=20)),), 8192) == 256  # 256 samples of 22 rows
    assert of((MaxSensitivity(walk=MonteCarlo(draws=100)),), 8192) == 64
    monkeypatch.setattr(plan, "GROWN", 255 * 12 * 4)
    assert of(("sparseness",), 8192) == 128


def test_a_score_that_is_added_finds_the_same_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = series_inputs(2100)
    monkeypatch.setattr(plan, "WORK", 0)
    monkeypatch.setattr(plan, "CELLS", 20)
    first = audit(inputs).run(tmp_path / "run", progress=False)
    assert first.manifest["data"]["block"] == 128
    before = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "run" / "cells").iterdir()}
    second = audit(inputs, ("sparseness", "complexity")).run(tmp_path / "run", progress=False)
    assert second.manifest["data"]["block"] == 128
    after = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "run" / "cells").iterdir()}
    assert before.items() <= after.items()
    assert len(after) == 2 * len(before) == 34


def test_numbers_do_not_depend_on_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = ("sparseness", "max_sensitivity")
    small = audit(series_inputs(1100), scores).run(tmp_path / "small", progress=False)
    monkeypatch.setattr(plan, "CELLS", 4)
    large = audit(series_inputs(1100), scores).run(tmp_path / "large", progress=False)
    assert large.manifest["data"]["block"] == 1024
    for score in scores:
        np.testing.assert_allclose(large.samples(score)["value"], small.samples(score)["value"], rtol=1e-4, atol=1e-6)


class Rows(Dataset[Any]):
    """Rows of a tensor, one of which may be another."""

    def __init__(self, changed: tuple[int, ...] = (), size: int = 200) -> None:
        self.x = series_inputs(size)
        self.x[list(changed)] += 1.0

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, number: int) -> Tensor:
        return self.x[number]


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (
            Rows(),
            Rows((70,)),
            r"^Samples 64 to 127 of the dataset are not those that .*run was measured on: pass the data as they were, or",
        ),
        (Rows(), Rows((70, 199)), r"^Samples 64 to 127, and of 1 more blocks, of the dataset are not those"),
        (DatasetInputs(Rows(), version="1"), DatasetInputs(Rows(), version="2"), "^Samples 0 to 63, and of 3 more blocks, of the dataset"),
    ],
    ids=["one", "two", "version"],
)
def test_a_dataset_that_changed_between_runs_is_refused(before: Any, after: Any, sentence: str, tmp_path: Path) -> None:
    audit(before).run(tmp_path / "run", progress=False)
    manifest = (tmp_path / "run" / "manifest.json").read_bytes()
    with pytest.raises(InputError, match=sentence):
        audit(after).run(tmp_path / "run", progress=False)
    assert (tmp_path / "run" / "manifest.json").read_bytes() == manifest
    assert audit(before, ("sparseness", "complexity")).run(tmp_path / "run", progress=False).table()["n"].tolist() == [200, 200]


def test_a_dataset_may_grow(tmp_path: Path) -> None:
    audit(Rows(size=200)).run(tmp_path / "run", progress=False)
    more = Rows(size=300)
    more.x[:200] = Rows(size=200).x
    assert audit(more).run(tmp_path / "run", progress=False).table()["n"].tolist() == [300]


def test_explanations_beyond_the_room_for_them_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "KEPT", 100 * 12 * 4)
    run = audit(series_inputs(200)).run(tmp_path / "run", progress=False)
    assert len(os.listdir(tmp_path / "run" / "explanations")) == 2
    assert run.explanations("model", "saliency").shape == (128, 1, 12)
    before = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "run" / "cells").iterdir()}
    again = audit(series_inputs(200), ("sparseness", "complexity")).run(tmp_path / "run", progress=False)
    assert before.items() <= {file.name: file.stat().st_mtime_ns for file in (tmp_path / "run" / "cells").iterdir()}.items()
    whole = audit(series_inputs(200), ("complexity",))
    monkeypatch.setattr(reader, "KEPT", 1 << 30)
    expected = whole.run(tmp_path / "whole", progress=False)
    assert again.samples("complexity").equals(expected.samples("complexity"))


def test_what_is_not_kept_at_all_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "KEPT", 0)
    run: Result = audit(series_inputs(70)).run(tmp_path / "run", progress=False)
    with pytest.raises(StoreError, match="are not in"):
        run.explanations("model", "saliency")
