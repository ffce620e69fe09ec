"""The same model has the same key in every process, whatever PYTHONHASHSEED; a finished audit stays finished."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
KINDS = ["vision transformer", "transformers", "forest", "xgboost", "logs", "holds", "sets", "hooked", "editable"]
FILES = {
    "src/mine/__init__.py": "",
    "src/mine/net.py": """
from torch import nn
from . import helper

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(8, 2)

    def forward(self, x):
        return helper.halved(self.line(x))
""",
    "src/mine/helper.py": "import logging\nlog = logging.getLogger(__name__)\n\ndef halved(x):\n    log.debug('half')\n    return x / 2\n",
    "site-packages/mine-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n",
    "site-packages/mine-1.0.dist-info/RECORD": "__editable__.mine.pth,,\nmine-1.0.dist-info/METADATA,,\n",
}


def run(place: Path, seed: str) -> dict[str, Any]:
    paths = [str(TESTS), str(place / "src"), str(place / "site-packages"), *filter(None, sys.path)]
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-W", "ignore", "-m", "keyed_models", str(place / "run")]
    found: dict[str, Any] = json.loads(subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    place = tmp_path_factory.mktemp("keys")
    for name, text in FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return [run(place, seed) for seed in ("1", "2")]


@pytest.mark.subprocess
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_has_the_same_key_in_two_processes(kind: str, runs: list[dict[str, Any]]) -> None:
    first, second = (one["keys"] for one in runs)
    assert list(first) == KINDS
    assert first[kind] == second[kind]
    assert len(set(first.values())) == len(KINDS)


@pytest.mark.subprocess
def test_an_audit_that_is_finished_is_finished_in_the_next_process(runs: list[dict[str, Any]]) -> None:
    first, second = (one["audit"] for one in runs)
    assert first["finished"] == 0
    assert second["finished"] == second["cells"] == first["cells"] == first["stored"] == second["stored"] > len(KINDS)
