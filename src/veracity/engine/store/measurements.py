"""Parquet files as tables of a known form and size, whatever they claim to hold."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROWS = 1 << 25
"""The most rows of one file: a few bytes can claim any number of equal ones."""
PLACES = ("sample", "draw", "level")


def opened(data: bytes, rows: int = ROWS) -> pq.ParquetFile:
    """A Parquet file that claims at most so many rows; raises an ArrowException on any other."""
    file = pq.ParquetFile(io.BytesIO(data))
    if file.metadata.num_rows > rows:
        raise pa.ArrowInvalid(f"{file.metadata.num_rows} rows are more than {rows}")
    return file


def columns(file: pq.ParquetFile, names: Sequence[str]) -> pa.Table:
    """Some columns of an open file; raises an ArrowException where one is missing or there are several of a name."""
    found = file.schema_arrow.names
    wrong = next((name for name in names if found.count(name) != 1), None)
    if wrong is not None:
        raise pa.ArrowInvalid(f"there is not one column '{wrong}'")
    return file.read(list(names), use_threads=False)


def measurements(data: bytes, form: pa.Schema) -> pa.Table:
    """The rows of a cell in their form; raises an ArrowException on anything else."""
    table = columns(opened(data), form.names).cast(form)
    if any(column.null_count for column in table.columns):
        raise pa.ArrowInvalid("a measurement is missing")
    if len(table) and min(pc.min(table[name]).as_py() for name in PLACES) < 0:
        raise pa.ArrowInvalid("a sample, draw or level is below 0")
    return table
