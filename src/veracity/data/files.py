"""Where data files are looked for."""

from __future__ import annotations

import os
from pathlib import Path

from veracity.core.errors import InputError

VARIABLE = "VERACITY_DATA"
BESIDE = [Path("../shared/data"), Path(__file__).parents[4] / "shared" / "data"]


def find(name: str, origin: str) -> Path:
    """A data file by its path inside the data folder; one sentence says where it was looked for and where it is from."""
    given = os.environ.get(VARIABLE)
    folders = [Path(given)] if given else BESIDE
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    where = f"{folders[0] / name} ({VARIABLE})" if given else f"{name} (no {VARIABLE} is set)"
    raise InputError(f"Looked for {where} and found nothing: get it from {origin} and set {VARIABLE} to the folder above it.")
