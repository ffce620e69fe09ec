"""Many cells in few files: when a run has ended, those of one score and subject are packed, one row group each.

    packed/KEY.SUM.parquet      the measurements of several cells
    packs/KEY.SUM.json          which cells these are, in the order of their row groups, and which records each of them needs

A cell that has a file of its own counts more than a packed one. A pack is written first, then its list, and then the files of the cells
are removed, so that a killed writer loses nothing. Of the worst pairs, those of the worst cells are kept.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from veracity.core.digest import of_json
from veracity.core.errors import StoreError
from veracity.engine.store.records import ROWS, Damaged, Place, Records, open_parquet, parsed, rows_of

if TYPE_CHECKING:
    from veracity.engine.store.folder import RunFolder

PACKED, PACKS, WORST = "packed", "packs", "worst"
LOOSE, TOGETHER, BYTES, MOST = 2000, 4096, 32 << 20, ROWS
"""The number of cells above which they are packed; and the most cells, bytes and rows of one pack."""
Listed = list[tuple[str, list[list[str]]]]
"""The cells of a pack in the order of their row groups, "" for one that does not count any more, and the records that each needs."""
SHOWN = 16
"""Of how many cells of one score and subject the worst pairs are kept."""


class Packs:
    """The packed cells below one root."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self._known: tuple[frozenset[str], frozenset[str]] | None = None
        self._places: dict[str, tuple[str, int]] = {}
        self._needs: dict[str, list[Place]] = {}
        self._open: tuple[str, pq.ParquetFile] | None = None
        self._lock = Lock()

    def cells(self) -> dict[str, tuple[str, int]]:
        """The pack and the row group of every packed cell that has no file of its own; lists are read again only if there are others."""
        lists = self.records.keys(PACKS)
        listed = frozenset(lists & self.records.keys(PACKED)) if lists else frozenset[str]()
        loose = frozenset(self.records.keys("cells")) if listed else frozenset[str]()
        if (listed, loose) != self._known:
            self._places, self._needs = {}, {}
            for key in sorted(listed):
                for number, (cell, needs) in enumerate(self.list_of(key)):
                    if cell and cell not in loose:
                        self._places[cell], self._needs[cell] = (key, number), [Place(*place) for place in needs]
            self._known = listed, loose
        return self._places

    def needs(self) -> Mapping[str, list[Place]]:
        """The records that every packed cell needs."""
        self.cells()
        return self._needs

    def list_of(self, key: str) -> Listed:
        """The cells of a pack with what they need; nothing if the list is damaged, so that its cells are measured again."""
        try:
            return listed_in(self.records.get(PACKS, key) or b"{}")
        except Damaged:
            return []

    def read(self, cell: str, form: pa.Schema) -> pa.Table | None:
        """The rows of a packed cell, None if there is none; raises an ArrowException if they do not have this form."""
        place = (self.cells() if self._known is None else self._places).get(cell)
        if place is None:
            return None
        key, number = place
        with self._lock:  # readers have several threads
            return self.row_group(key, number, form)

    def row_group(self, key: str, number: int, form: pa.Schema) -> pa.Table | None:
        """One cell of a pack; the last pack stays open."""
        if self._open is None or self._open[0] != key:
            if (data := self.records.get(PACKED, key)) is None:
                return None
            self._open = key, open_parquet(data)
        return rows_of(self._open[1], form, number)

    def forget(self, cells: Iterable[str]) -> None:
        """Leave cells out of their lists, so that they are measured again."""
        lost = set(cells) & set(self.cells())
        for key in {self._places[cell][0] for cell in lost}:
            kept = [("", []) if cell in lost else (cell, needs) for cell, needs in self.list_of(key)]
            self.write_list(key, kept)
        self._known = None

    def forget_elsewhere(self, cells: Iterable[str], pack: str) -> None:
        """Leave cells out of the lists of all other packs, which hold what was measured before."""
        newer = set(cells)
        for key in self.records.keys(PACKS) - {pack}:
            before = self.list_of(key)
            if any(cell in newer for cell, _ in before):
                self.write_list(key, [("", []) if cell in newer else (cell, needs) for cell, needs in before])
        self._known = None

    def settle(self) -> None:
        """Of two lists of one pack, which a writer leaves that is killed between writing one and removing the other, only cells that
        both name count."""
        for key, names in self.records.listed(PACKS).items():
            found = [listed_in(data) for name in names if (data := self.records.intact(PACKS, name)) is not None]
            if len(found) > 1:
                self.write_list(
                    key, [first if all(one == first for one in rest) else ("", []) for first, *rest in zip(*found, strict=False)]
                )
        self._known = None

    def write_list(self, key: str, cells: Sequence[tuple[str, list[list[str]]]]) -> None:
        """Write the list of a pack."""
        self.records.put(PACKS, key, json.dumps({"cells": cells}).encode(), "json")


