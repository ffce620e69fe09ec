from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veracity.report.interactive.packed import encoded, pack, plain, unpack

KINDS = st.sampled_from(["float32", "uint8", "int64"])
SHAPES = st.lists(st.integers(0, 5), max_size=4)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=8), KINDS, SHAPES), max_size=4), st.integers(0, 10_000))
def test_what_is_packed_comes_back(asked: list[tuple[str, str, list[int]]], sample: int) -> None:
    arrays = {name: np.random.default_rng(sample).integers(0, 200, shape).astype(kind) for name, kind, shape in asked}
    header, found = unpack(pack({"sample": sample}, arrays))
    assert header == {"sample": sample}
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)


def test_the_bytes_lie_where_a_reader_expects_them() -> None:
    data = pack({"seq": 7}, {"a": np.array([1, 2, 3], dtype=np.uint8), "b": np.array([0.5], dtype=np.float32)})
    (length,) = struct.unpack("<I", data[:4])
    header = json.loads(data[4 : 4 + length])
    assert header == {
        "seq": 7,
        "arrays": [
            {"name": "a", "dtype": "uint8", "shape": [3], "offset": 0},
            {"name": "b", "dtype": "float32", "shape": [1], "offset": 8},
        ],
    }
    start = -(-(4 + length) // 8) * 8
    assert data[start : start + 3] == b"\x01\x02\x03"
    assert struct.unpack("<f", data[start + 8 : start + 12]) == (0.5,)
    assert len(data) == start + 16


@pytest.mark.parametrize(("given_as", "stored"), [("float16", "float32"), ("float64", "float32"), ("int32", "int64"), ("bool", "uint8")])
def test_numbers_become_what_a_browser_has(given_as: str, stored: str) -> None:
    _, found = unpack(pack({}, {"x": np.array([0, 1], dtype=given_as)}))
    assert found["x"].dtype == stored
    assert found["x"].tolist() == [0, 1]


def test_arrays_that_are_not_contiguous_or_of_the_other_byte_order_come_right() -> None:
    grid = np.arange(12, dtype=">f4").reshape(3, 4)
    _, found = unpack(pack({}, {"turned": grid.T, "every second": grid[:, ::2]}))
    np.testing.assert_array_equal(found["turned"], grid.T)
    np.testing.assert_array_equal(found["every second"], grid[:, ::2])


def test_json_holds_no_number_that_javascript_cannot_read() -> None:
    found = encoded({"a": [np.nan, np.float32(np.inf), 1.5], "b": np.array([[np.nan, 2.0]]), "c": True, "d": np.int64(3)})
    assert json.loads(found) == {"a": [None, None, 1.5], "b": [[None, 2.0]], "c": True, "d": 3}
    assert plain((object,)) == ["<class 'object'>"]
