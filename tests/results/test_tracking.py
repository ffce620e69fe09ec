"""Results in MLflow, with a stub in its place; `make mlflow` does the same with a real server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from small import series_inputs, small_net
from veracity import Audit, VeracityError
from veracity.results import Result
from veracity.results.tracking import metrics


class Stub(SimpleNamespace):
    """What `log` calls of MLflow: it keeps everything, and refuses a parameter that changes, as MLflow does."""

    def __init__(self) -> None:
        super().__init__(metrics={}, params={}, tags={}, files={}, run=None, names=[], exceptions=SimpleNamespace(MlflowException=OSError))

    def active_run(self) -> Any:
        return self.run

    @contextmanager
    def start_run(self, run_name: str) -> Iterator[Any]:
        self.names.append(run_name)
        self.run = SimpleNamespace(info=SimpleNamespace(run_id=f"run {len(self.names)}"))
        yield self.run
        self.run = None

    def log_metrics(self, found: dict[str, float]) -> None:
        self.metrics |= found

    def log_params(self, found: dict[str, str]) -> None:
        if any(self.params.get(name, value) != value for name, value in found.items()):
            raise OSError("Changing param values is not allowed.")
        self.params |= found

    def set_tags(self, found: dict[str, str]) -> None:
        self.tags |= found

    def log_artifacts(self, folder: str, artifact_path: str | None = None) -> None:
        self.files |= {(artifact_path, path.name): path.read_text() for path in Path(folder).iterdir()}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    explainers = {"saliency": "saliency", "ig (5)": {"name": "integrated_gradients", "steps": 5}}
    audit = Audit(models={"net": small_net()}, inputs=series_inputs(), explainers=explainers, scores=["deletion"], seed=7)
    return audit.run(tmp_path_factory.mktemp("audit") / "run", progress=False)


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Stub:
    stub = Stub()
    monkeypatch.setitem(sys.modules, "mlflow", stub)
    return stub


def test_every_number_of_the_table_is_a_metric(run: Result, mlflow: Stub) -> None:
    assert run.log_to_mlflow() == "run 1"
    table = run.table().set_index("explainer")
    for explainer, name in (("saliency", "net/saliency/deletion"), ("ig (5)", "net/ig _5_/deletion")):
        found = [mlflow.metrics[name], *(mlflow.metrics[f"{name}.{end}"] for end in ("low", "high", "n"))]
        assert found == table.loc[explainer, ["value", "low", "high", "n"]].tolist()
    assert {"audit.explainers": "saliency, ig (5)", "audit.seed": "7", "audit.precision": "float32"}.items() <= mlflow.params.items()
    assert mlflow.tags["veracity.run"] == run.manifest["run"]
    assert mlflow.files[None, "report.html"].startswith("<!DOCTYPE html>")
    assert "net,saliency,deletion" in mlflow.files[None, "table.csv"]
    assert mlflow.active_run() is None


def test_an_active_run_is_used_and_left_open(run: Result, mlflow: Stub) -> None:
    with mlflow.start_run("mine"):
        assert run.log_to_mlflow(prefix="after") == "run 1"
        assert mlflow.active_run() is not None
        mlflow.params["audit.seed"] = "8"
        with pytest.raises(VeracityError, match="needs its own prefix"):
            run.log_to_mlflow()
    assert mlflow.names == ["mine"]
    assert "after/net/saliency/deletion" in mlflow.metrics
    assert ("after", "report.html") in mlflow.files


def test_another_refusal_of_mlflow_has_no_word_of_prefixes(run: Result, mlflow: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_found: dict[str, float]) -> None:
        raise OSError("The disk is full.")

    monkeypatch.setattr(mlflow, "log_metrics", refuse)
    with pytest.raises(VeracityError, match=r"MLflow refused the result: The disk is full\.$"):
        run.log_to_mlflow()


def test_without_mlflow_there_is_one_sentence(run: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(VeracityError, match=r"needs MLflow, which is not installed: pip install 'veracity\[mlflow\]'"):
        run.log_to_mlflow()


def test_names_that_would_become_equal_stay_apart() -> None:
    rows = [{"model": "m", "explainer": name, "score": "s", "value": 1.0, "low": 0.0, "high": 2.0, "n": 3} for name in ("a:", "a?", "..")]
    found = metrics(pd.DataFrame(rows))
    assert len(found) == 12
    assert all(".." not in name and ":" not in name for name in found)