def listed_in(data: bytes) -> Listed:
    """The cells that a list names, with what they need; nothing if it has another form."""
    try:
        return [(str(cell), [[str(kind), str(name)] for kind, name in needs]) for cell, needs in parsed(data)["cells"]]
    except (ValueError, KeyError, TypeError):
        return []


def pack(folder: RunFolder, cells: Iterable[Mapping[str, Any]], form: pa.Schema, encoding: Mapping[str, Any]) -> None:
    """Pack the cells of a manifest, if there are many; only for the holder of the lock."""
    loose = folder.records.keys("cells")
    if len(loose) <= LOOSE:
        return
    series: dict[tuple[str, str, str], list[str]] = {}
    for cell in cells:
        if cell["key"] in loose:
            series.setdefault((cell["model"], cell["explainer"], cell["score"]), []).append(cell["key"])
    for keys in series.values():
        shown = worst_of(folder, keys)
        for part, data, needs in packed(folder, keys, form, encoding):
            kept = [[one for one in mine if one.kind != WORST or one.key in shown] for mine in needs]
            key = of_json([PACKED, part])
            folder.put(PACKED, key, data, "parquet")
            folder.packs.write_list(key, [(name, [[one.kind, one.key] for one in mine]) for name, mine in zip(part, kept, strict=True)])
            folder.packs.forget_elsewhere(part, key)
            for done in part:
                folder.records.remove("cells", done)
                if done not in shown:
                    folder.records.remove(WORST, done)


def packed(
    folder: RunFolder, keys: Sequence[str], form: pa.Schema, encoding: Mapping[str, Any]
) -> Iterator[tuple[list[str], bytes, list[list[Place]]]]:
    """Cells as packs: their keys, the file, and what each of them needs."""
    sink, part, needs = io.BytesIO(), list[str](), list[list[Place]]()
    writer = pq.ParquetWriter(sink, form, **encoding)
    rows = 0
    for key in keys:
        table, mine = folder.cell_and_needs(key)
        if part and (len(part) >= TOGETHER or sink.tell() >= BYTES or rows + len(table) > MOST):
            writer.close()
            yield part, sink.getvalue(), needs
            sink, part, needs, rows = io.BytesIO(), [], [], 0
            writer = pq.ParquetWriter(sink, form, **encoding)
        writer.write_table(table, row_group_size=max(1, len(table)))
        part.append(key)
        needs.append(mine)
        rows += len(table)
    writer.close()
    if part:
        yield part, sink.getvalue(), needs


def worst_of(folder: RunFolder, keys: Sequence[str]) -> set[str]:
    """The cells with the worst pairs: by the first one of each, which is its worst."""
    stored = folder.records.keys(WORST)
    first: dict[str, float] = {}
    for key in keys:
        if key in stored:
            try:
                found = folder.read_tensors(WORST, key) or {}
            except StoreError:
                continue
            if "sample" in found and len(found["sample"]):
                first[key] = -float(found["merit"].max()) if "merit" in found else float(found["value"][0])
    ordered = sorted(first, key=lambda key: first[key])
    return {*ordered[:SHOWN], *ordered[-SHOWN:]}  # whichever direction is worse
