"""The explainers of the shap library, as they are or made again for every model.

shap gives one value per feature and output of the model it knows. The values of the explained class are taken.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from veracity.core.component import encode_setting
from veracity.core.errors import InputError, missing_extra
from veracity.core.explainers import BARE, Context, Explainer
from veracity.core.models import View, unwrap
from veracity.core.registry import EXPLAINERS
from veracity.core.spaces import InputSpace
from veracity.explain.foreign import Bound, Foreign
from veracity.explain.passes import Structure
from veracity.explain.shap_calls import (
    ON_TENSORS,
    Values,
    background_of,
    content_of,
    is_one_of,
    least_width,
    quiet_shap,
    values_of,
    width_of,
)
from veracity.explain.shap_outputs import REMAKE, Ambiguous, ExplainedOutput, explained_output, margin_note, of_class
from veracity.explain.wrapper import computed

Kind = Literal["tree", "linear", "kernel", "permutation", "exact", "deep", "gradient"]
CLASSES = {
    **{"tree": "TreeExplainer", "linear": "LinearExplainer", "kernel": "KernelExplainer", "permutation": "PermutationExplainer"},
    **{"exact": "ExactExplainer", "deep": "DeepExplainer", "gradient": "GradientExplainer"},
}
FEW = 8
"""How many rows show which output is explained."""


@dataclass(frozen=True, kw_only=True)
class ShapMethod(Foreign, ABC):
    """Values of shap for the explained class.

    `settings` go to shap's call, such as {"nsamples": 200}. What is `explained` is found in the trial. shap explains each row by itself.
    """

    explained: ExplainedOutput | None = field(default=None, metadata={"spec": False}, compare=False)
    settings: Mapping[str, Any] = field(default_factory=dict)
    hint: ClassVar[str] = "; pass settings of the call as settings={...}"
    rows_apart: ClassVar[bool] = True

    @abstractmethod
    def made_for(self, model: nn.Module) -> Any:
        """shap's explainer for a model."""

    def rows(self, maker: Any, model: nn.Module, inputs: Tensor) -> Any:
        """Rows as shap's explainer takes them: tensors for networks, a DataFrame if the model was fitted on one, else an array."""
        if is_one_of(maker, ON_TENSORS):
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
        maker, explained = self.made_for(model), self.explained_of(model)
        if explained is None:
            self.check_made(maker, model, inputs)
        found = values_of(maker, self.rows(maker, model, inputs), self.settings)
        if explained is None:
            explained = self.found_in(found, maker, model, inputs)
            self.answers[unwrap(model)] = explained
        return of_class(self.name, found.values, inputs, targets, explained)

    @property
    def answers(self) -> WeakKeyDictionary[nn.Module, ExplainedOutput]:
        """Which output is explained, by model."""
        found: WeakKeyDictionary[nn.Module, ExplainedOutput] = self.__dict__.setdefault("_answers", WeakKeyDictionary())
        return found

    def explained_of(self, model: nn.Module) -> ExplainedOutput | None:
        """Which output is explained on this model; None if that is unknown yet."""
        return self.explained

    def check_made(self, maker: Any, model: nn.Module, inputs: Tensor) -> None:
        """Raise if shap's explainer knows another network, or another number of features."""
        own = getattr(getattr(maker, "explainer", None), "model", None)
        if isinstance(own, nn.Module) and unwrap(own) is not unwrap(model):
            raise InputError(f"{self.name} was made for another model than the audited one: {REMAKE}.")
        count = inputs[:1].numel()
        width = width_of(maker) or max(least_width(maker), count)
        if width != count:
            raise InputError(f"{self.name} explains a model of {width} features, but an input has {count}: {REMAKE}.")

    def found_in(self, found: Values, maker: Any, model: nn.Module, inputs: Tensor) -> ExplainedOutput:
        """Which output some values explain; the background of shap's explainer is explained if these rows do not show it."""
        approximate, expected = is_one_of(maker, ON_TENSORS), self.explained or self.answers.get(unwrap(model))

        def answer(values: Values, x: Tensor) -> ExplainedOutput:
            with torch.no_grad():
                scores = model(x)
            return explained_output(self.name, values, scores, x.shape[1:], approximate, expected)

        try:
            return answer(Values(found.values[:FEW], None if found.base is None else found.base[:FEW]), inputs[:FEW])
        except Ambiguous:
            known = background_of(maker)
            if known is None or known.shape[1:] != inputs.shape[1:]:
                raise
            x = torch.as_tensor(known[:FEW]).to(inputs)
            return answer(values_of(maker, self.rows(maker, model, x), self.settings), x)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """As for all foreign code; raises if the values explain another model or class, and notes if they explain a margin."""
        notes = super().check(model, inputs, targets, context)
        explained = self.answers.get(unwrap(model))
        margin = explained is not None and explained.margin
        return (margin_note(self.name, type(self.made_for(model)).__name__), *notes) if margin else tuple(notes)

    def specialise(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Explainer:
        found = super().specialise(model, inputs, targets, context)
        again = replace(found, explained=self.answers.get(unwrap(model), self.explained)) if isinstance(found, ShapMethod) else found
        again.__dict__.update({name: held for name, held in (vars(self) | vars(found)).items() if name in ("_seen", "_content")})
        return again


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
            self.__dict__["_content"] = content_of(self.explainer)
        return {"name": self.name, "content": self.__dict__["_content"], "settings": encode_setting(self.settings), "random": self.random}

    def made_for(self, model: nn.Module) -> Any:
        return self.explainer


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
        if self.explained is None:  # before the trial of an audit, the estimator may still be fitted again
            return self.make(model, fitted)
        made = self.__dict__.setdefault("_made", WeakKeyDictionary())
        if inner not in made:
            made[inner] = self.make(model, fitted)
        return made[inner]

    def explained_of(self, model: nn.Module) -> ExplainedOutput | None:
        """Estimators differ: values of a forest are of every class, and those of a booster are of the second class."""
        if self.kind not in ("tree", "linear"):
            return self.explained
        return None if self.explained is None else self.answers.get(unwrap(model))

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
            fix = "check its background and settings" if self.kind == "kernel" else "use kind='kernel', which takes any model"
            raise InputError(f"shap cannot make a {maker.__name__} for {what}: {reason}; {fix}.") from error


@EXPLAINERS.add
@dataclass(frozen=True, kw_only=True)
class TreeShap(Shap):
    """Exact Shapley values of trees and ensembles of them, by the shap library: scikit-learn's forests, XGBoost, LightGBM."""

    name: ClassVar[str] = "tree_shap"
    reference = "Lundberg et al. 2020, arXiv:1905.04610"
    kind: Kind = "tree"


def on_arrays(model: nn.Module, like: Tensor) -> Callable[[Any], Any]:
    """A model as a function on arrays, as shap calls it."""

    def predict(rows: Any) -> Any:
        with torch.no_grad():
            x = torch.as_tensor(np.asarray(rows, dtype=np.float64)).to(like).reshape(-1, *like.shape[1:])
            return model(x).double().cpu().numpy()

    return predict
