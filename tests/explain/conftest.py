from __future__ import annotations

import pytest
from shift_invariant import Digits, trained_digits


@pytest.fixture(scope="session")
def digits() -> Digits:
    return trained_digits()
