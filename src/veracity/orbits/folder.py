"""What the columns of a table of metrics are called.

Blocks of samples, and the files that are to be measured of them, under keys that say everything a file depends on.

The files of an orbit evaluation: metrics as labelled tables, outputs and pictures as tensors, one of each a block of samples.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load
from torch import Size, Tensor

from veracity.core.errors import StoreError
from veracity.engine.store import RunFolder
from veracity.engine.store.records import columns, open_parquet

TRUTH, CONSENSUS = "truth", "consensus"
"""What outputs are judged against."""
DISTANCE = "distance"
"""How far an output, undone, is from the one at the identity."""
WHOLE = "whole"
"""Whether the moved truth has lost nothing, 1 or 0."""


def column(metric: str, reference: str) -> str:
    """A metric against a reference.

    >>> column("accuracy", "truth")
    'accuracy@truth'
    """
    return f"{metric}@{reference}"


def followed(explainer: str) -> str:
    """How well an explanation moves along with its input, s[e(g x), g e(x)].

    >>> followed("saliency")
    'equivariance: saliency'
    """
    return f"equivariance: {explainer}"


ALGORITHMS = 3
"""To be raised whenever a change of this package changes numbers, so that old files are not mixed with new ones."""
BLOCK = 64
HELD = 64 << 20
"""How many bytes of one model's outputs are held at once; a block is one sample at least."""


@dataclass(frozen=True)
class Block:
    """Consecutive samples, and the key of their pictures."""

    start: int
    stop: int
    pictures: str

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def samples(self) -> Tensor:
        """Their numbers, (n,)."""
        return torch.arange(self.start, self.stop)


@dataclass(frozen=True)
class Cell:
    """One model on one block: what one table of metrics holds; with an explainer, how that follows the orbit."""

    key: str
    model: str
    explainer: str
    block: Block

    def entry(self) -> dict[str, Any]:
        """The cell's line in the manifest."""
        return {"key": self.key, "model": self.model, "explainer": self.explainer, "start": self.block.start, "stop": self.block.stop}


def block_length(output: Size, elements: int) -> int:
    """How many samples make a block, where one output has this shape: 64, or fewer whose float32 outputs can be held.

    >>> block_length(Size([10]), 72), block_length(Size([2, 256, 256]), 16)
    (64, 8)
    """
    return min(BLOCK, max(1, HELD // (4 * max(1, math.prod(output)) * elements)))


def spans(samples: int, length: int) -> Sequence[tuple[int, int]]:
    """Where blocks of this length begin and end.

    >>> spans(5, 2)
    [(0, 2), (2, 4), (4, 5)]
    """
    return [(start, min(start + length, samples)) for start in range(0, samples, length)]


Array = NDArray[Any]
Values = NDArray[np.float32]
METRICS, OUTPUTS, PICTURES, REDUCTIONS = "orbits", "outputs", "pictures", "reductions"
INDEX = ["sample", "element"]


def finished(folder: RunFolder, kind: str) -> set[str]:
    """The keys of all finished files of a kind."""
    return folder.records.keys(kind)


def measured(folder: RunFolder, key: str) -> bool:
    """Whether the metrics of a block are there."""
    return folder.records.has(METRICS, key)


def check_measured(folder: RunFolder, key: str, cells: Sequence[Mapping[str, Any]]) -> None:
    """Raise unless a block's metrics are there, and say how far the run came: one that was stopped is not damaged."""
    if not measured(folder, key):
        who, there, wanted = folder.writer(), finished(folder, METRICS), [cell["key"] for cell in cells if not cell["explainer"]]
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


def read_row(folder: RunFolder, kind: str, key: str, row: int) -> dict[str, Array]:
    """The tensors of one sample of a block; on a disk nothing else is read."""
    return read_parts(folder, kind, key, lambda file: {part: file.get_slice(part)[row] for part in file.keys()})  # noqa: SIM118


def read_part(folder: RunFolder, kind: str, key: str, part: str) -> Array | None:
    """One tensor of all samples of a block, if it is kept; on a disk nothing else is read."""
    return read_parts(folder, kind, key, lambda file: {part: file.get_tensor(part)} if part in file.keys() else {}).get(part)  # noqa: SIM118


def read_parts(folder: RunFolder, kind: str, key: str, wanted: Callable[[Any], dict[str, Array]]) -> dict[str, Array]:
    """What is wanted of an open file of tensors; raises if it is not there or cannot be read."""
    data = None if folder.files.local else folder.records.get(kind, key)
    path = folder.records.located(kind, key) if folder.files.local else None
    if data is None and path is None:
        raise StoreError(f"{folder.files.path(f'{kind}/{key}')} is not there: run the same command again, which makes it.")
    try:
        if path is not None:
            with safe_open(path, framework="np") as file:
                return wanted(file)
        return wanted(Held(load(data or b"")))
    except (SafetensorError, OSError, IndexError, TypeError, ValueError) as error:
        raise StoreError(f"{folder.files.path(f'{kind}/{key}')} cannot be read: run the same command again, which makes it.") from error


@dataclass(frozen=True)
class Held:
    """Tensors in memory, read as from an open file."""

    tensors: dict[str, Array]

    def keys(self) -> list[str]:
        """Their names."""
        return list(self.tensors)

    def get_slice(self, name: str) -> Array:
        """One of them, of which rows can be taken."""
        return self.tensors[name]

    get_tensor = get_slice
