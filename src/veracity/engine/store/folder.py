"""A run folder: a manifest, one Parquet file a finished cell, tensors for what the eye needs.

    manifest.json                  schema, spec, versions, hashes, notes, and the list of planned cells
    cells/KEY.parquet              the measurements of one cell: sample, draw, level, quantity, value, status
    failed/KEY.json                the error of a cell that could not be finished, or of samples that a finished one lacks
    explanations/KEY.safetensors   base explanations of one block
    worst/KEY.safetensors          the most telling pairs of one cell
    learnt/KEY.safetensors         what one explainer found out about one model
    models/KEY.safetensors         the model of one fold: its weights, and what it answered to a few inputs
    calibrations/KEY.json          how strong a perturbation must be for one model on one data set

An orbit evaluation is a run folder of another kind, as its manifest says:

    orbits/KEY.parquet             the metrics of one model on one block of samples: sample, element, one column a metric
    outputs/KEY.safetensors        what the model gave along those orbits, as far as it is shown
    pictures/KEY.safetensors       what is drawn of the inputs of one block
    reductions/KEY.safetensors     orbits reduced to points of the plane

Keys are hashes of everything that a file depends on, so a file that is there is right.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from veracity.core.errors import StoreError
from veracity.engine.store import lock
from veracity.engine.store.files import Files
from veracity.engine.store.state import COMMAND, Progress, progress

Array = NDArray[Any]
SCHEMA = 1
SEVERAL = ("meta.json", "audits.json", "degradation.json", "distance_check.json")
"""Files by which a folder that holds something else than one run is known."""
MANIFEST = "manifest.json"
AUDIT, ORBITS = "audit", "orbits"
KINDS = {AUDIT: "an audit", ORBITS: "an orbit evaluation"}
READERS = {AUDIT: "Result", ORBITS: "OrbitResult"}
SHARED = {"spec", "data", "models", "cells", "notes", "seed"}
NEEDED = {AUDIT: SHARED | {"scores", "score_specs"}, ORBITS: SHARED | {"orbit", "task", "metrics", "pictures"}}
"""What the manifest of a run of each kind must hold."""
FOLDERS = ("models", "cells", "failed", "explanations", "worst", "learnt", "calibrations", "orbits", "outputs", "pictures", "reductions")
OURS = {lock.NAME, *FOLDERS, "advice", "advice.json"}
KEY = re.compile("[0-9a-f]{24}")
"""What a file's key looks like; nothing else that a manifest says becomes a file's name."""
COLUMNS = pa.schema(
    [
        ("sample", pa.int64()),
        ("draw", pa.int32()),
        ("level", pa.int32()),
        ("quantity", pa.dictionary(pa.int8(), pa.string())),
        ("value", pa.float64()),
        ("status", pa.dictionary(pa.int8(), pa.string())),
    ]
)


def keys(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Every key of a file that a manifest names."""
    for cell in (*manifest["cells"], *manifest.get("pictures", ())):
        yield cell["key"]
        yield from (cell["base"],) if cell.get("base") else ()


def alone(tensor: Tensor, others: Iterable[Tensor]) -> Tensor:
    """A contiguous tensor that shares its memory with no larger one and none of the others; copied only where it is none yet."""
    whole = tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes
    shared = any(tensor.data_ptr() == other.data_ptr() for other in others)
    return tensor if whole and not shared else tensor.clone(memory_format=torch.contiguous_format)


