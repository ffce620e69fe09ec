"""Turns what people write into an explainer: objects, names, settings, import paths, Captum classes, functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import captum.attr
import numpy as np
from torch import Tensor

from veracity.core.errors import SpecError
from veracity.core.explainers import Explainer
from veracity.core.registry import EXPLAINERS, import_object
from veracity.core.settings import short_repr
from veracity.explain.foreign import CaptumMethod, Function
from veracity.explain.precomputed import Precomputed

ACCEPTED = (
    "an Explainer, a name, a table with a name, 'module:attribute', a Captum Attribution class, "
    "a factory model -> Attribution, a function (model, inputs, targets) -> attributions or a tensor of explanations made elsewhere"
)
RANDOM = (
    captum.attr.FeaturePermutation,
    captum.attr.GradientShap,
    captum.attr.KernelShap,
    captum.attr.LimeBase,
    captum.attr.NoiseTunnel,
    captum.attr.ShapleyValueSampling,
)


def as_explainer(value: Any) -> Explainer:
    """An explainer from an object, a name, a table of settings, a Captum class, a function or a tensor of maps.

    >>> as_explainer("saliency").name, as_explainer(captum.attr.LRP).name, as_explainer({"name": "lime", "patch": 2}).patch
    ('saliency', 'lrp', 2)
    """
    if isinstance(value, Explainer):
        return value
    if isinstance(value, str):
        return as_explainer({"name": value})
    if isinstance(value, Mapping):
        return from_table(value)
    if isinstance(value, (Tensor, np.ndarray)):
        return Precomputed(maps=value)  # type: ignore[arg-type]
    if isinstance(value, type) and issubclass(value, Explainer):
        return value()
    if isinstance(value, type) and issubclass(value, captum.attr.Attribution):
        return from_captum(value)
    if isinstance(value, captum.attr.Attribution):
        raise SpecError(f"An explainer must fit any model: pass the class {type(value).__name__}, not an instance made for one model.")
    if callable(value):
        return from_callable(value)
    raise SpecError(f"An explainer is {ACCEPTED}, not {short_repr(value)}.")


def from_table(table: Mapping[str, Any]) -> Explainer:
    """A registered explainer from {name, settings}; a foreign one from {name: import path} or from its own spec."""
    settings = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    for kind in ("attribution", "function"):
        if kind in settings:
            return from_foreign_spec(kind, settings)
    name = settings.pop("name", None)
    if not isinstance(name, str) or ":" not in name:
        built: Explainer = EXPLAINERS.build(table)
        return built
    target = import_object(name)
    if isinstance(target, type) and issubclass(target, Explainer):
        return target(**settings)
    if not settings:
        return as_explainer(target)
    explainer = as_explainer(target)
    if not isinstance(explainer, CaptumMethod):
        raise SpecError(f"The explainer '{name}' takes no settings, but got {', '.join(sorted(settings))}.")
    return CaptumMethod(attribution=target, settings=settings, random=explainer.random)


def from_foreign_spec(kind: str, table: Mapping[str, Any]) -> Explainer:
    """A foreign explainer from {name, attribution: path, ...} or {name, function: path, ...}."""
    settings = dict(table)
    label, path = settings.pop("name", ""), settings.pop(kind)
    path = path.get("import") if isinstance(path, Mapping) else path
    target = import_object(path) if isinstance(path, str) else path
    explainer = CaptumMethod if kind == "attribution" else Function
    return explainer(**{kind: target, "label": label, **settings})


def from_captum(value: type) -> CaptumMethod:
    """A Captum class; raises unless it explains the input and needs only a model."""
    if issubclass(value, (captum.attr.LayerAttribution, captum.attr.NeuronAttribution)):
        raise SpecError(f"{value.__name__} explains a layer or a neuron, not the input: use an attribution of the input.")
    needed = required_arguments(value) or []
    if len(needed) > 1 or issubclass(value, captum.attr.NoiseTunnel):
        raise SpecError(
            f"{value.__name__} needs more than a model ({', '.join(needed)}): pass a factory, "
            f"such as lambda model: captum.attr.{value.__name__}(...)."
        )
    return CaptumMethod(attribution=value, random=issubclass(value, RANDOM))


def from_callable(value: Callable[..., Any]) -> Explainer:
    """A factory if it takes one argument, a function of (model, inputs, targets) if it takes three."""
    needed = required_arguments(value)
    if needed is None or len(needed) == 3:
        return Function(function=value)
    if len(needed) == 1:
        return CaptumMethod(attribution=value)
    raise SpecError(f"An explainer is {ACCEPTED}; {short_repr(value)} takes {len(needed)} arguments.")


def required_arguments(value: Callable[..., Any]) -> list[str] | None:
    """The required positional arguments; None if they are unknown or any number is accepted."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return None
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in positional and parameter.default is parameter.empty]
