"""Rows per call of each model, kept with a run: a resumed run takes them again, so its numbers do not depend on a timing."""

from __future__ import annotations

from collections.abc import Mapping

from veracity.core import fingerprint
from veracity.engine.memory import Budget
from veracity.engine.store import RunFolder
from veracity.engine.store.records import Damaged

ROWS = "rows"
"""The folder of the record."""
KEY = fingerprint.of_json([ROWS])


def known_rows(store: RunFolder) -> dict[str, int]:
    """Rows per call by the model's name, as a run measured them before; {} if there was none, or if its record is damaged."""
    try:
        return {name: int(rows) for name, rows in (store.read_table(ROWS, KEY) or {}).items()}
    except Damaged:
        return {}


def remember_rows(store: RunFolder, budgets: Mapping[str, Budget]) -> None:
    """Store the rows per call of each model."""
    found = {name: budget.rows for name, budget in budgets.items()}
    if known_rows(store) != found:
        store.write_table(ROWS, KEY, found)
