"""One writer per run folder; a killed writer's lock ends with it. Readers only ask whether there is a writer."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from veracity.core.errors import StoreError
from veracity.engine.store.files import Files

NAME = "lock"
TRIES, PAUSE = 20, 0.01
"""How often a writer tries, and the seconds in between: a reader that looks for a writer holds the lock for a moment."""


@contextmanager
def writing(files: Files) -> Iterator[None]:
    """Hold the folder for writing, or say who does."""
    with _held_on_disk(files) if files.local else _held_in_bucket(files):
        yield


def writer(files: Files) -> str:
    """The process that holds the folder for writing; "" if there is none.

    In a bucket, a writer that was killed still counts, until its lock file is deleted.
    """
    if not files.local:
        return files.read(NAME).decode(errors="replace") if files.exists(NAME) else ""
    try:
        descriptor = os.open(files.path(NAME), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return ""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return owner(descriptor)
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return ""


def owner(descriptor: int) -> str:
    """Who holds an open lock file, in words."""
    return os.read(descriptor, 200).decode(errors="replace").strip() or "another process"


def taken(descriptor: int) -> bool:
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
def _held_on_disk(files: Files) -> Iterator[None]:
    try:
        os.makedirs(files.root, exist_ok=True)
        descriptor = os.open(files.path(NAME), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise StoreError(f"Cannot write {files.root}: {error.strerror or error}.") from error
    try:
        if not taken(descriptor):
            who = owner(descriptor)
            raise StoreError(f"The run folder {files.root} is being written by {who}: wait for it or choose another folder.")
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _held_in_bucket(files: Files) -> Iterator[None]:
    if files.exists(NAME):
        raise StoreError(
            f"The run folder {files.root} is being written by {writer(files)}: if that process is gone, delete its file '{NAME}'."
        )
    files.write(NAME, f"process {os.getpid()} on {socket.gethostname()}".encode())
    try:
        yield
    finally:
        files.remove(NAME)
