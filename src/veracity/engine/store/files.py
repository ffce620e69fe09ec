"""Files that are either whole or absent, on a disk or in a bucket."""

from __future__ import annotations

import os
import re
import stat
import time
import uuid
from contextlib import AbstractContextManager, nullcontext, suppress

import fsspec

from veracity.core.errors import StoreError
from veracity.engine.store import buckets
from veracity.engine.store.buckets import explained

TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.part")


LARGEST = 16 << 30
"""The largest file that is read, in bytes."""


def check_regular(status: os.stat_result, path: str, largest: int = LARGEST) -> None:
    """Raise unless a file is regular and not too large; reading a pipe would block."""
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f"{path} is not a regular file, and nothing is read from it: delete it and run the same command again.")
    if status.st_size > largest:
        raise StoreError(f"{path} has {status.st_size >> 20:,} MiB, more than any run writes: delete it and run the same command again.")


def write_whole(target: str | os.PathLike[str], data: bytes, *, anew: bool = False) -> None:
    """Write a local file and its name in the folder, whole or not at all; with `anew` an existing file stays."""
    folder, name = os.path.split(os.path.abspath(target))
    os.makedirs(folder, exist_ok=True)
    temporary = f"{folder}/.{name}.{uuid.uuid4().hex[:8]}.part"
    try:
        with open(temporary, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        if anew:
            place_anew(temporary, target)
        else:
            os.replace(temporary, target)
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def place_anew(temporary: str, target: str | os.PathLike[str]) -> None:
    """Give a finished file its name unless that is taken; of several writers one wins. Without hard links, a later reader may see a
    file that another writer has just replaced by its own of the same name.
    """
    try:
        os.link(temporary, target)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        with suppress(FileExistsError):
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            os.replace(temporary, target)


class Files:
    """Bytes by name below one root, through fsspec."""

    def __init__(self, root: str) -> None:
        try:  # listings are never remembered: other processes write there too
            self.fs, self.root = fsspec.core.url_to_fs(root, **({"use_listings_cache": False} if "://" in root else {}))
        except ImportError as error:
            scheme = root.partition("://")[0]
            raise StoreError(f"{root} needs a package that is not installed ({error}): pip install 'veracity[{scheme}]'.") from error
        except ValueError as error:
            raise StoreError(f"{root} cannot hold a run folder ({error}): give a path, or s3://BUCKET/FOLDER.") from error
        self.local = "file" in (self.fs.protocol if isinstance(self.fs.protocol, tuple) else (self.fs.protocol,))

    def path(self, name: str) -> str:
        """The path of a name; raises if it leads out of the root."""
        if name.startswith("/") or ".." in name.split("/"):
            raise StoreError(f"'{name}' is not the name of a file in {self.root}: names stay below it.")
        found = f"{self.root.rstrip('/')}/{name}"
        if self.local and "/" in name:
            self.check_below(os.path.realpath(os.path.dirname(found)), found)
        return found

    def folder(self, name: str) -> str:
        """The path of a folder, the root for ""; raises on a link that leads out."""
        return self.path(f"{name}/").rstrip("/") if name else self.root

    def check_below(self, real: str, path: str) -> None:
        """Raise if the true place of a path is not below the root."""
        if not f"{real}{os.sep}".startswith(os.path.realpath(self.root).rstrip(os.sep) + os.sep):
            raise StoreError(f"{path} is a link that leads out of the folder, which is not followed: put the file itself there.")

    def told(self, path: str) -> AbstractContextManager[None]:
        """Errors of a bucket become sentences within it."""
        return nullcontext() if self.local else explained(path)

    def check_place(self) -> None:
        """Raise if the folder lies in a bucket that does not exist or must not be used."""
        if not self.local:
            buckets.check_bucket(self.fs, self.root)

    def is_file(self) -> bool:
        """Whether there is a file in the folder's place."""
        with self.told(self.root):
            return bool(self.fs.isfile(self.root))

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        path = self.path(name)
        if not self.local and buckets.on_s3(self.fs):  # one request; fsspec would also look for a folder of that name
            return self.written(name) is not None
        return bool(self.fs.exists(path))

    def names(self, folder: str, prefix: str = "") -> list[str]:
        """The finished files of a folder whose names start with a prefix; a bucket lists only those."""
        path = self.folder(folder)
        try:
            with self.told(path):
                found = self.fs.ls(path, detail=False) if self.local else buckets.listing(self.fs, path, prefix)
        except (FileNotFoundError, NotADirectoryError):
            return []
        names = (str(entry).rstrip("/").rsplit("/", 1)[-1] for entry in found)
        return sorted(name for name in names if name.startswith(prefix) and not name.startswith("."))

    def names_below(self, folder: str) -> list[str]:
        """The finished files in the folders of a folder, as FOLDER/NAME; a bucket lists them all at once."""
        if self.local:
            inner = [f"{folder}/{name}" for name in self.names(folder)]
            return [f"{one.rpartition('/')[2]}/{name}" for one in inner if os.path.isdir(self.folder(one)) for name in self.names(one)]
        path = self.folder(folder)
        try:
            with self.told(path):
                found = buckets.listing(self.fs, path, "", "")
        except FileNotFoundError:
            return []
        names = (entry.rpartition(f"/{folder}/")[2].split("/") for entry in found)
        return sorted("/".join(name) for name in names if len(name) == 2 and not name[1].startswith("."))

    def written(self, name: str) -> float | None:
        """When a file was written, in seconds by the clock of the disk or bucket; None if there is none."""
        path = self.path(name)
        try:
            if self.local:
                return os.stat(path).st_mtime
            with self.told(path):
                if not buckets.on_s3(self.fs):
                    return float(self.fs.modified(path).timestamp())
                bucket, key, _ = self.fs.split_path(path)
                return float(self.fs.call_s3("head_object", Bucket=bucket, Key=key)["LastModified"].timestamp())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def now(self, folder: str) -> float:
        """The time in seconds by the clock of the disk or bucket: that of a file written just now in an existing folder. If nothing can
        be written there, it is the time of this machine.
        """
        path = self.folder(folder)
        if not self.local and buckets.on_s3(self.fs):
            return buckets.clock(self.fs, path)
        probe = f"{folder}/.now.{uuid.uuid4().hex[:8]}.part".lstrip("/")
        try:
            with self.told(path):
                self.fs.pipe_file(self.path(probe), b"now")
            return self.written(probe) or time.time()
        except (OSError, StoreError):
            return time.time()
        finally:
            with suppress(OSError, StoreError):
                self.remove(probe)

    def read(self, name: str, largest: int = LARGEST) -> bytes:
        """A whole file of at most `largest` bytes. On a disk it must be a regular file below the root: no pipe, device or link that
        leads out.
        """
        if not self.local:
            with self.told(self.path(name)):
                data: bytes = buckets.content(self.fs, self.path(name))
            return data
        with open(os.open(self.regular(name), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as handle:
            check_regular(os.fstat(handle.fileno()), self.path(name), largest)
            return handle.read()

    def regular(self, name: str) -> str:
        """The true path of a regular file on a disk; raises on anything else, and on a link that leads out of the root."""
        path = os.path.realpath(self.path(name))
        self.check_below(path, self.path(name))
        check_regular(os.stat(path), self.path(name))
        return path

    def stamp(self, name: str) -> tuple[int, ...]:
        """What changes whenever a file does: when it was written, its size and its number on the disk; of a bucket, its size."""
        if not self.local:
            with self.told(self.path(name)):
                return (int(self.fs.size(self.path(name)) or 0),)
        found = os.stat(self.path(name))
        return found.st_mtime_ns, found.st_size, found.st_ino

    def write(self, name: str, data: bytes, *, anew: bool = False) -> None:
        """Write a file at once: a temporary name and a rename on a disk, one put in a bucket.

        With `anew` an existing file stays: of several writers, the first wins.
        """
        target = self.path(name)
        try:
            if self.local:
                write_whole(target, data, anew=anew)
            elif anew:
                buckets.create(self.fs, target, data)
            else:
                with self.told(target):
                    self.fs.pipe_file(target, data)
        except OSError as error:
            raise StoreError(f"Cannot write {target}: {error.strerror or error}.") from error

    def create(self, name: str, data: bytes) -> bool:
        """Write a small file unless there is one of that name; says whether this call made it. Of several callers, one does."""
        target = self.path(name)
        if not self.local:
            return buckets.create(self.fs, target, data)
        folder, last = os.path.split(os.path.abspath(target))
        temporary = f"{folder}/.{last}.{uuid.uuid4().hex[:8]}.part"
        try:
            os.makedirs(folder, exist_ok=True)
            with open(temporary, "xb") as handle:
                handle.write(data)
            try:
                os.link(temporary, target)
            except FileExistsError:
                return False
            except OSError:  # a file system without hard links
                try:
                    with open(target, "xb") as handle:
                        handle.write(data)
                except FileExistsError:
                    return False
            return True
        except OSError as error:
            raise StoreError(f"Cannot write {target}: {error.strerror or error}.") from error
        finally:
            with suppress(OSError):
                os.unlink(temporary)

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        on_s3 = not self.local and buckets.on_s3(self.fs)  # where removing what is not there is no error
        try:
            if on_s3 or self.exists(name) or (self.local and os.path.lexists(self.path(name))):
                with self.told(self.path(name)):
                    self.fs.rm_file(self.path(name))
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"Cannot remove {self.path(name)}: {error.strerror or error}.") from error

    def everything(self) -> set[str]:
        """The names of all files and folders in the root, also hidden ones, except what a killed writer left."""
        try:
            with self.told(self.root):
                found = self.fs.ls(self.root, detail=False) if self.local else buckets.listing(self.fs, self.root)
        except FileNotFoundError:
            return set()
        names = {str(entry).rstrip("/").rsplit("/", 1)[-1] for entry in found}
        return {name for name in names if not TEMPORARY.fullmatch(name)}

    def sweep(self, folder: str, age: float = 0.0) -> None:
        """Remove what a killed writer left half written, and nothing else; with an `age`, only what is older in seconds."""
        if self.local and os.path.isdir(path := self.folder(folder)):
            left = [entry for entry in os.scandir(path) if entry.is_file() and TEMPORARY.fullmatch(entry.name)]
            now = self.now(folder) if left and age else 0.0
            for entry in left:
                with suppress(FileNotFoundError):  # its writer may just have given it its name
                    if not age or now - entry.stat().st_mtime > age:
                        os.unlink(entry.path)
