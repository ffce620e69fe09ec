from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import veracity
from models.onnx_files import export, small_network
from veracity.core.errors import InputError
from veracity.models import OnnxModel, as_model

pytest.importorskip("onnxruntime")


def inputs(rows: int = 12) -> torch.Tensor:
    return torch.rand(rows, 4, generator=torch.Generator().manual_seed(0))


def test_the_file_gives_the_networks_scores(tmp_path: Path) -> None:
    network = small_network()
    model = as_model("m", str(export(network, tmp_path / "network.onnx")))
    assert isinstance(model, OnnxModel)
    assert model.title == "The ONNX file 'network.onnx'"
    with torch.no_grad():
        assert torch.allclose(model(inputs()), network(inputs()), atol=1e-6)


def test_a_fixed_batch_is_filled_up(tmp_path: Path) -> None:
    network = small_network()
    model = as_model("m", export(network, tmp_path / "network.onnx", shape=(5, 4), dynamic=False))
    with torch.no_grad():
        assert torch.allclose(model(inputs(12)), network(inputs(12)), atol=1e-6)
        assert torch.allclose(model(inputs(2)), network(inputs(2)), atol=1e-6)


def test_module_function_and_file_have_the_same_scores(tmp_path: Path) -> None:
    network = small_network()

    def function(x: Any) -> Any:
        with torch.no_grad():
            return network(torch.as_tensor(x)).numpy()

    models = {"module": network, "function": function, "file": export(network, tmp_path / "network.onnx")}
    scores = ["faithfulness_correlation", "insertion", "max_sensitivity", "complexity"]
    audit = veracity.Audit(models=models, inputs=inputs(), explainers=["feature_ablation", "kernel_shap"], scores=scores, companions=False)
    table = audit.run(tmp_path / "run", progress=False).table()
    wide = table.pivot_table(index=["explainer", "score"], columns="model", values="value")
    assert len(wide) >= 8
    assert (wide["function"] - wide["module"]).abs().max() <= 1e-6
    assert (wide["file"] - wide["module"]).abs().max() <= 1e-6


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("missing.onnx", "There is no file 'missing.onnx': pass the path of an ONNX file."),
        (b"no network", "cannot be loaded"),
    ],
)
def test_files_that_cannot_be_read(given: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        as_model("m", given)


def test_samples_of_another_shape(tmp_path: Path) -> None:
    model = as_model("m", export(small_network(), tmp_path / "network.onnx"))
    with pytest.raises(
        InputError, match=r"The ONNX file 'network.onnx' takes samples of shape \(4,\) as 'x', not \(5,\): export it for this shape."
    ):
        model(torch.zeros(2, 5))
