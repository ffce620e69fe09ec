"""Measurements of cells as arrays, and how many of them are held."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small import series_inputs, small_net
from veracity import Audit, Result
from veracity.core.errors import StoreError
from veracity.engine.store.folder import COLUMNS
from veracity.results import run as runs
from veracity.results.series import Arrays, Held, dense, gather

NAMES = ("distortion", "value")


def cell(rows: list[tuple[int, int, int, str, float]]) -> pa.Table:
    sample, draw, level, quantity, value = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [], [], [])
    codes = pa.DictionaryArray.from_arrays(pa.array([NAMES.index(one) for one in quantity], pa.int8()), list(NAMES))
    status = pa.DictionaryArray.from_arrays(pa.array([0] * len(rows), pa.int8()), ["ok"])
    columns = [pa.array(sample, pa.int64()), pa.array(draw, pa.int32()), pa.array(level, pa.int32()), codes, pa.array(value, pa.float64())]
    return pa.Table.from_arrays([*columns, status], schema=COLUMNS)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_cells_are_gathered_as_a_dictionary_would(data: st.DataObject) -> None:
    places = st.tuples(st.integers(0, 12), st.integers(0, 3), st.integers(0, 2), st.sampled_from(NAMES))
    every = data.draw(st.lists(places, min_size=1, max_size=60, unique=True))
    owner = {sample: data.draw(st.integers(0, 2)) for sample in range(13)}
    known = {place: float(number) for number, place in enumerate(every)}
    cells = [cell([(*place, value) for place, value in known.items() if owner[place[0]] == part]) for part in range(3)]
    samples, measured, counts = gather(map(dense, cells))
    assert samples.tolist() == sorted({place[0] for place in every})
    for name in {place[3] for place in every}:
        for row, sample in enumerate(samples.tolist()):
            for draw in range(measured[name].shape[1]):
                for level in range(measured[name].shape[2]):
                    found, expected = measured[name][row, draw, level], known.get((sample, draw, level, name), math.nan)
                    assert found == expected or (math.isnan(found) and math.isnan(expected))
    if len({place[3] for place in every}) == 1:
        assert counts.tolist() == [len({place[1] for place in every if place[0] == sample}) for sample in samples.tolist()]


def test_nothing_measured() -> None:
    samples, measured, counts = gather([])
    assert (len(samples), len(counts), measured["value"].shape) == (0, 0, (0, 0, 1))


def test_a_cell_that_claims_to_be_huge_is_refused() -> None:
    with pytest.raises(StoreError, match="too sparse"):
        dense(cell([(0, 2**30, 2**30, "value", 1.0)]))


def arrays(size: int) -> Arrays:
    values = np.zeros((size, 1))
    return Arrays(np.arange(size), values, np.ones(size, np.int64), size, values[:, 0], _measured(values), np.zeros(size, bool), None, {})


def _measured(values: Any) -> Any:
    from veracity.core.scores import Measured

    return Measured({"value": values[:, :, None]})


def test_the_last_ones_are_held_in_a_bounded_number_of_bytes() -> None:
    reads: list[str] = []

    def read(name: str) -> Arrays:
        reads.append(name)
        return arrays(1000)

    held = Held(3 * arrays(1000).nbytes)
    for name in "abcabcd":
        held.recall(name, lambda name=name: read(name))  # type: ignore[misc]
    assert reads == ["a", "b", "c", "d"]
    held.recall("a", lambda: read("a"))
    assert reads == ["a", "b", "c", "d", "a"]
    assert held.bytes == sum(one.nbytes for one in held.kept.values()) <= held.limit
    assert Held(0).recall("a", lambda: arrays(5)).drawn == 5


def test_a_result_that_holds_little_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = Audit(
        models=small_net(), inputs=series_inputs(70), explainers=["saliency"], scores=["sparseness", "complexity", "max_sensitivity"]
    )
    audit.run(tmp_path / "run", progress=False)
    whole = Result(tmp_path / "run")
    monkeypatch.setattr(runs, "HELD", 1)
    little = Result(tmp_path / "run")
    pd.testing.assert_frame_equal(whole.table(), little.table(), check_exact=True)
    pd.testing.assert_frame_equal(whole.differences("sparseness"), little.differences("sparseness"), check_exact=True)
    assert len(little._held.kept) == 1
    assert str(whole) == str(little)
