"""The files of an orbit evaluation, for each block of samples: metrics as a table, outputs and pictures as tensors.

A table has one row per sample and element. Its columns are a metric against a reference (`accuracy@truth`), the distance from the
unmoved output, whether the moved truth is whole, and for an explainer how well its maps move along.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load
from torch import Tensor

from veracity.core.errors import StoreError
from veracity.engine.store import RunFolder
from veracity.engine.store.records import columns, open_parquet

TRUTH, CONSENSUS = "truth", "consensus"
"""What outputs are judged against."""
DISTANCE = "distance"
"""The column of the distance between the un-transformed output and the output for the original input."""
WHOLE = "whole"
"""The column that is 1 where the moved truth has lost nothing, else 0."""


def column(metric: str, reference: str) -> str:
    """The column of a metric against a reference.

    >>> column("accuracy", "truth")
    'accuracy@truth'
    """
    return f"{metric}@{reference}"


def equivariance_column(explainer: str) -> str:
    """The column of how well an explanation moves along with its input, s[e(g x), g e(x)].

    >>> equivariance_column("saliency")
    'equivariance: saliency'
    """
    return f"equivariance: {explainer}"


Array = NDArray[Any]
Values = NDArray[np.float32]
METRICS, OUTPUTS, PICTURES, REDUCTIONS = "orbits", "outputs", "pictures", "reductions"
INDEX = ["sample", "element"]


def check_measured(folder: RunFolder, key: str, cells: Sequence[Mapping[str, Any]]) -> None:
    """Raise unless a block's metrics are there, and say how far the run came: one that was stopped is not damaged."""
    if not folder.records.has(METRICS, key):
        who, there = folder.writer(), folder.records.keys(METRICS)
        wanted = [cell["key"] for cell in cells if not cell["explainer"]]
        done = sum(one in there for one in wanted)
        raise StoreError(
            f"{done} of {len(wanted)} blocks are measured in {folder.root}: "
            + (f"{who} is measuring the others, wait for it." if who else "run the same command again to finish.")
        )


def write_metrics(
    folder: RunFolder, key: str, samples: Array, columns: Mapping[str, Tensor], failed: Mapping[int, str] | None = None
) -> None:
    """Store the metrics (n, K) of n samples along their orbits, one row per sample and element, and why samples failed."""
    count, length = next(iter(columns.values())).shape
    table = pa.table(
        {
            "sample": pa.array(np.repeat(samples.astype(np.int64), length)),
            "element": pa.array(np.tile(np.arange(length, dtype=np.int32), count)),
            **{name: pa.array(value.float().cpu().numpy().reshape(-1)) for name, value in columns.items()},
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", use_dictionary=INDEX)
    if failed:
        folder.write_failure(key, next(iter(failed.values())), failed)
    folder.put(METRICS, key, sink.getvalue(), "parquet")
    if not failed:
        folder.records.remove("failed", key)


def read_metrics(folder: RunFolder, key: str, wanted: Sequence[str], length: int, count: int) -> dict[str, Values]:
    """Some metrics of one block of n samples, (n, K) each."""
    data = folder.records.get(METRICS, key)
    try:
        table = columns(open_parquet(data or b"", count * length), wanted)
        return {column: table[column].cast(pa.float32()).to_numpy().reshape(count, length) for column in wanted}
    except (pa.ArrowException, KeyError, ValueError, OSError) as error:
        what = f"The metrics {key} in {folder.root} are not those that its manifest lists"
        raise StoreError(f"{what}: run the same command again, which measures them.") from error


def read_tensors(folder: RunFolder, kind: str, key: str, *, row: int | None = None, part: str = "") -> dict[str, Array]:
    """The tensors of a block by name: all of them or one `part`, of all samples or of one `row`; on a disk nothing else is read."""
    path = folder.records.located(kind, key) if folder.files.local else None
    data = None if folder.files.local else folder.records.get(kind, key)
    if path is None and data is None:
        raise StoreError(f"{folder.files.path(f'{kind}/{key}')} is not there: run the same command again, which makes it.")
    try:
        if path is None:
            return {name: value if row is None else value[row] for name, value in load(data or b"").items() if part in ("", name)}
        with safe_open(path, framework="np") as file:
            names = [name for name in file.keys() if part in ("", name)]  # noqa: SIM118
            return {name: file.get_tensor(name) if row is None else file.get_slice(name)[row] for name in names}
    except (SafetensorError, OSError, IndexError, TypeError, ValueError) as error:
        raise StoreError(f"{folder.files.path(f'{kind}/{key}')} cannot be read: run the same command again, which makes it.") from error
