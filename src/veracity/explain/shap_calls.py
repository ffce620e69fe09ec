"""Objects of the shap library: which they are, what they know, and how they are called without a word on the screen."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veracity.core import fingerprint
from veracity.core.errors import InputError

BY_METHOD = ("TreeExplainer", "LinearExplainer", "KernelExplainer", "DeepExplainer", "GradientExplainer")
"""Explainers that are called by `shap_values`, and so are classes derived from them; the others are called themselves."""
ON_TENSORS = ("DeepExplainer", "GradientExplainer")
CONTENT = (
    *("model.children_left", "model.children_right", "model.features", "model.thresholds", "model.values", "model.node_sample_weight"),
    *("model.base_offset", "model.model_output", "model.inner_model", "model.f", "explainer.model", "explainer.data", "data.data"),
    *("explainer.local_smoothing", "data.groups", "data.group_names", "linearize_link"),
    *("data.weights", "coef", "intercept", "mean", "link", "feature_perturbation", "model_output", "seed"),
)
"""What a shap explainer's values depend on, beside its masker; the rest changes with use."""


class Values(NamedTuple):
    """shap values (N, ..., outputs) and base values (N, outputs); the base is None if the method has none."""

    values: Tensor
    base: Tensor | None


def is_shap(value: Any) -> bool:
    """Whether a value is an explainer object of shap."""
    kinds = [f"{kind.__module__}.{kind.__name__}" for kind in type(value).__mro__]
    return not isinstance(value, type) and any(kind.startswith("shap.") and kind.endswith("Explainer") for kind in kinds)


def is_explanation(value: Any) -> bool:
    """Whether a value is an `Explanation` of shap."""
    return type(value).__name__ == "Explanation" and type(value).__module__.startswith("shap.")


def is_one_of(explainer: Any, names: tuple[str, ...]) -> bool:
    """Whether an explainer is of one of shap's classes, or of a class derived from one."""
    return any(kind.__name__ in names for kind in type(explainer).__mro__)


def values_of(explainer: Any, x: Any, settings: Mapping[str, Any]) -> Values:
    """The values that shap gives for some rows, in one call."""
    method = explainer.shap_values if is_one_of(explainer, BY_METHOD) else explainer
    known = inspect.signature(method).parameters
    given = {"check_additivity": False} if "check_additivity" in known else {}
    given |= {"silent": True} if "silent" in known or is_one_of(explainer, ("KernelExplainer",)) else {}
    with quiet_shap():
        found = method(x, **{**given, **settings})
    base = getattr(found, "base_values", None)
    base = getattr(explainer, "expected_value", None) if base is None else base
    values = getattr(found, "values", found)
    stacked = np.stack(values, axis=-1) if isinstance(values, list) else np.asarray(values)
    tensor = torch.as_tensor(np.array(stacked, dtype=np.float64))
    outputs = tensor.shape[-1] if tensor.ndim > len(x.shape) else 1
    return Values(tensor, None if base is None else per_row(torch.as_tensor(np.array(base, dtype=np.float64)), len(x), outputs))


def per_row(base: Tensor, rows: int, outputs: int) -> Tensor:
    """Base values as (rows, outputs), from one number, one per output, or one per row and output; raises on any other number."""
    if base.numel() == 1:
        return base.reshape(1, 1).expand(rows, outputs)
    if base.numel() not in (outputs, rows * outputs):
        raise InputError(
            f"shap has {base.numel()} base values for values of {outputs} output{'s' if outputs > 1 else ''} and {rows} samples: give one "
            "for each output, such as base_values=explainer.expected_value[1] for class 1."
        )
    return base.reshape(-1, outputs).expand(rows, outputs)


def content_of(explainer: Any) -> str:
    """A hash of everything that an explainer's values depend on."""
    parts = [(path, found) for path in CONTENT if (found := follow(explainer, path)) is not None]
    return fingerprint.of_value((type(explainer), parts, masker_settings(getattr(explainer, "masker", None))))


def masker_settings(masker: Any) -> Any:
    """What a masker hides features by: its data, clustering, samples and so on, without what it remembers of its last call.

    Of a clustering (features - 1, 4), the merges count: shap adds noise to the distances.
    """
    if not hasattr(masker, "__dict__"):
        return masker
    kept = {name: held for name, held in sorted(vars(masker).items()) if not name.startswith(("_", "last_"))}
    if "masker" in kept:
        kept["masker"] = masker_settings(kept["masker"])
    if isinstance(kept.get("clustering"), np.ndarray) and kept["clustering"].ndim == 2:
        kept["clustering"] = kept["clustering"][:, :2].copy()
    return type(masker), kept


def background_of(explainer: Any) -> NDArray[Any] | None:
    """The rows (B, features) that stand for absent features; None if there are none, or none of numbers."""
    for path in ("data.data", "masker.data"):
        found = follow(explainer, path)
        if isinstance(found, np.ndarray) and found.ndim == 2 and found.dtype.kind in "fiub":
            return found
    return None


def width_of(explainer: Any) -> int | None:
    """The number of features that an explainer knows, from its background or its coefficients."""
    known = background_of(explainer)
    means = follow(explainer, "mean") if known is None else known
    if isinstance(means, np.ndarray) and means.ndim in (1, 2):
        return int(means.shape[-1])
    width = getattr(follow(explainer, "model.original_model"), "n_features_in_", None)
    return int(width) if width is not None else None


def least_width(explainer: Any) -> int:
    """The number of features that trees look at: shap reads memory that is not its own if an input has fewer."""
    features = follow(explainer, "model.features")
    return int(features.max()) + 1 if isinstance(features, np.ndarray) and features.size else 0


def follow(value: Any, path: str) -> Any:
    """The attribute at a dotted path; None if there is none."""
    for part in path.split("."):
        value = getattr(value, "__dict__", {}).get(part)
    return value


@contextmanager
def quiet_shap() -> Iterator[None]:
    """Without shap's log of background sizes and its warning about an older version."""
    logger = logging.getLogger("shap")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="LightGBM binary classifier")
            yield
    finally:
        logger.setLevel(level)
