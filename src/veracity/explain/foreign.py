"""Explainers from what people write: names, settings, Captum classes, factories of Captum methods, plain functions, maps.

Foreign code may draw from the global random state, so it is forked and seeded around every call. It may do
anything to the model and the inputs, so both are protected.
"""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import captum.attr
import numpy as np
import torch
from torch import Size, Tensor, nn

from veracity.core.errors import InputError, SpecError, VeracityError
from veracity.core.explainers import BARE, Context, Cost, Explainer
from veracity.core.models import evaluating, out_of_memory
from veracity.core.randomness import Draws, gpus_in_use, seeded
from veracity.core.registry import EXPLAINERS, import_object
from veracity.core.settings import Whole, short_repr
from veracity.core.snapshot import preserve_state
from veracity.explain.deep_lift import DeepLift
from veracity.explain.gradients import silent_captum
from veracity.explain.passes import in_batches
from veracity.explain.precomputed import Precomputed
from veracity.explain.wrapper import computed

TRIAL_ROWS = 2
ACCEPTED = (
    "an Explainer, a name, a table with a name, 'module:attribute', a Captum Attribution class, "
    "a factory model -> Attribution, a function (model, inputs, targets) -> attributions or a tensor of explanations made elsewhere"
)
RANDOM = (
    *(captum.attr.FeaturePermutation, captum.attr.GradientShap, captum.attr.KernelShap, captum.attr.LimeBase),
    *(captum.attr.NoiseTunnel, captum.attr.ShapleyValueSampling),
)


