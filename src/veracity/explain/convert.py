"""Explainers from what people write: names, settings, classes, functions, objects of other libraries, and maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import captum.attr
import numpy as np
from torch import Tensor

from veracity.core.errors import SpecError
from veracity.core.explainers import Explainer
from veracity.core.registry import EXPLAINERS, import_object
from veracity.core.settings import short_repr
from veracity.explain.cam_objects import CamObject
from veracity.explain.captum_llm import CaptumLLM, from_llm_attribution
from veracity.explain.captum_methods import CaptumMethod, Remade, from_captum, required_arguments
from veracity.explain.foreign import Function
from veracity.explain.graph_explainer import GraphExplainer
from veracity.explain.importances import Importances
from veracity.explain.maps import is_table
from veracity.explain.precomputed import Precomputed
from veracity.explain.shap_calls import is_explanation, is_shap
from veracity.explain.shap_explainers import CLASSES, ShapObject
from veracity.explain.shap_explanation import GivenShap

ACCEPTED = (
    "an Explainer, a name, a table with a name, 'module:attribute', a Captum Attribution class or object, "
    "a factory model -> Attribution, a function (model, inputs, targets) -> attributions, an explainer of shap, pytorch-grad-cam or PyG, "
    "or an array of explanations made elsewhere"
)


def as_explainer(value: Any) -> Explainer:
    """An explainer from an object, a name, a table of settings, a class, a function, an object of another library or maps.

    >>> as_explainer("saliency").name, as_explainer(captum.attr.LRP).name, as_explainer({"name": "lime", "patch": 2}).patch
    ('saliency', 'lrp', 2)
    """
    if isinstance(value, Explainer):
        return value
    if isinstance(value, str):
        return as_explainer({"name": value})
    if isinstance(value, Mapping) and "importances_mean" in value:
        return Importances(values=value["importances_mean"])
    if isinstance(value, Mapping) and value and all(isinstance(one, (Tensor, np.ndarray)) or is_table(one) for one in value.values()):
        return Precomputed(maps=value)
    if isinstance(value, Mapping):
        return from_table(value)
    if isinstance(value, (Tensor, np.ndarray)) or is_table(value):
        return Precomputed(maps=value)
    return from_library(value) or from_callable(value)


def from_library(value: Any) -> Explainer | None:
    """A class of explainers, or an object of Captum, shap, PyG or pytorch-grad-cam; None for anything else."""
    if isinstance(value, type) and issubclass(value, Explainer):
        return value()
    if CaptumLLM.accepts(value):
        return from_llm_attribution(value)
    if isinstance(value, type) and issubclass(value, captum.attr.Attribution):
        return from_captum(value)
    if isinstance(value, type) and value.__module__.split(".")[0] == "shap":
        kind = next((kind for kind, name in CLASSES.items() if name == value.__name__), None)
        instead = f", or Shap(kind='{kind}')" if kind else ""
        raise SpecError(f"shap.{value.__name__} is a class: pass an object of it, shap.{value.__name__}(model, ...){instead}.")
    if isinstance(value, captum.attr.Attribution):
        return CaptumMethod(attribution=Remade(value))
    if is_explanation(value):
        return GivenShap.of(value)
    if is_shap(value):
        return ShapObject(explainer=value)
    if GraphExplainer.accepts(value):
        return GraphExplainer.of(value)
    if CamObject.accepts(value):
        return CamObject(cam=value)
    return None


def from_table(table: Mapping[str, Any]) -> Explainer:
    """A registered explainer from {name, settings}; a foreign one from {name: import path}, or {name, attribution or function: path}."""
    settings: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    name = settings.pop("name", None)
    for kind, foreign in (("attribution", CaptumMethod), ("function", Function)):
        if kind in settings:
            path = settings.pop(kind)
            path = path.get("import") if isinstance(path, Mapping) else path
            settings[kind] = import_object(path) if isinstance(path, str) else path
            return foreign(label=name or "", **settings)
    if not isinstance(name, str) or ":" not in name:
        built: Explainer = EXPLAINERS.build(table)
        return built
    target = import_object(name)
    if isinstance(target, type) and issubclass(target, Explainer):
        return target(**settings)
    if not settings:
        return as_explainer(target)
    if isinstance(target, type) and issubclass(target, captum.attr.Attribution):
        layer = settings.pop("layer", None)
        random = layer is None and from_captum(target).random
        return CaptumMethod(attribution=target, settings=settings, layer=layer, random=random)
    if not isinstance(as_explainer(target), CaptumMethod):
        raise SpecError(f"The explainer '{name}' takes no settings, but got {', '.join(sorted(settings))}.")
    return CaptumMethod(attribution=target, settings=settings)


def from_callable(value: Callable[..., Any]) -> Explainer:
    """A factory if it takes one argument, a function of (model, inputs, targets) if it takes three or more."""
    if not callable(value):
        raise SpecError(f"An explainer is {ACCEPTED}, not {short_repr(value)}.")
    needed = required_arguments(value)
    if needed is None or len(needed) >= 3:
        return Function(function=value)
    if len(needed) == 1:
        return CaptumMethod(attribution=value)
    raise SpecError(f"An explainer is {ACCEPTED}; {short_repr(value)} takes {len(needed)} arguments.")
