"""A few kills of spawned workers and of a parent; `python -m tests.kills` does more of them."""

from __future__ import annotations

import random
from collections import deque
from pathlib import Path

import pytest

from kills import PARENT, STARTING, WORKING, Harness, Line


@pytest.mark.subprocess
def test_killed_workers_and_parents_lose_nothing(tmp_path: Path) -> None:
    harness = Harness(tmp_path, random.Random(0), samples=64)
    harness.unbroken(2)
    left = deque([STARTING, WORKING])
    while left:  # a worker may be done with starting before it is killed
        harness.kill_workers(left)
    harness.kill_all(PARENT, workers=2)
    assert harness.lines[STARTING] == Line(kills=1)
    assert harness.lines[WORKING] == Line(kills=1)
    assert harness.lines[PARENT] == Line(kills=1)