@dataclass(frozen=True, kw_only=True)
class Foreign(Explainer, ABC):
    """Unknown code. It counts as random and as dependent on the batch, unless `random` is off.

    `forward` and `backward` are the model rows that one explanation needs, as declared by its author. They only affect
    estimates and the batch size.
    """

    stochastic: ClassVar[bool] = computed(lambda self: self.random)
    hint: ClassVar[str] = ""  # ends the sentence when a trial fails
    random: bool = True
    forward: Whole = 1
    backward: Whole = 1
    label: str = field(default="", metadata={"spec": False})

    @property
    def batch_dependent(self) -> bool:
        return self.random

    def cost(self, shape: Size) -> Cost:
        return Cost(self.forward, self.backward)

    @abstractmethod
    def call(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Any:
        """What the foreign code returns for these rows."""

    def explain(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        """Attributions of the inputs' shape; axes of size one are repeated."""
        high, low = context.draws[:1].words(2, stream="foreign")[0].tolist()
        rows = max(1, context.batch // max(1, self.forward))

        def explain_rows(x: Tensor, t: Tensor, _: Any) -> Tensor:
            with preserve_state(model):
                return self.as_attributions(self.call(model, x.detach().clone(), t.clone()), x)

        with seeded(high ^ low, gpus_in_use()), silent_captum(), torch.enable_grad():
            return in_batches(explain_rows, inputs, targets, rows)

    def as_attributions(self, result: Any, inputs: Tensor) -> Tensor:
        """A result in the inputs' shape and type; raises if it does not fit."""
        expected = f"a real tensor of shape {tuple(inputs.shape)}"
        if not isinstance(result, (Tensor, np.ndarray)):
            raise InputError(f"{self.name} returned {type(result).__name__}, expected {expected}.")
        maps = torch.as_tensor(result).detach()
        if maps.is_complex():
            raise InputError(f"{self.name} returned complex numbers, expected {expected}.")
        axes = zip(maps.shape[1:], inputs.shape[1:], strict=False)
        if maps.ndim != inputs.ndim or len(maps) != len(inputs) or any(size not in (1, full) for size, full in axes):
            raise InputError(f"{self.name} returned shape {tuple(maps.shape)}, expected {expected}; axes after the first may have size 1.")
        return maps.to(inputs).expand_as(inputs).contiguous()

    def specialise(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Explainer:
        """Not random, if two trials with different seeds agree."""
        if not self.random:
            return self
        first, second = (self.trial(model, inputs, targets, seed, context.batch) for seed in (0, 1))
        return replace(self, random=False) if torch.equal(first.nan_to_num(), second.nan_to_num()) else self

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """Run it on a few inputs. Raise if it fails or returns something else; note if it is random."""
        first, second = (self.trial(model, inputs, targets, seed, context.batch) for seed in (0, 1))
        notes = [f"{self.name} returned NaN or infinity for some inputs."] if not first.isfinite().all() else []
        differs = not torch.allclose(first, second, equal_nan=True)
        if differs and not self.random:
            raise InputError(f"{self.name} is declared random=False, but two runs with different seeds differ: leave random=True.")
        if differs:
            notes.append(
                f"{self.name} draws from the global random state, so its numbers depend on the batch size; "
                "the same batches give the same numbers."
            )
        return notes

    def trial(self, model: nn.Module, inputs: Tensor, targets: Tensor, seed: int, batch: int) -> Tensor:
        """One run on the first inputs; raises if it fails or returns something else."""
        inputs, targets = inputs[:TRIAL_ROWS], targets[:TRIAL_ROWS]
        try:
            with evaluating(model):
                return self.explain(model, inputs, targets, Context(Draws.of(seed, torch.arange(len(inputs))), batch))
        except VeracityError:
            raise
        except Exception as error:
            if out_of_memory(error):
                raise
            reason = " ".join(str(error).split())
            raise InputError(f"{self.name} failed on {len(inputs)} inputs with {type(error).__name__}: {reason}{self.hint}") from error


@dataclass(frozen=True, kw_only=True)
class CaptumMethod(Foreign):
    """A Captum `Attribution` class, or a factory model -> Attribution, with settings for its `attribute` method."""

    name: ClassVar[str] = computed(lambda self: self.label or display_name(self.attribution))
    hint = "; pass settings as CaptumMethod(attribution=..., settings={...})"
    attribution: Callable[..., Any]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def check(self, model: nn.Module, inputs: Tensor, targets: Tensor, context: Context = BARE) -> Sequence[str]:
        """As for all foreign code; for Captum's DeepLift also the steps without a rule."""
        notes = DeepLift().check(model, inputs, targets, context) if self.attribution is captum.attr.DeepLift else ()
        return (*notes, *super().check(model, inputs, targets, context))

    def call(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Any:
        method = self.attribution(model)
        if isinstance(method, (captum.attr.LayerAttribution, captum.attr.NeuronAttribution)):
            raise InputError(f"{self.name} explains a layer or a neuron, not the input: use an attribution of the input.")
        if not hasattr(method, "attribute"):
            raise InputError(f"{self.name} must make a Captum Attribution from a model, but returned {type(method).__name__}.")
        settings = {key: value.to(inputs.device) if isinstance(value, Tensor) else value for key, value in self.settings.items()}
        return method.attribute(inputs.requires_grad_(), target=targets, **settings)


@dataclass(frozen=True, kw_only=True)
class Function(Foreign):
    """Any function (model, inputs, targets) -> attributions."""

    name: ClassVar[str] = computed(lambda self: self.label or display_name(self.function))
    function: Callable[[nn.Module, Tensor, Tensor], Any]

    def call(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Any:
        return self.function(model, inputs, targets)


def display_name(value: Any) -> str:
    """The name of a class, a function, a partial function or a callable object in results.

    >>> display_name(captum.attr.InputXGradient), display_name(captum.attr.LRP), display_name(lambda model: model)
    ('input_x_gradient', 'lrp', 'lambda')
    """
    value = getattr(value, "func", value)
    if not isinstance(value, type) and hasattr(value, "__name__"):
        return str(value.__name__).strip("<>")
    kind = value if isinstance(value, type) else type(value)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind.__name__).lower()


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
    explainer = as_explainer(target)
    if not settings:
        return explainer
    if not isinstance(explainer, CaptumMethod):
        raise SpecError(f"The explainer '{name}' takes no settings, but got {', '.join(sorted(settings))}.")
    return CaptumMethod(attribution=target, settings=settings, random=explainer.random)


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
