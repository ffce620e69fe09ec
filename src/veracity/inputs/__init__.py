"""Data sets of all kinds: tables, texts, samples of several parts."""

from __future__ import annotations

from veracity.inputs.text import TextInputs
