"""Where data files are found, and the file format of the MNIST family: magic number, sizes, bytes."""

from __future__ import annotations

import gzip
import os
import struct
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from veracity.core.errors import InputError

VARIABLE = "VERACITY_DATA"
BESIDE = [Path("../shared/data"), Path(__file__).parents[5] / "shared" / "data"]


def cache() -> Path:
    """Where fetched data are kept: veracity's own folder in the user's cache directory."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "veracity"


def folders() -> list[Path]:
    """The folders that may hold data: the one that VERACITY_DATA names, or else those beside the code."""
    given = os.environ.get(VARIABLE)
    return [Path(given)] if given else BESIDE


def locate(name: str) -> Path | None:
    """A data file by its path inside the data folder or the cache; None if it is in neither."""
    return next((folder / name for folder in (*folders(), cache()) if (folder / name).exists()), None)


def find(name: str, origin: str) -> Path:
    """A data file by its path inside the data folder; one sentence says where it was looked for and where it is from."""
    path = locate(name)
    if path is None:
        given = os.environ.get(VARIABLE)
        where = f"{Path(given) / name} ({VARIABLE})" if given else f"{name} (no {VARIABLE} is set)"
        raise InputError(f"Looked for {where} and found nothing: get it from {origin} and set {VARIABLE} to the folder above it.")
    return path


def read_idx(path: Path) -> Tensor:
    """An idx file, gzipped or not, as a uint8 tensor."""
    raw = path.read_bytes()
    data = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    zero, kind, axes = struct.unpack(">HBB", data[:4])
    if zero != 0 or kind != 8:
        raise InputError(f"{path} is not an idx file of bytes.")
    sizes = struct.unpack(f">{axes}I", data[4 : 4 + 4 * axes])
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(sizes).copy())
