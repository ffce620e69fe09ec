"""A run folder: a manifest, one Parquet file per finished cell, tensors for what the eye needs.

    manifest.json                       schema, kind, spec, versions, hashes, notes, the planned cells, and its own checksum
    run.json                            which run this is, with its own checksum
    cells/KEY.SUM.parquet               the measurements of one cell: sample, draw, level, quantity, value, status
    packed/KEY.SUM.parquet              the measurements of many cells, once the run has ended (packs.py), and packs/KEY.SUM.json
    failed/KEY.SUM.json                 the error of a cell that could not be finished, or of samples that a finished one lacks
    explanations/KEY.SUM.safetensors    base explanations of one block
    worst/KEY.SUM.safetensors           the most telling pairs of one cell
    learnt/KEY.SUM.safetensors          what one explainer found out about one model
    models/KEY.SUM.safetensors          the model of one fold: its weights, and what it answered to a few inputs
    answers/KEY.SUM.json                what language models answered when they were asked to explain, prompt by prompt
    calibrations/KEY.SUM.json           how strong a perturbation must be for one model on one data set
    summary.json                        what `veracity show` and `veracity gate` say of the folder, sealed with what it was made of
    shards/                             signs of life of shards, and which of them measures what (shards.py)
    lock                                which process is writing; in a bucket, until when (leases.py)

What a folder holds is said by the `kind` in its manifest. An orbit evaluation has

    orbits/KEY.SUM.parquet              the metrics of one model on one block of samples: sample, element, one column per metric
    outputs/KEY.SUM.safetensors         what the model gave along those orbits, as far as it is shown
    pictures/KEY.SUM.safetensors        what is drawn of the inputs of one block
    reductions/KEY.SUM.safetensors      orbits reduced to points of the plane

and a study (study.py) has run folders of its own, and what it concludes from them. Nothing here imports torch before tensors are
read or written, so that a folder can be looked at quickly.

Keys are hashes of everything that a file depends on, and SUM is a checksum of its content, kind, key and run: a file that is there
and fits its name is right. Several writers, on a disk or in a bucket, may add files side by side. Blocks grow with the data
and with what is measured (engine/plan.py), so that a million samples are some thousand files. The manifest says how large they are.
"""

from __future__ import annotations

import io
import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from safetensors import SafetensorError

from veracity.core.errors import StoreError, warn
from veracity.engine.store import shards, writers
from veracity.engine.store.buckets import Unreachable
from veracity.engine.store.files import Files
from veracity.engine.store.manifest import MANIFEST, Kind, check_manifest
from veracity.engine.store.packs import Packs, pack
from veracity.engine.store.records import LARGEST, Damaged, Place, Records, checked, measurements, parsed, printable, sealed, unsealed
from veracity.engine.store.state import COMMAND, Progress

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[Any]
SCHEMA = 3
RUN, SUMMARY = "run.json", "summary.json"
CELLS, FAILED = "cells", "failed"
FOLDERS = (
    "models",
    "checkpoints",
    "attributions",
    "cells",
    "packed",
    "packs",
    "failed",
    "explanations",
    "worst",
    "learnt",
    "visualised",
    "calibrations",
    "answers",
    "rows",
    "orbits",
    "outputs",
    "pictures",
    "reductions",
)
OURS = {writers.LOCK, shards.SHARDS, RUN, *FOLDERS, "advice", "advice.json", "report.html", SUMMARY}
NAMED = 3
"""How many damaged files a warning names."""
NEEDS = b"veracity.needs"
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

ENCODING: dict[str, Any] = {
    "use_dictionary": ["draw", "level", "quantity", "status"],
    "column_encoding": {"sample": "DELTA_BINARY_PACKED", "value": "PLAIN"},
}
"""How cells are written: a seventh of the time that dictionaries of all samples and values take, and read in two thirds of it."""

NUMBERS = pa.schema([COLUMNS.field(name) for name in ("sample", "draw", "level", "quantity", "value")])
"""What a score is derived from."""


def alone(tensor: Tensor, others: Iterable[Tensor]) -> Tensor:
    """A contiguous tensor that shares its memory with no larger one and none of the others; copied only if needed."""
    import torch

    whole = tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes
    shared = any(tensor.data_ptr() == other.data_ptr() for other in others)
    return tensor if whole and not shared else tensor.clone(memory_format=torch.contiguous_format)


