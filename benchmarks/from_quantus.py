"""A script for Quantus before and after: lines and seconds, as in docs/from-quantus.md: python -m benchmarks.from_quantus

Quantus is timed where it is installed: make peers, then .venv-peers/bin/python -m benchmarks.from_quantus
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import torch

from benchmarks.timing import CONSOLE, empty_table, quiet
from veracity.demo import digits
from veracity.trainers.training import initialised, train

SAMPLES, EPOCHS, REPEATS = 32, 20, 3
BEFORE = """\
import numpy as np, pandas as pd, torch, captum.attr, quantus
from setup import net, x, y  # a torch.nn.Module, 32 digits, their classes


def explain(model, inputs, targets, **settings):
    inputs, targets = torch.as_tensor(inputs, dtype=torch.float32), torch.as_tensor(targets)
    return captum.attr.IntegratedGradients(model).attribute(inputs, target=targets).detach().numpy()


x_batch, y_batch = x.numpy(), y.numpy()
a_batch = explain(net, x_batch, y_batch)
metrics = {
    "FaithfulnessCorrelation": quantus.FaithfulnessCorrelation(
        nr_runs=100, subset_size=16, abs=False, normalise=False, return_aggregate=False, disable_warnings=True
    ),
    "PixelFlipping": quantus.PixelFlipping(features_in_step=4, abs=False, normalise=False, return_auc_per_sample=True, disable_warnings=True),
    "MaxSensitivity": quantus.MaxSensitivity(nr_samples=20, disable_warnings=True),
    "MPRT": quantus.MPRT(abs=False, normalise=False, return_average_correlation=True, disable_warnings=True),
    "Sparseness": quantus.Sparseness(disable_warnings=True),
}
rows = {}
for name, metric in metrics.items():
    scores = metric(
        model=net,
        x_batch=x_batch.copy(),
        y_batch=y_batch,
        a_batch=a_batch.copy(),
        explain_func=explain,
        channel_first=True,
        batch_size=32,
    )
    scores = np.asarray(scores, dtype=float).ravel()
    rows[name] = {"mean": np.nanmean(scores), "std": np.nanstd(scores), "n": np.isfinite(scores).sum()}
print(pd.DataFrame(rows).T)
"""  # noqa: E501
AFTER = """\
import veracity.quantus
from veracity.explain import IntegratedGradients
from setup import net, x, y

metrics = {
    "FaithfulnessCorrelation": {"nr_runs": 100, "subset_size": 16},
    "PixelFlipping": {"features_in_step": 4},
    "MaxSensitivity": {"nr_samples": 20},
    "MPRT": {"abs": False},
    "Sparseness": {},
}
print(veracity.quantus.evaluate(metrics, net, x, y, xai_methods={"IntegratedGradients": {}}))
"""


def setup() -> ModuleType:
    """A module with a small trained network, digits and their classes, which both scripts import."""
    made = ModuleType("setup")
    net = initialised(lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)), 0)
    x, y = digits("test", padding=0)
    vars(made).update(net=train(net, *digits("train", padding=0), epochs=EPOCHS), x=x[:SAMPLES], y=y[:SAMPLES])
    return made


def seconds(script: str) -> float:
    """The shortest of some runs, without imports."""
    code, found = compile(script, "script", "exec"), []
    for _ in range(1 + REPEATS):
        start = time.perf_counter()
        with quiet(), contextlib.redirect_stdout(io.StringIO()):
            exec(code, {})
        found.append(time.perf_counter() - start)
    return min(found[1:])


def main() -> None:
    """Time both scripts."""
    sys.modules["setup"] = setup()
    table = empty_table(f"{SAMPLES} digits, {torch.get_num_threads()} threads, best of {REPEATS}", "script", "lines", "seconds")
    scripts = {"evaluate(..., controls=False)": AFTER.replace("{}}))", "{}}, controls=False))"), "evaluate(...)": AFTER}
    if find_spec("quantus"):
        scripts = {f"Quantus {import_module('quantus').__version__}": BEFORE, **scripts}
    for name, script in scripts.items():
        table.add_row(name, str(sum(bool(line.strip()) for line in script.splitlines())), f"{seconds(script):.2f}")
    CONSOLE.print(table)


if __name__ == "__main__":
    main()
