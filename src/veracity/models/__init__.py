"""Models of other libraries as torch modules: one small adapter per library, found through the entry points `veracity.models`."""

from __future__ import annotations

from veracity.models.base import Converted, ForeignModel, NumpyModel, as_model, readable_output
from veracity.models.estimators import BoosterModel, EstimatorModel
from veracity.models.functions import FunctionModel
from veracity.models.onnx import OnnxModel
from veracity.models.transformers import FolderModel, PipelineModel
