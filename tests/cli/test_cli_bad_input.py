"""What people get wrong with models of other libraries, on the command line: one sentence on the error stream, never a traceback."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from commands import code

from models.onnx_files import export, small_network
from test_real_models_bad_input import JOBS, MISTAKES, X, Y, forest, job_pipeline
from veracity.cli.audit_file import build, read
from veracity.models import OnnxModel

NAMES = (
    "estimator not fitted",
    "onnx of an open width that does not fit",
    "tokenizer of another model",
    "texts too long",
    "level not seen in fitting",
    "missing value in a column",
    "model without numbers",
    "inputs without numbers",
)


def audit_file(monkeypatch: pytest.MonkeyPatch, folder: Path, given: dict[str, Any], explainer: str = '"kernel_shap"') -> Path:
    """An audit file whose models and data are these objects."""
    module: Any = ModuleType("given_objects")
    module.model, module.data = (lambda: given["models"]), (lambda: given["inputs"])
    monkeypatch.setitem(sys.modules, "given_objects", module)
    text = f'data = "given_objects:data"\nexplainers = [{explainer}]\nscores = ["faithfulness_correlation"]\n'
    (folder / "audit.toml").write_text(text + '[models.model]\nbuild = "given_objects:model"\n')
    return folder / "audit.toml"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("name", NAMES)
def test_a_mistake_is_one_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    file = audit_file(monkeypatch, tmp_path, MISTAKES[name][0](tmp_path))
    capsys.readouterr()
    assert code("audit", file) == 2
    error = capsys.readouterr().err.strip()
    assert "\n" not in error
    assert re.search(MISTAKES[name][1], error)


def test_an_unknown_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    given = MISTAKES["layer unknown to Captum's method"][0](tmp_path)
    assert code("audit", audit_file(monkeypatch, tmp_path, given, '{name = "grad_cam", layer = "nope"}')) == 2
    error = capsys.readouterr().err.strip()
    assert error.endswith("The model has no layer 'nope': choose one of 0, 1, 2.")
    assert "\n" not in error


def test_an_audit_file_takes_what_an_audit_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for models, inputs in ((forest(), (X[:4], Y[:4])), (job_pipeline(), JOBS[:4])):
        problem = read(audit_file(monkeypatch, tmp_path, {"models": models, "inputs": inputs}))[0].prepare().problem
        assert problem.inputs.size() == 4
    assert problem.features is not None
    assert problem.features.names == ("age", "job")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_onnx_file_stands_in_an_audit_file(tmp_path: Path) -> None:
    export(small_network(), tmp_path / "net.onnx")
    assert isinstance(build("model", {"build": "net.onnx"}, tmp_path), OnnxModel)
