"""Data sets of all kinds: tables, texts, samples of several parts."""

from __future__ import annotations

from veracity.inputs.tables import TableInputs
from veracity.inputs.text import TextInputs
