"""One card with known answers, for all tests that only read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from linear_cards import known_card
from veracity import Card


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("card") / "run"


@pytest.fixture(scope="session")
def known(folder: Path) -> Card:
    return known_card(folder)
