"""The lock of a run folder in a bucket: a lease that its holder renews, and that others may take over once it has expired.

A lease is one object. It is made with a put that fails if there is one, and renewed or taken over with a put that fails if somebody else
has written it meanwhile. Its age is that of the object by the store's clock. A holder that was killed therefore blocks others for a
minute at most, and not at all on its own machine, where others can see that it is gone.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from veracity.core.errors import StoreError
from veracity.engine.store import buckets
from veracity.engine.store.records import parsed, printable
from veracity.engine.store.shards import runs, this_machine

RENEW, EXPIRED = 10.0, 60.0
"""Seconds between two renewals, and the age at which a lease is nobody's any more."""

UNKNOWN = "another process"
"""A holder that has not given its name yet."""


class Taken(Exception):
    """Another process holds the folder."""

    def __init__(self, who: str, hint: str = "") -> None:
        super().__init__(who)
        self.who, self.hint = who, hint


class Lease:
    """A lease that this process holds; `lost` if another process took it over."""

    def __init__(self, fs: Any, path: str, name: str) -> None:
        self.fs, self.path, self.name = fs, path, name
        self.turn, self.tag, self.lost, self.stop = 0, "", False, threading.Event()
        self.id = uuid.uuid4().hex

    def content(self) -> bytes:
        """What the object says; never twice the same, so that leases can be told apart and a renewed one has another tag."""
        self.turn += 1
        said = {"who": self.name, "machine": this_machine(), "pid": os.getpid(), "lease": self.id, "turn": self.turn}
        return json.dumps(said).encode()

    def take(self) -> None:
        """Make the lease, or take over one that has expired; raises Taken if somebody holds it.

        What the object says afterwards counts: the answer to a put may be lost, and its second try is refused.
        """
        content = self.content()
        if not buckets.create(self.fs, self.path, content):
            found = buckets.seen(self.fs, self.path)
            if found is not None and found.data != content and (who := holder(found)):
                raise Taken(who, f"If it was killed, its lease ends in {max(1.0, EXPIRED - found.age):.0f} s.")
            if found is None:
                buckets.create(self.fs, self.path, content)
            elif found.data != content:
                buckets.replace(self.fs, self.path, content, found.tag)
        self.keep(content)
        if self.lost:
            raise Taken(UNKNOWN)

    def keep(self, content: bytes) -> None:
        """Remember the tag of what was just put; another writer may have come between."""
        found = buckets.seen(self.fs, self.path)
        self.lost = found is None or found.data != content
        self.tag = "" if found is None else found.tag

    def renew(self) -> None:
        """Renew the lease until it is given back or lost; a put that fails by itself is tried again."""
        while not self.lost and not self.stop.wait(RENEW):
            with suppress(StoreError):
                content = self.content()
                if buckets.replace(self.fs, self.path, content, self.tag):
                    self.keep(content)
                else:
                    self.keep(self.last_content(content))

    def last_content(self, content: bytes) -> bytes:
        """What the object holds if an earlier put of this process was done though its answer was lost; else what it should hold."""
        found = buckets.seen(self.fs, self.path)
        ours = found is not None and fields(found.data).get("lease") == fields(content)["lease"]
        return found.data if found is not None and ours else content

    def give_back(self) -> None:
        """Remove the lease, unless another process has taken it over."""
        if not self.lost and (found := buckets.seen(self.fs, self.path)) is not None and found.tag == self.tag:
            with buckets.explained(self.path), suppress(FileNotFoundError):
                self.fs.rm_file(self.path)


@contextmanager
def held_in_bucket(fs: Any, path: str, name: str) -> Iterator[None]:
    """Hold a lease; raises Taken if another process does, and a StoreError at the end if it was lost."""
    lease = Lease(fs, path, name)
    lease.take()
    thread = threading.Thread(target=lease.renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        lease.stop.set()
        thread.join()
        with suppress(StoreError):
            lease.give_back()
    if lease.lost:
        raise StoreError(
            f"Another process took over {path} because this one did not renew its lease for {EXPIRED:.0f} s: what was measured is stored; "
            "run the same command again."
        )


def fields(data: bytes) -> dict[str, Any]:
    """What a lease says; nothing if it cannot be read."""
    try:
        found = printable(parsed(data))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def holder(found: buckets.Seen) -> str:
    """Who holds a lease; "" if it has expired, or its holder ran on this machine and is gone."""
    said = fields(found.data)
    pid = said.get("pid")
    gone = bool(said.get("machine")) and said.get("machine") == this_machine() and isinstance(pid, int) and not runs(pid)
    return "" if gone or found.age > EXPIRED else str(said.get("who") or UNKNOWN)


def lease_owner(fs: Any, path: str) -> str:
    """Who holds the lease at a path; "" if nobody does."""
    found = buckets.seen(fs, path)
    return "" if found is None else holder(found)
