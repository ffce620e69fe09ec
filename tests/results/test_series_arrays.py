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
from numpy.typing import NDArray

from small import series_inputs, small_net
from veracity import Audit, Result
from veracity.core.errors import StoreError
from veracity.engine.store import records
from veracity.engine.store.folder import COLUMNS
from veracity.perturb.groups import CyclicShift
from veracity.results import run as runs
from veracity.results import series
from veracity.results.series import Arrays, Held, dense, gather
from veracity.statistics import means

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


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_whole_cells_in_order_are_read_like_any_other(data: st.DataObject) -> None:
    first, *shape = (data.draw(st.integers(low, high)) for low, high in ((0, 9), (1, 5), (1, 3), (1, 2)))
    rows = [(first + sample, draw, level) for sample, draw, level in np.ndindex(*shape)]
    if data.draw(st.booleans(), label="shuffled"):
        rows = data.draw(st.permutations(rows))
    kept = rows[: data.draw(st.integers(1, len(rows)))] if data.draw(st.booleans(), label="cut") else rows
    known = {place: float(number) for number, place in enumerate(kept)}
    columns = [pa.array(list(column), kind) for column, kind in zip(zip(*kept, strict=True), COLUMNS.types, strict=False)]
    name = pa.DictionaryArray.from_arrays(pa.array([0] * len(kept), pa.int8()), ["value"])
    part = dense(pa.table([*columns, name, pa.array(known.values(), pa.float64())], names=COLUMNS.names[:5]))
    assert part.samples.tolist() == sorted({sample for sample, _, _ in kept})
    assert part.counts.tolist() == [len({draw for one, draw, _ in kept if one == sample}) for sample in part.samples.tolist()]
    for row, sample in enumerate(part.samples.tolist()):
        for draw, level in np.ndindex(*part.shape):
            np.testing.assert_equal(part.quantities["value"][row, draw, level], known.get((sample, draw, level), math.nan))


def test_a_table_is_the_same_bit_for_bit_however_cells_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short cuts for whole cells, equal columns and defined values change nothing: without them the same numbers come out."""
    audit = Audit(
        models=small_net(),
        inputs=series_inputs(150),
        explainers=["saliency"],
        symmetry=CyclicShift(axes=(-1,)),
        scores=["equivariance", "sparseness", "max_sensitivity"],
    )
    audit.run(tmp_path / "run", progress=False)
    short = Result(tmp_path / "run")
    ways: set[str] = set()

    def slowly(place: str) -> Any:
        def never(*given: Any) -> Any:
            ways.add(place)
            return False if place == "order" else None

        return never

    def slow_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
        ways.add("mean")
        finite = np.isfinite(values)
        count, total = finite.sum(axis=1), np.where(finite, values, 0.0).sum(axis=1)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def slow_sums(self: means.NestedDraws, table: NDArray[np.float64]) -> Any:
        ways.add("sums")
        return np.nansum(table, axis=1)

    table = short.table()
    monkeypatch.setattr(series, "in_order", slowly("order"))
    monkeypatch.setattr(records, "only_value", slowly("equal"))
    monkeypatch.setattr(series, "per_sample_mean", slow_mean)
    monkeypatch.setattr(means.NestedDraws, "sums", slow_sums)
    pd.testing.assert_frame_equal(Result(tmp_path / "run").table(), table, check_exact=True)
    assert ways == {"order", "equal", "mean", "sums"}
    assert (table["n"] == 150).any()


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
