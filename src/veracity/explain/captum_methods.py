"""Captum's methods with their settings: of the input, of a layer by its name, and objects that were made for a model.

A layer's attributions become a map over the input: channels are summed and positions are interpolated (`LayerAttribution.interpolate`).
For texts, everything but the tokens is summed, and the tokens of a word are added up.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import captum.attr
import torch
from torch import Tensor, nn

from veracity.core.errors import InputError, SpecError
from veracity.core.explainers import BARE, Context
from veracity.core.models import View, layer_of, unwrap, word_embedding
from veracity.explain.deep_lift import DeepLift
from veracity.explain.foreign import Foreign, display_name
from veracity.explain.passes import Structure
from veracity.explain.wrapper import computed

RANDOM = (
    *(captum.attr.FeaturePermutation, captum.attr.GradientShap, captum.attr.KernelShap, captum.attr.LimeBase),
    *(captum.attr.NoiseTunnel, captum.attr.ShapleyValueSampling),
)
ONE_BY_ONE = (captum.attr.FeatureAblation, captum.attr.Occlusion, captum.attr.ShapleyValueSampling, captum.attr.ShapleyValues)
"""Methods that make one pass for each perturbation, unless `perturbations_per_eval` says how many go together."""
INTERPOLATION = {1: "linear", 2: "bilinear", 3: "trilinear"}


@dataclass(frozen=True, kw_only=True)
class CaptumMethod(Foreign):
    """A Captum `Attribution` class, or a factory model -> Attribution, with settings for its `attribute` method.

    `layer` names a layer for methods that need one, such as LayerGradCam and GuidedGradCam. Methods of a layer on texts explain the
    word embedding if no layer is named.
    """

    name: ClassVar[str] = computed(lambda self: self.label or display_name(getattr(self.attribution, "kind", self.attribution)))
    structured: ClassVar[bool] = True
    hint = "; pass settings as CaptumMethod(attribution=..., settings={...})"
    attribution: Callable[..., Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    layer: str | None = None

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """As for all foreign code; for Captum's DeepLift also the steps without a rule."""
        if isinstance(self.attribution, Remade):
            self.attribution.check(model)
        notes = DeepLift().check(model, inputs, targets, context) if self.attribution is captum.attr.DeepLift else ()
        return (*notes, *super().check(model, inputs, targets, context))

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """As for all foreign code; as many perturbations go through the model together as a batch has room for."""
        room = context.batch // max(1, min(len(inputs), context.batch // max(1, self.forward)))
        if room < 2 or self.attribution not in ONE_BY_ONE or "perturbations_per_eval" in self.settings:
            return super().explain(model, inputs, targets, context)
        together = replace(self, settings={**self.settings, "perturbations_per_eval": room})
        return Foreign.explain(together, model, inputs, targets, context)

    def call(self, model: nn.Module, inputs: Tensor, targets: Tensor, structure: Structure) -> Any:
        settings = {key: value.to(inputs.device) if isinstance(value, Tensor) else value for key, value in self.settings.items()}
        kind = getattr(self.attribution, "kind", self.attribution)
        of_layer = isinstance(kind, type) and issubclass(kind, captum.attr.LayerAttribution)
        text = gated_text(model) if of_layer and structure else None
        if text is not None:
            return self.of_tokens(model, text, inputs, targets, structure, settings)
        method = self.make(model)
        if isinstance(method, captum.attr.NeuronAttribution):
            raise InputError(f"{self.name} explains a neuron, not the input: use an attribution of the input or of a layer.")
        if not hasattr(method, "attribute"):
            raise InputError(f"{self.name} must make a Captum Attribution from a model, but returned {type(method).__name__}.")
        if structure:
            settings["additional_forward_args"] = structure
        found = attribute(method, inputs.requires_grad_(), targets, settings)
        return self.over_input(found, inputs) if isinstance(method, captum.attr.LayerAttribution) else found

    def make(self, model: nn.Module) -> Any:
        """Captum's method for a model, with the layer of that model."""
        if self.layer is not None:
            return self.attribution(model, layer_of(model, self.layer))
        if isinstance(self.attribution, type) and len(required_arguments(self.attribution) or ()) > 1:
            last = [name for name, _ in unwrap(model).named_modules() if name][-1:] or ["..."]
            raise InputError(f"{self.name} needs a layer: pass CaptumMethod(attribution=..., layer='{last[0]}').")
        return self.attribution(model)

    def over_input(self, found: Any, inputs: Tensor) -> Tensor:
        """A layer's attributions as a map over the input's positions, (N, 1, ...); those of the input's shape stay."""
        if not isinstance(found, Tensor):
            layer = "its layer" if self.layer is None else f"the layer '{self.layer}'"
            raise InputError(f"{self.name} returned {type(found).__name__} for {layer}, not one tensor: choose another layer.")
        if found.shape == inputs.shape:
            return found
        if found.ndim != inputs.ndim or found.ndim not in (3, 4, 5):
            raise InputError(
                f"{self.name} gives attributions of a layer, of shape {tuple(found.shape[1:])}, which have no place in an input of shape "
                f"{tuple(inputs.shape[1:])}: choose a layer with the input's axes, such as a convolution."
            )
        size = tuple(inputs.shape[2:])
        summed = found.sum(1, keepdim=True)
        return captum.attr.LayerAttribution.interpolate(summed, size, INTERPOLATION[len(size)]) if summed.shape[2:] != size else summed

    def of_tokens(
        self, model: nn.Module, text: Any, gates: Tensor, targets: Tensor, structure: Structure, settings: dict[str, Any]
    ) -> Tensor:
        """Attributions of a layer on texts, one per gate (N, U).

        The method sees the tokens as its input, so its baseline is the text of baseline tokens. Gates below 1 act behind the layer.
        """
        ids, units, *carried = structure

        def forward(tokens: Tensor, strength: Tensor, *rest: Tensor) -> Any:
            return model(strength, tokens, *rest)

        if isinstance(self.attribution, Remade):
            method = self.attribution(model, forward)
        else:
            method = self.attribution(forward, layer_of(model, self.layer) if self.layer is not None else word_embedding(text.model))
        if "baselines" in inspect.signature(method.attribute).parameters:
            settings.setdefault("baselines", torch.where(units < 0, ids, text.baseline))
        settings["additional_forward_args"] = (gates, units, *carried)
        found = attribute(method, ids, targets, settings)
        if not isinstance(found, Tensor) or found.shape[:2] != ids.shape:
            raise InputError(
                f"{self.name} gives no attributions per token for {'its layer' if self.layer is None else repr(self.layer)}: choose a "
                "layer that returns (N, tokens, ...)."
            )
        tokens = found.flatten(2).sum(2) if found.ndim > 2 else found
        return torch.zeros_like(gates).scatter_add_(1, units.clamp(min=0), torch.where(units < 0, 0.0, tokens).to(gates))