class RunFolder:
    """One run on a disk or in a bucket."""

    def __init__(self, root: str) -> None:
        self.root = str(root)
        self.files = Files(self.root)
        self.records = Records(self.files, lambda: self.run)
        self.packs = Packs(self.records)
        self._run, self._established = "", False
        self.unkept: set[Place] = set()
        """Records that were made and not kept, since there are too many: no cell needs them."""

    @property
    def place(self) -> str:
        """The folder's address for other processes: an absolute path, or that of a bucket."""
        return os.path.abspath(self.root) if self.files.local and "://" not in self.root else self.root

    @property
    def run(self) -> str:
        """Which run this is; "" in a folder that holds none yet."""
        self._run = self._run or str(self._said_by(RUN).get("run", "")) or str(self._said_by(MANIFEST).get("run", ""))
        return self._run

    def _said_by(self, name: str) -> dict[str, Any]:
        """What a sealed file holds; nothing if it is not there or is damaged."""
        try:
            return unsealed(self.files.read(name, LARGEST))
        except Unreachable:
            raise
        except (ValueError, OSError, StoreError):
            return {}

    def establish(self) -> None:
        """Make the folder that of a run, if it is none yet."""
        if not self._established and not self._said_by(RUN):
            said = sealed({"schema": SCHEMA, "run": self.run or uuid.uuid4().hex})
            self.files.write(RUN, said, anew=True)
            if not self._said_by(RUN):  # what is there is damaged; a file that another writer has just made is not
                self.files.write(RUN, said)
            self._run = str(self._said_by(RUN)["run"])
        self._established = True

    def put(self, kind: str, key: str, data: bytes, suffix: str) -> None:
        """Write a record of this run."""
        self.establish()
        self.records.put(kind, key, data, suffix)

    @contextmanager
    def writing(self, shard: str = "") -> Iterator[None]:
        """Hold the folder for writing; a shard waits for its turn beside others."""
        with writers.hold(self.files, shard):
            self.establish()
            yield

    def check_alone(self) -> None:
        """Raise if shards are at work here."""
        writers.check_alone(self.files)

    def writer(self) -> str:
        """The process that is writing now; "" if there is none."""
        return writers.writer(self.files)

    def progress(self, manifest: Mapping[str, Any]) -> Progress:
        """How far the run has come. The writer is looked for first: if it ends meanwhile, all that it measured is counted."""
        who, kind, unit = self.writer(), Kind(manifest["kind"]), "cell"
        if kind.study:
            planned, over, unit = frozenset(manifest["parts"]), manifest["finished"] and not who, manifest.get("unit", "run")
            done, failures = frozenset(part for part in planned if over or self.settled(part)), dict[str, str]()
        else:
            planned = frozenset(cell["key"] for cell in manifest["cells"])
            done = planned & (self.records.keys("orbits") if kind is Kind.ORBITS else self.finished())
            failures = {key: error for key, error in self.failures().items() if key in planned - done}
        command = str(manifest.get("command") or "")
        shared = len(done) + len(failures) < len(planned) and bool(shards.signs(self.files))
        return Progress(cells=len(planned), done=done, failures=failures, writer=who, command=command, unit=unit, shards=shared)

    def settled(self, part: str) -> bool:
        """Whether a part of a study is an audit with nothing pending; a link that leads out of the folder does not count."""
        try:
            run = RunFolder(self.files.folder(part))
            return run.progress(run.manifest()).settled
        except StoreError:
            return False

    def manifest(self, kind: Kind | None = Kind.AUDIT) -> dict[str, Any]:
        """The manifest, if this version can read it and the folder is of this kind; None stands for any kind."""
        if not self.files.exists(MANIFEST):
            self.files.check_place()
            if who := self.writer():
                raise StoreError(f"{self.root} has no {MANIFEST} yet: {who} is still preparing the run. Try again in a moment.")
            if self._said_by(RUN):
                raise StoreError(f"{self.root} holds a run that ended before anything was measured: run the same command again.")
            raise StoreError(f"{self.root} is not a run folder: it has no {MANIFEST}.")
        schema = self._schema()
        if schema < SCHEMA:
            raise StoreError(
                f"The run folder {self.root} was written by an older veracity (schema {schema}; this one reads {SCHEMA}): measure it "
                "again in a new folder."
            )
        if schema > SCHEMA:
            raise StoreError(f"The run folder {self.root} has schema {schema} and this veracity reads up to {SCHEMA}: upgrade veracity.")
        try:
            manifest = unsealed(self.files.read(MANIFEST, LARGEST))
            if manifest.get("schema") != SCHEMA:
                raise ValueError(f"it has the schema {str(manifest.get('schema'))[:20]} in a folder of schema {SCHEMA}")
            if self.run and manifest.get("run", self.run) != self.run:
                raise ValueError("it belongs to another run")
            found = check_manifest(manifest)
        except (ValueError, OSError) as error:
            raise Damaged(
                f"The run folder {self.root} is damaged: {MANIFEST} cannot be read ({error}): run the same command again, "
                "which writes it anew."
            ) from error
        if kind is not None and kind is not found:
            raise StoreError(
                f"The run folder {self.root} holds {found.words}, not {kind.words}: read it with 'veracity show', or in Python with "
                "veracity.studies.load."
            )
        return manifest

    def _schema(self) -> int:
        """The schema of the folder, by its run file or else by its manifest; the present one where neither can be read."""
        try:
            schema = (self._said_by(RUN) or parsed(self.files.read(MANIFEST, LARGEST)))["schema"]
        except (ValueError, KeyError, TypeError, OSError):
            return SCHEMA
        return schema if isinstance(schema, int) and not isinstance(schema, bool) else SCHEMA

    def manifest_before(self, kind: Kind) -> dict[str, Any]:
        """The manifest of an earlier call; empty if there is none, or it is damaged."""
        try:
            return self.manifest(kind) if self.files.exists(MANIFEST) else {}
        except Damaged:
            return {}

    def write_manifest(self, manifest: dict[str, Any]) -> None:
        """Replace the manifest at once."""
        known = {"command": COMMAND.get()} if COMMAND.get() else {}
        self.establish()
        self.files.write(MANIFEST, sealed({"schema": SCHEMA, "run": self.run, **manifest, **known}))
        writers.leave_mark(self.files)

    def check_writable(self, kind: Kind | None = None) -> None:
        """Refuse a folder that holds other files, something of another kind than the given one, or what a newer veracity wrote."""
        self.files.check_place()
        if self.files.is_file():
            raise StoreError(f"{self.root} is a file: a run needs a folder.")
        if self.files.exists(MANIFEST):
            with suppress(Damaged) if self._said_by(RUN) else nullcontext():
                self.manifest(kind)
        elif not self._said_by(RUN) and self.files.everything() - OURS:
            raise StoreError(f"{self.root} holds other files and no {MANIFEST}: choose an empty or a new folder.")

    def repair(self, advance: Callable[[int, str], None] | None = None) -> None:
        """Remove what a killed writer left and what is damaged, so that it is made again, and warn; only for the holder of the lock."""
        age = shards.DEAD if shards.signs(self.files) else 0.0  # a shard that was taken for dead may still write
        for folder in ("", shards.SHARDS, *FOLDERS):
            self.files.sweep(folder, age)
        shards.clear(self.files)
        gone = [Place("", MANIFEST)] if self.finished() and not self.files.exists(MANIFEST) else []
        gone += self.mend(advance)
        if gone:
            which = ", ".join(map(str, gone[:NAMED])) + (f" and {len(gone) - NAMED} more" if len(gone) > NAMED else "")
            count, again = ("One file was", "it is") if len(gone) == 1 else (f"{len(gone)} files were", "they are")
            warn(f"{count} damaged or lost in {self.root}; {again} made again: {which}.")

    def mend(self, advance: Callable[[int, str], None] | None = None) -> list[Place]:
        """Read every file and remove what is damaged, and every cell that lacks a file it needs; only for the holder of the lock."""
        told = advance or (lambda count, text: None)
        gone = [] if not self.files.exists(MANIFEST) or self._said_by(MANIFEST).get("run") == self.run else [Place("", MANIFEST)]
        needed: dict[str, list[Place]] = {}
        unreadable: list[Place] = []

        def seen(place: Place, data: bytes) -> None:
            told(1, f"checking {place.kind}")
            if place.kind == CELLS:
                try:
                    needed[place.key] = needs(pq.read_schema(io.BytesIO(data)))
                except (pa.ArrowException, OSError, ValueError, TypeError):  # somebody signed what no run writes
                    unreadable.append(place)

        self.packs.settle()
        gone += self.records.mend(FOLDERS, seen)
        for place in unreadable:
            self.records.remove(place.kind, place.key)
        gone += unreadable
        known = {Place(kind, key) for kind in FOLDERS for key in self.records.keys(kind)}
        for key, places in needed.items():
            lost = set(places) - known
            if lost:
                self.records.remove(CELLS, key)
                gone += sorted(lost - set(gone))
        without = {key: set(places) - known for key, places in self.packs.needs().items() if set(places) - known}
        self.packs.forget(without)
        return gone + sorted(set().union(*without.values()) - set(gone))

    def count(self) -> int:
        """How many records there are."""
        return sum(len(self.records.keys(kind)) for kind in FOLDERS)

    def has(self, key: str) -> bool:
        """Whether a cell is finished."""
        return self.records.has(CELLS, key) or key in self.packs.cells()

    def finished(self) -> set[str]:
        """The keys of all finished cells."""
        return self.records.keys(CELLS) | set(self.packs.cells())

    def write_cell(
        self,
        key: str,
        sample: Array,
        draw: Array,
        level: Array,
        quantities: Mapping[str, Array],
        needed: Sequence[Place] = (),
        failed: Mapping[int, str] | None = None,
    ) -> None:
        """Store a finished cell's measurements, (R,) each; what is not finite is marked undefined, or failed on samples with a reason.

        Records that are `needed` belong to the cell: where one is lost, the cell is measured again.
        """
        count = len(quantities)
        value = np.concatenate(list(quantities.values()))
        lost = np.tile(np.isin(sample, list(failed or ())), count)
        status = pa.DictionaryArray.from_arrays(np.where(lost, 2, ~np.isfinite(value)).astype(np.int8), ["ok", "undefined", "failed"])
        what = pa.DictionaryArray.from_arrays(np.repeat(np.arange(count, dtype=np.int8), len(sample)), list(quantities))
        where = [np.tile(column.astype(kind), count) for column, kind in ((sample, np.int64), (draw, np.int32), (level, np.int32))]
        columns = [*where, what, value.astype(np.float64), status]
        sink = io.BytesIO()
        places = [*needed, *([Place(FAILED, key)] if failed else [])]
        schema = COLUMNS.with_metadata({NEEDS: json.dumps([[place.kind, place.key] for place in places])})
        pq.write_table(pa.Table.from_arrays([pa.array(column) for column in columns], schema=schema), sink, **ENCODING)
        if failed:
            self.write_failure(key, next(iter(failed.values())), failed)
        self.put(CELLS, key, sink.getvalue(), "parquet")
        if not failed:
            self.records.remove(FAILED, key)

    def read_cell(self, key: str, form: pa.Schema = COLUMNS) -> pa.Table:
        """A finished cell's measurements; a form with fewer columns is read faster."""
        try:
            rows = self.packs.read(key, form)
            data = self.records.get(CELLS, key) if rows is None else None
            if rows is None and data is None and key in self.packs.cells():  # a writer has just packed it
                rows = self.packs.read(key, form)
            if rows is not None:
                return checked(rows, form)
            if data is None:
                raise StoreError(f"The cell {key} is not in {self.root}: run the same command again, which measures it.")
            return measurements(data, form)
        except (pa.ArrowException, OSError) as error:
            raise StoreError(f"The cell {key} in {self.root} holds no measurements: delete it and run the same command again.") from error

    def cell_and_needs(self, key: str) -> tuple[pa.Table, list[Place]]:
        """A cell that has a file of its own, and the records that it needs."""
        data = self.records.get(CELLS, key) or b""  # not what an older pack holds of the cell
        try:
            return measurements(data, COLUMNS), needs(pq.read_schema(io.BytesIO(data)))
        except (pa.ArrowException, OSError) as error:
            raise StoreError(f"The cell {key} in {self.root} holds no measurements: delete it and run the same command again.") from error

    def pack(self, cells: Iterable[Mapping[str, Any]]) -> None:
        """Put the cells of a manifest into few files, if there are many of them; only for the holder of the lock."""
        pack(self, cells, COLUMNS, ENCODING)

    def write_failure(self, key: str, error: str, samples: Mapping[int, str] | None = None) -> None:
        """Record why a cell could not be finished, or why it was only without these samples."""
        self.put(FAILED, key, json.dumps({"error": error, **({"samples": samples} if samples else {})}).encode(), "json")

    def incomplete(self) -> set[str]:
        """The keys of finished cells that lack samples which failed."""
        return self.records.keys(FAILED) & self.finished()

    def failed_samples(self, key: str) -> dict[int, str]:
        """Why samples of a finished cell failed, by their numbers."""
        try:
            data = self.records.get(FAILED, key)
            samples = {} if data is None else printable(parsed(data)).get("samples", {})
            return {int(sample): str(reason) for sample, reason in samples.items()}
        except (Damaged, ValueError, TypeError, AttributeError):
            return {}

    def has_failures(self) -> bool:
        """Whether a cell, or a sample of one, has failed."""
        return bool(self.records.keys(FAILED))

    def failures(self) -> dict[str, str]:
        """Why cells failed, by key; a record that a writer removes meanwhile is of a cell that is measured now."""
        found = {key: self.failure(key) for key in sorted(self.records.keys(FAILED) - self.finished())}
        return {key: error for key, error in found.items() if error}

    def failure(self, key: str) -> str:
        """Why one cell failed; "" if there is no record of it."""
        try:
            data = self.records.get(FAILED, key)
            return "" if data is None else str(printable(parsed(data)["error"]))
        except (Damaged, ValueError, KeyError, TypeError):
            return "the record of its failure is damaged"

    def write_table(self, kind: str, key: str, content: Mapping[str, Any]) -> dict[str, Any]:
        """Store a table of names and values under a key; comes back as it will be read."""
        data = json.dumps(content).encode()
        self.put(kind, key, data, "json")
        return dict(json.loads(data))

    def read_table(self, kind: str, key: str) -> dict[str, Any] | None:
        """A stored table of names and values, or None if there is none."""
        data = self.records.get(kind, key)
        try:
            return None if data is None else dict(parsed(data))
        except (ValueError, TypeError) as error:
            raise Damaged(f"{kind}/{key} in {self.root} holds no table: delete it and run the same command again.") from error

    def tables(self, kind: str) -> list[dict[str, Any]]:
        """All stored tables of a kind that are intact, in the order of their keys."""
        found = []
        for key in sorted(self.records.keys(kind)):
            with suppress(StoreError):
                found += [table] if (table := self.read_table(kind, key)) is not None else []
        return found

    def write_tensors(self, kind: str, key: str, tensors: dict[str, Tensor], about: dict[str, str] | None = None) -> Place:
        """Store tensors of a kind (explanations, worst) under a key, and say where."""
        from safetensors.torch import save

        plain: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            plain[name] = alone(tensor.detach().cpu(), plain.values())
        self.put(kind, key, save(plain, metadata=about), "safetensors")
        return Place(kind, key)

    def read_tensors(self, kind: str, key: str) -> dict[str, Tensor] | None:
        """Stored tensors, or None if there are none."""
        from safetensors.torch import load

        data = self.records.get(kind, key)
        try:
            return None if data is None else load(data)
        except SafetensorError as error:
            raise Damaged(f"{kind}/{key} in {self.root} holds no tensors: delete it and run the same command again.") from error

    def recovered(self, kind: str, key: str) -> dict[str, Tensor] | None:
        """Stored tensors, or None if there are none or they are damaged: for what can be made again at once."""
        try:
            return self.read_tensors(kind, key)
        except Damaged:
            return None


def needs(cell: pa.Schema) -> list[Place]:
    """The records without which a cell is not whole."""
    return [Place(kind, key) for kind, key in json.loads((cell.metadata or {}).get(NEEDS, b"[]"))]
