"""The explainers and explanations of the shap library, as they are or made again for every model.

shap gives one value per feature and output of the model it knows. The value of the explained class is taken; a model of two classes
whose shap values have one output, such as the margin of XGBoost, gets them with the sign of the class. What shap explains is found
by its own rule: base value + sum of values = output of the model.
"""

from __future__ import annotations

import inspect
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Size, Tensor, nn

from veracity.core import fingerprint
from veracity.core.component import encode_setting
from veracity.core.errors import InputError, missing_extra
from veracity.core.explainers import BARE, Context, Explainer
from veracity.core.models import View, unwrap
from veracity.core.randomness import gpus_in_use, seeded
from veracity.core.registry import EXPLAINERS
from veracity.core.snapshot import preserve_state
from veracity.core.spaces import InputSpace
from veracity.explain.foreign import Bound, Foreign
from veracity.explain.passes import Structure
from veracity.explain.precomputed import Precomputed, check_columns
from veracity.explain.wrapper import computed

Kind = Literal["tree", "linear", "kernel", "permutation", "exact", "deep", "gradient"]
CLASSES = {
    **{"tree": "TreeExplainer", "linear": "LinearExplainer", "kernel": "KernelExplainer", "permutation": "PermutationExplainer"},
    **{"exact": "ExactExplainer", "deep": "DeepExplainer", "gradient": "GradientExplainer"},
}
BY_METHOD = ("TreeExplainer", "LinearExplainer", "KernelExplainer", "DeepExplainer", "GradientExplainer")
"""Explainers that are called by `shap_values`; the others are called themselves."""
ON_TENSORS = ("DeepExplainer", "GradientExplainer")
CLOSE = 1e-2
"""How far base value + sum may be from the model's output, as a share of the largest."""
CONTENT = (
    *("model.children_left", "model.children_right", "model.features", "model.thresholds", "model.values", "model.node_sample_weight"),
    *("model.base_offset", "model.model_output", "model.inner_model", "model.f", "explainer.model", "explainer.data", "data.data"),
    *("data.weights", "masker.data", "coef", "intercept", "mean", "link", "feature_perturbation", "model_output", "seed"),
)
"""What a shap explainer's values depend on; the rest changes with use."""


class Values(NamedTuple):
    """shap values (N, ..., outputs) and base values (N, outputs); the base is None if the method has none."""

    values: Tensor
    base: Tensor | None


class Reading(NamedTuple):
    """Which class one column of values explains, and whether it explains the margin of a probability.

    only  of three classes and more, the classes whose scores the values explain; values of one class say nothing of another
    """

    column: int | None
    margin: bool
    only: tuple[int, ...] = ()


def is_shap(value: Any) -> bool:
    """Whether a value is an explainer object of shap."""
    kinds = [f"{kind.__module__}.{kind.__name__}" for kind in type(value).__mro__]
    return not isinstance(value, type) and any(kind.startswith("shap.") and kind.endswith("Explainer") for kind in kinds)


def is_explanation(value: Any) -> bool:
    """Whether a value is an `Explanation` of shap."""
    return type(value).__name__ == "Explanation" and type(value).__module__.startswith("shap.")