def attribute(method: Any, inputs: Tensor, targets: Tensor, settings: Mapping[str, Any]) -> Any:
    """What `attribute` gives; some methods of a layer, such as LayerActivation, take no target."""
    known = inspect.signature(method.attribute).parameters.values()
    given = {"target": targets} if any(one.name == "target" or one.kind is one.VAR_KEYWORD for one in known) else {}
    return method.attribute(inputs, **given, **settings)


def gated_text(model: nn.Module) -> Any:
    """The view of a text model whose tokens have gates; None for other models."""
    from veracity.inputs.text import GatedText

    while isinstance(model, View) and not isinstance(model, GatedText):
        model = model.model
    return model if isinstance(model, GatedText) else None


class Remade:
    """A Captum object that was made for one model, made again for others: every model and layer inside is replaced."""

    def __init__(self, instance: captum.attr.Attribution) -> None:
        self.instance = instance

    @property
    def kind(self) -> type:
        """The class of the object."""
        return type(self.instance)

    @property
    def model(self) -> nn.Module:
        """The model inside; raises if it is some other function."""
        inner = self.instance
        while isinstance(getattr(inner, "attribution_method", None), captum.attr.Attribution):
            inner = inner.attribution_method
        found = getattr(inner, "forward_func", None) or getattr(inner, "model", None)
        if not isinstance(found, nn.Module):
            raise InputError(
                f"The {self.kind.__name__} was made for {type(found).__name__} and not for a torch.nn.Module: pass the class "
                f"captum.attr.{self.kind.__name__}, or a function model -> {self.kind.__name__}(...)."
            )
        return found

    def check(self, model: nn.Module) -> None:
        """Raise if the object was made for another model than this one."""
        own = unwrap(self.model)
        if own is not unwrap(model) and not any(part is own for part in unwrap(model).modules()):
            raise InputError(
                f"The {self.kind.__name__} was made for another model than the audited one: pass the class "
                f"captum.attr.{self.kind.__name__}, which is made for every model."
            )

    def __call__(self, model: nn.Module, forward: Callable[..., Any] | None = None) -> captum.attr.Attribution:
        """The same method of another model, which calls `forward` in its place if there is one."""
        own = self.model
        if own is model and forward is None:
            return self.instance
        names = {id(part): name for name, part in unwrap(own).named_modules()}

        def other(part: Any) -> Any:
            if part is own:
                return model if forward is None else forward
            if isinstance(part, captum.attr.Attribution):
                twin = copy(part)
                vars(twin).update({name: other(held) for name, held in vars(part).items()})
                return twin
            if isinstance(part, nn.Module) and id(part) in names and names[id(part)]:
                return layer_of(model, names[id(part)])
            return part

        made: captum.attr.Attribution = other(self.instance)
        return made


def from_captum(value: type) -> CaptumMethod:
    """A Captum class; raises unless it explains the input and needs only a model."""
    if issubclass(value, captum.attr.NeuronAttribution):
        raise SpecError(f"{value.__name__} explains a neuron, not the input: use an attribution of the input or of a layer.")
    if issubclass(value, captum.attr.LayerAttribution):
        return CaptumMethod(attribution=value)  # of texts it explains the word embedding; elsewhere it asks for its layer
    needed = required_arguments(value) or []
    if len(needed) > 1 or issubclass(value, captum.attr.NoiseTunnel):
        raise SpecError(
            f"{value.__name__} needs more than a model ({', '.join(needed)}): pass a factory, "
            f"such as lambda model: captum.attr.{value.__name__}(...)."
        )
    return CaptumMethod(attribution=value, random=issubclass(value, RANDOM))


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
