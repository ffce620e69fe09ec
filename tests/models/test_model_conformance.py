"""Every built-in adapter follows the rules for adapters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from torch import Tensor

from models.onnx_files import export, small_network
from text_models import vision_model
from veracity.testing import ModelConformance

X, Y = load_iris(return_X_y=True)


class OnIris(ModelConformance):
    def inputs(self) -> Tensor:
        return torch.tensor(X[::30])


class TestForest(OnIris):
    def given(self) -> Any:
        return RandomForestClassifier(5, random_state=0).fit(X, Y)


class TestMethodOfForest(OnIris):
    def given(self) -> Any:
        return RandomForestClassifier(5, random_state=0).fit(X, Y).predict_proba


class TestPipeline(OnIris):
    def given(self) -> Any:
        return make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)


class TestDecisionFunction(OnIris):
    def given(self) -> Any:
        return LinearSVC(random_state=0).fit(X, Y)


class TestRegression(OnIris):
    def given(self) -> Any:
        return Ridge().fit(X, Y)


class TestXgboostClassifier(OnIris):
    def given(self) -> Any:
        xgboost = pytest.importorskip("xgboost")
        return xgboost.XGBClassifier(n_estimators=3, n_jobs=1).fit(X, Y)


class TestLightgbmClassifier(OnIris):
    def given(self) -> Any:
        lightgbm = pytest.importorskip("lightgbm")
        return lightgbm.LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1).fit(X, Y)


class TestXgboostBooster(OnIris):
    def given(self) -> Any:
        xgboost = pytest.importorskip("xgboost")
        return xgboost.train({"objective": "multi:softprob", "num_class": 3, "nthread": 1}, xgboost.DMatrix(X, Y), 3)


class TestLightgbmBooster(OnIris):
    def given(self) -> Any:
        lightgbm = pytest.importorskip("lightgbm")
        settings = {"objective": "multiclass", "num_class": 3, "verbose": -1, "num_threads": 1}
        return lightgbm.train(settings, lightgbm.Dataset(X, Y), 3)


def linear(values: Any) -> Any:
    return np.asarray(values) @ np.arange(8.0).reshape(4, 2)


class TestFunctionOfArrays(OnIris):
    def given(self) -> Any:
        return linear


def tensors(values: Tensor) -> Tensor:
    return torch.tanh(values @ torch.arange(8.0, dtype=values.dtype).reshape(4, 2) / 8)


class TestFunctionOfTensors(OnIris):
    def given(self) -> Any:
        return tensors


class TestVisionPipeline(ModelConformance):
    def given(self) -> Any:
        transformers = pytest.importorskip("transformers")
        return transformers.ImageClassificationPipeline(model=vision_model().model, image_processor=object())

    def inputs(self) -> Tensor:
        return torch.rand(4, 3, 8, 12, generator=torch.Generator().manual_seed(0))


class TestOnnxFile(ModelConformance):
    @pytest.fixture(autouse=True)
    def file(self, tmp_path: Path) -> None:
        pytest.importorskip("onnxruntime")
        self.path = export(small_network(), tmp_path / "network.onnx")

    def given(self) -> Any:
        return self.path

    def inputs(self) -> Tensor:
        return torch.rand(6, 4, generator=torch.Generator().manual_seed(0))
