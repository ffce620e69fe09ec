"""What an object store can do and a disk cannot: puts that depend on what is there, and errors that need words.

On S3 a put can be conditional, so that of several writers exactly one creates or replaces an object. Other stores that fsspec reaches look
first and then write, which is safe only as long as two writers do not start in the same moment.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from veracity.core.errors import StoreError

TAKEN = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409"}
"""What S3 answers to a put whose condition does not hold, or that lost against another one of the same moment."""
FOREIGN = ("botocore", "aiobotocore", "aiohttp")
"""Packages whose errors are about reaching a store."""


class Unreachable(StoreError):
    """The store cannot be asked now, which says nothing about what it holds."""


@dataclass(frozen=True)
class Seen:
    """An object as it was found: its content, what changes with it, and its age in seconds by the store's own clock."""

    data: bytes
    tag: str
    age: float


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn the errors of a store into one sentence; only that something is missing, or is there already, is passed on."""
    try:
        yield
    except FileNotFoundError as error:
        if code(error) == "NoSuchBucket":
            raise no_bucket(path) from error
        raise
    except FileExistsError:
        raise
    except PermissionError as error:
        raise Unreachable(
            f"No permission to use {path} ({error}): the credentials need s3:ListBucket, s3:GetObject, s3:PutObject and "
            "s3:DeleteObject there."
        ) from error
    except Exception as error:
        if isinstance(error, OSError) or type(error).__module__.partition(".")[0] in FOREIGN:
            raise Unreachable(f"{path} cannot be reached: {str(error) or type(error).__name__}.") from error
        raise


def code(error: BaseException) -> str:
    """The code that S3 gave for an error, "" if it gave none."""
    answer = getattr(error.__cause__ or error, "response", None) or {}
    return str(answer.get("Error", {}).get("Code", ""))


def no_bucket(path: str) -> StoreError:
    """The error for a bucket that does not exist."""
    return StoreError(f"There is no bucket '{path.partition('/')[0]}' for {path}: create it first, or correct the name of the run folder.")


def on_s3(fs: Any) -> bool:
    """Whether a file system is S3, or speaks its protocol."""
    return "s3" in (fs.protocol if isinstance(fs.protocol, tuple) else (fs.protocol,))


def check_bucket(fs: Any, path: str) -> None:
    """Raise if a path lies in a bucket that does not exist or must not be listed."""
    if not on_s3(fs):
        return
    bucket, key, _ = fs.split_path(path)
    if not bucket or not key:
        raise StoreError(f"'{path}' does not name a run folder in a bucket: write s3://BUCKET/FOLDER.")
    try:
        with explained(path):
            fs.call_s3("list_objects_v2", Bucket=bucket, Prefix=key.rstrip("/") + "/", MaxKeys=1)
    except FileNotFoundError as error:
        raise no_bucket(path) from error


def listing(fs: Any, path: str, prefix: str = "", delimiter: str = "/") -> list[str]:
    """The objects and folders of a folder whose names start with a prefix: one request for each thousand of them. Without a delimiter,
    the objects of all folders below it.
    """
    if not on_s3(fs):
        return [str(entry) for entry in (fs.ls(path, detail=False) if delimiter else fs.find(path))]
    bucket, key, _ = fs.split_path(path)
    found: list[str] = []
    page: dict[str, Any] = {"Bucket": bucket, "Prefix": f"{key.rstrip('/')}/{prefix}", "Delimiter": delimiter}
    while True:
        answer = fs.call_s3("list_objects_v2", **page)
        found += [one["Key"] for one in answer.get("Contents", ())] + [one["Prefix"] for one in answer.get("CommonPrefixes", ())]
        if not answer.get("IsTruncated"):
            return found
        page["ContinuationToken"] = answer["NextContinuationToken"]


def clock(fs: Any, path: str) -> float:
    """The time in seconds by the clock of S3."""
    with explained(path):
        return told_time(fs.call_s3("head_bucket", Bucket=fs.split_path(path)[0])).timestamp()


def told_time(answer: Mapping[str, Any]) -> datetime:
    """When S3 gave an answer, by its own clock."""
    return parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])


def content(fs: Any, path: str) -> bytes:
    """A whole object in one request; s3fs would ask for its size first, to read parts of it side by side."""
    data: bytes = fs.cat_file(path, max_concurrency=1) if on_s3(fs) else fs.cat_file(path)
    return data


def create(fs: Any, path: str, data: bytes) -> bool:
    """Put an object unless there is one; says whether this put made it."""
    with explained(path):
        if not on_s3(fs):
            if fs.exists(path):
                return False
            fs.pipe_file(path, data)
            return True
        return put_if(fs, path, data, IfNoneMatch="*")


def replace(fs: Any, path: str, data: bytes, tag: str) -> bool:
    """Put an object in the place of the one that was seen with this tag; says whether it was still there."""
    with explained(path):
        if not on_s3(fs):
            if not fs.exists(path) or str(hash(fs.cat_file(path))) != tag:
                return False
            fs.pipe_file(path, data)
            return True
        return put_if(fs, path, data, IfMatch=tag)


def put_if(fs: Any, path: str, data: bytes, **condition: str) -> bool:
    """One conditional put; False if its condition did not hold."""
    bucket, key, _ = fs.split_path(path)
    try:
        fs.call_s3("put_object", Bucket=bucket, Key=key, Body=data, **condition)
    except FileNotFoundError as error:
        if code(error) == "NoSuchBucket" or "IfMatch" not in condition:
            raise
        return False
    except OSError as error:
        if code(error) in TAKEN or isinstance(error, FileExistsError):
            return False
        raise
    return True


def seen(fs: Any, path: str) -> Seen | None:
    """An object with its tag and its age; None if there is none."""
    try:
        with explained(path):
            if not on_s3(fs):
                data: bytes = fs.cat_file(path)
                return Seen(data, str(hash(data)), time.time() - fs.modified(path).timestamp())
            bucket, key, _ = fs.split_path(path)
            found = fs.call_s3("head_object", Bucket=bucket, Key=key)
            return Seen(content(fs, path), found["ETag"], max(0.0, (told_time(found) - found["LastModified"]).total_seconds()))
    except FileNotFoundError:
        return None
