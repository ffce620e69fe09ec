"""Records: bytes by kind and key, each in a file whose name carries a checksum of its content, kind, key and run.

    KIND/KEY.CHECKSUM.suffix

A file stays what its suffix says, so that other tools can read it. One that was changed, cut short, swapped with another or taken
from another run does not fit its name any more, and is never believed. Several writers may write the same record: it has the same
content, and each file is whole or absent.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from veracity.core.errors import StoreError
from veracity.engine.store.files import Files

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
        self._stamps: dict[str, tuple[int, ...]] = {}

    def put(self, kind: str, key: str, data: bytes, suffix: str) -> None:
        """Write a record; one of the same key that was there before goes."""
        name = f"{key}.{self.checksum(kind, key, data)}.{suffix}"
        before = self._names.get(kind, {}).get(key, [])
        self.files.write(f"{kind}/{name}", data)
        for old in before:
            if old != name:
                self.files.remove(f"{kind}/{old}")
        self._names.setdefault(kind, {})[key] = [name]

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
        """Read every record of these kinds and remove those that are damaged; `seen` is shown the others."""
        found = []
        for kind in kinds:
            for key, names in self.listed(kind).items():
                for name in names:
                    data = self.intact(kind, name)
                    if data is None:
                        self.files.remove(f"{kind}/{name}")
                        found.append(Place(kind, key))
                    else:
                        seen(Place(kind, key), data)
            self.listed(kind)
        return found

    def intact(self, kind: str, name: str) -> bytes | None:
        """What a file holds, if it fits its name."""
        try:
            data = self.files.read(f"{kind}/{name}")
        except (StoreError, OSError):
            return None
        return data if self.fits(kind, name, data) else None

    def names(self, kind: str, key: str) -> list[str]:
        """The names of a record's files; the folder is listed again only where none is known."""
        return self._names.get(kind, {}).get(key) or self.listed(kind).get(key, [])

    def listed(self, kind: str) -> dict[str, list[str]]:
        """The names of the files of all records of a kind, by key."""
        found: dict[str, list[str]] = {}
        for name in self.files.names(kind):
            if matched := NAME.fullmatch(name):
                found.setdefault(matched[1], []).append(name)
        self._names[kind] = found
        return found

    def fits(self, kind: str, name: str, data: bytes) -> bool:
        """Whether content is what its name says."""
        key, checksum, _ = name.split(".")
        return self.checksum(kind, key, data) == checksum

    def checksum(self, kind: str, key: str, data: bytes) -> str:
        """A checksum of a record's content, kind, key and run."""
        digest = hashlib.sha256(f"{self.run()}\0{kind}\0{key}\0".encode())
        digest.update(data)
        return digest.hexdigest()[:16]
