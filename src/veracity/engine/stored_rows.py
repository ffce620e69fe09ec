"""What a run keeps from its first call on: rows per call that were measured on a GPU, so that numbers do not depend on a timing, and the
samples per block, so that a score which is added later finds the same blocks."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from veracity.core import fingerprint
from veracity.core.inputs import Inputs
from veracity.core.models import device_of
from veracity.engine.store import RunFolder
from veracity.engine.store.manifest import Kind
from veracity.engine.store.records import Damaged

ROWS = "rows"
"""The folder of the record."""
KEY = fingerprint.of_json([ROWS])


def rows_key(name: str, model: nn.Module, inputs: Inputs, memory: int | None, workers: int = 1) -> str | None:
    """What a measured number of rows depends on, as a key; None if it is not measured, because the model is on a CPU."""
    device = device_of(model)
    if device.type != "cuda":
        return None
    size = sum(one.numel() for one in model.parameters())
    about = [name, type(model).__qualname__, size, list(inputs.shape), torch.cuda.get_device_name(device), memory, workers]
    return fingerprint.of_json(about)


def known_rows(store: RunFolder) -> dict[str, int]:
    """Rows per call by their key, as runs measured them before; {} if there was none, or if the record is damaged."""
    try:
        return {key: int(rows) for key, rows in (store.read_table(ROWS, KEY) or {}).items()}
    except Damaged:
        return {}


def known_block(store: RunFolder) -> int | None:
    """The samples per block of a run; None if the folder holds none yet. Runs of older versions had blocks of one size, too."""
    manifest = store.manifest_before(Kind.AUDIT)
    found = (manifest.get("data") or {}).get("block")
    cells = manifest.get("cells") or ()
    if found is None and cells and not manifest.get("blocks"):
        found = max(cell["stop"] - cell["start"] for cell in cells)
        return int(found) if found < manifest["data"]["samples"] else None
    return found


def remember_rows(store: RunFolder, found: Mapping[str, int]) -> None:
    """Add measured rows per call to the record."""
    known = known_rows(store)
    if found and known != {**known, **found}:
        store.write_table(ROWS, KEY, {**known, **found})
