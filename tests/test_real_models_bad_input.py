"""What people get wrong with models of other libraries and their data: one sentence each, with what to do."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import captum.attr
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from torch import Tensor, nn

import veracity
from models.onnx_files import export, small_network
from text_models import TEXTS, text_model, tokenizer
from veracity import VeracityError
from veracity.explain import CaptumMethod, GradCam
from veracity.inputs import TableInputs, TextInputs

pytestmark = pytest.mark.filterwarnings("ignore::veracity.core.errors.Note")
LONGEST = 300
X = np.random.default_rng(0).normal(size=(60, 5))
Y = (X[:, 0] + X[:, 1] > 0).astype(int)
TABLE = pd.DataFrame(X, columns=list("abcde"))
JOBS = pd.DataFrame({"age": X[:, 0], "job": np.where(Y == 1, "cook", "clerk")})


@cache
def forest(seed: int = 0, classes: int = 2) -> Any:
    labels = Y if classes == 2 else np.digitize(X[:, 0], [-0.5, 0.5])
    return RandomForestClassifier(5, max_depth=3, random_state=seed).fit(X + seed, labels)


@cache
def table_forest() -> Any:
    return RandomForestClassifier(5, max_depth=3, random_state=0).fit(TABLE, Y)


@cache
def job_pipeline() -> Any:
    encoder = make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough")
    return make_pipeline(encoder, RandomForestClassifier(5, random_state=0)).fit(JOBS, Y)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2)).eval()


def shap_values(model: Any, rows: int = 8) -> Any:
    return pytest.importorskip("shap").TreeExplainer(model)(X[:rows])


def changed(frame: pd.DataFrame, column: str, value: Any) -> pd.DataFrame:
    """The first rows of a table with another value in row 2."""
    rows = frame.iloc[:6].copy()
    rows.loc[2, column] = value
    return rows


class AnyWidth(nn.Module):
    """A network whose file leaves the width open, though only a width of four works."""

    def forward(self, x: Tensor) -> Tensor:
        return x @ torch.ones(4, 2)


def open_width(folder: Path) -> Path:
    torch.onnx.export(
        AnyWidth(), (torch.zeros(1, 4),), folder / "open.onnx", input_names=["x"], dynamic_axes={"x": {0: "n", 1: "m"}}, dynamo=False
    )
    return folder / "open.onnx"


Mistake = Callable[[Path], dict[str, Any]]
MISTAKES: dict[str, tuple[Mistake, str]] = {
    "estimator not fitted": (
        lambda _: {"models": RandomForestClassifier(), "inputs": X[:4]},
        r"RandomForestClassifier is not fitted: call its fit\(x, y\) first",
    ),
    "method of an estimator not fitted": (
        lambda _: {"models": RandomForestClassifier().predict_proba, "inputs": X[:4]},
        r"RandomForestClassifier is not fitted",
    ),
    "class in place of an estimator": (
        lambda _: {"models": RandomForestClassifier, "inputs": X[:4]},
        "is the class RandomForestClassifier: pass an object of it",
    ),
    "onnx of another width": (
        lambda folder: {"models": export(small_network(), folder / "net.onnx"), "inputs": X[:4]},
        r"'net.onnx' takes samples of shape \(4,\) as 'x', not \(5,\): export it for this shape",
    ),
    "onnx of an open width that does not fit": (
        lambda folder: {"models": open_width(folder), "inputs": X[:4]},
        r"'open.onnx' fails on samples of shape \(5,\) as 'x' \(.*mismatch\): export it for this shape",
    ),
    "onnx and weights": (
        lambda folder: {"models": export(small_network(), folder / "net.onnx"), "inputs": X[:4, :4], "scores": ["fast_gef"]},
        "^The ONNX file 'net.onnx' has no parameters that could be perturbed: leave out the scores that perturb weights",
    ),
    "no such file": (lambda _: {"models": "absent.onnx", "inputs": X[:4]}, "There is no file 'absent.onnx'"),
    "tokenizer of another model": (
        lambda _: {"models": text_model(vocab_size=9), "inputs": TextInputs(TEXTS, tokenizer())},
        "the token 14, and the model knows 9 tokens: pass the tokenizer of this model",
    ),
    "texts too long": (
        lambda _: {"models": text_model(max_position_embeddings=6), "inputs": TextInputs(TEXTS, tokenizer())},
        "Text 2 has 10 tokens, and the model takes 6: shorten it, or pass .*truncate=True",
    ),
    "texts without a tokenizer": (
        lambda _: {"models": text_model(), "inputs": TEXTS},
        r"Texts need the tokenizer of the model: pass inputs=TextInputs\(texts, tokenizer\)",
    ),
    "tokens without a tokenizer": (
        lambda _: {"models": text_model(), "inputs": tokenizer()(TEXTS, padding=True, return_tensors="pt")},
        r"Token numbers need the tokenizer.*pass TextInputs.of_encoding\(encoding, tokenizer\)",
    ),
    "level not seen in fitting": (
        lambda _: {"models": job_pipeline(), "inputs": changed(JOBS, "job", "pilot")},
        "Column 'job' has the value 'pilot', which RandomForestClassifier was not fitted on: drop these rows, or fit it with them",
    ),
    "level not in the background": (
        lambda _: {"models": job_pipeline(), "inputs": TableInputs(changed(JOBS, "job", "pilot"), background=JOBS)},
        "Column 'job' has the value 'pilot', which is not among its levels clerk, cook: drop these rows",
    ),
    "missing value in a column": (
        lambda _: {"models": job_pipeline(), "inputs": changed(JOBS, "age", np.nan)},
        "Column 'age' of the table has 1 missing value in 6 rows: fill them in",
    ),
    "missing value in an array": (
        lambda _: {"models": forest(), "inputs": np.where(np.arange(5) == 3, np.nan, X[:4])},
        "the first is sample 0: replace these values, or leave the samples out",
    ),
    "missing column": (
        lambda _: {"models": table_forest(), "inputs": TABLE[["a", "b"]].iloc[:4]},
        "was fitted on the column 'c', which the table does not have: add it to a, b",
    ),
    "shap values in another order": (
        lambda _: {"models": forest(), "inputs": X[:8][::-1].copy(), "explainers": [shap_values(forest())]},
        "Sample 0 of the shap.Explanation is not sample 0 of the inputs",
    ),
    "shap values of fewer samples": (
        lambda _: {"models": forest(), "inputs": X[:8], "explainers": [shap_values(forest(), 7)]},
        "has 7 maps for 8 inputs: give one map for each input, in their order",
    ),
    "shap values of fewer features": (
        lambda _: {"models": forest(), "inputs": X[:8], "explainers": [shap_values(forest())[:, :4]]},
        r"has values of shape \(4, 2\) each, but an input has shape \(5,\)",
    ),
    "shap values of another class": (
        lambda _: {"models": forest(classes=3), "inputs": X[:8], "target": 1, "explainers": [shap_values(forest(classes=3))[:, :, 0]]},
        r"explains class 0 only, and class 1 is explained: explain all classes, or pass target=0",
    ),
    "shap values of another model": (
        lambda _: {"models": forest(), "inputs": X[:8], "explainers": [shap_values(forest(seed=1))]},
        "The shap.Explanation explains another model than the audited one",
    ),
    "shap explainer of another model": (
        lambda _: {"models": forest(), "inputs": X[:8], "explainers": [pytest.importorskip("shap").TreeExplainer(forest(seed=1))]},
        "shap.TreeExplainer explains another model than the audited one",
    ),
    "table of maps with columns in another order": (
        lambda _: {"models": table_forest(), "inputs": TABLE[:8], "explainers": [TABLE[:8][list("edcba")]]},
        r"the features in another order than the inputs: place 0 is 'e' and not 'a': sort them, maps\[inputs.columns\]",
    ),
    "table of maps with rows in another order": (
        lambda _: {"models": table_forest(), "inputs": TABLE[:8], "explainers": [TABLE[:8][::-1]]},
        r"Row 0 of the explanations is called 7, and row 0 of the inputs 0: .* maps.loc\[inputs.index\]",
    ),
    "maps of another shape": (
        lambda _: {"models": forest(), "inputs": X[:8], "explainers": [np.zeros((8, 4))]},
        r"have shape \(4,\) each, but an input has shape \(5,\)",
    ),
    "layer unknown to Captum's method": (
        lambda _: {
            "models": network(),
            "inputs": torch.zeros(4, 5),
            "explainers": [CaptumMethod(attribution=captum.attr.LayerGradCam, layer="nope")],
        },
        "The model has no layer 'nope': choose one of 0, 1, 2",
    ),
    "layer not named": (
        lambda _: {"models": network(), "inputs": torch.zeros(4, 5), "explainers": [captum.attr.LayerGradCam]},
        "layer_grad_cam needs a layer: pass CaptumMethod",
    ),
    "layer of a forest": (
        lambda _: {
            "models": forest(),
            "inputs": X[:4],
            "explainers": [CaptumMethod(attribution=captum.attr.LayerGradCam, layer="0")],
        },
        "RandomForestClassifier has no layers: leave out what names the layer '0'",
    ),
    "grad-cam of a forest": (
        lambda _: {"models": forest(), "inputs": X[:4], "explainers": [GradCam()]},
        "grad_cam needs a network with layers, and RandomForestClassifier has none: choose an explainer",
    ),
    "model without numbers": (
        lambda _: {"models": network().to("meta"), "inputs": torch.zeros(4, 5)},
        "has no numbers in '0.weight', which is on the device 'meta': load its weights",
    ),
    "inputs without numbers": (
        lambda _: {"models": network(), "inputs": torch.zeros(4, 5, device="meta")},
        "The inputs are on the device 'meta', which holds no numbers: make them on another device",
    ),
    "gradient of a forest": (
        lambda _: {"models": forest(), "inputs": X[:4], "explainers": ["saliency"]},
        "RandomForestClassifier has no gradients: choose an explainer that only needs outputs, such as kernel_shap",
    ),
    "weights of a forest": (
        lambda _: {"models": forest(), "inputs": X[:4], "scores": ["fast_gef"]},
        r"RandomForestClassifier has no weights that could be perturbed: use refit_gef",
    ),
    "refits without a training set": (
        lambda _: {"models": forest(), "inputs": X[:4], "scores": ["refit_gef"]},
        r"pass Audit\(training=\(x, y\)\)",
    ),
    "explainer of one forest under refits": (
        lambda _: {
            "models": forest(),
            "inputs": X[:4],
            "explainers": [pytest.importorskip("shap").TreeExplainer(forest())],
            "scores": ["refit_gef"],
            "training": (X, Y),
        },
        r"pass veracity.explain.Shap\(kind='tree'\)",
    ),
    "whole images": (
        lambda _: {"models": network(), "inputs": np.zeros((4, 8, 8, 3), dtype=np.uint8)},
        r"whose scaling is not known: pass ImageInputs\(images\)",
    ),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_get_one_sentence(name: str, tmp_path: Path) -> None:
    mistake, sentence = MISTAKES[name]
    usual = {"explainers": ["kernel_shap"], "scores": ["faithfulness_correlation"]}
    with pytest.raises(VeracityError, match=sentence) as caught:
        veracity.Audit(**{**usual, **mistake(tmp_path)}).run(tmp_path / "run", progress=False)
    assert len(str(caught.value)) <= LONGEST
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_of_words_is_refused_with_its_size() -> None:
    with pytest.raises(VeracityError, match=r"a whole number of at least 1, not .*: pass its size, 3000") as caught:
        veracity.TokenInputs(torch.zeros(2, 3, dtype=torch.long), vocabulary=[f"word {number}" for number in range(3000)])  # type: ignore[arg-type]
    assert len(str(caught.value)) <= LONGEST


@pytest.mark.parametrize(
    ("maps", "sentence"),
    [
        (TABLE[:8][list("edcba")], "another order than the inputs: place 0 is 'e'"),
        (TABLE[:8].rename(columns={"a": "z"}), "other features than the inputs: 'z'"),
        (TABLE[:8][::-1], "Row 0 of the explanations is called 7"),
    ],
)
def test_one_call_checks_the_order_of_a_table_of_maps(maps: pd.DataFrame, sentence: str) -> None:
    with pytest.raises(VeracityError, match=sentence):
        veracity.score(table_forest(), TABLE[:8], maps)


@pytest.mark.filterwarnings("error::UserWarning")
def test_columns_may_have_numbers_for_names(tmp_path: Path) -> None:
    found = []
    for names in ([0, 1], ["age", "job"]):
        table = JOBS.set_axis(names, axis=1)
        encoder = make_column_transformer((OneHotEncoder(), [1]), remainder="passthrough")
        pipeline = make_pipeline(encoder, RandomForestClassifier(5, random_state=0)).fit(table, Y)
        models = {"pipeline": pipeline, "function": lambda rows, names=names: np.where(rows[names[1]] == "cook", rows[names[0]], 0.0)}
        audit = veracity.Audit(
            models=models, inputs=table[:6], explainers=["kernel_shap"], scores=["faithfulness_correlation"], controls=False
        )
        found.append(audit.run(tmp_path / str(names[0]), progress=False).table()["value"])
    assert found[0].notna().all()
    assert found[0].equals(found[1])


def test_values_of_one_class_are_taken_if_that_class_is_explained(tmp_path: Path) -> None:
    every = shap_values(forest(classes=3))
    settings: dict[str, Any] = {"models": forest(classes=3), "inputs": X[:8], "target": 2, "scores": ["complexity"], "controls": False}
    found = [
        veracity.Audit(**settings, explainers={"shap": values}).run(tmp_path / name, progress=False).table()["value"].iloc[0]
        for name, values in (("all", every), ("one", every[:, :, 2]))
    ]
    assert found[0] == found[1]