@dataclass(frozen=True, kw_only=True)
class ShapMethod(Foreign, ABC):
    """Values of shap for the explained class.

    `settings` go to shap's call, such as {"nsamples": 200}. `reading` is found in the trial.
    """

    reading: Reading | None = field(default=None, metadata={"spec": False}, compare=False)
    settings: Mapping[str, Any] = field(default_factory=dict)
    hint: ClassVar[str] = "; pass settings of the call as settings={...}"

    @abstractmethod
    def made_for(self, model: nn.Module) -> Any:
        """shap's explainer for a model."""

    def rows(self, maker: Any, model: nn.Module, inputs: Tensor) -> Any:
        """Rows as shap's explainer takes them: tensors for networks, a DataFrame if the model was fitted on one, else an array."""
        if type(maker).__name__ in ON_TENSORS:
            return inputs
        from veracity.inputs.columns import FrameModel

        arrays = inputs.detach().cpu().numpy()
        view: Any = model
        while isinstance(view, View):
            if isinstance(view, FrameModel):
                return view.columns.decode(arrays, view.order)
            view = view.model
        return arrays

    def call(self, model: nn.Module, inputs: Tensor, targets: Tensor, structure: Structure) -> Any:
        maker = self.made_for(model)
        found = values_of(maker, self.rows(maker, model, inputs), self.settings)
        return of_class(self.name, found.values, inputs, targets, self.reading_for(model, inputs))

    def reading_for(self, model: nn.Module, inputs: Tensor) -> Reading | None:
        """What the values explain on this model, as the trial found."""
        return self.reading

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """As for all foreign code; raises if the values explain another model or class, and notes if they explain a margin."""
        reading, kind = self.read(model, inputs), type(self.made_for(model)).__name__
        notes = [margin_note(self.name, kind)] if reading.margin else []
        return (*notes, *super().check(model, inputs, targets, context))

    def specialise(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Explainer:
        found = super().specialise(model, inputs, targets, context)
        return replace(found, reading=self.read(model, inputs)) if isinstance(found, ShapMethod) else found

    def attempt(self, model: nn.Module, inputs: Tensor, targets: Tensor, seed: int, context: Context) -> Tensor:
        if self.reading is None:
            return replace(self, reading=self.read(model, inputs)).attempt(model, inputs, targets, seed, context)
        return super().attempt(model, inputs, targets, seed, context)

    def read(self, model: nn.Module, inputs: Tensor) -> Reading:
        """What the values explain, from one row."""
        held = self.__dict__.get("_reading")
        if held is not None and held[0] is model:
            found: Reading = held[1]
            return found
        maker, x = self.made_for(model), inputs[:1].detach()
        own = getattr(getattr(maker, "explainer", None), "model", None)
        if isinstance(own, nn.Module) and unwrap(own) is not unwrap(model):
            raise InputError(f"{self.name} was made for another model than the audited one: {REMAKE}.")
        width = width_of(maker) or max(least_width(maker), x.numel())
        if width != x.numel():
            raise InputError(f"{self.name} explains a model of {width} features, but an input has {x.numel()}: {REMAKE}.")
        try:
            with seeded(0, gpus_in_use()), torch.enable_grad(), preserve_state(model):
                values = values_of(maker, self.rows(maker, model, x), self.settings)
        except Exception as error:
            reason = " ".join(str(error).split())[:300]
            raise InputError(f"{self.name} failed on an input with {type(error).__name__}: {reason}{self.hint}") from error
        with torch.no_grad():
            scores = model(x)
        result = what_is_explained(self.name, values, scores, x.shape[1:], approximate=type(maker).__name__ in ON_TENSORS)
        self.__dict__["_reading"] = (model, result)
        return result


REMAKE = "make it for this model, or pass Shap(kind=...), which makes it for every model"


@dataclass(frozen=True, kw_only=True)
class ShapObject(ShapMethod, Bound):
    """An explainer of shap that was made for one fitted model: `shap.TreeExplainer(forest)`."""

    name: ClassVar[str] = computed(lambda self: self.label or f"shap.{type(self.explainer).__name__}")
    explainer: Any

    @property
    def instead(self) -> str:
        kind = next((kind for kind, name in CLASSES.items() if name == type(self.explainer).__name__), "kernel")
        return f"pass veracity.explain.Shap(kind='{kind}'), or a function (model, inputs, targets) that makes it for each model"

    def spec(self) -> dict[str, Any]:
        if "_content" not in self.__dict__:  # a forest takes a while to hash
            parts = [(path, found) for path in CONTENT if (found := follow(self.explainer, path)) is not None]
            self.__dict__["_content"] = fingerprint.of_value((type(self.explainer), parts))
        return {"name": self.name, "content": self.__dict__["_content"], "settings": encode_setting(self.settings), "random": self.random}

    def made_for(self, model: nn.Module) -> Any:
        return self.explainer


MADE: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
"""The explainers of fitted estimators, which take long to make."""


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class Shap(ShapMethod):
    """A method of the shap library, made for every model: `kind` is tree, linear, kernel, permutation, exact, deep or gradient.

    `background` (B, ...) stands for the features that are absent: the audit's reference set by default. Trees need none.
    """

    name: ClassVar[str] = "shap"
    reference = "Lundberg and Lee 2017, arXiv:1705.07874"
    kind: Kind = "kernel"
    background: Tensor | None = None

    def bind(self, reference: Tensor | None = None, space: InputSpace | None = None) -> Shap:
        return replace(self, background=reference) if self.background is None and reference is not None else self

    def made_for(self, model: nn.Module) -> Any:
        inner = unwrap(model)
        fitted = getattr(inner, "estimator", getattr(inner, "booster", None))
        if self.kind not in ("tree", "linear"):
            return self.make(model, fitted)
        if fitted is None:
            raise InputError(
                f"{self.name} of kind '{self.kind}' explains fitted estimators, not {type(inner).__name__}: use kind='kernel', "
                "'deep' or 'gradient'."
            )
        made, key = MADE.setdefault(fitted, {}), fingerprint.of_json(self.spec())
        if key not in made:
            made[key] = self.make(model, fitted)
        return made[key]

    def reading_for(self, model: nn.Module, inputs: Tensor) -> Reading | None:
        """Estimators differ: values of a forest are of every class, and those of a booster are of the second class."""
        return self.read(model, inputs) if self.kind in ("tree", "linear") else self.reading

    def rows(self, maker: Any, model: nn.Module, inputs: Tensor) -> Any:
        on_model = self.kind in ("kernel", "permutation", "exact")  # these call the view itself, which takes numbers
        return inputs.detach().cpu().numpy() if on_model else super().rows(maker, model, inputs)

    def make(self, model: nn.Module, fitted: Any) -> Any:
        """shap's explainer of this kind."""
        try:
            import shap
        except ImportError as error:
            raise missing_extra("shap", "shap") from error
        maker: Callable[..., Any] = getattr(shap, CLASSES[self.kind], None) or getattr(shap.explainers, CLASSES[self.kind])
        if self.kind == "tree":
            return self.attempt_to_make(maker, fitted)
        if self.background is None:
            raise InputError(f"{self.name} of kind '{self.kind}' needs a background: pass Shap(background=...) or Audit(reference=...).")
        if self.kind in ("deep", "gradient"):
            return self.attempt_to_make(maker, model, self.background)
        rows = self.background.detach().cpu().numpy()
        return self.attempt_to_make(maker, fitted if self.kind == "linear" else on_arrays(model, self.background), rows)

    def attempt_to_make(self, maker: Callable[..., Any], *given: Any) -> Any:
        """shap's explainer; raises one sentence if shap cannot make it for this model."""
        try:
            with quiet_shap():
                return maker(*given)
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            what = type(given[0]).__name__
            raise InputError(
                f"shap cannot make a {maker.__name__} for {what}: {reason}; use kind='kernel', which takes any model."
            ) from error


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class TreeShap(Shap):
    """Exact Shapley values of trees and ensembles of them, by the shap library: scikit-learn's forests, XGBoost, LightGBM."""

    name: ClassVar[str] = "tree_shap"
    reference = "Lundberg et al. 2020, arXiv:1905.04610"
    kind: Kind = "tree"


@dataclass(frozen=True, kw_only=True)
class GivenShap(Precomputed):
    """A `shap.Explanation`: values (samples, ..., classes) that were computed already, with the inputs they belong to."""

    name = "shap.Explanation"
    base: Tensor | None = None
    data: Tensor | None = None
    features: tuple[str, ...] | None = None
    shape: tuple[int, ...] = ()
    reading: Reading | None = field(default=None, metadata={"spec": False}, compare=False)

    @classmethod
    def of(cls, explanation: Any) -> GivenShap:
        """From shap's object."""
        values = torch.as_tensor(np.array(explanation.values, dtype=np.float64))
        data, base = explanation.data, explanation.base_values
        numbers = np.asarray(data) if data is not None else None
        kept = None if numbers is None or numbers.dtype.kind not in "fiub" else torch.as_tensor(np.array(numbers, dtype=np.float64))
        shape = tuple(values.shape[1:] if numbers is None else numbers.shape[1:])
        names = explanation.feature_names
        features = tuple(str(name) for name in names) if names is not None and len(shape) == 1 and len(names) == shape[0] else None
        start = None if base is None else torch.as_tensor(np.array(base, dtype=np.float64))
        return cls(maps=values, base=start, data=kept, features=features, shape=shape)

    def prepare(self, inputs: Tensor) -> GivenShap:
        """Raises if the values belong to other inputs, or to these in another order."""
        values = self.given
        if len(values) != len(inputs):
            raise InputError(
                f"The shap.Explanation has values for {len(values)} inputs, but there are {len(inputs)}: give one for each input, "
                "in their order."
            )
        if self.data is not None and self.data.shape == inputs.shape:
            near = torch.isclose(self.data.to(inputs.device), inputs.double(), rtol=1e-4, atol=1e-6).flatten(1).all(1)
            if not bool(near.all()):
                row = int((~near).nonzero()[0])
                raise InputError(
                    f"Sample {row} of the shap.Explanation is not sample {row} of the inputs (its .data differs): give the values in "
                    "the order of the inputs."
                )
        shape = tuple(inputs.shape[1:])
        if tuple(values.shape[1 : 1 + len(shape)]) != shape or values.ndim > len(shape) + 2:
            raise InputError(
                f"The shap.Explanation has values of shape {tuple(values.shape[1:])} each, but an input has shape {shape}: "
                "explain these inputs."
            )
        return replace(self, shape=shape)

    def spread(self, maps: Tensor, shape: Size) -> Tensor:
        return maps

    def check_order(self, names: Sequence[str] | None, index: Sequence[Any] | None) -> None:
        if self.features is not None:
            check_columns(self.features, names)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        reading = self.read(model, inputs, context.structure)
        notes = [margin_note("The shap.Explanation", "shap")] if reading.margin else []
        of_class(self.name, self.given[: len(inputs)], inputs, targets, reading)
        return notes if bool(torch.isfinite(self.given).all()) else [*notes, "The shap.Explanation contains NaN or infinity."]

    def specialise(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> GivenShap:
        return replace(self, reading=self.read(model, inputs, context.structure))

    def read(self, model: nn.Module, inputs: Tensor, structure: Structure) -> Reading:
        """What the values explain, from the first rows."""
        rows = len(inputs)
        values = self.given[:rows]
        outputs = values.shape[-1] if values.ndim > inputs.ndim else 1
        base = (
            None
            if self.base is None
            else per_row(self.base[:rows] if self.base.ndim and len(self.base) == len(self.given) else self.base, rows, outputs)
        )
        with torch.no_grad():
            scores = model(inputs, *structure)
        return what_is_explained("The shap.Explanation", Values(values, base), scores, inputs.shape[1:])

    def maps_for(self, model: str, samples: Tensor, targets: Tensor) -> Tensor:
        values = self.given[samples]
        like = torch.empty(len(samples), *self.shape, dtype=values.dtype)
        found: Tensor = of_class(self.name, values, like, targets, self.reading)
        return found


def values_of(explainer: Any, x: Any, settings: Mapping[str, Any]) -> Values:
    """The values that shap gives for some rows, in one call."""
    method = explainer.shap_values if type(explainer).__name__ in BY_METHOD else explainer
    known = inspect.signature(method).parameters
    given = {"check_additivity": False} if "check_additivity" in known else {}
    given |= {"silent": True} if "silent" in known or type(explainer).__name__ == "KernelExplainer" else {}
    with quiet_shap():
        found = method(x, **{**given, **settings})
    base = getattr(found, "base_values", None)
    base = getattr(explainer, "expected_value", None) if base is None else base
    values = getattr(found, "values", found)
    stacked = np.stack(values, axis=-1) if isinstance(values, list) else np.asarray(values)
    tensor = torch.as_tensor(np.array(stacked, dtype=np.float64))
    rows = len(x)
    outputs = tensor.shape[-1] if tensor.ndim > len(x.shape) else 1
    return Values(tensor, None if base is None else per_row(torch.as_tensor(np.array(base, dtype=np.float64)), rows, outputs))


def per_row(base: Tensor, rows: int, outputs: int) -> Tensor:
    """Base values as (rows, outputs), from one number, one per output, or one per row."""
    if base.ndim == 1 and outputs == 1 and len(base) == rows:
        return base.reshape(rows, 1)
    return base.reshape(-1, outputs).expand(rows, outputs)


def of_class(name: str, values: Tensor, inputs: Tensor, targets: Tensor, reading: Reading | None) -> Tensor:
    """The values of each row's class, in the inputs' shape."""
    targets = targets.to(values.device)
    if reading is not None and reading.only and not any(bool(targets.eq(one).all()) for one in reading.only):
        other = next(int(one) for one in targets if int(one) != reading.only[0])
        raise InputError(
            f"{name} explains class {reading.only[0]} only, and class {other} is explained: explain all classes, or pass "
            f"target={reading.only[0]}."
        )
    if values.shape == inputs.shape and (reading is None or reading.column is None):
        return values
    if values.shape == inputs.shape and reading is not None:
        rows = (-1, *[1] * (inputs.ndim - 1))
        return values * torch.where(targets.eq(reading.column or 0), 1.0, -1.0).to(values).reshape(rows)
    if values.ndim == inputs.ndim + 1 and values.shape[:-1] == inputs.shape:
        if values.shape[-1] == 1:
            return values.squeeze(-1)
        if int(targets.max()) >= values.shape[-1]:
            raise InputError(
                f"{name} has values for {values.shape[-1]} classes, but class {int(targets.max())} is explained: explain the audited model."
            )
        picked = values.gather(-1, targets.reshape(-1, *[1] * inputs.ndim).expand(*inputs.shape, 1))
        return picked.squeeze(-1)
    raise InputError(
        f"{name} gives values of shape {tuple(values.shape)} for inputs of shape {tuple(inputs.shape)}, expected these axes and at "
        "most one for the classes; values of interactions are not summed."
    )


def what_is_explained(name: str, found: Values, scores: Tensor, shape: Size, approximate: bool = False) -> Reading:
    """Which of the scores (N, K) the values explain; raises if it is none, since they are of another model or class then.

    Approximate methods have no rule that their values must follow, so only the number of outputs is compared.
    """
    count = scores.shape[1] if scores.ndim > 1 else 1
    scores = scores.detach().double().cpu().reshape(len(scores), count)
    outputs = found.values.shape[-1] if found.values.ndim > len(shape) + 1 else 1
    if outputs not in (1, count):
        raise InputError(f"{name} explains {outputs} outputs, but the audited model has {count}: {REMAKE}.")
    one_of_several = outputs == 1 and count > 1
    if found.base is None or approximate:
        if one_of_several and count > 2:
            raise InputError(f"{name} explains one output of {count} and does not say which: explain all classes.")
        return Reading(1 if one_of_several else None, margin=False)
    total = found.base + found.values.reshape(len(scores), -1, outputs).sum(1)
    if outputs == count:
        links: list[Callable[[Tensor], Tensor]] = [lambda t: t, torch.sigmoid if count == 1 else lambda t: t.softmax(1)]
        for margin, link in enumerate(links):
            if close(link(total), scores):
                return Reading(None, margin=bool(margin))
        raise InputError(
            f"{name} explains another model than the audited one: base value + sum of values is {shown(total)}, the model's output "
            f"{shown(scores)}; {REMAKE}."
        )
    order = [1, 0] if count == 2 else list(range(count))
    for link, margin in ((lambda t: t, False), (torch.sigmoid, True)):
        column = next((at for at in order if close(link(total[:, 0]), scores[:, at])), None)
        if column is not None and count == 2:
            return Reading(column, margin)
        if column is not None:
            return Reading(None, margin, tuple(at for at in order if close(link(total[:, 0]), scores[:, at])))
    raise InputError(
        f"{name} explains another model or class than the audited one: base value + sum of values is {shown(total)}, "
        f"the model's outputs are {shown(scores)}; {REMAKE}."
    )


def close(one: Tensor, other: Tensor) -> bool:
    """Whether two outputs agree up to the accuracy of shap."""
    return bool((one - other).abs().max() <= CLOSE * max(float(other.abs().max()), float(one.abs().max()), 1e-9))


def shown(values: Tensor) -> str:
    """The first row of some outputs, for a message."""
    row = ", ".join(f"{value:.3g}" for value in values.reshape(len(values), -1)[0, :4].tolist())
    return row if values.reshape(len(values), -1).shape[1] == 1 else f"({row}{', ...' if values.shape[1] > 4 else ''})"


def margin_note(name: str, kind: str) -> str:
    """The note for values of log-odds beside a model of probabilities."""
    fix = ": pass model_output='probability' and a background to shap.TreeExplainer for probabilities" if kind == "TreeExplainer" else ""
    return f"{name} explains the margin (log-odds), while the audited model gives probabilities{fix}."


def on_arrays(model: nn.Module, like: Tensor) -> Callable[[Any], Any]:
    """A model as a function on arrays, as shap calls it."""

    def predict(rows: Any) -> Any:
        with torch.no_grad():
            x = torch.as_tensor(np.asarray(rows, dtype=np.float64)).to(like).reshape(-1, *like.shape[1:])
            return model(x).double().cpu().numpy()

    return predict


def width_of(explainer: Any) -> int | None:
    """The number of features that an explainer knows, from its background or its coefficients."""
    for path in ("data.data", "masker.data", "mean"):
        found = follow(explainer, path)
        if isinstance(found, np.ndarray) and found.ndim in (1, 2):
            return int(found.shape[-1])
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
