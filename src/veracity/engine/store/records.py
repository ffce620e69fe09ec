"""Stored content that is checked before it is believed: JSON files with a checksum, Parquet files of a known form, and records.

A record is bytes by kind and key, in a file whose name carries a checksum of its content, kind, key and run.

    KIND/KEY.CHECKSUM.suffix

A file stays what its suffix says, so that other tools can read it. One that was changed, cut short, swapped with another or taken
from another run does not fit its name any more, and is never believed. Several writers may write the same record: it has the same
content, and each file is whole or absent.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from veracity.core.errors import StoreError
from veracity.engine.store.buckets import Unreachable
from veracity.engine.store.files import Files

CHECKSUM = "checksum"
LARGEST = 256 << 20
"""The largest JSON file that is read, in bytes."""
DEEPEST = 64
"""How deep lists and tables may lie in each other."""
STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
"""Texts; one without an end runs to the end of the file, so that no byte is looked at twice."""
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters that steer a terminal, and halves of characters that cannot be written."""
ESCAPED = re.compile(rb"\\[bfru]|\x7f|\xc2[\x80-\x9f]")
"""What any of those looks like in a file; most files hold none."""


def sealed(content: Mapping[str, Any]) -> bytes:
    """A JSON file with its checksum.

    >>> unsealed(sealed({"b": 1.5, "a": [1, 2]}))
    {'b': 1.5, 'a': [1, 2]}
    """
    plain = json.loads(json.dumps(content, allow_nan=False))
    return json.dumps({**plain, CHECKSUM: checksum(plain)}, indent=1, allow_nan=False).encode()


def unsealed(data: bytes) -> dict[str, Any]:
    """What a sealed file holds; raises ValueError where it was changed. Characters that steer a terminal are replaced.

    >>> unsealed(sealed({"a": 1}).replace(b"1", b"2", 1))
    Traceback (most recent call last):
    ValueError: its checksum does not fit its content
    >>> unsealed(sealed({"title": "a\x1b[2Jb"}))
    {'title': 'a\N{REPLACEMENT CHARACTER}[2Jb'}
    """
    content = parsed(data)
    if not isinstance(content, dict):
        raise ValueError("it holds no table")
    if content.pop(CHECKSUM, None) != checksum(content):
        raise ValueError("its checksum does not fit its content")
    found: dict[str, Any] = printable(content) if ESCAPED.search(data) else content
    return found