class RunFolder:
    """One run on a disk or in a bucket."""

    def __init__(self, root: str) -> None:
        self.root = str(root)
        self.files = Files(self.root)

    def writing(self) -> AbstractContextManager[None]:
        """The lock that a writer holds."""
        return lock.writing(self.files)

    def writer(self) -> str:
        """The process that is writing now; "" if there is none."""
        return lock.writer(self.files)

    def progress(self, manifest: Mapping[str, Any]) -> Progress:
        """How far the run has come. The writer is looked for first: one that ends meanwhile has measured all that is seen."""
        who, kind = self.writer(), "orbits" if manifest.get("kind") == ORBITS else "cells"
        done = {name.removesuffix(".parquet") for name in self.files.names(kind)}
        keys, command = (cell["key"] for cell in manifest["cells"]), str(manifest.get("command") or "")
        return progress(keys, done, self.failures(), writer=who, command=command)

    def sweep(self) -> None:
        """Remove half-written files; only for the holder of the lock."""
        for folder in ("", *FOLDERS):
            self.files.sweep(folder)

    def manifest(self, kind: str | None = AUDIT) -> dict[str, Any]:
        """The manifest, if this version can read it and the run is of this kind; None stands for any."""
        if not self.files.exists(MANIFEST):
            if who := self.writer():
                raise StoreError(f"{self.root} has no {MANIFEST} yet: {who} is still preparing the run. Try again in a moment.")
            several = any(self.files.exists(name) for name in SEVERAL)
            hint = " It holds more than one run, or none: see its report.html, or the run folders in it." if several else ""
            raise StoreError(f"{self.root} is not a run folder: it has no {MANIFEST}.{hint}")
        try:
            manifest: dict[str, Any] = json.loads(self.files.read(MANIFEST))
            schema = int(manifest["schema"])
            found = str(manifest.get("kind", AUDIT))
            if schema <= SCHEMA and found not in KINDS:
                raise ValueError(f"unknown kind '{found}'")
            missing = NEEDED[found] - set(manifest) if schema <= SCHEMA else set()
            if missing:
                raise ValueError(f"no {', '.join(sorted(missing))}")
            wrong = next((key for key in keys(manifest) if not KEY.fullmatch(key)), None) if schema <= SCHEMA else None
            if wrong is not None:
                raise ValueError(f"'{wrong}' is no key")
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"The run folder {self.root} is damaged: {MANIFEST} cannot be read ({error}); choose a new folder.") from error
        if schema > SCHEMA:
            raise StoreError(f"The run folder {self.root} has schema {schema} and this veracity reads up to {SCHEMA}: upgrade veracity.")
        if kind is not None and kind != found:
            read = f"{READERS[found]}, 'veracity show', 'gate', 'report' and 'app' read it"
            raise StoreError(f"The run folder {self.root} holds {KINDS[found]}, not {KINDS[kind]}: {read}.")
        return manifest

    def write_manifest(self, manifest: dict[str, Any]) -> None:
        """Replace the manifest at once."""
        known = {"command": COMMAND.get()} if COMMAND.get() else {}
        text = json.dumps({"schema": SCHEMA, **manifest, **known}, indent=1, allow_nan=False)
        self.files.write(MANIFEST, text.encode())

    def check_writable(self, kind: str | None = None) -> None:
        """Refuse a folder that holds something else, a run of another kind than the given one, or a newer run."""
        if self.files.is_file():
            raise StoreError(f"{self.root} is a file: a run needs a folder.")
        if self.files.exists(MANIFEST):
            self.manifest(kind)
        elif self.files.everything() - OURS:
            raise StoreError(f"{self.root} holds other files and no {MANIFEST}: choose an empty or a new folder.")

    def has(self, key: str) -> bool:
        """Whether a cell is finished."""
        return self.files.exists(f"cells/{key}.parquet")

    def finished(self) -> set[str]:
        """The keys of all finished cells."""
        return {name.removesuffix(".parquet") for name in self.files.names("cells")}

    def write_cell(
        self, key: str, sample: Array, draw: Array, level: Array, quantities: Mapping[str, Array], failed: Mapping[int, str] | None = None
    ) -> None:
        """Store a finished cell's measurements, (R,) each; what is not finite is marked undefined, or failed on samples with a reason."""
        count = len(quantities)
        value = np.concatenate(list(quantities.values()))
        lost = np.tile(np.isin(sample, list(failed or ())), count)
        status = pa.DictionaryArray.from_arrays(np.where(lost, 2, ~np.isfinite(value)).astype(np.int8), ["ok", "undefined", "failed"])
        what = pa.DictionaryArray.from_arrays(np.repeat(np.arange(count, dtype=np.int8), len(sample)), list(quantities))
        where = [np.tile(column.astype(kind), count) for column, kind in ((sample, np.int64), (draw, np.int32), (level, np.int32))]
        columns = [*where, what, value.astype(np.float64), status]
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_arrays([pa.array(column) for column in columns], schema=COLUMNS), sink)
        if failed:
            self.write_failure(key, next(iter(failed.values())), failed)
        self.files.write(f"cells/{key}.parquet", sink.getvalue())
        if not failed:
            self.files.remove(f"failed/{key}.json")

    def read_cell(self, key: str) -> pa.Table:
        """A finished cell's measurements."""
        name = f"cells/{key}.parquet"
        try:
            return pq.read_table(io.BytesIO(self.files.read(name)))
        except (pa.ArrowException, OSError) as error:
            raise StoreError(f"{self.files.path(name)} is damaged: delete it and run the same command again.") from error

    def write_failure(self, key: str, error: str, samples: Mapping[int, str] | None = None) -> None:
        """Record why a cell could not be finished, or why it was only without these samples."""
        self.files.write(f"failed/{key}.json", json.dumps({"error": error, **({"samples": samples} if samples else {})}).encode())

    def incomplete(self) -> set[str]:
        """The keys of finished cells that lack samples which failed."""
        return {name.removesuffix(".json") for name in self.files.names("failed")} & self.finished()

    def failed_samples(self, key: str) -> dict[int, str]:
        """Why samples of a finished cell failed, by their numbers."""
        try:
            samples = json.loads(self.files.read(f"failed/{key}.json")).get("samples", {})
            return {int(sample): str(reason) for sample, reason in samples.items()}
        except (ValueError, TypeError, AttributeError, FileNotFoundError):
            return {}

    def failures(self) -> dict[str, str]:
        """Why cells failed, by key; a record that a writer removes meanwhile is of a cell that is measured now."""
        keys = {name.removesuffix(".json") for name in self.files.names("failed")} - self.finished()
        found = {}
        for key in sorted(keys):
            with suppress(FileNotFoundError):
                found[key] = self.failure(key)
        return found

    def failure(self, key: str) -> str:
        """Why one cell failed."""
        try:
            return str(json.loads(self.files.read(f"failed/{key}.json"))["error"])
        except (ValueError, KeyError, TypeError):
            return "the record of its failure is damaged"

    def write_tensors(self, kind: str, key: str, tensors: dict[str, Tensor], about: dict[str, str] | None = None) -> None:
        """Store tensors of a kind (explanations, worst) under a key."""
        plain: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            plain[name] = alone(tensor.detach().cpu(), plain.values())
        self.files.write(f"{kind}/{key}.safetensors", save(plain, metadata=about))

    def read_tensors(self, kind: str, key: str) -> dict[str, Tensor] | None:
        """Stored tensors, or None if there are none."""
        name = f"{kind}/{key}.safetensors"
        if not self.files.exists(name):
            return None
        try:
            tensors: dict[str, Tensor] = load(self.files.read(name))
        except SafetensorError as error:
            raise StoreError(f"{self.files.path(name)} is damaged: delete it and run the same command again.") from error
        return tensors
