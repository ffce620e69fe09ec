"""Who writes a run folder now, and whether this user wrote it.

One process at a time may write a run; its lock ends with it, even if it is killed. Shards take the lock in turn while they plan, calibrate,
learn and train, and measure side by side without it. Readers only ask whether there is a writer.

In a bucket the lock is a lease: an object that its holder writes again every few seconds, and that others may take over once it is too
old. Whoever takes it puts it on the condition that nobody else has, so that one of several does.

A run folder can come from anybody, and so can what its manifest says. Code is imported for a folder only if a run of this user wrote
its manifest as it is now. For that a run leaves a mark outside of the folder. The mark binds the folder's
absolute path to the hash of its manifest, and remembers the audit file. Marks lie in $VERACITY_STATE, in $XDG_STATE_HOME/veracity or in
~/.local/state/veracity, where only this user can read or write them.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path

from veracity.core.errors import StoreError, warn
from veracity.engine.store import records
from veracity.engine.store.files import Files
from veracity.engine.store.leases import UNKNOWN, Taken, held_in_bucket, lease_owner
from veracity.engine.store.manifest import MANIFEST
from veracity.engine.store.shards import DEAD, in_words, living, this_process

LOCK = "lock"
TRIES, PAUSE = 20, 0.01
"""How often a writer tries, and the seconds in between: a reader that looks for a writer holds the lock for a moment."""
TURN, PATIENCE = 0.5, 10
"""Seconds between two tries of a shard that waits for its turn, and after how many in a row a holder should have given its name."""
SHARD = "shard "
"""How the name of a writer begins that is a shard."""


@contextmanager
def hold(files: Files, shard: str = "") -> Iterator[None]:
    """Hold the folder for writing; raises if another process does.

    A `shard` waits for other shards to have planned. A run that is none is refused while shards are at work.
    """
    name = f"{SHARD}{shard} ({this_process()})" if shard else this_process()
    told, nameless = False, 0
    with ExitStack() as held:
        while True:
            lock = _held_on_disk(files, name) if files.local else held_in_bucket(files.fs, files.path(LOCK), name)
            try:
                held.enter_context(lock)
                break
            except Taken as taken:
                nameless = nameless + 1 if taken.who == UNKNOWN else 0
                if not shard or nameless > PATIENCE or not (nameless or taken.who.startswith(SHARD)):
                    raise StoreError(
                        f"The run folder {files.root} is being written by {taken.who}: wait for it or choose another folder."
                        + (f" {taken.hint}" if taken.hint else "")
                    ) from None
                if not (nameless or told):
                    told = True
                    warn(f"Waiting for {taken.who} to finish planning; this shard will reuse its results.")
                time.sleep(TURN)
        if not shard:
            refuse_beside(files, in_words(living(files)))
        yield


def check_alone(files: Files) -> None:
    """Raise at once if shards plan or measure in a folder, beside which a run that is none has no place."""
    who = writer(files)
    refuse_beside(files, who if who.startswith(SHARD) else "")


def refuse_beside(files: Files, who: str) -> None:
    """Raise if there are shards at work."""
    if who:
        raise StoreError(
            f"The run folder {files.root} is being filled by {who}: take part with --shard auto (in Python shard='auto'), or wait until "
            f"all shards have ended; one that was killed on another machine is forgotten after {DEAD:.0f} s."
        )


def writer(files: Files) -> str:
    """The process that holds the folder for writing, or the shards that are at work there; "" if there is none."""
    return (_writer_on_disk(files) if files.local else lease_owner(files.fs, files.path(LOCK))) or in_words(living(files))


def _writer_on_disk(files: Files) -> str:
    try:
        descriptor = os.open(files.path(LOCK), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return ""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return lock_owner(descriptor)
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return ""


def lock_owner(descriptor: int) -> str:
    """The process that holds an open lock file."""
    return os.pread(descriptor, 200, 0).decode(errors="replace").strip() or UNKNOWN


def take_lock(descriptor: int) -> bool:
    """Take the lock of an open file; False if another writer holds it."""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(PAUSE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        except OSError as error:
            raise StoreError(f"The file system of this folder has no locks ({error.strerror or error}): choose one on another.") from error
        return True
    return False


@contextmanager
def _held_on_disk(files: Files, name: str) -> Iterator[None]:
    try:
        os.makedirs(files.root, exist_ok=True)
        descriptor = os.open(files.path(LOCK), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise StoreError(f"Cannot write {files.root}: {error.strerror or error}.") from error
    try:
        if not take_lock(descriptor):
            raise Taken(lock_owner(descriptor))
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, name.encode(), 0)
        yield
    finally:
        os.close(descriptor)


STATE_VARIABLE = "VERACITY_STATE"
LARGEST_MARK = 1 << 16
AUDIT_FILE: ContextVar[str] = ContextVar("audit_file", default="")
"""The audit file of the run that is being written, as an absolute path."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A folder, the hash of the manifest that a run of this user wrote there, and the audit file of that run, if it had one."""

    folder: str
    manifest: str
    file: str = ""


@contextmanager
def run_from(file: str | Path) -> Iterator[None]:
    """Within this block, marks remember this audit file."""
    before = AUDIT_FILE.set(os.path.realpath(file))
    try:
        yield
    finally:
        AUDIT_FILE.reset(before)


def state_folder() -> Path:
    """The folder of the marks."""
    if given := os.environ.get(STATE_VARIABLE):
        return Path(given)
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state") / "veracity"


def leave_mark(files: Files) -> None:
    """Mark a folder whose manifest was just written; does nothing if the state folder cannot be written."""
    if not files.local:
        return
    with suppress(OSError, RuntimeError, StoreError):
        mark = Mark(folder=os.path.realpath(files.root), manifest=manifest_hash(files), file=AUDIT_FILE.get())
        write_private(mark_path(files), json.dumps(asdict(mark)))


def mark_of(files: Files) -> Mark | None:
    """The mark of a folder whose manifest is as a run of this user wrote it; else None."""
    if not files.local:
        return None
    with suppress(OSError, RuntimeError, StoreError, ValueError, TypeError):
        mark = Mark(**json.loads(read_private(mark_path(files))))
        if mark.folder == os.path.realpath(files.root) and mark.manifest == manifest_hash(files):
            return mark
    return None


def mark_path(files: Files) -> Path:
    """The file of a folder's mark."""
    return state_folder() / "runs" / f"{hashlib.sha256(os.path.realpath(files.root).encode()).hexdigest()[:32]}.json"


def write_private(place: Path, text: str) -> None:
    """Write a file of the state folder at once; only this user can read or write it."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    place.parent.chmod(0o700)
    temporary = place.with_name(f".{place.name}.{uuid.uuid4().hex[:8]}.part")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as handle:
        handle.write(text)
    temporary.replace(place)


def read_private(place: Path, largest: int = LARGEST_MARK) -> bytes:
    """A file that this user owns and nobody else can write; raises an OSError on any other."""
    with open(os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as handle:
        status = os.fstat(handle.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise PermissionError(f"{place} is not this user's alone")
        return handle.read(largest)


def manifest_hash(files: Files) -> str:
    """The hash of a folder's manifest."""
    return hashlib.sha256(files.read(MANIFEST, records.LARGEST)).hexdigest()
