"""The MNIST family's file format: magic number, sizes, bytes."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from veracity.core.errors import InputError


def read(path: Path) -> Tensor:
    """An idx file, gzipped or not, as a uint8 tensor."""
    raw = path.read_bytes()
    data = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    zero, kind, axes = struct.unpack(">HBB", data[:4])
    if zero != 0 or kind != 8:
        raise InputError(f"{path} is not an idx file of bytes.")
    sizes = struct.unpack(f">{axes}I", data[4 : 4 + 4 * axes])
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(sizes).copy())
