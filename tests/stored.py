"""The files of a run folder, for tests that damage them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from veracity.engine.store import RunFolder
from veracity.engine.store.records import CHECKSUM, checksum, unsealed


def record(folder: Path, kind: str, key: str) -> Path:
    """The file of a record, or a name that no file has."""
    return next((folder / kind).glob(f"{key}.*"), folder / kind / f"{key}.none")


def edit_manifest(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a manifest and sign it again, as somebody would who means harm."""
    file = folder / "manifest.json"
    content = unsealed(file.read_bytes())
    change(content)
    file.write_bytes(signed(content))


def signed(content: dict[str, Any]) -> bytes:
    """A sealed file, also of what JSON does not allow."""
    return json.dumps({**content, CHECKSUM: checksum(content)}).encode()


def sign_record(path: Path) -> None:
    """Give a record the name that fits what it holds now."""
    store, kind, (key, _, suffix) = RunFolder(str(path.parents[1])), path.parent.name, path.name.split(".")
    path.rename(path.with_name(f"{key}.{store.records.checksum(kind, key, path.read_bytes())}.{suffix}"))
