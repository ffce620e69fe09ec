"""A few hundred cases of the fuzzer in every test run, and what the fuzzer must notice."""

from __future__ import annotations

import json
import os
import random as randomness
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fuzz import audits, running
from fuzz.outcome import Outcome, judged
from veracity.core.errors import SpecError

KINDS = tuple(running.KINDS)
CASES = 120


SCRIPT = """
import json
from dataclasses import asdict
from fuzz import running

found = running.run(range({cases}), seed=0, workers=2, kinds={kinds})
print(json.dumps({{number: asdict(one) for number, one in found}}))
"""


@pytest.mark.subprocess
def test_random_cases_end_in_a_result_or_in_one_sentence() -> None:
    """In a process of its own with one thread: workers are forked, and on some processors a fork of several threads hangs."""
    here = Path(__file__).parent
    settings = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(here), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    command = [sys.executable, "-c", SCRIPT.format(cases=CASES, kinds=KINDS)]
    ended = subprocess.run(command, capture_output=True, text=True, env=settings, cwd=here.parent, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    found = {int(number): Outcome(**one) for number, one in json.loads(ended.stdout.splitlines()[-1]).items()}
    wrong = {number: one.findings for number, one in found.items() if one.findings}
    assert not wrong, running.summary(found, 0, 0.0, KINDS)
    assert len(found) == CASES
    asked = [one for one in found.values() if one.kind == "audit"]
    assert sum(one.measured for one in asked) > 0.4 * len(asked)


def test_a_case_is_decided_by_seed_and_number() -> None:
    for number in range(4):
        one, again = (running.case(5, number, ("audit", "settings")) for _ in range(2))
        assert (one.kind, one.measured, one.refused, one.findings) == (again.kind, again.measured, again.refused, again.findings)


def test_what_counts_as_found() -> None:
    def fails(seen: Outcome) -> None:
        raise KeyError("a traceback")

    def refuses(seen: Outcome) -> None:
        raise SpecError("One sentence.")

    def mumbles(seen: Outcome) -> None:
        raise SpecError("")

    assert judged("audit", fails).findings == ["KeyError at outside: 'a traceback'"]
    assert (judged("audit", refuses).findings, judged("audit", refuses).refused) == ([], "One sentence.")
    assert "not one sentence" in judged("audit", mumbles).findings[0]


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("torch's random state", lambda settings: torch.rand(1)),
        ("numpy's random state", lambda settings: np.random.rand(700)),  # noqa: NPY002
        ("python's random state", lambda settings: randomness.random()),
        ("a model's weights", lambda settings: settings["models"]["net"].weight.data.add_(1.0)),
        ("a model's mode", lambda settings: settings["models"]["net"].train()),
        ("a model's requires_grad", lambda settings: settings["models"]["net"].weight.requires_grad_(False)),
        ("a model's hooks", lambda settings: settings["models"]["net"].register_forward_hook(print)),
        ("a tensor", lambda settings: settings["inputs"].add_(1.0)),
    ],
)
def test_what_an_audit_must_leave_alone(what: str, change: Any) -> None:
    kept = torch.get_rng_state(), randomness.getstate(), np.random.get_state()  # noqa: NPY002
    settings = {"models": {"net": nn.Linear(2, 2).eval()}, "inputs": torch.tensor([[1.0, torch.nan]])}
    state = audits.State(settings)
    assert state.changes() == []
    change(settings)
    assert state.changes() == [f"{what} changed"]
    torch.set_rng_state(kept[0])
    randomness.setstate(kept[1])
    np.random.set_state(kept[2])  # noqa: NPY002


def test_tables_are_held_against_their_bounds() -> None:
    row = {"model": "a", "explainer": "e", "score": "s", "value": 2.0, "low": 2.5, "high": 3.0}
    result: Any = SimpleNamespace(
        table=lambda: SimpleNamespace(to_dict=lambda _: [row], __getitem__=lambda _: ()),
        series=[SimpleNamespace(model="a", explainer="e", score="s", bounds=(0.0, 1.0))],
    )
    seen = Outcome("audit")
    with pytest.raises(AttributeError):
        audits.look(result, seen)
    assert [text.split(" ")[0] for text in seen.findings] == ["value", "interval", "interval"]


@pytest.mark.subprocess
def test_a_hang_and_a_crash_are_one_case_each(monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(random: Random) -> Outcome:
        chosen = random.choice(["hang", "crash", "fine"])
        if chosen == "hang":
            time.sleep(60)
        if chosen == "crash":
            os._exit(3)
        return Outcome("odd", measured=True)

    monkeypatch.setattr(running, "KINDS", {"odd": (odd, 1.0)})
    found = dict(running.run(range(12), seed=1, workers=2, kinds=("odd",), limit=0.1))
    assert sorted(found) == list(range(12))
    assert {one.kind for one in found.values()} == {"odd", "hang", "crash"}
    text = running.summary(found, 1, 1.0, ("odd",))
    assert "took over #.# s" in text
    assert "the process ended with #" in text
    assert "python -m tests.fuzz --seed 1 --case" in text
