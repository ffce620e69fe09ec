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
SCRIPTS = """
import abc, copy, functools, json, sys, typing
from dataclasses import dataclass, field
import pydantic
import torch
from torch import fx, nn
from veracity.core import fingerprint

def helper(x):
    return x * 2.0

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.held = nn.Linear(4, 4), nn.Linear(4, 2), [torch.ones(2)]
    def inner(self, x):
        return self.b(self.a(x))
    def forward(self, x):
        return helper(self.inner(x)) + self.held[0]

class Python(nn.Module):
    @torch.jit.ignore
    def inner(self, x: torch.Tensor) -> torch.Tensor:
        return helper(x)
    def forward(self, x):
        return self.inner(x)

class Decorated(Net):
    @torch.autocast("cpu")
    @torch.no_grad()
    def forward(self, x):
        return plain(dispatched(self.inner(x)))

@torch.compiler.disable
def plain(x):
    return x + 1

@functools.singledispatch
def dispatched(x):
    return x
dispatched.register(abc.ABC)(lambda x: 0)
dispatched.register(torch.Tensor)(lambda x: x * 2)

@dataclass
class Settings(typing.Generic[typing.TypeVar("T")]):
    gain: float = field(default=2.0, metadata={"words": {"a", "b", "c"}})

class Checked(pydantic.BaseModel):
    gain: float = 2.0
    inner: "Checked | None" = None

class Configured(Net):
    def __init__(self):
        super().__init__()
        self.settings, self.checked = Settings(), Checked()
    def forward(self, x):
        return super().forward(x) * Settings().gain * Checked.model_validate({"gain": 1.0}).gain

X = torch.ones(3, 4)
if sys.argv[1] == "later":
    for made in (Net(), nn.Linear(4, 4)):
        torch.jit.trace(made, X), torch.jit.script(made)
    torch.jit.script(helper), nn.Identity().register_forward_hook(helper), torch.export.export(nn.Linear(4, 2), (X,))
    type("Later", (abc.ABC,), {}).register(int)
torch.manual_seed(0)
net = Net().eval()
models = {
    "script": torch.jit.script(net),
    "trace": torch.jit.trace(net, X),
    "freeze": torch.jit.freeze(torch.jit.script(net)),
    "optimised": torch.jit.optimize_for_inference(torch.jit.script(net)),
    "function": torch.jit.script(helper),
    "Python": torch.jit.script(Python()),
    "graph": fx.symbolic_trace(net),
    "export": torch.export.export(net, (X,)).module(),
    "decorated": Decorated().eval(),
    "configured": Configured().eval(),
}
models["decorated"].handle = models["decorated"].register_forward_hook(lambda *given: None)
before = {name: fingerprint.of_value(model) for name, model in models.items()}
for model in models.values():
    for _ in range(3):
        model(X)
after = {name: fingerprint.of_value(model) for name, model in models.items()}
print(json.dumps({"code": [before, after]}))
"""


BOTH = """
import contextlib, io, json, runpy, sys
found = {{}}
for script, argument in {parts}:
    sys.argv = [script, argument]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        runpy.run_path(script, run_name="__main__")
    found |= json.loads(said.getvalue().splitlines()[-1])
print(json.dumps(found))
"""


def run(place: Path, seed: str, *parts: tuple[str, str]) -> dict[str, Any]:
    """What scripts say, one after the other in one process, since imports take longer than all that they do."""
    paths = [str(TESTS), str(place / "src"), str(place / "site-packages"), *filter(None, sys.path)]
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-W", "ignore", "-c", BOTH.format(parts=parts)]
    found: dict[str, Any] = json.loads(subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Two processes: the compiled code comes first in one of them, and last, after much else, in the other."""
    place = tmp_path_factory.mktemp("keys")
    for name, text in {**FILES, "scripts.py": SCRIPTS}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    models, scripts = (str(TESTS / "keyed_models.py"), str(place / "run")), str(place / "scripts.py")
    return [run(place, "1", (scripts, "first"), models), run(place, "2", models, (scripts, "later"))]


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


@pytest.mark.subprocess
def test_compiled_and_decorated_code_has_the_same_key_in_every_process_and_after_use(runs: list[dict[str, Any]]) -> None:
    found = [keys for one in runs for keys in one["code"]]
    assert found[0] == found[1] == found[2] == found[3]
    assert len(set(found[0].values())) == len(found[0]) == 10
