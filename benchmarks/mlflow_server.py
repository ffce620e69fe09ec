"""Logs a demo audit, a demo card and demo orbits to a real MLflow server on the loopback, and reads every number back: `make mlflow`."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
import torch
from torch import nn

import veracity
from veracity.demo import digits
from veracity.orbits import Classification, RotationOrbit
from veracity.results.tracking import legal
from veracity.trainers.training import train

HOST = "127.0.0.1"
PATIENCE = 300.0
"""Seconds until the server must answer."""


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """An MLflow server that listens on the loopback alone; its address."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    store = [f"--backend-store-uri=sqlite:///{folder}/mlflow.db", f"--artifacts-destination={folder}/artifacts"]
    command = [sys.executable, "-m", "mlflow", "server", f"--host={HOST}", f"--port={port}", "--workers=1", *store]
    with open(folder / "server.log", "wb") as said, subprocess.Popen(command, stdout=said, stderr=said, cwd=folder) as process:
        try:
            wait_for(f"http://{HOST}:{port}/health", process, folder / "server.log")
            yield f"http://{HOST}:{port}"
        finally:
            process.terminate()


def wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server answers; raises if it ended, or does not answer in time."""
    start = time.monotonic()
    while time.monotonic() - start < PATIENCE and process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise SystemExit(f"The MLflow server did not start:\n{log.read_text()}")


def results(folder: Path) -> tuple[Any, Any, Any]:
    """A demo audit, a demo card and demo orbits of one small network."""
    x, y = digits("test", padding=0)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    net = train(net, *digits("train", padding=0), epochs=10)
    explainers = ["saliency", "integrated_gradients"]
    few: dict[str, Any] = {"inputs": x[:16], "targets": y[:16]}
    audit = veracity.Audit(models={"small net": net}, explainers=explainers, scores=["deletion"], title="Demo audit", **few)
    orbits = veracity.OrbitEvaluation(models={"small net": net}, orbit=RotationOrbit(step=45.0), task=Classification(), **few)
    card = veracity.card(net, x, y, explainers=explainers, samples=16, budget="1s", folder=folder / "card", progress=False)
    return audit.run(folder / "audit", progress=False), card, orbits.run(folder / "orbits", progress=False)


def differences(rows: pd.DataFrame, logged: dict[str, float], before: str = "") -> Iterator[str]:
    """What MLflow holds otherwise than the table."""
    for row in rows.to_dict("records"):
        name = before + "/".join(legal(str(row[part])) for part in ("model", "explainer", "score") if row[part])
        for key, value in ((name, row["value"]), *((f"{name}.{end}", row[end]) for end in ("low", "high", "n"))):
            if math.isfinite(value) and logged.get(key) != float(value):
                yield f"{key} is {logged.get(key)} in MLflow, and {value} in the table"
            if not math.isfinite(value) and key in logged:
                yield f"{key} is {logged[key]} in MLflow, and not finite in the table"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="veracity-mlflow-") as made:
        folder = Path(made)
        audit, card, orbits = results(folder)
        with server(folder) as address:
            os.environ["MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"] = "false"
            mlflow.set_tracking_uri(address)
            mlflow.set_experiment("veracity")
            alone = audit.log_to_mlflow()
            if mlflow.active_run():
                raise SystemExit("A run was left open.")
            with mlflow.start_run(run_name="release 2") as run:
                both = card.log_to_mlflow()
                orbits.log_to_mlflow(prefix="rotations")
                if both != run.info.run_id or not mlflow.active_run():
                    raise SystemExit("The active run was not used.")
            client = mlflow.MlflowClient()
            wrong: list[str] = []
            expected = [(alone, audit.table(), "", "report.html"), (both, card.requirements(), "", "card.html")]
            expected.append((both, orbits.requirements(), "rotations/", "rotations/report.html"))
            for number, rows, before, page in expected:
                kept = client.get_run(number)
                wrong += differences(rows, kept.data.metrics, before)
                text = Path(client.download_artifacts(number, page, made)).read_text(encoding="utf-8")
                if "</html>" not in text:
                    wrong.append(f"{page} is no page")
                print(f"{kept.info.run_name}: {len(rows)} rows, {len(kept.data.metrics)} metrics, {page} of {len(text) / 1e3:.0f} kB")
            tables = {number: pd.read_csv(client.download_artifacts(number, "table.csv", made)) for number in (alone, both)}
            if not tables[alone]["value"].equals(audit.table()["value"].astype(float)):
                wrong.append("table.csv of the audit differs from its table")
            if list(tables[both]["word"]) != list(card.table()["word"]):
                wrong.append("table.csv of the card differs from its table")
            kept = client.get_run(both).data
            print("parameters:", dict(sorted(kept.params.items())))
            print("tags:", {name: value for name, value in sorted(kept.tags.items()) if "veracity" in name and "folder" not in name})
            if kept.tags["veracity.run"] != identity(card.path):
                wrong.append("the tag veracity.run is not the folder's")
    if wrong:
        raise SystemExit("\n".join(wrong))
    print(f"MLflow {mlflow.__version__}: every number, table and page came back as it was logged.")


def identity(folder: str) -> str:
    """The identity in the manifest of a run folder."""
    from veracity.engine.store import RunFolder

    return str(RunFolder(folder).manifest(None)["run"])


if __name__ == "__main__":
    main()
