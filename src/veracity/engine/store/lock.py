"""One writer a run folder; a killed writer's lock ends with it."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from veracity.core.errors import StoreError
from veracity.engine.store.files import Files

NAME = "lock"


@contextmanager
def writing(files: Files) -> Iterator[None]:
    """Hold the folder for writing, or say who does."""
    with _held_on_disk(files) if files.local else _held_in_bucket(files):
        yield


@contextmanager
def _held_on_disk(files: Files) -> Iterator[None]:
    try:
        os.makedirs(files.root, exist_ok=True)
        descriptor = os.open(files.path(NAME), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StoreError(f"Cannot write {files.root}: {error.strerror or error}.") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(descriptor, 200).decode(errors="replace").strip() or "another process"
            raise StoreError(f"The run folder {files.root} is being written by {owner}: wait for it or choose another folder.") from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _held_in_bucket(files: Files) -> Iterator[None]:
    if files.exists(NAME):
        owner = files.read(NAME).decode(errors="replace")
        raise StoreError(f"The run folder {files.root} is being written by {owner}: if that process is gone, delete its file '{NAME}'.")
    files.write(NAME, f"process {os.getpid()} on {socket.gethostname()}".encode())
    try:
        yield
    finally:
        files.remove(NAME)
