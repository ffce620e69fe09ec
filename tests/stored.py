"""The files of a run folder, for tests that damage them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from veracity.engine.store.sealed import opened, sealed


def record(folder: Path, kind: str, key: str) -> Path:
    """The file of a record, or a name that no file has."""
    return next((folder / kind).glob(f"{key}.*"), folder / kind / f"{key}.none")


def edit_manifest(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a manifest and sign it again, as somebody would who means harm."""
    file = folder / "manifest.json"
    content = opened(file.read_bytes())
    change(content)
    file.write_bytes(sealed(content))
