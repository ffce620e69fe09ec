"""Which run folders this user's own runs have written: one mark per folder, kept outside of it.

A run folder can come from anybody, and so can what its manifest says. Code is imported for a folder only if a run of this user wrote
its manifest as it is now. A mark binds the folder's absolute path to the hash of its manifest, and remembers the audit file. Marks lie
in $VERACITY_STATE, in $XDG_STATE_HOME/veracity or in ~/.local/state/veracity, where only this user can read or write them.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path

from veracity.core.errors import StoreError
from veracity.engine.store import records
from veracity.engine.store.files import Files
from veracity.engine.store.manifest import MANIFEST

STATE = "VERACITY_STATE"
LARGEST = 1 << 16
AUDIT_FILE: ContextVar[str] = ContextVar("audit_file", default="")
"""The audit file of the run that is being written, as an absolute path."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A folder, the hash of the manifest that a run of this user wrote there, and the audit file of that run, if it had one."""

    folder: str
    manifest: str
    file: str = ""


@contextmanager
def made_from(file: str | Path) -> Iterator[None]:
    """Within it, marks remember this audit file."""
    before = AUDIT_FILE.set(os.path.realpath(file))
    try:
        yield
    finally:
        AUDIT_FILE.reset(before)


def home() -> Path:
    """Where marks lie."""
    if given := os.environ.get(STATE):
        return Path(given)
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state") / "veracity"


def remember(files: Files) -> None:
    """Mark a folder whose manifest was just written; a state folder that cannot be written leaves it unmarked."""
    if not files.local:
        return
    with suppress(OSError, RuntimeError, StoreError):
        mark = Mark(folder=os.path.realpath(files.root), manifest=fingerprint(files), file=AUDIT_FILE.get())
        write_private(path(files), json.dumps(asdict(mark)))


def recorded(files: Files) -> Mark | None:
    """The mark of a folder whose manifest is as a run of this user wrote it; else None."""
    if not files.local:
        return None
    with suppress(OSError, RuntimeError, StoreError, ValueError, TypeError):
        mark = Mark(**json.loads(private(path(files))))
        if mark.folder == os.path.realpath(files.root) and mark.manifest == fingerprint(files):
            return mark
    return None


def path(files: Files) -> Path:
    """Where the mark of a folder lies."""
    return home() / "runs" / f"{hashlib.sha256(os.path.realpath(files.root).encode()).hexdigest()[:32]}.json"


def write_private(place: Path, text: str) -> None:
    """Write a file of the state folder at once; only this user can read or write it."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    place.parent.chmod(0o700)
    temporary = place.with_name(f".{place.name}.{uuid.uuid4().hex[:8]}.part")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as handle:
        handle.write(text)
    temporary.replace(place)


def private(place: Path, largest: int = LARGEST) -> bytes:
    """A file that this user owns and nobody else can write; raises an OSError on any other."""
    with open(os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as handle:
        status = os.fstat(handle.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise PermissionError(f"{place} is not this user's alone")
        return handle.read(largest)


def fingerprint(files: Files) -> str:
    """The hash of a folder's manifest."""
    return hashlib.sha256(files.read(MANIFEST, records.LARGEST)).hexdigest()