def checksum(content: Mapping[str, Any]) -> str:
    """A checksum of plain data, whatever the order of its names."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def parsed(data: bytes) -> Any:
    """The content of a JSON file; raises a ValueError if it is too large, too deep, or holds NaN."""
    if len(data) > LARGEST:
        raise ValueError(f"it has {len(data) >> 20} MiB, more than {LARGEST >> 20}")
    if depth(data) > DEEPEST:
        raise ValueError(f"its lists and tables are more than {DEEPEST} deep")
    return json.loads(data.decode(), parse_constant=no_number)


def depth(data: bytes) -> int:
    """How deep lists and tables lie in each other in a JSON text.

    >>> depth(b'[[1], "[[["]')
    2
    """
    bare = np.frombuffer(STRINGS.sub(b"", data), dtype=np.uint8)
    brackets = bare[np.isin(bare, np.frombuffer(b"[]{}", dtype=np.uint8))]
    steps = np.where(np.isin(brackets, np.frombuffer(b"[{", dtype=np.uint8)), 1, -1)
    return int(steps.cumsum().max(initial=0))


def no_number(text: str) -> NoReturn:
    """Refuse NaN and Infinity, which are not JSON."""
    raise ValueError(f"{text} is not a number")


def printable(value: Any) -> Any:
    """The same without characters that steer a terminal or cannot be written."""
    if isinstance(value, str):
        return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, list):
        return [printable(item) for item in value]
    return {printable(key): printable(item) for key, item in value.items()} if isinstance(value, dict) else value


ROWS = 1 << 25
"""The most rows of one file: a few bytes can claim any number of equal ones."""
PLACES = ("sample", "draw", "level")


def open_parquet(data: bytes, rows: int = ROWS) -> pq.ParquetFile:
    """A Parquet file that claims at most so many rows; raises an ArrowException on any other."""
    file = pq.ParquetFile(pa.BufferReader(data))
    if file.metadata.num_rows > rows:
        raise pa.ArrowInvalid(f"{file.metadata.num_rows} rows are more than {rows}")
    return file


def columns(file: pq.ParquetFile, names: Sequence[str], group: int | None = None) -> pa.Table:
    """Some columns of an open file, or of one row group; raises an ArrowException where one is missing or there are several of a name."""
    found = file.schema_arrow.names
    wrong = next((name for name in names if found.count(name) != 1), None)
    if wrong is not None:
        raise pa.ArrowInvalid(f"there is not one column '{wrong}'")
    if group is None:
        return file.read(list(names), use_threads=False)
    if group >= file.num_row_groups:
        raise pa.ArrowInvalid(f"there is no row group {group}")
    return file.read_row_group(group, list(names), use_threads=False)


def rows_of(file: pq.ParquetFile, form: pa.Schema, group: int | None = None) -> pa.Table:
    """The columns of a form, of an open file or of one row group; one whose numbers or texts are all equal is made, not decoded."""
    whole, found = file.metadata, file.schema_arrow
    groups = range(whole.num_row_groups) if group is None else [group] if group < whole.num_row_groups else []
    count = sum(whole.row_group(number).num_rows for number in groups)
    equal = {field.name: only for field in form if (only := only_value(whole, found, field, groups)) is not None} if count else {}
    if not equal:
        return columns(file, form.names, group)
    read = columns(file, [name for name in form.names if name not in equal], group)
    made = {name: repeated(value, form.field(name).type, count) for name, value in equal.items()}
    return pa.table([made.get(name) if name in made else read[name] for name in form.names], names=form.names)


def only_value(about: pq.FileMetaData, found: pa.Schema, field: pa.Field, groups: Iterable[int]) -> int | str | None:
    """The value that all rows of a column have, by the file's statistics; None if they do not say so, or if it holds real numbers, whose
    statistics leave out NaN.
    """
    places = [place for place, name in enumerate(found.names) if name == field.name]
    if len(places) != 1 or found.field(places[0]).type != field.type or pa.types.is_floating(field.type):
        return None
    values: set[Any] = set()
    for group in groups:
        said = about.row_group(group).column(places[0]).statistics
        if said is None or not (said.has_min_max and said.has_null_count) or said.null_count:
            return None
        values |= {said.min, said.max}
    only = values.pop() if len(values) == 1 else None
    return only if isinstance(only, int | str) else None


def repeated(value: int | str, kind: pa.DataType, count: int) -> pa.Array:
    """A column with the same value in every row."""
    if pa.types.is_dictionary(kind):
        codes = np.zeros(count, dtype=kind.index_type.to_pandas_dtype())
        return pa.DictionaryArray.from_arrays(codes, pa.array([value], kind.value_type))
    return pa.array(np.full(count, value, dtype=kind.to_pandas_dtype()))


def measurements(data: bytes, form: pa.Schema) -> pa.Table:
    """The rows of a cell in their form; raises an ArrowException on anything else."""
    return checked(rows_of(open_parquet(data), form), form)


def checked(rows: pa.Table, form: pa.Schema) -> pa.Table:
    """Rows of a cell in their form; raises an ArrowException on anything else."""
    table = rows.cast(form)
    if any(column.null_count for column in table.columns):
        raise pa.ArrowInvalid("a measurement is missing")
    if len(table) and min(pc.min(table[name]).as_py() for name in PLACES) < 0:
        raise pa.ArrowInvalid("a sample, draw or level is below 0")
    return table


NAME = re.compile(r"([\w-]+)\.([0-9a-f]{16})\.[a-z]+")


@dataclass(frozen=True, order=True)
class Place:
    """Where a record stands."""

    kind: str
    key: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.key}" if self.kind else self.key


class Damaged(StoreError):
    """A record does not fit its checksum."""


class Records:
    """The records below one root; `run` says which run they belong to, "" if there is none yet."""

    def __init__(self, files: Files, run: Callable[[], str]) -> None:
        self.files, self.run = files, run
        self._names: dict[str, dict[str, list[str]]] = {}
        self._listed: set[str] = set()
        self._stamps: dict[str, tuple[int, ...]] = {}

    def put(self, kind: str, key: str, data: bytes, suffix: str) -> None:
        """Write a record; one of the same key that was there before goes. On a disk, the folder is listed at the first record of a kind."""
        name = f"{key}.{self.checksum(kind, key, data)}.{suffix}"
        if self.files.local and kind not in self._listed:
            self.listed(kind)
        known = self._names.setdefault(kind, {})
        before = known.get(key, []) if kind in self._listed else self.names(kind, key)
        self.files.write(f"{kind}/{name}", data)
        for old in before:
            if old != name:
                self.files.remove(f"{kind}/{old}")
        known[key] = [name]

    def get(self, kind: str, key: str) -> bytes | None:
        """A record's bytes, None if there is none; raises where it is damaged."""
        names = self.names(kind, key)
        for name in names:
            data = self.intact(kind, name)
            if data is not None:
                return data
        if names and self.listed(kind).get(key):
            raise Damaged(f"{self.files.path(f'{kind}/{names[0]}')} is damaged: run the same command again, which makes it anew.")
        return None

    def located(self, kind: str, key: str) -> str | None:
        """The path of a record's file, for readers that take a part of it; read whole only once as long as it does not change."""
        for name in self.names(kind, key):
            path = self.files.path(f"{kind}/{name}")
            with suppress(OSError, StoreError):
                stamp = self.files.stamp(f"{kind}/{name}")
                if self._stamps.get(path) == stamp:
                    return path
                if self.intact(kind, name) is not None:
                    self._stamps[path] = stamp
                    return path
        return None if self.get(kind, key) is None else self.located(kind, key)

    def keys(self, kind: str) -> set[str]:
        """The keys of all records of a kind, whether they are intact or not."""
        return set(self.listed(kind))

    def has(self, kind: str, key: str) -> bool:
        """Whether there is a record, intact or not."""
        return bool(self.names(kind, key))

    def remove(self, kind: str, key: str) -> None:
        """Remove a record, if it is there."""
        for name in self.names(kind, key):
            self.files.remove(f"{kind}/{name}")
        self._names.get(kind, {}).pop(key, None)

    def mend(self, kinds: Iterable[str], seen: Callable[[Place, bytes], None]) -> list[Place]:
        """Read every record of these kinds and remove those that are damaged; `seen` is shown the others.

        Of two intact records of one key nobody knows which is the newer: both go.
        """
        found = []
        for kind in kinds:
            for key, names in self.listed(kind).items():
                read = {name: self.intact(kind, name) for name in names}
                intact = [data for data in read.values() if data is not None]
                if len(intact) == 1:
                    seen(Place(kind, key), intact[0])
                for name, data in read.items():
                    if data is None or len(intact) > 1:
                        self.files.remove(f"{kind}/{name}")
                        found.append(Place(kind, key))
            self.listed(kind)
        return list(dict.fromkeys(found))

    def intact(self, kind: str, name: str) -> bytes | None:
        """What a file holds, if it fits its name."""
        try:
            data = self.files.read(f"{kind}/{name}")
        except Unreachable:
            raise
        except (StoreError, OSError):
            return None
        key, checksum, _ = name.split(".")
        return data if self.checksum(kind, key, data) == checksum else None

    def names(self, kind: str, key: str) -> list[str]:
        """The names of a record's files; where none is known, a folder on a disk is listed again, and a bucket is asked for this key."""
        if found := self._names.get(kind, {}).get(key):
            return found
        if self.files.local:
            return self.listed(kind).get(key, [])
        found = [name for name in self.files.names(kind, f"{key}.") if NAME.fullmatch(name)]
        if found:
            self._names.setdefault(kind, {})[key] = found
        return found

    def listed(self, kind: str) -> dict[str, list[str]]:
        """The names of the files of all records of a kind, by key."""
        found: dict[str, list[str]] = {}
        for name in self.files.names(kind):
            if matched := NAME.fullmatch(name):
                found.setdefault(matched[1], []).append(name)
        self._names[kind] = found
        self._listed.add(kind)
        return found

    def checksum(self, kind: str, key: str, data: bytes) -> str:
        """A checksum of a record's content, kind, key and run."""
        digest = hashlib.sha256(f"{self.run()}\0{kind}\0{key}\0".encode())
        digest.update(data)
        return digest.hexdigest()[:16]
